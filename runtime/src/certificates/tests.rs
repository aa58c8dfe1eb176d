mod args;
mod bundles;
mod files;
mod repair;
mod rotation;
mod server;
mod world;

use std::time::Duration;

use http::{Method, StatusCode};

use super::metrics::Rotated;
use super::timing::Timing;
use crate::testing::ManualClock;
use crate::tls::parse_certificates;
use server::{HOOKS, SECRET};
use world::{CertificateWorld, NAME, accepts};

const MINUTE: Duration = Duration::from_mins(1);
const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);

/// The timing with the default validity.
fn default_timing() -> Timing {
    Timing::new(90 * DAY)
}

#[tokio::test]
async fn the_first_start_creates_the_secret_and_publishes_the_bundle() {
    let mut world = CertificateWorld::new(default_timing());
    world.start(&[NAME, "10.1.2.3"]);
    assert!(!world.replicas[0].identity.is_ready());
    world.pass(MINUTE).await;
    let secret = world.server.get(SECRET).unwrap();
    assert_eq!(secret["type"], "kubernetes.io/tls");
    let keys: Vec<_> = secret["data"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(keys, ["ca.crt", "ca.key", "tls.crt", "tls.key"]);
    let bundle = world.server.secret("ca.crt");
    assert_eq!(world.server.bundles(), vec![bundle.clone(); 3]);
    let hooks = world.server.get(HOOKS).unwrap();
    assert_eq!(server::decode(&hooks["webhooks"][1]["clientConfig"]["caBundle"]), b"theirs");
    let identity = &world.replicas[0].identity;
    for name in [NAME, "10.1.2.3"] {
        assert_eq!(accepts(&bundle, identity, name, ManualClock::START), Ok(()));
    }
    let other = accepts(&bundle, identity, "other.ns.svc", ManualClock::START);
    assert!(other.is_err());
    let early = accepts(&bundle, identity, NAME, ManualClock::START - 10 * MINUTE);
    assert_eq!(early, Ok(()), "clients may have slow clocks");
    let expiry = identity.expires().unwrap();
    let valid = Duration::try_from(ManualClock::START.duration_until(expiry)).unwrap();
    assert!(valid.abs_diff(90 * DAY) < MINUTE, "{valid:?}");
    assert_eq!(world.replicas[0].metrics.serving_expiry(), expiry.as_second());
    assert_eq!((world.made(Rotated::Authority), world.made(Rotated::Serving)), (1, 1));
}

#[tokio::test]
async fn replicas_that_start_together_agree() {
    for round in 0..20 {
        let mut world = CertificateWorld::new(default_timing());
        world.latency = Duration::from_millis(20);
        // Each round has other random numbers, and therefore another order of events.
        world.skip(round * 10);
        for _ in 0..5 {
            world.start(&[NAME, "10.1.2.3"]);
        }
        world.pass(MINUTE).await;
        world.check();
        let log = world.server.take_log();
        let creates =
            |status| log.iter().filter(|entry| entry.0 == Method::POST && entry.2 == status).count();
        assert_eq!(creates(StatusCode::CREATED), 1);
        let shown = world.replicas[0].identity.chain();
        assert!(world.replicas.iter().all(|replica| replica.identity.chain() == shown));
        assert_eq!(world.made(Rotated::Serving), 1, "a replica that lost the race counts no rotation");
        if creates(StatusCode::CONFLICT) > 0 {
            return;
        }
    }
    panic!("no round had a conflict");
}

#[tokio::test]
async fn a_settled_pass_reads_each_object_once_a_minute_and_writes_nothing() {
    let mut world = CertificateWorld::settled(default_timing()).await;
    world.server.take_log();
    world.pass(6 * HOUR).await;
    let log = world.server.take_log();
    assert!(log.iter().all(|(method, _, _)| *method == Method::GET));
    for path in [SECRET, HOOKS] {
        let reads = log.iter().filter(|entry| entry.1 == path).count();
        assert!((3 * 250..=3 * 360).contains(&reads), "{reads} of {path}");
    }
}

#[tokio::test]
async fn the_certificate_stays_in_use_while_the_api_server_is_unavailable() {
    let mut world = CertificateWorld::settled(default_timing()).await;
    world.server.down(true);
    world.pass_checking(HOUR, 10 * MINUTE).await;
    assert!(world.replicas[0].metrics.failures(super::metrics::Stage::Secret) > 10);
    world.server.change(HOOKS, |hooks| hooks["webhooks"] = server::hooks()["webhooks"].clone());
    world.server.down(false);
    world.pass(2 * MINUTE).await;
    world.check();
}

#[tokio::test]
async fn type_and_other_data_of_an_existing_secret_are_kept() {
    let mut world = CertificateWorld::new(default_timing());
    world.server.put(
        SECRET,
        serde_json::json!({ "metadata": { "name": "hook-tls", "namespace": "ns", "labels": { "a": "b" } },
            "type": "Opaque", "data": { "more": server::encode(b"x") } }),
    );
    world.start(&[NAME, "10.1.2.3"]);
    world.pass(MINUTE).await;
    world.check();
    let secret = world.server.get(SECRET).unwrap();
    assert_eq!((&secret["type"], &secret["metadata"]["labels"]["a"]), (&"Opaque".into(), &"b".into()));
    assert_eq!(world.server.secret("more"), b"x");
    assert_eq!(parse_certificates("bundle", &world.server.secret("ca.crt")).unwrap().len(), 1);
}
