use rstest::rstest;
use serde_json::json;

use super::*;
use crate::testing::{LeaderWorld, NAMESPACE};

const POOLS: &str = "virtualmachinepools.pool.kubevirt.io";
const MACHINES: &str = "virtualmachines.kubevirt.io";
const FINALIZER: &str = "pool.kubevirt.io/finalizer";
const LEASES: &str = "leases.coordination.k8s.io";
const IMAGES: &str = "vmdiskimages.vmpool.dev";

/// A world with a pool of KubeVirt and a machine, both with the finalizer of the controller and that of
/// another client.
fn world() -> LeaderWorld {
    let world = LeaderWorld::new();
    let metadata =
        json!({ "name": "web", "namespace": NAMESPACE, "finalizers": ["example.com/mine", FINALIZER] });
    let pool = json!({ "metadata": metadata, "spec": { "selector": {}, "virtualMachineTemplate": {} } });
    world.server.create(POOLS, pool);
    world.server.create(MACHINES, json!({ "metadata": metadata, "spec": { "template": {} } }));
    world
}

fn lease() -> LeaseConfig {
    LeaseConfig::new(NAMESPACE, "vmpool-controller", "uninstall")
}

fn whole_cluster(platforms: &[PlatformName]) -> FinalizerScope<'_> {
    FinalizerScope { namespace: None, platforms, images: true, types: true }
}

async fn remove(world: &LeaderWorld) -> Result<usize, UninstallError> {
    let (client, env) = (world.server.client(), world.env.clone());
    let (sender, mut receiver) = tokio::sync::oneshot::channel();
    let _task = world.env.spawn("uninstall", async move {
        let platforms = [PlatformName::Dvp, PlatformName::Kubevirt];
        drop(sender.send(remove_finalizers(&client, &env, &lease(), whole_cluster(&platforms)).await));
    });
    world.advance(Duration::from_mins(1)).await;
    receiver.try_recv().unwrap()
}

impl LeaderWorld {
    fn finalizers(&self, resource: &str) -> Vec<String> {
        let objects = self.server.all(resource);
        let object = objects.iter().find(|object| object["metadata"]["name"] == "web").unwrap();
        serde_json::from_value(object["metadata"]["finalizers"].clone()).unwrap()
    }
}

#[tokio::test]
async fn only_the_finalizers_of_the_controller_are_removed() {
    let world = world();
    assert_eq!(remove(&world).await.unwrap(), 2);
    for resource in [POOLS, MACHINES] {
        assert_eq!(world.finalizers(resource), ["example.com/mine"], "{resource}");
    }
    assert_eq!(remove(&world).await.unwrap(), 0, "a second run has nothing to do");
}

#[tokio::test]
async fn pools_lose_the_conditions_that_no_controller_would_keep_up_to_date() {
    let world = world();
    let condition = |kind: &str| json!({ "type": kind, "status": "True" });
    world.server.edit(POOLS, "web", |pool| {
        let kinds = ["ReplicaPaused", "Ready", "Reconciling", "Stalled"];
        pool["status"] = json!({ "replicas": 1, "conditions": kinds.map(condition) });
    });
    assert_eq!(remove(&world).await.unwrap(), 2, "conditions are no finalizers");
    let pool = world.server.get(POOLS, "web").unwrap();
    assert_eq!(pool["status"], json!({ "replicas": 1, "conditions": [condition("ReplicaPaused")] }));
}

#[tokio::test]
async fn the_machines_own_the_copies_of_instance_types_that_they_use() {
    let world = LeaderWorld::new();
    let instancetype = json!({ "name": "small", "revisionName": "copy" });
    let machine = json!({
        "metadata": { "name": "web-0", "namespace": NAMESPACE },
        "spec": { "instancetype": instancetype, "template": {} },
    });
    world.server.create(MACHINES, machine);
    let pool = json!({ "apiVersion": "pool.kubevirt.io/v1beta1", "kind": "VirtualMachinePool", "name": "web", "uid": "p",
        "controller": true });
    for name in ["copy", "unused"] {
        let labels = json!({ "instancetype.kubevirt.io/object-kind": "k", "vmpool.dev/pool-uid": "p" });
        let metadata =
            json!({ "name": name, "namespace": NAMESPACE, "labels": labels, "ownerReferences": [pool] });
        world.server.create("controllerrevisions.apps", json!({ "metadata": metadata, "revision": 1 }));
    }
    remove(&world).await.unwrap();
    let owner = |name: &str| {
        let copy = world.server.get("controllerrevisions.apps", name).unwrap();
        copy["metadata"]["ownerReferences"][0]["name"].clone()
    };
    assert_eq!((owner("copy"), owner("unused")), (json!("web-0"), json!("web")));
}

#[rstest]
#[case::its_pool_preserves_it("Offline", "Background", true)]
#[case::its_pool_does_not("Disabled", "Background", false)]
#[case::the_controller_discards_it("Offline", "Foreground", false)]
#[tokio::test]
async fn the_storage_of_a_machine_that_is_being_deleted_stays_if(
    #[case] preservation: &str,
    #[case] propagation: &str,
    #[case] stays: bool,
) {
    let world = LeaderWorld::new();
    let pool = world.server.create(
        POOLS,
        json!({
            "metadata": { "name": "web", "namespace": NAMESPACE, "finalizers": [FINALIZER] },
            "spec": {
                "replicas": 0,
                "selector": { "matchLabels": { "app": "web" } },
                "scaleInStrategy": { "proactive": { "statePreservation": preservation } },
                "virtualMachineTemplate": {
                    "metadata": { "labels": { "app": "web" } },
                    "spec": { "template": { "spec": {} } },
                },
            },
        }),
    );
    let owner = json!({ "apiVersion": "pool.kubevirt.io/v1beta1", "kind": "VirtualMachinePool", "name": "web",
        "uid": pool["metadata"]["uid"], "controller": true });
    let machine = world.server.create(
        MACHINES,
        json!({
            "metadata": { "name": "web-0", "namespace": NAMESPACE, "finalizers": [FINALIZER],
                "labels": { "app": "web" }, "ownerReferences": [owner] },
            "spec": { "dataVolumeTemplates": [{ "metadata": { "name": "root-0" }, "spec": {} }], "template": { "spec": {
                "volumes": [{ "name": "root", "dataVolume": { "name": "root-0" } }],
            } } },
        }),
    );
    let owner = json!({ "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": "web-0",
        "uid": machine["metadata"]["uid"], "controller": true });
    let metadata = json!({ "name": "root-0", "namespace": NAMESPACE, "ownerReferences": [owner] });
    world.server.create("datavolumes.cdi.kubevirt.io", json!({ "metadata": metadata, "spec": {} }));
    world.server.delete_with(MACHINES, "web-0", &json!({ "propagationPolicy": propagation }));
    assert_eq!(remove(&world).await.unwrap(), 2);
    world.server.collect_garbage();
    assert_eq!(world.server.get(MACHINES, "web-0"), None);
    assert_eq!(world.server.get("datavolumes.cdi.kubevirt.io", "root-0").is_some(), stays);
}

#[rstest]
#[case::there_is_none(false)]
#[case::another_process_leads(true)]
#[tokio::test]
async fn the_lease_is_taken_so_that_no_controller_adds_the_finalizers_again(#[case] is_held: bool) {
    let world = world();
    if is_held {
        world.server.create(
            LEASES,
            json!({
                "metadata": { "name": "vmpool-controller", "namespace": NAMESPACE },
                "spec": { "holderIdentity": "leader", "leaseDurationSeconds": 15, "leaseTransitions": 4 },
            }),
        );
    }
    remove(&world).await.unwrap();
    let lease = world.server.get(LEASES, "vmpool-controller").unwrap();
    assert_eq!(lease["spec"]["holderIdentity"], "uninstall");
    assert_eq!(lease["spec"]["leaseDurationSeconds"], 120);
}

/// Runs the removal with a lease of two minutes, and calls `meanwhile` before it begins with the objects.
async fn remove_slowly(
    world: &LeaderWorld,
    meanwhile: impl FnOnce(&LeaderWorld),
) -> Result<usize, UninstallError> {
    let (client, env) = (world.server.client(), world.env.clone());
    let (sender, mut receiver) = tokio::sync::oneshot::channel();
    let _task = world.env.spawn("uninstall", async move {
        let lease = LeaseConfig { duration: Duration::from_mins(2), ..lease() };
        let platforms = [PlatformName::Kubevirt];
        drop(sender.send(remove_finalizers(&client, &env, &lease, whole_cluster(&platforms)).await));
    });
    world.advance(Duration::from_secs(100)).await;
    meanwhile(world);
    world.advance(Duration::from_secs(40)).await;
    receiver.try_recv().unwrap()
}

#[tokio::test]
async fn no_controller_leads_until_two_minutes_after_the_removal() {
    let world = world();
    assert_eq!(remove_slowly(&world, |_| {}).await.unwrap(), 2);
    let lease = world.server.get(LEASES, "vmpool-controller").unwrap();
    let renewed: jiff::Timestamp = lease["spec"]["renewTime"].as_str().unwrap().parse().unwrap();
    let age = world.env.now().duration_since(renewed);
    assert!(
        age <= jiff::SignedDuration::from_secs(20),
        "it was renewed {age:?} ago, and the removal took 2 minutes"
    );
}

#[tokio::test]
async fn the_removal_fails_if_a_controller_takes_the_lease_meanwhile() {
    let world = world();
    let removed = remove_slowly(&world, |world| {
        world.server.edit(LEASES, "vmpool-controller", |lease| {
            lease["spec"]["holderIdentity"] = json!("leader");
        });
    });
    let error = removed.await.unwrap_err();
    assert!(error.to_string().starts_with("leader has taken the lease"), "{error}");
}

#[tokio::test]
async fn the_finalizers_stay_for_another_controller_that_serves_the_pools() {
    let world = world();
    let installation = json!({ "metadata": { "name": "kubevirt", "namespace": NAMESPACE }, "spec": {} });
    world.server.create("kubevirts.kubevirt.io", installation);
    assert_eq!(remove(&world).await.unwrap(), 0);
    assert!(world.finalizers(POOLS).contains(&FINALIZER.to_owned()));
}

#[tokio::test]
async fn disk_images_and_grants_lose_the_protection_that_no_controller_would_remove() {
    const GRANTS: &str = "vmdiskimagegrants.vmpool.dev";
    let world = world();
    let metadata = json!({ "name": "web", "namespace": NAMESPACE,
        "finalizers": ["example.com/mine", "vmpool.dev/vmdiskimage-protection"] });
    let spec = json!({ "sourceType": "blank", "diskSize": "1Gi" });
    world.server.create(IMAGES, json!({ "metadata": metadata, "spec": spec }));
    let metadata = json!({ "name": "web", "namespace": NAMESPACE,
        "finalizers": ["vmpool.dev/vmdiskimagegrant-protection", "example.com/mine"] });
    let spec = json!({ "from": [{ "namespace": "team-b" }] });
    world.server.create(GRANTS, json!({ "metadata": metadata, "spec": spec }));
    assert_eq!(remove(&world).await.unwrap(), 4);
    for resource in [IMAGES, GRANTS] {
        assert_eq!(world.finalizers(resource), ["example.com/mine"], "{resource}");
    }
}

/// A disk image with the finalizer.
fn create_image(world: &LeaderWorld, name: &str) -> Value {
    let metadata = json!({ "name": name, "namespace": NAMESPACE,
        "finalizers": ["vmpool.dev/vmdiskimage-protection"] });
    let spec = json!({ "sourceType": "blank", "diskSize": "1Gi" });
    world.server.create(IMAGES, json!({ "metadata": metadata, "spec": spec }))
}

#[tokio::test]
async fn the_data_of_disk_images_is_deleted_with_images_that_are_deleted_later() {
    const DATA: [&str; 3] = [
        "datavolumes.cdi.kubevirt.io",
        "volumesnapshots.snapshot.storage.k8s.io",
        "datasources.cdi.kubevirt.io",
    ];
    let world = world();
    for name in ["debian", "terminating"] {
        let image = create_image(&world, name);
        let labels = json!({ "vmpool.dev/vmdiskimage-uid": image["metadata"]["uid"] });
        for resource in DATA {
            for name in [name, "other"] {
                let metadata = json!({ "name": name, "namespace": NAMESPACE, "labels": labels });
                if world.server.get(resource, name).is_none() {
                    let object = json!({ "metadata": metadata, "spec": { "source": {} } });
                    world.server.create(resource, object);
                }
            }
        }
    }
    world.server.delete(IMAGES, "terminating");
    assert_eq!(remove(&world).await.unwrap(), 4);
    world.server.collect_garbage();
    let left = || DATA.map(|resource| world.server.all(resource).len());
    assert_eq!(left(), [3; 3], "nothing was deleted yet");
    // An object that has not the name of the image is no object of it, and an image that was being deleted
    // may be in use.
    world.server.delete(IMAGES, "debian");
    world.server.collect_garbage();
    assert_eq!(left(), [2; 3]);
    assert!(DATA.iter().all(|resource| world.server.get(resource, "terminating").is_some()));
}

#[tokio::test]
async fn data_without_its_label_gets_its_owner_and_data_in_another_namespace_none() {
    const SNAPSHOTS: &str = "volumesnapshots.snapshot.storage.k8s.io";
    let world = world();
    let image = create_image(&world, "debian");
    let snapshot = |namespace: &str, labels: Value| {
        let metadata = json!({ "name": "debian", "namespace": namespace, "labels": labels });
        world.server.create(SNAPSHOTS, json!({ "metadata": metadata, "spec": { "source": {} } }))
    };
    // A tool has removed the label, and the status records the object.
    let unlabeled = snapshot(NAMESPACE, json!({}));
    world.server.edit(IMAGES, "debian", |image| {
        image["status"] = json!({ "snapshot": { "name": "debian", "uid": unlabeled["metadata"]["uid"] } });
    });
    // A user has restored a backup into another namespace.
    snapshot("restored", json!({ "vmpool.dev/vmdiskimage-uid": image["metadata"]["uid"] }));
    remove(&world).await.unwrap();
    let owners = |namespace: &str| {
        let all = world.server.all(SNAPSHOTS);
        let found = all.iter().find(|object| object["metadata"]["namespace"] == namespace).cloned();
        found.unwrap()["metadata"]["ownerReferences"].clone()
    };
    assert_eq!(owners(NAMESPACE)[0]["uid"], image["metadata"]["uid"]);
    assert_eq!(owners("restored").as_array().map_or(0, Vec::len), 0);
}

/// No controller would withdraw it.
#[tokio::test]
async fn permissions_to_clone_are_deleted_with_their_images_that_are_deleted_now_or_later() {
    const PERMISSION: [&str; 2] =
        ["rolebindings.rbac.authorization.k8s.io", "roles.rbac.authorization.k8s.io"];
    let world = world();
    for name in ["debian", "terminating"] {
        let image = create_image(&world, name);
        let uid = image["metadata"]["uid"].as_str().unwrap();
        let labels = json!({ "vmpool.dev/vmdiskimage-uid": uid });
        for name in
            [vmpool_diskimage::clone_permission::clone_permission_name(uid), format!("of-a-user-{name}")]
        {
            for resource in PERMISSION {
                let metadata = json!({ "name": name, "namespace": NAMESPACE, "labels": labels });
                let role = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name });
                world.server.create(resource, json!({ "metadata": metadata, "roleRef": role, "rules": [] }));
            }
        }
    }
    world.server.delete(IMAGES, "terminating");
    remove(&world).await.unwrap();
    world.server.collect_garbage();
    let left = || PERMISSION.map(|resource| world.server.all(resource).len());
    assert_eq!(left(), [3; 2], "those of the image that is gone");
    world.server.delete(IMAGES, "debian");
    world.server.collect_garbage();
    assert_eq!(left(), [2; 2], "those of users");
}

#[tokio::test]
async fn instance_types_lose_the_finalizer_that_no_controller_would_remove() {
    const TYPES: &str = "virtualmachineinstancetypes.instancetype.kubevirt.io";
    const CLUSTER_TYPES: &str = "virtualmachineclusterinstancetypes.instancetype.kubevirt.io";
    let world = world();
    let finalizers = json!(["example.com/mine", "vmpool.dev/instancetype-protection"]);
    let spec = json!({ "cpu": { "guest": 1 }, "memory": { "guest": "1Gi" } });
    let metadata = json!({ "name": "web", "namespace": NAMESPACE, "finalizers": finalizers });
    world.server.create(TYPES, json!({ "metadata": metadata, "spec": spec }));
    let metadata = json!({ "name": "web", "finalizers": finalizers });
    world.server.create(CLUSTER_TYPES, json!({ "metadata": metadata, "spec": spec }));
    assert_eq!(remove(&world).await.unwrap(), 4);
    for resource in [TYPES, CLUSTER_TYPES] {
        assert_eq!(world.finalizers(resource), ["example.com/mine"], "{resource}");
    }
}
