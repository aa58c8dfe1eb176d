//! The two guides of `docs/kubevirt.md`: taking pools over from virt-controller, and handing them back. The
//! objects have the shape in which virt-controller stores them.

use super::*;
use crate::settings::KubevirtConditions;
use crate::testing::Call;

const REVISION: &str = "kubevirt.io/vm-pool-revision-name";
const INSTANCES: &str = "virtualmachineinstances.kubevirt.io";
const REVISIONS: &str = "controllerrevisions";
const FINALIZER: &str = "pool.kubevirt.io/finalizer";

/// The spec of the pool `herd`.
fn spec(replicas: usize, memory: &str) -> Value {
    json!({
        "nameGeneration": { "appendIndexToConfigMapRefs": true, "appendIndexToSecretRefs": true },
        "replicas": replicas,
        "selector": { "matchLabels": { "app": "herd" } },
        "virtualMachineTemplate": {
            "metadata": { "labels": { "app": "herd" } },
            "spec": machine_spec(memory, None),
        },
    })
}

/// The spec of a machine, for the template or with an ordinal.
fn machine_spec(memory: &str, ordinal: Option<usize>) -> Value {
    let of = |name: &str| ordinal.map_or_else(|| name.to_owned(), |ordinal| format!("{name}-{ordinal}"));
    json!({
        "dataVolumeTemplates": [{
            "metadata": { "name": of("root") },
            "spec": {
                "source": { "registry": { "url": "docker://alpine" } },
                "storage": { "resources": { "requests": { "storage": "1Gi" } } },
            },
        }],
        "runStrategy": "Always",
        "template": {
            "metadata": { "labels": { "app": "herd" } },
            "spec": {
                "domain": {
                    "devices": { "disks": [
                        { "disk": { "bus": "virtio" }, "name": "root" },
                        { "disk": {}, "name": "cm" },
                        { "disk": {}, "name": "sec" },
                    ] },
                    "resources": { "requests": { "memory": memory } },
                },
                "volumes": [
                    { "dataVolume": { "name": of("root") }, "name": "root" },
                    { "configMap": { "name": of("conf") }, "name": "cm" },
                    { "name": "sec", "secret": { "secretName": of("cred") } },
                ],
            },
        },
    })
}

fn owner(api_version: &str, uid: &str) -> Value {
    json!([{
        "apiVersion": api_version, "kind": "VirtualMachinePool", "name": "herd", "uid": uid,
        "controller": true, "blockOwnerDeletion": true,
    }])
}

fn installation(threads: Option<&str>) -> Value {
    let flags = threads.map(|threads| json!({ "pool-controller-threads": threads }));
    json!({
        "metadata": { "name": "kubevirt", "namespace": NAMESPACE },
        "spec": { "customizeComponents": { "flags": { "controller": flags } } },
        "status": { "phase": "Deployed", "observedGeneration": 1 },
    })
}

/// What virt-controller left: a pool that was created with two machines and scaled to three. The first
/// revision has a field of an old version, and the first machine an owner reference of one.
fn left_behind() -> LeaderWorld {
    let world = LeaderWorld::new();
    world.server.create(INSTALLATIONS, installation(Some("0")));
    let metadata = json!({ "name": "herd", "namespace": NAMESPACE, "finalizers": [FINALIZER] });
    let pool = world.server.create(KUBEVIRT_POOLS, json!({ "metadata": metadata, "spec": spec(2, "512Mi") }));
    world.server.edit(KUBEVIRT_POOLS, "herd", |pool| pool["spec"]["replicas"] = json!(3));
    world.server.edit(KUBEVIRT_POOLS, "herd", |pool| {
        pool["status"] = json!({ "labelSelector": "app=herd", "replicas": 3, "readyReplicas": 3 });
    });
    let uid = pool["metadata"]["uid"].as_str().unwrap();
    for generation in [1, 2] {
        let mut data = spec(generation + 1, "512Mi");
        if generation == 1 {
            data["scaleInStrategy"] =
                json!({ "proactive": { "selectionPolicy": { "basePolicy": "DescendingOrder" } } });
        }
        let name = format!("herd-{generation}");
        let owners = owner("pool.kubevirt.io/v1beta1", uid);
        let metadata = json!({ "name": name, "namespace": NAMESPACE, "ownerReferences": owners });
        world.server.create(REVISIONS, json!({ "metadata": metadata, "data": data, "revision": generation }));
    }
    for ordinal in 0..3 {
        let name = format!("herd-{ordinal}");
        let revision = if ordinal < 2 { "herd-1" } else { "herd-2" };
        let version = if ordinal == 0 { "pool.kubevirt.io/v1alpha1" } else { "pool.kubevirt.io/v1beta1" };
        let mut spec = machine_spec("512Mi", Some(ordinal));
        spec["template"]["metadata"]["labels"][REVISION] = json!(revision);
        let machine = json!({
            "metadata": {
                "name": name, "namespace": NAMESPACE,
                "finalizers": ["kubevirt.io/virtualMachineControllerFinalize", FINALIZER],
                "labels": { "app": "herd", REVISION: revision },
                "ownerReferences": owner(version, uid),
            },
            "spec": spec,
            "status": {
                "created": true, "ready": true, "printableStatus": "Running",
                "conditions": [{ "type": "Ready", "status": "True" }],
            },
        });
        let machine = world.server.create(KUBEVIRT_MACHINES, machine);
        let machine = machine["metadata"]["uid"].as_str().unwrap();
        let instance = json!({
            "metadata": {
                "name": name, "namespace": NAMESPACE,
                "labels": { "app": "herd", REVISION: revision },
                "ownerReferences": [{
                    "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": name, "uid": machine,
                    "controller": true, "blockOwnerDeletion": true,
                }],
            },
            "spec": {},
            "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] },
        });
        world.server.create(INSTANCES, instance);
    }
    world.server.take_log();
    world
}

fn writes(world: &LeaderWorld) -> Vec<Call> {
    world.take_writes().into_iter().filter(|call| call.resource != "leases").collect()
}

/// The conditions of the pool for clients that wait.
fn kstatus_conditions(world: &LeaderWorld) -> Vec<String> {
    let pool = world.server.get(KUBEVIRT_POOLS, "herd").unwrap();
    let conditions = pool["status"]["conditions"].as_array().into_iter().flatten();
    let kinds = conditions.filter_map(|condition| condition["type"].as_str());
    kinds.filter(|kind| ["Ready", "Reconciling", "Stalled"].contains(kind)).map(str::to_owned).collect()
}

#[tokio::test]
async fn taking_over_restarts_no_guest_and_writes_each_object_at_most_once() {
    let mut world = left_behind();
    // As with the definition of KubeVirt: the API server in memory keeps the fields of vmpool.
    world.settings.kubevirt_conditions = KubevirtConditions::Never;
    world.lead_all(KUBEVIRT);
    world.advance(60 * SECOND).await;
    assert_eq!(world.leader_health.platforms(), "kubevirt is reconciling");
    let writes = writes(&world);
    let text = format!("{writes:#?}");
    assert!(!writes.iter().any(|call| call.verb == Verb::Delete || call.verb == Verb::Create), "{text}");
    assert!(!writes.iter().any(|call| call.resource == "virtualmachineinstances"), "{text}");
    for call in &writes {
        let same = |other: &&Call| (&other.resource, &other.name) == (&call.resource, &call.name);
        assert_eq!(writes.iter().filter(same).count(), 1, "{text}");
    }
    assert_eq!(world.server.all(KUBEVIRT_MACHINES).len(), 3);
}

#[tokio::test]
async fn after_handing_back_virt_controller_finds_what_it_would_have_stored() {
    let mut world = left_behind();
    world.lead_all(KUBEVIRT);
    world.advance(10 * SECOND).await;
    assert_eq!(kstatus_conditions(&world), ["Ready", "Reconciling", "Stalled"]);
    // Given a machine that vmpool created.
    world.server.edit(KUBEVIRT_POOLS, "herd", |pool| pool["spec"]["replicas"] = json!(4));
    world.advance(10 * SECOND).await;
    // When the pool loop of virt-controller is on again,
    world.server.edit(INSTALLATIONS, "kubevirt", |installation| {
        installation["spec"] = self::installation(None)["spec"].clone();
    });
    world.advance(10 * SECOND).await;
    world.server.take_log();
    world.server.edit(KUBEVIRT_POOLS, "herd", |pool| pool["spec"]["replicas"] = json!(1));
    world.advance(60 * SECOND).await;
    // then vmpool changes nothing,
    assert!(world.leader_health.platforms().starts_with("kubevirt is blocked"));
    let writes = writes(&world);
    assert!(writes.is_empty(), "{writes:#?}");
    assert_eq!(kstatus_conditions(&world), [""; 0], "no controller would keep them up to date");
    // and each machine names a revision of the pool, in both of its labels, and has the finalizer and the
    // owner.
    let revisions = world.server.all(REVISIONS);
    let pool = &world.server.all(KUBEVIRT_POOLS)[0];
    let machines = world.server.all(KUBEVIRT_MACHINES);
    assert_eq!(machines.len(), 4);
    for machine in &machines {
        let revision = &machine["metadata"]["labels"][REVISION];
        assert_eq!(&machine["spec"]["template"]["metadata"]["labels"][REVISION], revision);
        let stored = revisions.iter().find(|stored| &stored["metadata"]["name"] == revision).unwrap();
        let owner = &stored["metadata"]["ownerReferences"][0];
        assert_eq!(owner["uid"], pool["metadata"]["uid"], "{stored}");
        assert_eq!(
            stored["data"]["virtualMachineTemplate"], pool["spec"]["virtualMachineTemplate"],
            "the template is current, so virt-controller updates nothing"
        );
        assert_eq!(revision, &json!(format!("herd-{}", stored["revision"])));
        let metadata = &machine["metadata"];
        assert!(metadata["finalizers"].as_array().unwrap().contains(&json!(FINALIZER)), "{metadata}");
        assert_eq!(metadata["ownerReferences"][0]["uid"], pool["metadata"]["uid"]);
    }
}
