//! The rules of the API server, each through a client.

mod direct;
mod fault_injectors;

use std::collections::BTreeSet;
use std::task::Poll;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, Preconditions,
    PropagationPolicy, WatchEvent, WatchParams,
};
use kube::runtime::watcher::{self, Event, watcher};
use rstest::rstest;
use serde_json::{Value, json};
use vmpool_runtime::testing::{ManualClock, test_env};

use super::*;

const GROUP: &str = "virtualization.deckhouse.io";
const POOLS: &str = "virtualmachinepools.virtualization.deckhouse.io";
const MACHINES: &str = "virtualmachines.virtualization.deckhouse.io";

struct World {
    clock: ManualClock,
    server: ApiServerModel,
}

fn world() -> World {
    let clock = ManualClock::new();
    World { server: ApiServerModel::new(&test_env(&clock, 1), platform_resources()), clock }
}

impl World {
    fn api(&self, kind: &str, plural: &str) -> Api<DynamicObject> {
        let resource = ApiResource {
            group: GROUP.into(),
            version: "v1alpha2".into(),
            api_version: format!("{GROUP}/v1alpha2"),
            kind: kind.into(),
            plural: plural.into(),
        };
        Api::namespaced_with(self.server.client("user", "team"), "team", &resource)
    }

    fn machines(&self) -> Api<DynamicObject> {
        self.api("VirtualMachine", "virtualmachines")
    }

    fn pools(&self) -> Api<DynamicObject> {
        self.api("VirtualMachinePool", "virtualmachinepools")
    }

    async fn machine(&self, name: &str, metadata: Value) -> DynamicObject {
        self.machines().create(&PostParams::default(), &machine(name, &metadata)).await.unwrap()
    }
}

fn machine(name: &str, metadata: &Value) -> DynamicObject {
    let mut object = json!({
        "apiVersion": format!("{GROUP}/v1alpha2"), "kind": "VirtualMachine", "metadata": { "name": name },
        "spec": { "virtualMachineClassName": "small", "cpu": { "cores": 1 }, "memory": { "size": "1Gi" },
            "blockDeviceRefs": [{ "kind": "VirtualDisk", "name": "a" }] },
        "status": { "phase": "Running" },
    });
    json_patch::merge(&mut object["metadata"], metadata);
    serde_json::from_value(object).unwrap()
}

fn reason<T: std::fmt::Debug>(result: kube::Result<T>) -> (u16, String) {
    match result.expect_err("a refusal") {
        kube::Error::Api(status) => (status.code, status.reason),
        other => panic!("{other:?}"),
    }
}

fn merge(patch: &Value) -> Patch<&Value> {
    Patch::Merge(patch)
}

#[tokio::test]
async fn a_create_ignores_metadata_that_only_the_server_sets() {
    let world = world();
    let forged = json!({ "uid": "mine", "generation": 7, "creationTimestamp": "2001-01-01T00:00:00Z" });
    let object = world.machine("a", forged).await;
    let meta = &object.metadata;
    assert_ne!(meta.uid.as_deref(), Some("mine"));
    assert_eq!((meta.generation, meta.resource_version.as_deref()), (Some(1), Some("1")));
    assert_eq!(meta.creation_timestamp.as_ref().unwrap().0, ManualClock::START);
    assert_eq!(object.data.get("status"), None, "a create ignores the status");
    assert_eq!(
        object.data["spec"]["runPolicy"], "AlwaysOnUnlessStoppedManually",
        "the server fills in defaults"
    );
    assert_eq!(
        reason(world.machines().create(&PostParams::default(), &machine("a", &json!({}))).await),
        (409, "AlreadyExists".into())
    );
}

#[tokio::test]
async fn only_spec_changes_increment_the_generation() {
    let world = world();
    world.machine("a", json!({})).await;
    let machines = world.machines();
    let params = PatchParams::default();
    let labelled =
        machines.patch("a", &params, &merge(&json!({"metadata": {"labels": {"x": "y"}}}))).await.unwrap();
    assert_eq!(labelled.metadata.generation, Some(1));
    let same =
        machines.patch("a", &params, &merge(&json!({"metadata": {"labels": {"x": "y"}}}))).await.unwrap();
    assert_eq!(same.metadata.resource_version, labelled.metadata.resource_version, "nothing changed");
    let edited = machines
        .patch("a", &params, &merge(&json!({"spec": {"cpu": {"cores": 2}}, "status": {"phase": "x"}})))
        .await
        .unwrap();
    assert_eq!(edited.metadata.generation, Some(2));
    assert_eq!(edited.data.get("status"), None);
    let told = machines
        .patch_status(
            "a",
            &params,
            &merge(&json!({"spec": {"cpu": {"cores": 9}}, "status": {"phase": "Running"}})),
        )
        .await
        .unwrap();
    assert_eq!(
        (told.data["status"]["phase"].as_str(), &told.data["spec"]["cpu"]["cores"]),
        (Some("Running"), &json!(2))
    );
    assert_eq!(told.metadata.generation, Some(2));
}

#[rstest]
#[case::an_old_version(json!({"metadata": {"resourceVersion": "999"}}), (409, "Conflict"))]
#[case::another_uid(json!({"metadata": {"uid": "other"}}), (422, "Invalid"))]
#[tokio::test]
async fn a_merge_patch_with_a_stale_version_or_uid_is_refused(
    #[case] patch: Value,
    #[case] expected: (u16, &str),
) {
    let world = world();
    world.machine("a", json!({})).await;
    let (code, word) = reason(world.machines().patch("a", &PatchParams::default(), &merge(&patch)).await);
    assert_eq!((code, word.as_str()), expected);
}

#[tokio::test]
async fn a_json_patch_with_a_failed_test_changes_nothing() {
    let world = world();
    let before = world.machine("a", json!({})).await;
    let patch: json_patch::Patch =
        serde_json::from_value(json!([{"op": "replace", "path": "/spec/cpu/cores", "value": 4}, {"op": "test", "path": "/metadata/uid", "value": "no"}])).unwrap();
    assert_eq!(
        reason(world.machines().patch("a", &PatchParams::default(), &Patch::<()>::Json(patch)).await).0,
        422
    );
    assert_eq!(
        world.machines().get("a").await.unwrap().metadata.resource_version,
        before.metadata.resource_version
    );
}

#[tokio::test]
async fn an_object_with_finalizers_stays_until_the_last_is_removed() {
    let world = world();
    world.machine("a", json!({"finalizers": ["x/y"]})).await;
    let machines = world.machines();
    assert!(machines.delete("a", &DeleteParams::default()).await.unwrap().is_left());
    let dying = machines.get("a").await.unwrap();
    assert!(dying.metadata.deletion_timestamp.is_some());
    assert_eq!(dying.metadata.generation, Some(2));
    let more = json!({"metadata": {"finalizers": ["x/y", "z/z"]}});
    assert_eq!(reason(machines.patch("a", &PatchParams::default(), &merge(&more)).await).0, 422);
    machines
        .patch("a", &PatchParams::default(), &merge(&json!({"metadata": {"finalizers": null}})))
        .await
        .unwrap();
    assert_eq!(reason(machines.get("a").await).0, 404);
    assert_eq!(world.server.history().last().unwrap().kind, ChangeKind::Deleted);
}

#[rstest]
#[case::uid(Preconditions { uid: Some("other".into()), resource_version: None })]
#[case::version(Preconditions { uid: None, resource_version: Some("99".into()) })]
#[tokio::test]
async fn a_deletion_with_a_failed_precondition_is_refused(#[case] preconditions: Preconditions) {
    let world = world();
    world.machine("a", json!({})).await;
    let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
    assert_eq!(reason(world.machines().delete("a", &params).await), (409, "Conflict".into()));
    assert_eq!(world.server.all(MACHINES).len(), 1);
}

async fn family(world: &World) {
    let pool = json!({
        "apiVersion": format!("{GROUP}/v1alpha2"), "kind": "VirtualMachinePool", "metadata": { "name": "web" },
        "spec": { "replicas": 1, "scaleDownPolicy": "Explicit", "virtualMachineTemplate": {}, "virtualDiskTemplates": [] },
    });
    let pool =
        world.pools().create(&PostParams::default(), &serde_json::from_value(pool).unwrap()).await.unwrap();
    let owner = json!({ "apiVersion": format!("{GROUP}/v1alpha2"), "kind": "VirtualMachinePool", "name": "web",
        "uid": pool.metadata.uid, "controller": true, "blockOwnerDeletion": true });
    world.machine("a", json!({ "ownerReferences": [owner] })).await;
}

#[rstest]
#[case::background(PropagationPolicy::Background, 0, 0)]
#[case::foreground(PropagationPolicy::Foreground, 1, 0)]
#[case::orphan(PropagationPolicy::Orphan, 1, 1)]
#[tokio::test]
async fn the_garbage_collector_follows_the_propagation_policy(
    #[case] policy: PropagationPolicy,
    #[case] pools: usize,
    #[case] left: usize,
) {
    let world = world();
    family(&world).await;
    let params = DeleteParams { propagation_policy: Some(policy), ..DeleteParams::default() };
    world.pools().delete("web", &params).await.unwrap();
    assert_eq!(world.server.all(POOLS).len(), pools);
    assert_eq!(world.server.all(MACHINES).len(), 1, "only collect_garbage deletes dependents");
    while world.server.collect_garbage(0).is_some() {}
    assert_eq!((world.server.all(POOLS).len(), world.server.all(MACHINES).len()), (0, left));
    if let [machine] = &world.server.all(MACHINES)[..] {
        assert_eq!(machine["metadata"].get("ownerReferences"), None);
    }
}

#[tokio::test]
async fn a_dependent_with_a_second_owner_loses_only_the_reference_to_the_first() {
    let world = world();
    let owners = ["b", "c"].map(|name| world.machine(name, json!({})));
    let [b, c] = futures::future::join_all(owners).await.try_into().unwrap();
    let reference = |owner: &DynamicObject| {
        json!({ "apiVersion": format!("{GROUP}/v1alpha2"), "kind": "VirtualMachine",
        "name": owner.metadata.name, "uid": owner.metadata.uid })
    };
    world.machine("a", json!({ "ownerReferences": [reference(&b), reference(&c)] })).await;
    world.machines().delete("b", &DeleteParams::default()).await.unwrap();
    while world.server.collect_garbage(0).is_some() {}
    let left = world.machines().get("a").await.unwrap().metadata.owner_references.unwrap();
    assert_eq!(left.iter().map(|owner| owner.name.as_str()).collect::<Vec<_>>(), ["c"]);
}

#[tokio::test]
async fn a_uid_in_a_patch_of_status_or_scale_is_ignored() {
    let world = world();
    family(&world).await;
    let params = PatchParams::default();
    let of_another = |mut patch: Value| {
        patch["metadata"] = json!({ "uid": "other" });
        patch
    };
    let status = of_another(json!({ "status": { "replicas": 1 } }));
    world.pools().patch_status("web", &params, &merge(&status)).await.unwrap();
    let scale = of_another(json!({ "spec": { "replicas": 3 } }));
    world.pools().patch_scale("web", &params, &merge(&scale)).await.unwrap();
    assert_eq!(world.pools().get("web").await.unwrap().data["spec"]["replicas"], 3);
}

#[tokio::test]
async fn the_scale_subresource_changes_the_replicas() {
    let world = world();
    family(&world).await;
    let pools = world.pools();
    let scale = pools.get_scale("web").await.unwrap();
    assert_eq!(scale.spec.unwrap().replicas, Some(1));
    let patch = json!({"spec": {"replicas": 4}});
    let scaled = pools.patch_scale("web", &PatchParams::default(), &merge(&patch)).await.unwrap();
    assert_eq!(scaled.spec.unwrap().replicas, Some(4));
    let pool = pools.get("web").await.unwrap();
    assert_eq!((pool.data["spec"]["replicas"].as_i64(), pool.metadata.generation), (Some(4), Some(2)));
    let stale = json!({"metadata": {"resourceVersion": "1"}, "spec": {"replicas": 5}});
    assert_eq!(reason(pools.patch_scale("web", &PatchParams::default(), &merge(&stale)).await).0, 409);
}

#[tokio::test]
async fn a_paginated_list_is_consistent() {
    let world = world();
    for name in ["a", "b", "c"] {
        world.machine(name, json!({})).await;
    }
    let machines = world.machines();
    let first = machines.list(&ListParams::default().limit(2)).await.unwrap();
    assert_eq!((first.items.len(), first.metadata.remaining_item_count), (2, Some(1)));
    machines.delete("c", &DeleteParams::default()).await.unwrap();
    let token = first.metadata.continue_.unwrap();
    let rest = machines.list(&ListParams::default().continue_token(&token)).await.unwrap();
    assert_eq!(rest.items[0].metadata.name.as_deref(), Some("c"), "the object existed when the list started");
    assert_eq!(rest.metadata.resource_version, first.metadata.resource_version);
    world.server.compact();
    assert_eq!(
        reason(machines.list(&ListParams::default().continue_token(&token)).await),
        (410, "Expired".into())
    );
}

/// The events that a watch from `version` has received so far.
async fn told(world: &World, version: &str) -> Vec<String> {
    let mut stream = world.machines().watch(&WatchParams::default(), version).await.unwrap().boxed();
    let mut told = Vec::new();
    loop {
        world.clock.settle().await;
        match futures::poll!(stream.try_next()) {
            Poll::Ready(Ok(Some(event))) => told.push(match event {
                WatchEvent::Added(object) => format!("+{}", object.metadata.name.unwrap()),
                WatchEvent::Modified(object) => format!("~{}", object.metadata.name.unwrap()),
                WatchEvent::Deleted(object) => format!("-{}", object.metadata.name.unwrap()),
                WatchEvent::Bookmark(mark) => format!("@{}", mark.metadata.resource_version),
                WatchEvent::Error(status) => format!("!{}", status.code),
            }),
            _ => return told,
        }
    }
}

#[tokio::test]
async fn a_watch_resumes_from_its_version() {
    let world = world();
    world.machine("a", json!({})).await;
    world.machine("b", json!({})).await;
    world.machines().delete("a", &DeleteParams::default()).await.unwrap();
    assert_eq!(told(&world, "1").await, ["+b", "-a"]);
    assert_eq!(told(&world, "3").await, [""; 0]);
}

#[tokio::test]
async fn a_watch_lags_by_its_pace() {
    let world = world();
    for name in ["a", "b", "c"] {
        world.machine(name, json!({})).await;
    }
    assert_eq!(
        told(&world, "0").await,
        ["+a", "+b", "+c"],
        "a watch from version 0 starts with the existing objects"
    );
    world.server.delay_watches("user", MACHINES, WatchDelay::Behind(2));
    assert_eq!(told(&world, "3").await, [""; 0]);
    assert_eq!(told(&world, "1").await, [""; 0], "both changes are within the delay");
    world.machine("d", json!({})).await;
    assert_eq!(told(&world, "1").await, ["+b"]);
    world.server.delay_watches("user", MACHINES, WatchDelay::Held);
    assert_eq!(told(&world, "1").await, [""; 0]);
    world.server.release();
    assert_eq!(told(&world, "1").await, ["+b", "+c", "+d"]);
}

#[tokio::test]
async fn a_compacted_version_has_expired() {
    let world = world();
    world.machine("a", json!({})).await;
    world.machine("b", json!({})).await;
    world.server.compact();
    assert_eq!(told(&world, "1").await, ["!410"]);
    assert_eq!(told(&world, "2").await, [""; 0]);
}

#[tokio::test]
async fn a_watcher_survives_timeouts_closed_connections_and_expired_versions() {
    let world = world();
    let mut events = watcher(world.machines(), watcher::Config::default().timeout(30)).boxed();
    let (mut known, mut initial) = (BTreeSet::new(), BTreeSet::new());
    let name = |object: DynamicObject| object.metadata.name.unwrap();
    let mut read = async |world: &World| {
        // A watcher advances only when it is polled, and some of its requests take time.
        for _ in 0..20 {
            world.clock.settle().await;
            while let Poll::Ready(event) = futures::poll!(events.next()) {
                match event.expect("a watcher never ends") {
                    Ok(Event::Init) => initial.clear(),
                    Ok(Event::InitApply(object)) => _ = initial.insert(name(object)),
                    Ok(Event::InitDone) => known.clone_from(&initial),
                    Ok(Event::Apply(object)) => _ = known.insert(name(object)),
                    Ok(Event::Delete(object)) => _ = known.remove(&name(object)),
                    Err(_) => {}
                }
            }
        }
        known.iter().cloned().collect::<Vec<_>>()
    };
    world.machine("a", json!({})).await;
    assert_eq!(read(&world).await, ["a"]);
    world.server.bookmark();
    world.machine("b", json!({})).await;
    assert_eq!(read(&world).await, ["a", "b"]);
    world.clock.advance(Duration::from_secs(31)).await;
    world.machine("c", json!({})).await;
    assert_eq!(read(&world).await, ["a", "b", "c"], "after the timeout of the first watch");
    for how in [WatchEnd::Close, WatchEnd::Expire] {
        world.server.end_watches("user", MACHINES, how);
        world.machines().delete("a", &DeleteParams::default()).await.unwrap();
        world.server.compact();
        assert_eq!(read(&world).await, ["b", "c"], "{how:?}");
        world.machine("a", json!({})).await;
        assert_eq!(read(&world).await, ["a", "b", "c"], "{how:?}");
    }
}
