//! What changes between the plan of a pass and its requests, or between two requests.

use vmpool_engine::protection::{RESTARTING, UNTIL, timestamp_text};

use super::*;

/// Calls `change` before the first request that `is_it` accepts.
fn before_first(
    world: &LeaderWorld,
    is_it: impl Fn(&Call) -> bool + Send + 'static,
    change: impl FnOnce(&crate::testing::RecordingApiServer) + Send + 'static,
) {
    let (server, mut change) = (world.server.clone(), Some(change));
    world.server.intercept(move |call| {
        if is_it(call)
            && let Some(change) = change.take()
        {
            change(&server);
        }
        Fate::Serve
    });
}

#[tokio::test]
async fn an_instance_that_was_started_after_the_plan_is_not_deleted() {
    let world = world().await;
    // KubeVirt has restarted the machine by itself, and the new instance has the template.
    before_first(
        &world,
        |call| call.is(Verb::Get, "virtualmachines"),
        |server| {
            let old = server.get(INSTANCES, "web-0").unwrap();
            server.delete(INSTANCES, "web-0");
            let revision = server.all("controllerrevisions").remove(0)["metadata"]["name"].clone();
            let metadata = json!({
                "name": "web-0", "namespace": NAMESPACE,
                "ownerReferences": old["metadata"]["ownerReferences"],
                "labels": { "kubevirt.io/vm-pool-revision-name": revision },
            });
            server.create(INSTANCES, json!({ "metadata": metadata, "spec": {}, "status": old["status"] }));
        },
    );
    world.start_outdated_instance();
    let before = world.server.get(INSTANCES, "web-0").unwrap();
    world.calm().await;
    let after = world.server.get(INSTANCES, "web-0").expect("the next instance runs");
    assert_ne!(after["metadata"]["uid"], before["metadata"]["uid"]);
}

#[tokio::test]
async fn a_machine_that_is_protected_before_its_mark_is_not_restarted() {
    let world = world().await;
    let until = timestamp_text(world.env.now() + SECOND * 600);
    let is_mark = |call: &Call| {
        call.is(MERGE_PATCH, "virtualmachines")
            && call.body["metadata"]["annotations"][RESTARTING].is_string()
    };
    before_first(&world, is_mark, move |server| {
        server.edit(MACHINES, "web-0", |machine| {
            machine["metadata"]["annotations"][UNTIL] = json!(until);
        });
    });
    world.start_outdated_instance();
    world.calm().await;
    let writes = world.take_writes();
    assert!(writes.iter().any(is_mark), "the controller tried to mark the machine: {writes:?}");
    assert_eq!(count(&writes, Verb::Delete, "virtualmachineinstances"), 0);
    let machine = world.server.get(MACHINES, "web-0").unwrap();
    assert_eq!(machine["metadata"]["annotations"][RESTARTING], Value::Null, "{machine}");
}

/// A live count does not contain the machine, so the plan counts it as one that is being deleted.
#[tokio::test]
async fn a_detached_machine_keeps_its_storage_although_the_cache_does_not_show_it_yet() {
    let mut world = LeaderWorld::new();
    lead(&mut world, 2);
    world.server.edit(POOLS, "web", |pool| {
        pool["spec"]["scaleInStrategy"] = json!({ "proactive": { "statePreservation": "Offline" } });
    });
    world.calm().await;
    let owner = world.owner();
    let metadata = json!({ "name": "root-0", "namespace": NAMESPACE, "ownerReferences": [owner] });
    world.server.create(VOLUMES, json!({ "metadata": metadata, "spec": {} }));
    world.server.edit(MACHINES, "web-0", |machine| {
        machine["spec"]["dataVolumeTemplates"] = json!([{ "metadata": { "name": "root-0" }, "spec": {} }]);
        machine["spec"]["template"]["spec"]["volumes"] =
            json!([{ "name": "root", "dataVolume": { "name": "root-0" } }]);
    });
    world.calm().await;
    world.server.hold(MACHINES);
    world.server.edit(MACHINES, "web-0", |machine| machine["metadata"]["ownerReferences"] = json!([]));
    world.server.edit(POOLS, "web", |pool| pool["spec"]["replicas"] = json!(1));
    world.calm().await;
    world.server.release();
    world.calm().await;
    assert_eq!(machine_names(&world.server.all(MACHINES)), ["web-0", "web-1"], "no machine is surplus");
    let volume = world.server.get(VOLUMES, "root-0").unwrap();
    assert_eq!(volume["metadata"]["ownerReferences"], json!([owner]), "{volume}");
}
