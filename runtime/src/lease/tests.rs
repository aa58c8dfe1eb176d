mod fence;
mod laws;
mod server;
mod world;

use std::collections::BTreeMap;
use std::time::Duration;

use http::{Method, StatusCode};
use jiff::SignedDuration;
use rstest::rstest;

use server::LinkFault;
use world::LeaseWorld;

const LEASE: Duration = LeaseConfig::DURATION;
/// The maximum time from the expiry of the lease to the next leadership.
const FAILOVER: Duration = Duration::from_secs(2);

use super::LeaseConfig;

/// A leader with index 0 and a standby with index 1.
async fn two() -> LeaseWorld {
    let mut world = LeaseWorld::new(0);
    world.start();
    world.until_led(FAILOVER).await;
    world.start();
    world.seconds(2).await;
    assert_eq!(world.leaders(), ["process-1"]);
    world
}

fn transitions(world: &LeaseWorld) -> Option<i32> {
    world.server.lease()?.spec?.lease_transitions
}

#[tokio::test]
async fn the_first_candidate_creates_the_lease_and_leads_at_once() {
    let mut world = LeaseWorld::new(0);
    world.start();
    world.clock.settle().await;
    assert_eq!(world.leaders(), ["process-1"]);
    let spec = world.server.lease().unwrap().spec.unwrap();
    assert_eq!(spec.holder_identity.as_deref(), Some("process-1"));
    assert_eq!((spec.lease_duration_seconds, spec.lease_transitions), (Some(15), Some(0)));
}

#[tokio::test]
async fn one_of_two_processes_that_start_together_leads() {
    let mut world = LeaseWorld::new(0);
    world.start();
    world.start();
    world.seconds(60).await;
    assert_eq!(world.leaders().len(), 1);
    assert_eq!(transitions(&world), Some(0));
}

#[tokio::test]
async fn a_leader_that_renews_keeps_leading() {
    let world = two().await;
    world.server.take_log();
    world.seconds(300).await;
    assert_eq!(world.leaders(), ["process-1"]);
    let writes = world.server.take_log().iter().filter(|(method, _)| *method == Method::PUT).count();
    assert_eq!(writes, 100, "one write every three seconds");
}

#[tokio::test]
async fn a_killed_leader_is_replaced_after_the_lease_expires() {
    let mut world = two().await;
    drop(world.processes.remove(0));
    let waited = world.until_led(LEASE + FAILOVER).await;
    assert!(waited + LeaseConfig::RENEW_INTERVAL + FAILOVER > LEASE, "{waited:?}");
    assert_eq!((world.leaders(), transitions(&world)), (vec!["process-2"], Some(1)));
}

#[tokio::test]
async fn a_released_lease_is_acquired_within_two_seconds() {
    let world = two().await;
    world.processes[0].stop.cancel();
    world.processes[0].resign();
    let waited = world.until_led(FAILOVER).await;
    assert!(waited <= FAILOVER);
    assert_eq!((world.leaders(), transitions(&world)), (vec!["process-2"], Some(1)));
    let annotations = world.server.lease().unwrap().metadata.annotations;
    assert_eq!(annotations, Some(BTreeMap::new()), "the release annotation is removed");
    world.seconds(5).await;
    assert!(world.processes[0].has_ended());
}

#[tokio::test]
async fn a_released_lease_has_no_holder_and_keeps_the_transitions() {
    let mut world = LeaseWorld::new(0);
    world.start();
    world.seconds(1).await;
    world.processes[0].stop.cancel();
    world.processes[0].resign();
    world.seconds(1).await;
    let spec = world.server.lease().unwrap().spec.unwrap();
    assert_eq!((spec.holder_identity, spec.lease_duration_seconds), (None, Some(1)));
    assert!(
        world.server.lease().unwrap().metadata.annotations.unwrap().contains_key("vmpool.dev/lease-released")
    );
    assert_eq!(spec.lease_transitions, Some(0));
}

#[tokio::test]
async fn stopping_a_standby_writes_nothing() {
    let world = two().await;
    world.server.take_log();
    world.processes[1].stop.cancel();
    world.seconds(30).await;
    assert!(world.processes[1].has_ended());
    assert!(
        world.server.take_log().iter().all(|(method, _)| *method == Method::PUT),
        "only renewals of the leader"
    );
}

#[tokio::test]
async fn stopping_during_an_acquisition_releases_the_lease() {
    let mut world = LeaseWorld::new(0);
    world.start();
    world.processes[0].fault(LinkFault::Late(Duration::from_secs(1)));
    world.pass(Duration::from_millis(1500)).await;
    world.processes[0].stop.cancel();
    world.seconds(3).await;
    assert!(world.processes[0].has_ended());
    assert!(world.server.lease().is_some(), "the acquisition arrived");
    assert_eq!(world.server.holder(), None);
}

#[tokio::test]
async fn the_fence_of_a_paused_leader_has_ended_when_it_resumes() {
    let world = two().await;
    world.processes[0].pause();
    world.pass(LEASE + FAILOVER).await;
    assert_eq!(world.leaders(), ["process-2"]);
    world.processes[0].resume();
    assert!(!world.processes[0].leads(), "before the process continues");
    world.seconds(60).await;
    assert_eq!(world.leaders(), ["process-2"]);
}

#[tokio::test]
async fn a_leader_that_is_paused_shorter_than_the_lease_keeps_leading() {
    let world = two().await;
    world.processes[0].pause();
    world.seconds(10).await;
    world.processes[0].resume();
    world.seconds(60).await;
    assert_eq!((world.leaders(), transitions(&world)), (vec!["process-1"], Some(0)));
}

#[tokio::test]
async fn a_standby_that_was_paused_does_not_use_old_observations() {
    let world = two().await;
    world.processes[1].pause();
    world.seconds(100).await;
    world.processes[1].resume();
    world.seconds(10).await;
    assert_eq!((world.leaders(), transitions(&world)), (vec!["process-1"], Some(0)));
}

#[rstest]
#[case::refused(LinkFault::Refused)]
#[case::lost(LinkFault::Lost)]
#[tokio::test]
async fn a_disconnected_leader_loses_leadership_before_the_next_one_leads(#[case] fault: LinkFault) {
    let world = two().await;
    world.processes[0].fault(fault);
    world.until_followed().await;
    assert_eq!(world.leaders(), ["process-2"]);
    assert!(world.processes[0].health.check(Duration::from_secs(10)).is_err());
    assert!(world.processes[1].health.check(Duration::from_secs(10)).is_ok());
}

#[tokio::test]
async fn a_short_outage_does_not_end_leadership() {
    let world = two().await;
    world.processes.iter().for_each(|process| process.fault(LinkFault::Refused));
    world.seconds(8).await;
    world.processes.iter().for_each(|process| process.fault(LinkFault::None));
    world.seconds(30).await;
    assert_eq!((world.leaders(), transitions(&world)), (vec!["process-1"], Some(0)));
}

#[tokio::test]
async fn an_unconfirmed_renewal_is_recognized() {
    let world = two().await;
    world.processes[0].fault(LinkFault::AnswerLost);
    world.seconds(7).await;
    world.processes[0].fault(LinkFault::None);
    world.seconds(30).await;
    assert_eq!((world.leaders(), transitions(&world)), (vec!["process-1"], Some(0)));
}

#[tokio::test]
async fn the_fence_ends_if_all_renewals_stay_unconfirmed() {
    let world = two().await;
    world.processes[0].fault(LinkFault::AnswerLost);
    world.seconds(15).await;
    assert_eq!(world.leaders(), Vec::<&str>::new());
    assert_eq!(world.server.holder().as_deref(), Some("process-1"));
}

#[tokio::test]
async fn validity_counts_from_before_the_request() {
    let world = two().await;
    world.processes[0].fault(LinkFault::AnswerLate(Duration::from_millis(2900)));
    // The last renewal with a response was sent 3 s after the start of the leadership, of which 2 s have
    // passed.
    world.seconds(4).await;
    world.processes[0].fault(LinkFault::Lost);
    let fence = world.processes[0].fence.lock().clone().unwrap();
    assert!(fence.remaining() + Duration::from_millis(2900) < LEASE, "{:?}", fence.remaining());
}

#[tokio::test]
async fn an_unconfirmed_acquisition_is_recognized() {
    let mut world = LeaseWorld::new(0);
    world.start();
    world.processes[0].fault(LinkFault::Late(Duration::from_millis(3500)));
    // The read is late, too. The first acquisition arrives after its deadline.
    world.seconds(4).await;
    world.processes[0].fault(LinkFault::None);
    world.clock.settle().await;
    world.seconds(5).await;
    assert_eq!((world.leaders(), transitions(&world)), (vec!["process-1"], Some(0)));
}

#[tokio::test]
async fn a_wall_clock_that_jumps_ahead_ends_the_fence() {
    let world = two().await;
    world.processes[0].clock.step_wall(SignedDuration::from_secs(20));
    assert!(!world.processes[0].leads());
}

#[tokio::test]
async fn a_wall_clock_that_jumps_back_does_not_extend_the_fence() {
    let world = two().await;
    world.processes[0].fault(LinkFault::Lost);
    world.processes[0].clock.step_wall(SignedDuration::from_hours(-1));
    world.until_followed().await;
    assert_eq!(world.leaders(), ["process-2"]);
}

#[tokio::test]
async fn clock_differences_of_years_have_no_effect() {
    let world = two().await;
    world.processes[1].clock.step_wall(SignedDuration::from_hours(24 * 365));
    world.seconds(60).await;
    assert_eq!((world.leaders(), transitions(&world)), (vec!["process-1"], Some(0)));
}

#[tokio::test]
async fn the_leader_restores_a_deleted_lease() {
    let world = two().await;
    world.server.delete();
    world.seconds(30).await;
    assert_eq!((world.leaders(), world.server.holder().as_deref()), (vec!["process-1"], Some("process-1")));
}

#[tokio::test]
async fn a_standby_waits_for_the_holder_of_a_deleted_lease() {
    let world = two().await;
    world.processes[0].pause();
    world.server.delete();
    world.until_followed().await;
    assert_eq!(world.leaders(), ["process-2"]);
    world.processes[0].resume();
    world.seconds(30).await;
    assert_eq!(world.leaders(), ["process-2"]);
}

#[tokio::test]
async fn a_holder_written_by_another_client_ends_the_leadership() {
    let world = two().await;
    world
        .server
        .overwrite(|lease| lease.spec.as_mut().unwrap().holder_identity = Some("intruder".to_owned()));
    world.pass(LeaseConfig::RENEW_INTERVAL).await;
    assert_eq!(world.leaders(), Vec::<&str>::new());
    world.seconds(11).await;
    assert_eq!(world.leaders(), Vec::<&str>::new(), "not before the lease has expired");
    world.until_led(LEASE + FAILOVER).await;
}

#[tokio::test]
async fn a_leader_restores_a_cleared_holder() {
    let world = two().await;
    world.server.overwrite(|lease| lease.spec.as_mut().unwrap().holder_identity = None);
    world.seconds(30).await;
    assert_eq!((world.leaders(), world.server.holder().as_deref()), (vec!["process-1"], Some("process-1")));
}

#[tokio::test]
async fn standbys_wait_for_a_cleared_holder() {
    let world = two().await;
    world.processes[0].pause();
    world.server.overwrite(|lease| lease.spec.as_mut().unwrap().holder_identity = None);
    world.until_followed().await;
    assert_eq!(world.leaders(), ["process-2"]);
}

#[tokio::test]
async fn a_candidate_waits_for_a_holder_that_it_knows_only_from_a_conflict() {
    let mut world = LeaseWorld::new(0);
    // Given a candidate that has read no Lease, and another candidate that creates the Lease first,
    world.start();
    world.processes[0].fault(LinkFault::AnswerLate(Duration::from_secs(1)));
    world.clock.settle().await;
    world.start();
    world.pass(Duration::from_millis(1500)).await;
    assert_eq!(world.leaders(), ["process-2"]);
    // and the candidate receives only this conflict,
    world.processes[0].fault(LinkFault::Refused);
    world.seconds(1).await;
    assert!(world.server.take_log().contains(&(Method::POST, StatusCode::CONFLICT)));
    // when the Lease of the other candidate is deleted,
    world.processes[1].pause();
    world.server.delete();
    world.processes[0].fault(LinkFault::None);
    // then the candidate waits until the other can no longer lead.
    world.seconds(10).await;
    assert_eq!(world.leaders(), ["process-2"]);
    world.seconds(15).await;
    assert_eq!(world.leaders(), ["process-1"]);
}

#[tokio::test]
async fn a_process_that_starts_after_the_lease_was_restored_waits() {
    let mut world = two().await;
    world.processes[0].pause();
    world.server.delete();
    world.seconds(2).await;
    drop(world.processes.remove(1));
    world.start();
    world.until_followed().await;
    assert_eq!(world.leaders(), ["process-3"]);
}

#[tokio::test]
async fn changes_of_another_client_that_keep_the_holder_are_kept() {
    let world = two().await;
    world.server.overwrite(|lease| {
        lease.metadata.annotations.get_or_insert_default().insert("note".to_owned(), "keep".to_owned());
        lease.spec.as_mut().unwrap().lease_duration_seconds = Some(1);
    });
    world.seconds(30).await;
    assert_eq!((world.leaders(), transitions(&world)), (vec!["process-1"], Some(0)));
    let lease = world.server.lease().unwrap();
    assert_eq!(lease.metadata.annotations.unwrap()["note"], "keep");
    assert_eq!(
        lease.spec.unwrap().lease_duration_seconds,
        Some(15),
        "the next renewal restores the duration"
    );
}

#[tokio::test]
async fn a_second_process_with_the_same_identity_is_distinguished() {
    let mut world = two().await;
    let other = world::LeaseProcess::start("process-1", 99, &world.clock, &world.server);
    world.processes.push(other);
    world.seconds(60).await;
    assert_eq!(world.leaders().len(), 1);
    assert!(world.processes[0].leads());
}

#[tokio::test]
async fn a_candidate_can_lead_again_after_lost_leadership() {
    let world = two().await;
    world.processes[0].resign();
    world.until_led(FAILOVER).await;
    assert_eq!(world.leaders(), ["process-2"]);
    world.seconds(5).await;
    world.processes[1].resign();
    world.until_led(FAILOVER).await;
    assert_eq!((world.leaders(), transitions(&world)), (vec!["process-1"], Some(2)));
}

#[tokio::test]
async fn health_reports_the_leader() {
    let world = two().await;
    let [leader, standby] = [&world.processes[0].health, &world.processes[1].health];
    assert!(leader.is_leader() && !standby.is_leader());
    assert_eq!(standby.holder().as_deref(), Some("process-1"));
    assert_eq!(leader.check(Duration::from_secs(4)), Ok(()));
    assert_eq!(standby.check(Duration::from_secs(4)), Ok(()));
}

#[tokio::test]
async fn a_candidate_without_a_response_is_not_healthy() {
    let mut world = LeaseWorld::new(0);
    world.start();
    world.processes[0].fault(LinkFault::Refused);
    world.seconds(5).await;
    let health = &world.processes[0].health;
    assert_eq!(
        health.check(LEASE).unwrap_err().to_string(),
        "the API server has not responded to a request for the lease yet"
    );
    assert_eq!(world.server.take_log(), [] as [(Method, StatusCode); 0]);
}

impl LeaseWorld {
    /// Advances the clock until the leader with index 0 has lost leadership and another process leads. Checks
    /// that the fence ended first.
    async fn until_followed(&self) {
        while self.processes[0].leads() {
            self.pass(Duration::from_millis(10)).await;
        }
        assert_eq!(self.leaders(), Vec::<&str>::new(), "the fence ends before another process leads");
        self.until_led(LEASE + FAILOVER).await;
    }
}
