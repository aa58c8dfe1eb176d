use serde_json::Value;

use super::server::{HOOKS, SERVICE, api_service, decode, encode, hooks};
use super::world::{NAME, World};
use super::{HOUR, MINUTE, usual};
use crate::certificates::metrics::Stage;

#[tokio::test]
async fn a_bundle_that_was_wiped_is_put_back() {
    let mut world = World::settled(usual()).await;
    world.server.put(HOOKS, hooks());
    world.server.change(SERVICE, |service| service["spec"]["caBundle"] = encode(b"wrong"));
    world.pass(2 * MINUTE).await;
    world.check();
}

#[tokio::test]
async fn a_configuration_that_comes_later_is_waited_for() {
    let mut world = World::new(usual());
    world.server.delete(HOOKS);
    world.server.delete(SERVICE);
    world.start(&[NAME, "10.1.2.3"]);
    world.pass(HOUR).await;
    assert!(world.replicas[0].identity.is_ready(), "nobody else needs to wait");
    world.server.put(HOOKS, hooks());
    world.server.put(SERVICE, api_service("hook"));
    world.pass(2 * MINUTE).await;
    assert_eq!(world.server.bundles().len(), 3);
    world.check();
    assert_eq!(world.replicas[0].metrics.failures(Stage::Bundle), 0, "waiting is no failure");
}

#[tokio::test]
async fn an_api_service_of_somebody_else_is_left_alone() {
    let mut world = World::new(usual());
    world.server.put(SERVICE, api_service("somebody-else"));
    world.start(&[NAME]);
    world.pass(10 * MINUTE).await;
    assert_eq!(world.server.get(SERVICE).unwrap()["spec"]["caBundle"], Value::Null);
    let hooks = world.server.get(HOOKS).unwrap();
    let bundle = |index: usize| decode(&hooks["webhooks"][index]["clientConfig"]["caBundle"]);
    assert_eq!(bundle(0), world.server.secret("ca.crt"));
    assert_eq!(bundle(1), b"theirs");
    assert_eq!(bundle(2), b"", "an address that is not in the certificate");
}

#[tokio::test]
async fn a_slow_replica_cannot_take_a_bundle_back() {
    use crate::certificates::args::BundleOf;
    use crate::certificates::bundles::Bundles;
    let world = World::settled(usual()).await;
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
