use serde_json::Value;

use super::server::{HOOKS, SERVICE, api_service, decode, encode, hooks};
use super::world::{CertificateWorld, NAME};
use super::{HOUR, MINUTE, default_timing};
use crate::certificates::metrics::Stage;

#[tokio::test]
async fn a_removed_bundle_is_restored() {
    let mut world = CertificateWorld::settled(default_timing()).await;
    world.server.put(HOOKS, hooks());
    world.server.change(SERVICE, |service| service["spec"]["caBundle"] = encode(b"wrong"));
    world.pass(2 * MINUTE).await;
    world.check();
}

#[tokio::test]
async fn an_object_that_is_created_later_gets_the_bundle() {
    let mut world = CertificateWorld::new(default_timing());
    world.server.delete(HOOKS);
    world.server.delete(SERVICE);
    world.start(&[NAME, "10.1.2.3"]);
    world.pass(HOUR).await;
    assert!(world.replicas[0].identity.is_ready(), "the certificate is available meanwhile");
    world.server.put(HOOKS, hooks());
    world.server.put(SERVICE, api_service("hook"));
    world.pass(2 * MINUTE).await;
    assert_eq!(world.server.bundles().len(), 3);
    world.check();
    assert_eq!(world.replicas[0].metrics.failures(Stage::Bundle), 0, "a missing object is not a failure");
}

#[tokio::test]
async fn an_api_service_of_another_program_is_not_changed() {
    let mut world = CertificateWorld::new(default_timing());
    world.server.put(SERVICE, api_service("another-program"));
    world.start(&[NAME]);
    world.pass(10 * MINUTE).await;
    assert_eq!(world.server.get(SERVICE).unwrap()["spec"]["caBundle"], Value::Null);
    let hooks = world.server.get(HOOKS).unwrap();
    let bundle = |index: usize| decode(&hooks["webhooks"][index]["clientConfig"]["caBundle"]);
    assert_eq!(bundle(0), world.server.secret("ca.crt"));
    assert_eq!(bundle(1), b"theirs");
    assert_eq!(bundle(2), b"", "the address is not in the certificate");
}

#[tokio::test]
async fn a_slow_replica_cannot_restore_an_older_bundle() {
    use crate::certificates::args::BundleOf;
    use crate::certificates::bundles::Bundles;
    let world = CertificateWorld::settled(default_timing()).await;
    let object = BundleOf::Webhooks("hook".to_owned());
    let slow =
        Bundles::new(world.client(), crate::Env::system(), vec![object.clone()], vec![NAME.to_owned()]);
    let seen = slow.read(&object).await.unwrap();
    world.server.change(HOOKS, |hooks| hooks["webhooks"][0]["clientConfig"]["caBundle"] = encode(b"newer"));
    assert!(!slow.patch(&object, &seen, b"older").await.unwrap());
    assert_eq!(world.server.bundles()[0], b"newer");
    let seen = slow.read(&object).await.unwrap();
    assert!(slow.patch(&object, &seen, b"newest").await.unwrap());
    assert_eq!(world.server.bundles()[0], b"newest");
}

#[tokio::test]
async fn a_mutating_configuration_gets_the_bundle() {
    use crate::certificates::args::BundleOf;
    use crate::certificates::bundles::Bundles;
    let world = CertificateWorld::settled(default_timing()).await;
    let path = HOOKS.replace("validating", "mutating");
    world.server.put(&path, hooks());
    let object = BundleOf::MutatingWebhooks("hook".to_owned());
    let bundles =
        Bundles::new(world.client(), crate::Env::system(), vec![object.clone()], vec![NAME.to_owned()]);
    let seen = bundles.read(&object).await.unwrap();
    assert!(bundles.patch(&object, &seen, b"new").await.unwrap());
    let written = world.server.get(&path).unwrap();
    assert_eq!(decode(&written["webhooks"][0]["clientConfig"]["caBundle"]), b"new");
    assert_eq!(decode(&written["webhooks"][1]["clientConfig"]["caBundle"]), b"theirs");
}
