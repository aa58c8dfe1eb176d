//! The pools whose fields are changed. Together they have nearly all fields.

use anyhow::Context;
use serde_json::{Value, json};
use vmpool_e2e::world::ScenarioWorld;
use vmpool_installation::installation::{CLASS, IMAGE};
use vmpool_installation::workspace_root;
use vmpool_invariants::platform::TestedPlatform;
use vmpool_test_cluster::control_plane::read_yaml_documents;

use super::schema::PoolField;

/// The pools, each without machines.
pub(super) fn hosts(world: &ScenarioWorld) -> anyhow::Result<Vec<Value>> {
    match world.platform() {
        TestedPlatform::Dvp => of_dvp(world),
        TestedPlatform::KubeVirt => of_kubevirt(world),
    }
}

/// The pool of a sample, without machines.
fn sample(world: &ScenarioWorld, file: &str) -> anyhow::Result<Value> {
    let sample = workspace_root().join("api/tests/samples").join(file);
    let mut pool = read_yaml_documents(&sample)?.into_iter().next().context("an empty sample")?;
    pool["metadata"] = json!({ "name": "full", "namespace": world.namespace() });
    pool["spec"]["replicas"] = json!(0);
    Ok(pool)
}

/// The fields of machines are no fields of the schema, so the machines are small. They have no DataVolumes,
/// whose names all pools would share.
fn of_kubevirt(world: &ScenarioWorld) -> anyhow::Result<Vec<Value>> {
    let mut full = sample(world, "kubevirt/accepted/pool-full.yaml")?;
    let plain = world.pool("plain").object();
    let metadata = full["spec"]["virtualMachineTemplate"]["metadata"].clone();
    full["spec"]["virtualMachineTemplate"] = plain["spec"]["virtualMachineTemplate"].clone();
    full["spec"]["virtualMachineTemplate"]["metadata"] = metadata;
    full["spec"]["paused"] = json!(false);
    let with = |name: &str, edit: &dyn Fn(&mut Value)| {
        let mut host = full.clone();
        host["metadata"]["name"] = json!(name);
        edit(&mut host["spec"]);
        host
    };
    Ok(vec![
        with("full", &|_| {}),
        plain,
        with("opportunistic", &|spec| {
            spec["scaleInStrategy"] = json!({ "opportunistic": { "statePreservation": "Offline" } });
            spec["updateStrategy"] = json!({ "opportunistic": {} });
        }),
        with("unmanaged", &|spec| {
            spec["scaleInStrategy"] = json!({ "unmanaged": {} });
            spec["updateStrategy"] = json!({ "unmanaged": {} });
        }),
    ])
}

fn of_dvp(world: &ScenarioWorld) -> anyhow::Result<Vec<Value>> {
    let mut full = sample(world, "accepted/pool-full.yaml")?;
    // A paused rollout would hide the effect of a change.
    full["spec"]["rollout"] = json!({ "maxUnavailable": "30%" });
    let spec = &mut full["spec"]["virtualMachineTemplate"]["spec"];
    spec["virtualMachineClassName"] = json!(CLASS);
    spec["terminationGracePeriodSeconds"] = json!(1);
    let with = |name: &str, edit: &dyn Fn(&mut Value)| {
        let mut host = full.clone();
        host["metadata"]["name"] = json!(name);
        edit(&mut host["spec"]);
        host
    };
    let source = |source: Value| {
        move |spec: &mut Value| spec["virtualDiskTemplates"][0]["spec"]["dataSource"] = source.clone()
    };
    let provisioning = |data: Value| {
        move |spec: &mut Value| spec["virtualMachineTemplate"]["spec"]["provisioning"] = data.clone()
    };
    let sums = json!({
        "md5": "0".repeat(32), "sha1": "0".repeat(40), "sha256": "0".repeat(64), "sha512": "0".repeat(128),
        "streebog256": "0".repeat(64), "streebog512": "0".repeat(128) });
    let http = json!({ "url": "https://images.example/a.qcow2", "caBundle": "YQ==", "checksum": sums });
    let container =
        json!({ "image": "images.example/a:1", "imagePullSecret": { "name": "pull" }, "caBundle": "YQ==" });
    let plain = world.pool("plain").disk("root").object();
    Ok(vec![
        with("full", &|_| {}),
        plain,
        with(
            "user-data",
            &provisioning(json!({ "type": "UserData", "userData": "#cloud-config\nusers: []\n" })),
        ),
        with(
            "user-data-ref",
            &provisioning(
                json!({ "type": "UserDataRef", "userDataRef": { "kind": "Secret", "name": "data" } }),
            ),
        ),
        with("http", &source(json!({ "type": "HTTP", "http": http }))),
        with("container", &source(json!({ "type": "ContainerImage", "containerImage": container }))),
        with(
            "object",
            &source(
                json!({ "type": "ObjectRef", "objectRef": { "kind": "ClusterVirtualImage", "name": IMAGE } }),
            ),
        ),
    ])
}

/// The pool for a change of the field: the first one with the field or with its closest parent.
pub(super) fn host_of<'h>(hosts: &'h [Value], field: &PoolField) -> &'h Value {
    let mut pointer = field.pointer.as_str();
    loop {
        if let Some(host) = hosts.iter().find(|host| host.pointer(pointer).is_some()) {
            return host;
        }
        let parent = pointer.rsplit_once('/').map(|(parent, _)| parent);
        pointer = parent.expect("every pool has a spec");
    }
}
