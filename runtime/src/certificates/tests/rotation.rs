use std::time::Duration;

use jiff::SignedDuration;
use rstest::rstest;

use super::world::{CertificateWorld, NAME, accepts};
use super::{DAY, HOUR, MINUTE, default_timing};
use crate::certificates::metrics::Rotated;
use crate::certificates::timing::Timing;
use crate::tls::parse_certificates;

/// The timing for tests of several months, with a pass every two hours instead of every minute.
fn brisk() -> Timing {
    let timing = Timing { spread: 12 * HOUR, period: 2 * HOUR, ..Timing::new(30 * DAY) };
    assert!(timing.spread < timing.serving / 8);
    timing
}

fn bundled(world: &CertificateWorld) -> usize {
    parse_certificates("bundle", &world.server.secret("ca.crt")).unwrap().len()
}

#[tokio::test]
async fn for_eight_months_all_clients_accept_the_certificate() {
    let mut world = CertificateWorld::settled(brisk()).await;
    world.pass(DAY).await;
    // An API server may use a new bundle only shortly before the new authority signs a certificate.
    world.lag = brisk().spread.saturating_sub(HOUR);
    let (mut largest, mut both) = (0, 0);
    for _ in 0..250 {
        world.pass_checking(DAY, 2 * HOUR).await;
        largest = largest.max(bundled(&world));
        both += usize::from(bundled(&world) == 2);
    }
    assert_eq!(largest, 2, "a bundle contains at most two authorities");
    // An authority with a validity of 120 days is replaced after 80 days, a certificate with 30 days after 20
    // days.
    let (authorities, serving) = (world.made(Rotated::Authority), world.made(Rotated::Serving));
    assert!((4..=5).contains(&authorities), "{authorities}");
    assert!((12..=20).contains(&serving), "{serving}");
    assert!(both > 80, "the bundles overlap for a third of the time: {both} days");
}

#[tokio::test]
async fn a_new_authority_signs_only_after_all_objects_contain_its_bundle() {
    let mut world = CertificateWorld::settled(default_timing()).await;
    let first = world.replicas[0].identity.chain();
    // Another client removes the key, so the authority cannot sign any more.
    world.server.change(super::SECRET, |secret| secret["data"]["ca.key"] = serde_json::Value::Null);
    world.pass(3 * MINUTE).await;
    assert_eq!((bundled(&world), world.made(Rotated::Authority)), (2, 2));
    assert_eq!(world.replicas[0].identity.chain(), first, "the old certificate stays in use");
    world.pass_checking(6 * MINUTE, MINUTE).await;
    assert_eq!(world.replicas[0].identity.chain(), first);
    // If the bundle was missing, the waiting time starts again.
    world.server.change(super::HOOKS, |hooks| {
        hooks["webhooks"][0]["clientConfig"]["caBundle"] = super::server::encode(b"");
    });
    world.pass(8 * MINUTE).await;
    assert_eq!(world.replicas[0].identity.chain(), first);
    world.pass_checking(5 * MINUTE, MINUTE).await;
    assert_ne!(world.replicas[0].identity.chain(), first);
    assert_eq!(world.made(Rotated::Serving), 2);
    assert_eq!(bundled(&world), 2, "the old authority is trusted until it has expired");
}

#[tokio::test]
async fn a_replica_with_a_wrong_clock_issues_valid_certificates() {
    let mut world = CertificateWorld::settled(default_timing()).await;
    let before = world.server.secret("tls.crt");
    for years in [10, -60, 200] {
        world.replicas[0].clock.step_wall(SignedDuration::from_hours(24 * 365 * years));
        world.pass_checking(10 * MINUTE, MINUTE).await;
    }
    assert_eq!(world.server.secret("tls.crt"), before);
}

#[tokio::test]
async fn a_clock_that_jumps_back_causes_no_new_certificate() {
    let mut world = CertificateWorld::settled(default_timing()).await;
    world.server.silent();
    let before = world.server.secret("tls.crt");
    for replica in &world.replicas {
        replica.clock.step_wall(SignedDuration::from_hours(-24 * 365 * 70));
    }
    world.pass_checking(HOUR, MINUTE).await;
    assert_eq!(world.server.secret("tls.crt"), before);
    for replica in &world.replicas {
        replica.clock.step_wall(SignedDuration::from_hours(24 * 365 * 70 + 24 * 61));
    }
    world.pass(10 * MINUTE).await;
    assert_ne!(world.server.secret("tls.crt"), before, "less than a third is left");
}

#[tokio::test]
async fn a_certificate_that_is_not_valid_yet_is_replaced() {
    let mut world = CertificateWorld::settled(default_timing()).await;
    world.clock.step_wall(SignedDuration::from_hours(-24));
    let now = || crate::env::Clock::now(&world.clock);
    let bundle = world.server.secret("ca.crt");
    assert!(accepts(&bundle, &world.replicas[0].identity, NAME, now()).is_err());
    world.pass(5 * MINUTE).await;
    world.check();
}

#[tokio::test]
async fn an_added_name_causes_a_new_certificate_of_the_same_authority() {
    let mut world = CertificateWorld::settled(default_timing()).await;
    let bundle = world.server.secret("ca.crt");
    world.start(&["new.ns.svc"]);
    world.pass_checking(5 * MINUTE, MINUTE).await;
    assert_eq!(world.server.secret("ca.crt"), bundle);
    let now = crate::env::Clock::now(&world.clock);
    for name in [NAME, "new.ns.svc", "10.1.2.3"] {
        assert_eq!(accepts(&bundle, &world.replicas[0].identity, name, now), Ok(()), "{name}");
    }
    let made = world.made(Rotated::Serving);
    world.pass_checking(HOUR, 10 * MINUTE).await;
    assert_eq!(
        world.made(Rotated::Serving),
        made,
        "old and new replicas do not replace the certificate alternately"
    );
}

#[rstest]
#[case::a_minute(60)]
#[case::the_minimum(15)]
#[tokio::test]
async fn short_lived_certificates_rotate_without_a_gap(#[case] seconds: u64) {
    let validity = Duration::from_secs(seconds);
    let mut world = CertificateWorld::new(Timing::new(validity));
    world.latency = Duration::from_millis(20);
    world.start(&[NAME, "10.1.2.3"]);
    world.start(&[NAME, "10.1.2.3"]);
    world.pass(validity / 4).await;
    // An API server that uses a new bundle late.
    world.lag = validity / 12;
    world.pass_checking(validity * 20, validity / 120).await;
    assert!(world.made(Rotated::Authority) > 5);
    assert!(bundled(&world) <= 3);
}
