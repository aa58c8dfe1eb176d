//! Expansion through the router, on the API server model.

use rstest::rstest;
use serde_json::{Value, json};

use crate::testing::{Answer, NAMESPACE, Process, World, ask, is_write};

const GROUP: &str = "/apis/kubevirt.subresources.vmpool.dev/v1alpha1/namespaces/team-a";

fn template() -> Value {
    json!({
        "runStrategy": "Always",
        "instancetype": { "name": "small", "kind": "VirtualMachineInstancetype" },
        "template": { "spec": { "domain": { "devices": {} } } },
    })
}

fn vm(name: &str) -> Value {
    let metadata = json!({ "name": name, "namespace": NAMESPACE });
    json!({ "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": metadata, "spec": template() })
}

fn pool() -> Value {
    json!({
        "apiVersion": "pool.kubevirt.io/v1beta1",
        "kind": "VirtualMachinePool",
        "metadata": { "name": "web", "namespace": NAMESPACE },
        "spec": {
            "replicas": 2,
            "selector": { "matchLabels": { "a": "b" } },
            "virtualMachineTemplate": { "metadata": { "labels": { "a": "b" } }, "spec": template() },
        },
    })
}

/// A world with machine `m`, pool `web` and the type that both name.
fn world() -> World {
    let world = World::new(1);
    world.server.store(|store| {
        let create = |resource: &str, object: Value| store.model().create_now(resource, object).unwrap();
        create("virtualmachines.kubevirt.io", vm("m"));
        create("virtualmachinepools.pool.kubevirt.io", pool());
        create(
            "virtualmachineinstancetypes.instancetype.kubevirt.io",
            json!({
                "apiVersion": "instancetype.kubevirt.io/v1beta1",
                "kind": "VirtualMachineInstancetype",
                "metadata": { "name": "small", "namespace": NAMESPACE },
                "spec": { "cpu": { "guest": 2 }, "memory": { "guest": "2048Mi" } },
            }),
        );
    });
    world
}

async fn call(world: &World, process: &Process, method: &str, path: &str, body: &str) -> Answer {
    world.through(process.call(ask(method, &format!("{GROUP}/{path}"), body))).await.unwrap()
}

fn memory(machine: &Value) -> &Value {
    &machine["spec"]["template"]["spec"]["domain"]["memory"]["guest"]
}

#[tokio::test]
async fn machines_and_pools_are_expanded_and_nothing_is_written() {
    let world = world();
    let process = world.process(1);
    let stored = call(&world, &process, "GET", "virtualmachines/m/expand-spec", "").await;
    let supplied = call(&world, &process, "PUT", "expand-vm-spec", &vm("m").to_string()).await;
    for answer in [&stored, &supplied] {
        assert_eq!(answer.code, 200, "{}", answer.body);
        assert_eq!(
            (&answer.body["kind"], memory(&answer.body)),
            (&json!("VirtualMachine"), &json!("2048Mi"))
        );
        assert_eq!(answer.body["spec"].get("instancetype"), None);
    }
    let stored = call(&world, &process, "GET", "virtualmachinepools/web/expand-spec", "").await;
    let supplied = call(&world, &process, "PUT", "expand-pool-spec", &pool().to_string()).await;
    for answer in [&stored, &supplied] {
        assert_eq!(answer.code, 200, "{}", answer.body);
        let template = &answer.body["spec"]["virtualMachineTemplate"];
        assert_eq!((memory(template), &answer.body["spec"]["replicas"]), (&json!("2048Mi"), &json!(2)));
    }
    let member = call(&world, &process, "GET", "virtualmachinepools/web/expand-spec?index=7", "").await;
    assert_eq!(
        (member.code.as_u16(), &member.body["metadata"]["name"]),
        (200, &json!("web-7")),
        "{}",
        member.body
    );
    assert!(!world.server.take_log().iter().any(is_write), "expansion has no side effects");
}

#[rstest]
#[case::no_such_machine("GET", "virtualmachines/x/expand-spec", "", 404, "")]
#[case::no_such_pool("GET", "virtualmachinepools/x/expand-spec", "", 404, "")]
#[case::no_such_revision("GET", "virtualmachinepools/web/expand-spec?revision=web-9", "", 404, "")]
#[case::an_empty_revision("GET", "virtualmachinepools/web/expand-spec?revision=", "", 400, "")]
#[case::a_negative_index("GET", "virtualmachinepools/web/expand-spec?index=-1", "", 400, "")]
#[case::an_index_that_is_no_number("GET", "virtualmachinepools/web/expand-spec?index=a", "", 400, "")]
#[case::an_empty_body("PUT", "expand-vm-spec", "", 400, "")]
#[case::no_json("PUT", "expand-vm-spec", "{", 400, "")]
#[case::another_kind("PUT", "expand-vm-spec", &pool().to_string(), 400, "apiVersion")]
#[case::another_kind_of_pool("PUT", "expand-pool-spec", &vm("m").to_string(), 400, "apiVersion")]
#[case::another_method("POST", "expand-vm-spec", "{}", 405, "")]
#[case::a_write_to_a_machine("PUT", "virtualmachines/m/expand-spec", "{}", 405, "")]
#[case::a_list("GET", "virtualmachines", "", 404, "")]
#[case::a_name_of_the_collection("PUT", "expand-vm-spec/m", "{}", 404, "")]
#[tokio::test]
async fn a_request_is_refused(
    #[case] method: &str,
    #[case] path: &str,
    #[case] body: &str,
    #[case] code: u16,
    #[case] field: &str,
) {
    let world = world();
    let answer = call(&world, &world.process(1), method, path, body).await;
    assert_eq!((answer.code.as_u16(), &answer.body["kind"]), (code, &json!("Status")), "{}", answer.body);
    if !field.is_empty() {
        assert_eq!(answer.body["details"]["causes"][0]["field"], field, "{}", answer.body);
    }
}

#[tokio::test]
async fn a_namespace_in_the_body_is_that_of_the_path() {
    let world = world();
    let process = world.process(1);
    let mut other = vm("m");
    other["metadata"]["namespace"] = json!("other");
    let answer = call(&world, &process, "PUT", "expand-vm-spec", &other.to_string()).await;
    assert_eq!(answer.code, 400, "{}", answer.body);
    other["metadata"] = json!({ "name": "m" });
    let answer = call(&world, &process, "PUT", "expand-vm-spec", &other.to_string()).await;
    assert_eq!(answer.code, 200, "{}", answer.body);
}

/// KubeVirt answers 500 for a stored machine, and 400 for one in the request.
#[rstest]
#[case::a_stored_machine(
    "GET",
    "virtualmachines/m/expand-spec",
    String::new(),
    500,
    "spec.instancetype.name"
)]
#[case::a_machine("PUT", "expand-vm-spec", vm("m").to_string(), 400, "spec.instancetype.name")]
#[case::a_stored_pool(
    "GET",
    "virtualmachinepools/web/expand-spec",
    String::new(),
    422,
    "spec.virtualMachineTemplate.spec.instancetype.name"
)]
#[case::a_pool(
    "PUT", "expand-pool-spec", pool().to_string(), 422, "spec.virtualMachineTemplate.spec.instancetype.name"
)]
#[tokio::test]
async fn a_missing_type_is_reported_with_its_field(
    #[case] method: &str,
    #[case] path: &str,
    #[case] body: String,
    #[case] code: u16,
    #[case] field: &str,
) {
    let world = world();
    world.server.store(|store| {
        let resource = "virtualmachineinstancetypes.instancetype.kubevirt.io";
        store.model().delete_now(resource, NAMESPACE, "small", Value::Null).unwrap();
    });
    let answer = call(&world, &world.process(1), method, path, &body).await;
    assert_eq!(answer.code.as_u16(), code, "{}", answer.body);
    let cause = &answer.body["details"]["causes"][0];
    assert_eq!((&cause["field"], &cause["reason"]), (&json!(field), &json!("FieldValueNotFound")));
}

#[tokio::test]
async fn expansion_is_for_platforms_with_instance_types() {
    let world = World::with_pool(1, 1);
    let path = "/apis/subresources.vmpool.dev/v1alpha1/namespaces/team-a/virtualmachinepools/web/expand-spec";
    let answer = world.through(world.process(1).call(ask("GET", path, ""))).await.unwrap();
    assert_eq!(answer.code, 404, "{}", answer.body);
}
