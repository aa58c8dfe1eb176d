//! Pins of pools that are deleted.

use serde_json::{Value, json};
use vmpool_platforms::instancetype::copies::CopyPolicy;

use super::*;

impl LeaderWorld {
    /// A user removes a machine from its pool.
    fn detach(&self, machine: &str) {
        self.server.edit(MACHINES, machine, |machine| machine["metadata"]["ownerReferences"] = json!([]));
    }

    async fn delete_pool(&self, policy: &str) {
        self.server.delete_with(POOLS, "web", &json!({ "propagationPolicy": policy }));
        self.until_pool_is_gone().await;
    }

    async fn until_pool_is_gone(&self) {
        for _ in 0..3 {
            self.calm().await;
            self.server.collect_garbage();
        }
        self.calm().await;
        assert_eq!(self.server.get(POOLS, "web"), None, "the deletion must not hang");
    }
}

#[rstest]
#[case::beside_kubevirt(None)]
#[case::without_kubevirt(Some(CopyPolicy::Reference))]
#[tokio::test]
async fn a_machine_that_was_detached_while_the_controller_was_away_keeps_its_copy(
    #[case] copies: Option<CopyPolicy>,
) {
    let mut world = world(copies).await;
    world.run_pool("web").await;
    let pin = world.pin_of("web-0");
    world.kill_leader().await;
    world.detach("web-0");
    world.server.delete_with(POOLS, "web", &json!({ "propagationPolicy": "Background" }));
    world.lead_all(&[PlatformName::Kubevirt]);
    world.calm().await;
    world.server.collect_garbage();
    assert_eq!(world.server.get(POOLS, "web"), None);
    assert_eq!(world.owners(&pin), Some(vec![world.uid(MACHINES, "web-0")]));
    world.stays_settled().await;
}

#[rstest]
#[case::of_a_pool("Background")]
#[case::of_a_pool_whose_machines_stay("Orphan")]
#[tokio::test]
async fn a_machine_that_never_belonged_to_the_pool_keeps_the_copy_that_it_names(#[case] policy: &str) {
    let world = world(None).await;
    world.run_pool("web").await;
    let pin = world.pin_of("web-0");
    world.create_machine_with("restored", &pin);
    world.calm().await;
    world.delete_pool(policy).await;
    let owners = world.owners(&pin).unwrap();
    assert!(owners.contains(&world.uid(MACHINES, "restored")), "{owners:?}");
}

#[tokio::test]
async fn a_machine_whose_status_alone_names_the_copy_keeps_it() {
    let world = world(None).await;
    world.run_pool("web").await;
    let pin = world.pin_of("web-0");
    world.create_machine("restored");
    let mut reference = matcher();
    reference["controllerRevisionRef"] = json!({ "name": pin });
    world.server.edit(MACHINES, "restored", |machine| machine["status"]["instancetypeRef"] = reference);
    world.calm().await;
    world.delete_pool("Background").await;
    assert_eq!(world.owners(&pin), Some(vec![world.uid(MACHINES, "restored")]));
}

#[tokio::test]
async fn machines_that_stay_without_their_pool_own_its_copies() {
    let world = world(None).await;
    world.run_pool("web").await;
    let pin = world.pin_of("web-0");
    world.delete_pool("Orphan").await;
    assert_eq!(world.owners(&pin), Some(vec![world.uid(MACHINES, "web-0")]));
    world.server.edit(MACHINES, "web-0", |machine| machine["metadata"]["finalizers"] = json!([]));
    world.server.delete(MACHINES, "web-0");
    world.server.collect_garbage();
    assert_eq!(world.owners(&pin), None, "the copy ends with the last machine");
}

#[rstest]
#[case::with_the_pool("Background")]
#[case::with_a_pool_whose_objects_stay("Orphan")]
#[tokio::test]
async fn a_copy_that_no_machine_names_is_deleted(#[case] policy: &str) {
    let mut world = world(None).await;
    world.run_pool("web").await;
    let pin = world.pin_of("web-0");
    // Given a pool whose machine was deleted while the controller was away,
    world.kill_leader().await;
    world.server.edit(MACHINES, "web-0", |machine| machine["metadata"]["finalizers"] = json!([]));
    world.server.delete(MACHINES, "web-0");
    // when the pool is deleted, then so is its copy.
    world.server.delete_with(POOLS, "web", &json!({ "propagationPolicy": policy }));
    world.lead_all(&[PlatformName::Kubevirt]);
    world.until_pool_is_gone().await;
    assert_eq!(world.owners(&pin), None);
}

#[tokio::test]
async fn a_pool_without_copies_lists_nothing_when_it_is_deleted() {
    let world = world(None).await;
    world.create_pool("web");
    world.server.edit(POOLS, "web", |pool| {
        for field in ["instancetype", "preference"] {
            pool["spec"]["virtualMachineTemplate"]["spec"][field] = Value::Null;
        }
        pool["spec"]["replicas"] = json!(1);
    });
    world.calm().await;
    world.server.take_log();
    world.delete_pool("Background").await;
    let lists = world.server.take_log().iter().filter(|call| call.verb == Verb::List).count();
    assert_eq!(lists, 0);
}
