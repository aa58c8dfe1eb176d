//! Disks that the platform restores: it deletes them, waits until they are gone, and creates others with
//! their names.

use rstest::rstest;
use serde_json::{Value, json};

use super::super::SECOND;
use super::{MINUTE, events, kept, run};
use crate::testing::{LeaderWorld, NAMESPACE, pool_manifest};

const DELETES: &str = "virtualization.deckhouse.io/vmoprestoredeleted";
const CREATED: &str = "virtualization.deckhouse.io/vmoprestore";
const DISKS: &str = "virtualdisks";

/// A leader and a pool with one running machine.
async fn world(pool: Value) -> (LeaderWorld, Value) {
    let mut world = LeaderWorld::new();
    world.server.create("virtualmachinepools", pool);
    world.lead();
    world.calm().await;
    run(&world).await;
    let disk = world.disks().remove(0);
    (world, disk)
}

fn name(disk: &Value) -> &str {
    disk["metadata"]["name"].as_str().unwrap()
}

impl LeaderWorld {
    /// The first half of an operation: no pass runs between the mark and the deletion.
    fn begin_restore(&self, disk: &Value) {
        self.server.edit(DISKS, name(disk), |disk| disk["metadata"]["annotations"][DELETES] = json!("r1"));
        self.server.delete(DISKS, name(disk));
    }

    /// The second half.
    fn end_restore(&self, disk: &Value) -> bool {
        let metadata = json!({
            "name": name(disk), "namespace": NAMESPACE,
            "labels": disk["metadata"]["labels"], "annotations": { CREATED: "r1" },
        });
        let restored = json!({ "metadata": metadata, "spec": disk["spec"], "status": { "phase": "Ready" } });
        let is_free = self.server.get(DISKS, name(disk)).is_none();
        if is_free {
            self.server.create(DISKS, restored);
        }
        is_free
    }
}

#[rstest]
#[case::ephemeral(pool_manifest("web", 1))]
#[case::retained(kept(1, &json!({})))]
#[tokio::test]
async fn a_slow_restore_is_not_disturbed_and_its_disk_gets_its_owner_again(#[case] pool: Value) {
    let (world, disk) = world(pool).await;
    let machine = world.machines().remove(0);
    world.begin_restore(&disk);
    world.advance(MINUTE).await;
    assert!(world.end_restore(&disk), "the platform can create the disk");
    world.advance(SECOND * 5).await;
    let restored = world.server.get(DISKS, name(&disk)).unwrap();
    assert_eq!(restored["metadata"]["annotations"][CREATED], "r1", "it is the one of the platform");
    assert_eq!(restored["metadata"]["ownerReferences"], disk["metadata"]["ownerReferences"]);
    assert_eq!(world.disks().len(), 1);
    assert_eq!(world.machines()[0]["spec"], machine["spec"]);
    assert_eq!(events(&world, "DiskRestored"), 1);
    assert_eq!(world.condition("ReplicaFailure"), None);
    world.server.take_log();
    world.advance(MINUTE).await;
    assert_eq!(world.server.take_log().len(), 0, "the world is settled");
}

#[tokio::test]
async fn a_restore_that_never_ends_leaves_the_machine_with_a_new_disk() {
    let (world, disk) = world(pool_manifest("web", 1)).await;
    let machine = world.machines().remove(0);
    world
        .server
        .edit("virtualmachines", name(&machine), |machine| machine["status"]["phase"] = json!("Stopped"));
    world.begin_restore(&disk);
    world.advance(MINUTE * 9).await;
    assert_eq!(world.disks().len(), 0);
    let status = world.status();
    let waits =
        format!("machine {} waits until the platform has restored disk {}", name(&machine), name(&disk));
    assert!(status["conditions"].to_string().contains(&waits), "{status}");
    world.advance(MINUTE * 2).await;
    assert_eq!(name(&world.disks()[0]), name(&disk));
}

#[tokio::test]
async fn a_machine_that_the_platform_restores_gets_no_disk_until_the_end() {
    let (world, disk) = world(pool_manifest("web", 1)).await;
    let machine = world.machines().remove(0);
    let maintenance = |on: bool| {
        let status = if on { "True" } else { "False" };
        let condition = json!({ "type": "Maintenance", "status": status, "reason": "RestoreInProgress" });
        world.server.edit("virtualmachines", name(&machine), |machine| {
            machine["status"]["conditions"] = json!([condition]);
        });
    };
    maintenance(true);
    world.advance(SECOND).await;
    world.server.delete(DISKS, name(&disk));
    world.advance(MINUTE * 20).await;
    assert_eq!(world.disks().len(), 0);
    maintenance(false);
    world.advance(SECOND * 5).await;
    assert_eq!(world.disks().len(), 1);
}

#[tokio::test]
async fn a_disk_that_a_user_deletes_is_created_at_once() {
    let (world, disk) = world(pool_manifest("web", 1)).await;
    world.server.delete(DISKS, name(&disk));
    world.advance(SECOND * 5).await;
    assert_eq!(world.disks().len(), 1);
}
