//! Claims of machines of KubeVirt pools, whose guests have the revision of their instance.

use rstest::rstest;
use serde_json::{Value, json};

use super::{assert_refused, body, machine};
use crate::testing::{
    ApiServerProcess, ApiServerWorld, NAMESPACE, RequestFault, TestResponse, Verb, request_as_alice,
};

const POOLS: &str = "virtualmachinepools.pool.kubevirt.io";
const MACHINES: &str = "virtualmachines.kubevirt.io";
const INSTANCES: &str = "virtualmachineinstances.kubevirt.io";
const REVISIONS: &str = "controllerrevisions.apps";
const REVISION: &str = "kubevirt.io/vm-pool-revision-name";

/// A template whose machines differ in the run strategy.
fn template(strategy: &str) -> Value {
    json!({ "metadata": { "labels": { "farm": "render" } }, "spec": { "runStrategy": strategy, "template": {} } })
}

/// A pool `web` at generation 4. Its template is that of revision `web-1`, which the user restored; the one
/// of `web-2` is another one, and `web-4` was stored for a change of the replicas. Each machine, the oldest
/// first, has a revision in its spec, and one in its instance.
fn pool(world: &ApiServerWorld, machines: &[(&str, &str)]) {
    world.server.store(|store| {
        let model = store.model();
        let metadata = json!({ "name": "web", "namespace": NAMESPACE, "generation": 4 });
        let spec = json!({ "replicas": machines.len(), "selector": { "matchLabels": { "farm": "render" } },
            "virtualMachineTemplate": template("Always") });
        let pool = model.create_now(POOLS, json!({ "metadata": metadata, "spec": spec })).unwrap();
        let owner = json!({ "apiVersion": "pool.kubevirt.io/v1beta1", "kind": "VirtualMachinePool",
            "name": "web", "uid": pool["metadata"]["uid"],
            "controller": true });
        for (name, strategy) in [("web-1", "Always"), ("web-2", "Manual"), ("web-4", "Always")] {
            let metadata =
                json!({ "name": name, "namespace": NAMESPACE, "ownerReferences": [owner.clone()] });
            let data = json!({ "replicas": 1, "virtualMachineTemplate": template(strategy) });
            model.create_now(REVISIONS, json!({ "metadata": metadata, "data": data, "revision": 1 })).unwrap();
        }
        for (index, (written, running)) in machines.iter().enumerate() {
            let labels = |revision: &str| json!({ (REVISION): revision });
            let metadata = json!({ "name": format!("web-{index}"), "namespace": NAMESPACE, "labels": labels(written),
                "creationTimestamp": format!("2026-01-01T00:00:{index:02}Z"), "ownerReferences": [owner.clone()] });
            let spec = json!({ "runStrategy": "Always", "template": { "metadata": { "labels": labels(written) } } });
            let status = json!({ "ready": true, "created": true, "printableStatus": "Running",
                "conditions": [{ "type": "Ready", "status": "True" }] });
            let machine = json!({ "metadata": metadata, "spec": spec, "status": status });
            let machine = model.create_now(MACHINES, machine).unwrap();
            let owner = json!({ "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
                "name": format!("web-{index}"),
                "uid": machine["metadata"]["uid"], "controller": true });
            let metadata = json!({ "name": format!("web-{index}"), "namespace": NAMESPACE, "labels": labels(running),
                "ownerReferences": [owner] });
            model.create_now(INSTANCES, json!({ "metadata": metadata })).unwrap();
        }
    });
}

/// What the controller says of the pool.
fn status(world: &ApiServerWorld, updated: usize, replicas: usize) {
    world.server.store(|store| {
        let set = |pool: &mut Value| {
            let generation = pool["metadata"]["generation"].clone();
            pool["status"] = json!({ "observedGeneration": generation, "replicas": replicas, "readyReplicas": replicas,
                "availableReplicas": replicas, "updatedReplicas": updated, "restartPendingReplicas": replicas - updated,
                "healedReplicas": 0, "currentRevision": "web-4", "labelSelector": "farm=render" });
        };
        store.model().edit_now(POOLS, NAMESPACE, "web", set).unwrap();
    });
}

async fn post(
    world: &ApiServerWorld,
    process: &ApiServerProcess,
    subresource: &str,
    body: &Value,
) -> TestResponse {
    let group = "kubevirt.subresources.vmpool.dev/v1alpha1";
    let path = format!("/apis/{group}/namespaces/{NAMESPACE}/virtualmachinepools/web/{subresource}");
    world.through(process.call(request_as_alice("POST", &path, &body.to_string()))).await.unwrap()
}

async fn claim(world: &ApiServerWorld, process: &ApiServerProcess, id: &str) -> TestResponse {
    post(world, process, "claim", &body(id)).await
}

async fn order(world: &ApiServerWorld, process: &ApiServerProcess, machines: usize) -> Vec<String> {
    let mut names = Vec::new();
    for id in 0..machines {
        names.push(machine(&claim(world, process, &format!("job-{id}")).await));
    }
    names
}

#[tokio::test]
async fn a_machine_whose_guest_has_the_current_template_is_claimed_first() {
    let world = ApiServerWorld::new(1);
    // The template of web-0 is updated and not in effect yet. Names do not tell which revision is current.
    pool(&world, &[("web-4", "web-2"), ("web-2", "web-2"), ("web-1", "web-1"), ("web-4", "web-4")]);
    status(&world, 2, 4);
    let claimed = order(&world, &world.process(1), 4).await;
    assert_eq!(claimed, ["web-2", "web-3", "web-0", "web-1"]);
}

#[tokio::test]
async fn without_the_fields_of_vmpool_in_the_status_the_revisions_are_read() {
    let world = ApiServerWorld::new(1);
    pool(&world, &[("web-2", "web-2"), ("web-1", "web-1")]);
    assert_eq!(order(&world, &world.process(1), 2).await, ["web-1", "web-0"]);
}

#[tokio::test]
async fn a_revision_of_another_pool_is_not_current() {
    let world = ApiServerWorld::new(1);
    pool(&world, &[("web-1", "web-1"), ("web-4", "web-4")]);
    world.server.store(|store| {
        let set = |revision: &mut Value| revision["metadata"]["ownerReferences"][0]["uid"] = json!("another");
        store.model().edit_now(REVISIONS, NAMESPACE, "web-1", set).unwrap();
    });
    assert_eq!(order(&world, &world.process(1), 2).await, ["web-1", "web-0"]);
}

#[tokio::test]
async fn while_all_guests_have_the_current_template_a_claim_reads_neither_instances_nor_revisions() {
    let world = ApiServerWorld::new(1);
    pool(&world, &[("web-1", "web-1"), ("web-4", "web-4")]);
    status(&world, 2, 2);
    let process = world.process(1);
    world.server.take_log();
    assert_eq!(machine(&claim(&world, &process, "job").await), "web-0");
    let resources: Vec<String> = world.server.take_log().into_iter().map(|call| call.resource).collect();
    let count = |wanted: &str| resources.iter().filter(|resource| *resource == wanted).count();
    // The addresses are those of one instance.
    assert_eq!((count("virtualmachineinstances"), count("controllerrevisions")), (1, 0), "{resources:?}");
}

#[rstest]
#[case::instances("virtualmachineinstances", Verb::List)]
#[case::revisions("controllerrevisions", Verb::Get)]
#[tokio::test]
async fn without_the_right_to_read_them_the_oldest_machine_is_claimed(
    #[case] resource: &'static str,
    #[case] verb: Verb,
) {
    let world = ApiServerWorld::new(1);
    pool(&world, &[("web-2", "web-2"), ("web-1", "web-1")]);
    world.server.intercept(move |call, _| {
        let is_refused = call.resource == resource && call.verb == verb;
        if is_refused { RequestFault::Refuse(403, "Forbidden") } else { RequestFault::None }
    });
    assert_eq!(machine(&claim(&world, &world.process(1), "job").await), "web-0");
}

/// The platform stops or restarts the guest in a moment, on the request of a user or of the controller.
#[tokio::test]
async fn a_machine_whose_guest_is_about_to_stop_is_not_claimed() {
    let world = ApiServerWorld::new(1);
    pool(&world, &[("web-1", "web-1")]);
    let request = |requests: Value| {
        let set = |machine: &mut Value| {
            machine["spec"]["runStrategy"] = json!("Manual");
            machine["status"]["stateChangeRequests"] = requests;
        };
        world.server.store(|store| store.model().edit_now(MACHINES, NAMESPACE, "web-0", set)).unwrap();
    };
    request(json!([{ "action": "Stop" }, { "action": "Start" }]));
    let process = world.process(1);
    assert_refused(&claim(&world, &process, "job").await, 409, "NoMachineAvailable");
    request(Value::Null);
    assert_eq!(machine(&claim(&world, &process, "job").await), "web-0");
}

/// A pool with state preservation would give it to the next machine with this ordinal.
#[tokio::test]
async fn a_replaced_machine_takes_its_storage_along() {
    let world = ApiServerWorld::new(1);
    pool(&world, &[("web-1", "web-1")]);
    let process = world.process(1);
    let first = claim(&world, &process, "job").await;
    let body = json!({ "id": "job", "machineUID": first.body["machine"]["uid"], "then": "Replace" });
    let released = post(&world, &process, "release", &body).await;
    assert_eq!(released.code.as_u16(), 200, "{}", released.body);
    let log = world.server.take_log();
    let deletes: Vec<_> = log.iter().filter(|call| call.verb == Verb::Delete).collect();
    assert_eq!(deletes.len(), 1, "{log:?}");
    assert_eq!(deletes[0].body["propagationPolicy"], "Foreground", "{}", deletes[0].body);
}
