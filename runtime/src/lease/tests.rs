mod fence;
mod laws;
mod server;
mod world;

use std::collections::BTreeMap;
use std::time::Duration;

use http::{Method, StatusCode};
use jiff::SignedDuration;
use rstest::rstest;

use server::Fault;
use world::World;

const LEASE: Duration = LeaseConfig::DURATION;
/// Within this time after the lease has run out somebody else leads.
const FAILOVER: Duration = Duration::from_secs(2);

use super::LeaseConfig;

/// A leader at place 0 and a standby at place 1.
async fn two() -> World {
    let mut world = World::new(0);
    world.start();
    world.until_led(FAILOVER).await;
    world.start();
    world.seconds(2).await;
    assert_eq!(world.leaders(), ["process-1"]);
    world
}

fn transitions(world: &World) -> Option<i32> {
    world.server.lease()?.spec?.lease_transitions
}

#[tokio::test]
async fn the_first_candidate_creates_the_lease_and_leads_at_once() {
    let mut world = World::new(0);
    world.start();
    world.clock.settle().await;
    assert_eq!(world.leaders(), ["process-1"]);
    let spec = world.server.lease().unwrap().spec.unwrap();
    assert_eq!(spec.holder_identity.as_deref(), Some("process-1"));
    assert_eq!((spec.lease_duration_seconds, spec.lease_transitions), (Some(15), Some(0)));
}

#[tokio::test]
async fn of_two_that_start_together_one_leads() {
    let mut world = World::new(0);
    world.start();
    world.start();
    world.seconds(60).await;
    assert_eq!(world.leaders().len(), 1);
    assert_eq!(transitions(&world), Some(0));
}

#[tokio::test]
async fn a_leader_that_renews_stays() {
    let world = two().await;
    world.server.take_log();
    world.seconds(300).await;
    assert_eq!(world.leaders(), ["process-1"]);
    let writes = world.server.take_log().iter().filter(|(method, _)| *method == Method::PUT).count();
    assert_eq!(writes, 100, "one write every three seconds");
}

#[tokio::test]
async fn a_killed_leader_is_followed_after_the_lease() {
    let mut world = two().await;
    drop(world.processes.remove(0));
    let waited = world.until_led(LEASE + FAILOVER).await;
    assert!(waited + LeaseConfig::RENEW_INTERVAL + FAILOVER > LEASE, "{waited:?}");
    assert_eq!((world.leaders(), transitions(&world)), (vec!["process-2"], Some(1)));
}

#[tokio::test]
async fn a_released_lease_is_taken_within_two_seconds() {
    let world = two().await;
    world.processes[0].stop.cancel();
    world.processes[0].resign();
    let waited = world.until_led(FAILOVER).await;
    assert!(waited <= FAILOVER);
    assert_eq!((world.leaders(), transitions(&world)), (vec!["process-2"], Some(1)));
    let annotations = world.server.lease().unwrap().metadata.annotations;
    assert_eq!(annotations, Some(BTreeMap::new()), "the mark of the release is gone");
    world.seconds(5).await;
    assert!(world.processes[0].has_ended());
}

#[tokio::test]
async fn a_release_names_nobody_and_keeps_the_count() {
    let mut world = World::new(0);
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
        "the leader's renewals only"
    );
}

#[tokio::test]
async fn stopping_while_the_claim_is_under_way_releases_it() {
    let mut world = World::new(0);
    world.start();
    world.processes[0].fault(Fault::Late(Duration::from_secs(1)));
    world.pass(Duration::from_millis(1500)).await;
    world.processes[0].stop.cancel();
    world.seconds(3).await;
    assert!(world.processes[0].has_ended());
    assert!(world.server.lease().is_some(), "the claim arrived");
    assert_eq!(world.server.holder(), None);
}

#[tokio::test]
async fn a_paused_leader_has_no_fence_when_it_wakes_up() {
    let world = two().await;
    world.processes[0].pause();
    world.pass(LEASE + FAILOVER).await;
    assert_eq!(world.leaders(), ["process-2"]);
    world.processes[0].resume();
    assert!(!world.processes[0].leads(), "before it has done anything");
    world.seconds(60).await;
    assert_eq!(world.leaders(), ["process-2"]);
}

#[tokio::test]
async fn a_leader_paused_for_less_than_the_lease_goes_on() {
    let world = two().await;
    world.processes[0].pause();
    world.seconds(10).await;
    world.processes[0].resume();
    world.seconds(60).await;
    assert_eq!((world.leaders(), transitions(&world)), (vec!["process-1"], Some(0)));
}

#[tokio::test]
async fn a_standby_paused_for_long_does_not_judge_by_what_it_saw_before() {
    let world = two().await;
    world.processes[1].pause();
    world.seconds(100).await;
    world.processes[1].resume();
    world.seconds(10).await;
    assert_eq!((world.leaders(), transitions(&world)), (vec!["process-1"], Some(0)));
}

#[rstest]
#[case::refused(Fault::Refused)]
#[case::lost(Fault::Lost)]
#[tokio::test]
async fn a_leader_cut_off_is_lost_when_its_validity_ends_and_before_the_next(#[case] fault: Fault) {
    let world = two().await;
    world.processes[0].fault(fault);
    world.until_followed().await;
    assert_eq!(world.leaders(), ["process-2"]);
    assert!(world.processes[0].health.check(Duration::from_secs(10)).is_err());
    assert!(world.processes[1].health.check(Duration::from_secs(10)).is_ok());
}

#[tokio::test]
async fn a_short_outage_costs_no_leadership() {
    let world = two().await;
    world.processes.iter().for_each(|process| process.fault(Fault::Refused));
    world.seconds(8).await;
    world.processes.iter().for_each(|process| process.fault(Fault::None));
    world.seconds(30).await;
    assert_eq!((world.leaders(), transitions(&world)), (vec!["process-1"], Some(0)));
}

#[tokio::test]
async fn a_renewal_whose_answer_was_lost_is_recognised() {
    let world = two().await;
    world.processes[0].fault(Fault::AnswerLost);
    world.seconds(7).await;
    world.processes[0].fault(Fault::None);
    world.seconds(30).await;
    assert_eq!((world.leaders(), transitions(&world)), (vec!["process-1"], Some(0)));
}

#[tokio::test]
async fn answers_that_stay_lost_end_the_fence_though_the_lease_is_renewed() {
    let world = two().await;
    world.processes[0].fault(Fault::AnswerLost);
    world.seconds(15).await;
    assert_eq!(world.leaders(), Vec::<&str>::new());
    assert_eq!(world.server.holder().as_deref(), Some("process-1"));
}

#[tokio::test]
async fn validity_counts_from_before_the_request() {
    let world = two().await;
    world.processes[0].fault(Fault::AnswerLate(Duration::from_millis(2900)));
    // The last renewal that is answered was sent at second 3 of the leadership, of which 2 have passed.
    world.seconds(4).await;
    world.processes[0].fault(Fault::Lost);
    let fence = world.processes[0].fence.lock().clone().unwrap();
    assert!(fence.remaining() + Duration::from_millis(2900) < LEASE, "{:?}", fence.remaining());
}

#[tokio::test]
async fn a_claim_whose_answer_was_lost_is_recognised() {
    let mut world = World::new(0);
    world.start();
    world.processes[0].fault(Fault::Late(Duration::from_millis(3500)));
    // The read is late too, so the first claim is sent by hand of time: it arrives after its deadline.
    world.seconds(4).await;
    world.processes[0].fault(Fault::None);
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
async fn a_wall_clock_that_goes_back_gives_nothing() {
    let world = two().await;
    world.processes[0].fault(Fault::Lost);
    world.processes[0].clock.step_wall(SignedDuration::from_hours(-1));
    world.until_followed().await;
    assert_eq!(world.leaders(), ["process-2"]);
}

#[tokio::test]
async fn clocks_that_disagree_by_years_do_not_matter() {
    let world = two().await;
    world.processes[1].clock.step_wall(SignedDuration::from_hours(24 * 365));
    world.seconds(60).await;
    assert_eq!((world.leaders(), transitions(&world)), (vec!["process-1"], Some(0)));
}

#[tokio::test]
async fn a_deleted_lease_is_put_back_by_its_leader() {
    let world = two().await;
    world.server.delete();
    world.seconds(30).await;
    assert_eq!((world.leaders(), world.server.holder().as_deref()), (vec!["process-1"], Some("process-1")));
}

#[tokio::test]
async fn a_standby_waits_out_the_holder_of_a_deleted_lease() {
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
async fn a_holder_named_by_a_foreign_writer_ends_the_leadership_and_is_waited_out() {
    let world = two().await;
    world
        .server
        .overwrite(|lease| lease.spec.as_mut().unwrap().holder_identity = Some("intruder".to_owned()));
    world.pass(LeaseConfig::RENEW_INTERVAL).await;
    assert_eq!(world.leaders(), Vec::<&str>::new());
    world.seconds(11).await;
    assert_eq!(world.leaders(), Vec::<&str>::new(), "not before the lease has run out");
    world.until_led(LEASE + FAILOVER).await;
}

#[tokio::test]
async fn a_holder_cleared_by_hand_takes_the_lease_back() {
    let world = two().await;
    world.server.overwrite(|lease| lease.spec.as_mut().unwrap().holder_identity = None);
    world.seconds(30).await;
    assert_eq!((world.leaders(), world.server.holder().as_deref()), (vec!["process-1"], Some("process-1")));
}

#[tokio::test]
async fn a_holder_cleared_by_hand_is_waited_out_by_others() {
    let world = two().await;
    world.processes[0].pause();
    world.server.overwrite(|lease| lease.spec.as_mut().unwrap().holder_identity = None);
    world.until_followed().await;
    assert_eq!(world.leaders(), ["process-2"]);
}

#[tokio::test]
async fn a_candidate_that_was_overtaken_knows_of_a_holder_it_never_saw() {
    let mut world = World::new(0);
    // Given a candidate that has seen no Lease and is overtaken by another when it creates one,
    world.start();
    world.processes[0].fault(Fault::AnswerLate(Duration::from_secs(1)));
    world.clock.settle().await;
    world.start();
    world.pass(Duration::from_millis(1500)).await;
    assert_eq!(world.leaders(), ["process-2"]);
    // and that hears this, but no more than this,
    world.processes[0].fault(Fault::Refused);
    world.seconds(1).await;
    assert!(world.server.take_log().contains(&(Method::POST, StatusCode::CONFLICT)));
    // when the Lease is deleted under the other,
    world.processes[1].pause();
    world.server.delete();
    world.processes[0].fault(Fault::None);
    // then it waits for the other.
    world.seconds(10).await;
    assert_eq!(world.leaders(), ["process-2"]);
    world.seconds(15).await;
    assert_eq!(world.leaders(), ["process-1"]);
}

#[tokio::test]
async fn a_process_that_starts_after_the_lease_was_put_back_waits_too() {
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
async fn a_foreign_writer_who_leaves_the_holder_alone_does_no_harm_and_is_kept() {
    let world = two().await;
    world.server.overwrite(|lease| {
        lease.metadata.annotations.get_or_insert_default().insert("note".to_owned(), "keep".to_owned());
        lease.spec.as_mut().unwrap().lease_duration_seconds = Some(1);
    });
    world.seconds(30).await;
    assert_eq!((world.leaders(), transitions(&world)), (vec!["process-1"], Some(0)));
    let lease = world.server.lease().unwrap();
    assert_eq!(lease.metadata.annotations.unwrap()["note"], "keep");
    assert_eq!(lease.spec.unwrap().lease_duration_seconds, Some(15), "the next renewal repaired it");
}

#[tokio::test]
async fn another_process_of_the_same_name_is_another_process() {
    let mut world = two().await;
    let twin = world::Process::start("process-1", 99, &world.clock, &world.server);
    world.processes.push(twin);
    world.seconds(60).await;
    assert_eq!(world.leaders().len(), 1);
    assert!(world.processes[0].leads());
}

#[tokio::test]
async fn losing_leadership_is_not_the_end_of_a_candidate() {
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
async fn health_tells_who_leads() {
    let world = two().await;
    let [leader, standby] = [&world.processes[0].health, &world.processes[1].health];
    assert!(leader.is_leader() && !standby.is_leader());
    assert_eq!(standby.holder().as_deref(), Some("process-1"));
    assert_eq!(leader.check(Duration::from_secs(4)), Ok(()));
    assert_eq!(standby.check(Duration::from_secs(4)), Ok(()));
}

#[tokio::test]
async fn a_candidate_that_never_got_an_answer_is_not_healthy() {
    let mut world = World::new(0);
    world.start();
    world.processes[0].fault(Fault::Refused);
    world.seconds(5).await;
    let health = &world.processes[0].health;
    assert_eq!(health.check(LEASE).unwrap_err(), "the API server has not answered about the lease yet");
    assert_eq!(world.server.take_log(), [] as [(Method, StatusCode); 0]);
}

impl World {
    /// Lets time pass until the leader at place 0 is lost and another leads, and checks that the fence ended first.
    async fn until_followed(&self) {
        while self.processes[0].leads() {
            self.pass(Duration::from_millis(10)).await;
        }
        assert_eq!(self.leaders(), Vec::<&str>::new(), "there is a gap between two leaders");
        self.until_led(LEASE + FAILOVER).await;
    }
}
