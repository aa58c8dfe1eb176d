//! Expansion through the router, on the API server model.

mod foreign;

use std::time::Duration;

use http::HeaderName;
use http::header::{ACCEPT, CONTENT_TYPE};
use rstest::rstest;
use serde_json::{Value, json};

use crate::body::MAX_LENGTH;
use crate::testing::{
    ApiServerProcess, ApiServerWorld, Call, NAMESPACE, RequestFault, TestResponse, is_write, request_as_alice,
};

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
fn world() -> ApiServerWorld {
    let world = ApiServerWorld::new(1);
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

async fn call(
    world: &ApiServerWorld,
    process: &ApiServerProcess,
    method: &str,
    path: &str,
    body: &str,
) -> TestResponse {
    call_in(world, process, GROUP, (method, path, body)).await
}

async fn call_in(
    world: &ApiServerWorld,
    process: &ApiServerProcess,
    group: &str,
    (method, path, body): (&str, &str, &str),
) -> TestResponse {
    world.through(process.call(request_as_alice(method, &format!("{group}/{path}"), body))).await.unwrap()
}

/// The group of KubeVirt, in a cluster without it.
const REFERENCE: [&str; 2] = [
    "/apis/subresources.kubevirt.io/v1/namespaces/team-a",
    "/apis/subresources.kubevirt.io/v1alpha3/namespaces/team-a",
];

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
        assert_eq!((&answer.body["kind"], memory(&answer.body)), (&json!("VirtualMachine"), &json!("2Gi")));
        assert_eq!(answer.body["spec"].get("instancetype"), None);
    }
    let stored = call(&world, &process, "GET", "virtualmachinepools/web/expand-spec", "").await;
    let supplied = call(&world, &process, "PUT", "expand-pool-spec", &pool().to_string()).await;
    for (answer, expected) in [(&stored, "2048Mi"), (&supplied, "2Gi")] {
        assert_eq!(answer.code, 200, "{}", answer.body);
        let template = &answer.body["spec"]["virtualMachineTemplate"];
        assert_eq!((memory(template), &answer.body["spec"]["replicas"]), (&json!(expected), &json!(2)));
    }
    let machine = call(&world, &process, "GET", "virtualmachinepools/web/expand-spec?index=7", "").await;
    assert_eq!(
        (machine.code.as_u16(), &machine.body["metadata"]["name"]),
        (200, &json!("web-7")),
        "{}",
        machine.body
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
    let world = ApiServerWorld::with_pool(1, 1);
    let path = "/apis/subresources.vmpool.dev/v1alpha1/namespaces/team-a/virtualmachinepools/web/expand-spec";
    let answer = world.through(world.process(1).call(request_as_alice("GET", path, ""))).await.unwrap();
    assert_eq!(answer.code, 404, "{}", answer.body);
}

/// Every response for machines, successful or not, is the same in all groups and versions.
#[rstest]
#[case::a_stored_machine("GET", "virtualmachines/m/expand-spec", "", 200)]
#[case::a_machine("PUT", "expand-vm-spec", &vm("m").to_string(), 200)]
#[case::a_machine_of_another_name("PUT", "expand-vm-spec", &vm("other").to_string(), 200)]
#[case::no_such_machine("GET", "virtualmachines/x/expand-spec", "", 404)]
#[case::no_valid_name("GET", "virtualmachines/..%2Fm/expand-spec", "", 404)]
#[case::an_empty_body("PUT", "expand-vm-spec", "", 400)]
#[case::no_json("PUT", "expand-vm-spec", "{", 400)]
#[case::another_kind("PUT", "expand-vm-spec", &pool().to_string(), 400)]
#[case::no_such_type("PUT", "expand-vm-spec", &vm("m").to_string().replace("small", "large"), 400)]
#[case::another_method("POST", "expand-vm-spec", "{}", 405)]
#[case::a_write_to_a_machine("PUT", "virtualmachines/m/expand-spec", "{}", 405)]
#[case::too_long("PUT", "expand-vm-spec", &" ".repeat(MAX_LENGTH + 1), 413)]
#[tokio::test]
async fn the_group_of_kubevirt_has_the_same_responses(
    #[case] method: &str,
    #[case] path: &str,
    #[case] body: &str,
    #[case] code: u16,
) {
    let world = world();
    let process = world.standalone().await;
    let own = call(&world, &process, method, path, body).await;
    assert_eq!(own.code.as_u16(), code, "{}", own.body);
    for group in REFERENCE {
        let answer = call_in(&world, &process, group, (method, path, body)).await;
        assert_eq!((answer.code, &answer.body), (own.code, &own.body), "{group}");
        assert_eq!(answer.headers[CONTENT_TYPE], own.headers[CONTENT_TYPE]);
    }
}

#[rstest]
#[case("GET", "virtualmachinepools/web/expand-spec")]
#[case("PUT", "expand-pool-spec")]
#[case("GET", "virtualmachinepools/web")]
#[case("POST", "virtualmachinepools/web/scaledownwith")]
#[case("POST", "virtualmachinepools/web/claim")]
#[case("GET", "virtualmachines/m")]
#[tokio::test]
async fn the_group_of_kubevirt_has_nothing_else(#[case] method: &str, #[case] path: &str) {
    let world = world();
    let process = world.standalone().await;
    for group in REFERENCE {
        let answer = call_in(&world, &process, group, (method, path, &pool().to_string())).await;
        assert_eq!(answer.code, 404, "{group}: {}", answer.body);
    }
}

#[tokio::test]
async fn other_media_types_are_refused_in_every_group() {
    let world = world();
    let process = world.standalone().await;
    for group in [GROUP, REFERENCE[0], REFERENCE[1]] {
        let request = |name: HeaderName, value: &str| {
            let mut request =
                request_as_alice("PUT", &format!("{group}/expand-vm-spec"), &vm("m").to_string());
            request.headers_mut().insert(name, value.parse().unwrap());
            request
        };
        let answer = world.through(process.call(request(CONTENT_TYPE, "application/yaml"))).await.unwrap();
        assert_eq!(answer.code, 415, "{group}");
        let answer = world.through(process.call(request(ACCEPT, "application/yaml"))).await.unwrap();
        assert_eq!(answer.code, 406, "{group}");
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
        let answer = world.through(process.call(request(ACCEPT, table))).await.unwrap();
        assert_eq!(answer.code, 200, "{group}: kubectl accepts plain JSON as well");
    }
}

/// The right is that of the requested group, so a role for one group grants nothing in another.
#[rstest]
#[case("GET", "virtualmachines/m/expand-spec", "get", "virtualmachines", "expand-spec")]
#[case("PUT", "expand-vm-spec", "update", "expand-vm-spec", "")]
#[case("GET", "virtualmachinepools/web/expand-spec", "get", "virtualmachinepools", "expand-spec")]
#[case("PUT", "expand-pool-spec", "update", "expand-pool-spec", "")]
#[tokio::test]
async fn the_right_is_that_of_the_requested_group(
    #[case] method: &str,
    #[case] path: &str,
    #[case] verb: &str,
    #[case] resource: &str,
    #[case] subresource: &str,
) {
    let world = world();
    let process = world.standalone().await;
    for (group, name, version) in [
        (GROUP, "kubevirt.subresources.vmpool.dev", "v1alpha1"),
        (REFERENCE[0], "subresources.kubevirt.io", "v1"),
        (REFERENCE[1], "subresources.kubevirt.io", "v1alpha3"),
    ] {
        if resource.contains("pool") && group != GROUP {
            continue;
        }
        world.server.deny(None);
        world.server.take_log();
        call_in(&world, &process, group, (method, path, &vm("m").to_string())).await;
        let log = world.server.take_log();
        let review = log.iter().find(|call| call.resource == "subjectaccessreviews").unwrap();
        let attributes = &review.body["spec"]["resourceAttributes"];
        let field = |name: &str| attributes[name].as_str().unwrap_or_default();
        assert_eq!(
            ["group", "version", "verb", "resource", "subresource", "namespace"].map(field),
            [name, version, verb, resource, subresource, NAMESPACE]
        );
        let name_of_object = path.split('/').nth(1).unwrap_or_default();
        assert_eq!(field("name"), name_of_object);
        // A denial is not cached for another group, and nothing is read before it.
        world.server.deny(Some(""));
        world.clock.advance(Duration::from_secs(6)).await;
        world.server.take_log();
        let answer = call_in(&world, &process, group, (method, path, &vm("m").to_string())).await;
        assert_eq!(answer.code, 403, "{}", answer.body);
        let message = answer.body["message"].as_str().unwrap();
        assert!(message.contains(&format!("in API group \"{name}\"")), "{message}");
        let reads = |call: &Call| !["subjectaccessreviews", "kubevirts"].contains(&&*call.resource);
        assert!(!world.server.take_log().iter().any(reads));
    }
}

#[tokio::test]
async fn requests_in_all_groups_are_counted_together() {
    let world = world();
    let process = world.standalone().await;
    for group in [GROUP, REFERENCE[0], REFERENCE[1]] {
        call_in(&world, &process, group, ("GET", "virtualmachines/m/expand-spec", "")).await;
        call_in(&world, &process, group, ("PUT", "expand-vm-spec", "{")).await;
    }
    let page = process.metrics.page();
    for labels in
        [r#"resource="virtualmachines/expand-spec",code="200""#, r#"resource="expand-vm-spec",code="400""#]
    {
        let line = format!("vmpool_expand_requests_total{{{labels}}} 3");
        assert!(page.contains(&line), "{line} is not on the page:\n{page}");
    }
}

/// How a request names its machine: it is stored, or in the body.
#[derive(Clone, Copy, PartialEq)]
enum How {
    Stored,
    Supplied,
}

/// Expands a machine in the complete form.
async fn expand(
    world: &ApiServerWorld,
    process: &ApiServerProcess,
    how: How,
    machine: &Value,
) -> TestResponse {
    expand_in_form(world, process, how, "?complete=true", machine).await
}

/// Expands a machine with these parameters.
async fn expand_in_form(
    world: &ApiServerWorld,
    process: &ApiServerProcess,
    how: How,
    query: &str,
    machine: &Value,
) -> TestResponse {
    if how == How::Supplied {
        return call(world, process, "PUT", &format!("expand-vm-spec{query}"), &machine.to_string()).await;
    }
    world.server.store(|store| {
        let resource = "virtualmachines.kubevirt.io";
        let _ = store.model().delete_now(resource, NAMESPACE, "m", Value::Null);
        store.model().create_now(resource, machine.clone()).unwrap();
    });
    call(world, process, "GET", &format!("virtualmachines/m/expand-spec{query}"), "").await
}

/// A machine whose preference requires 64 vCPUs, and which wants an input device.
#[rstest]
#[case::by_default("", 200)]
#[case::as_kubevirt("?complete=false", 200)]
#[case::complete("?complete=true", 400)]
#[case::no_flag("?complete=yes", 400)]
#[tokio::test]
async fn only_the_complete_form_checks_requirements_and_adds_input_devices(
    #[case] query: &str,
    #[case] code: u16,
) {
    let (world, how) = (world_with_types(), How::Supplied);
    let process = world.process(1);
    let devices = json!({ "autoattachInputDevice": true });
    let template = json!({ "spec": { "domain": { "devices": devices } } });
    let named = with_spec(&json!({ "preference": { "name": "large" }, "template": template }));
    let answer = expand_in_form(&world, &process, how, query, &named).await;
    assert_eq!(answer.code.as_u16(), code, "{}", answer.body);
    let other = with_spec(&json!({ "template": template }));
    let answer = expand_in_form(&world, &process, how, query, &other).await;
    let devices = &answer.body["spec"]["template"]["spec"]["domain"]["devices"];
    assert_eq!(devices.get("inputs").is_some(), query == "?complete=true", "{}", answer.body);
    if answer.code == 200 {
        let expected = if query == "?complete=true" { "2048Mi" } else { "2Gi" };
        assert_eq!(memory(&answer.body), expected);
        let again = expand_in_form(&world, &process, how, query, &answer.body).await;
        assert_eq!((again.code.as_u16(), &again.body), (200, &answer.body));
    }
}

#[rstest]
#[case::a_machine("virtualmachines/m/expand-spec", "spec.template.spec")]
#[case::a_pool("virtualmachinepools/web/expand-spec", "spec.virtualMachineTemplate.spec.template.spec")]
#[tokio::test]
async fn a_conflict_is_reported_in_the_words_of_kubevirt(#[case] path: &str, #[case] base: &str) {
    let world = world();
    let domain = json!({ "devices": {}, "cpu": { "cores": 2 }, "memory": { "guest": "1Gi" } });
    let machine = with_spec(&json!({ "template": { "spec": { "domain": domain } } }));
    let mut pool = pool();
    pool["spec"]["virtualMachineTemplate"]["spec"] = machine["spec"].clone();
    world.server.store(|store| {
        for (resource, name, object) in [
            ("virtualmachines.kubevirt.io", "m", machine),
            ("virtualmachinepools.pool.kubevirt.io", "web", pool),
        ] {
            store.model().delete_now(resource, NAMESPACE, name, Value::Null).unwrap();
            store.model().create_now(resource, object).unwrap();
        }
    });
    let answer = call(&world, &world.process(1), "GET", path, "").await;
    let message = format!(
        "VM field(s) {base}.domain.cpu.cores, {base}.domain.memory.guest conflicts with selected instance type"
    );
    assert_eq!(answer.body["message"], message, "{}", answer.body);
}

fn with_spec(change: &Value) -> Value {
    let mut machine = vm("m");
    for (field, value) in change.as_object().unwrap() {
        machine["spec"][field] = value.clone();
    }
    machine
}

/// Each row of the table of errors: what the machine names, and the field of the cause. The codes are
/// KubeVirt's.
#[rstest]
#[case::instance_type_not_found(
    json!({ "instancetype": { "name": "x" } }), "spec.instancetype.name", "FieldValueNotFound"
)]
#[case::preference_not_found(
    json!({ "preference": { "name": "x", "kind": "VirtualMachinePreference" } }), "spec.preference.name",
    "FieldValueNotFound"
)]
#[case::revision_not_found(
    json!({ "instancetype": { "name": "small", "revisionName": "x" } }), "spec.instancetype.revisionName",
    "FieldValueNotFound"
)]
#[case::conflict(
    json!({ "template": { "spec": { "domain": { "devices": {}, "memory": { "guest": "1Gi" } } } } }),
    "spec.template.spec.domain.memory.guest", "FieldValueInvalid"
)]
#[case::uneven_spread(
    json!({ "preference": { "name": "spread" }, "instancetype": { "name": "odd" } }), "instancetype.spec.cpu.guest",
    "FieldValueInvalid"
)]
#[case::unmet_requirement(
    json!({ "preference": { "name": "large" } }), "spec.instancetype", "FieldValueNotFound"
)]
#[case::unknown_kind(
    json!({ "instancetype": { "name": "small", "kind": "Secret" } }), "spec.instancetype.kind", "FieldValueNotFound"
)]
#[case::no_name(json!({ "instancetype": {} }), "spec.instancetype", "FieldValueNotFound")]
#[case::name_and_volume(
    json!({ "instancetype": { "name": "small", "inferFromVolume": "root" } }), "spec.instancetype.name",
    "FieldValueNotSupported"
)]
#[case::kind_and_volume(
    json!({ "instancetype": { "kind": "VirtualMachineInstancetype", "inferFromVolume": "root" } }),
    "spec.instancetype.kind", "FieldValueNotSupported"
)]
#[case::unknown_policy(
    json!({ "instancetype": { "inferFromVolume": "root", "inferFromVolumeFailurePolicy": "Perhaps" } }),
    "spec.instancetype.inferFromVolumeFailurePolicy", "FieldValueInvalid"
)]
#[case::no_such_volume(
    json!({ "instancetype": { "inferFromVolume": "x" } }), "spec.instancetype.inferFromVolume", "FieldValueNotFound"
)]
#[tokio::test]
async fn what_does_not_fit_is_reported_with_its_field(
    #[values(How::Stored, How::Supplied)] how: How,
    #[case] change: Value,
    #[case] field: &str,
    #[case] reason: &str,
) {
    let world = world_with_types();
    let answer = expand(&world, &world.process(1), how, &with_spec(&change)).await;
    let code = if how == How::Stored { 500 } else { 400 };
    assert_eq!((answer.code.as_u16(), &answer.body["kind"]), (code, &json!("Status")), "{}", answer.body);
    assert_eq!(answer.body["apiVersion"], "v1");
    let cause = &answer.body["details"]["causes"][0];
    assert_eq!((&cause["field"], &cause["reason"]), (&json!(field), &json!(reason)), "{}", answer.body);
    let message = answer.body["message"].as_str().unwrap();
    assert!(
        message.contains(field) || !field.starts_with("spec.template"),
        "a message about a conflict names the field: {message}"
    );
}

/// [`world`] with more types of the cluster, preferences, and a claim whose labels name them.
fn world_with_types() -> ApiServerWorld {
    let world = world();
    world.server.store(|store| {
        let create = |kind: &str, name: &str, spec: Value| {
            let resource = format!("{}s.instancetype.kubevirt.io", kind.to_lowercase());
            let object = json!({
                "apiVersion": "instancetype.kubevirt.io/v1beta1", "kind": kind, "metadata": { "name": name },
                "spec": spec,
            });
            store.model().create_now(&resource, object).unwrap();
        };
        let odd = json!({ "cpu": { "guest": 3 }, "memory": { "guest": "1Gi" } });
        create("VirtualMachineClusterInstancetype", "odd", odd);
        let spread = json!({ "cpu": { "preferredCPUTopology": "spread" } });
        create("VirtualMachineClusterPreference", "spread", spread);
        let large = json!({ "requirements": { "cpu": { "guest": 8 } } });
        create("VirtualMachineClusterPreference", "large", large);
        let devices = json!({
            "preferredAutoattachInputDevice": true, "preferredAutoattachPodInterface": false,
            "preferredInputBus": "virtio", "preferredInputType": "keyboard",
        });
        create("VirtualMachineClusterPreference", "desktop", json!({ "devices": devices }));
        let claim = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": { "name": "disk", "namespace": NAMESPACE, "labels": {
                "instancetype.kubevirt.io/default-instancetype": "small",
                "instancetype.kubevirt.io/default-instancetype-kind": "VirtualMachineInstancetype",
                "instancetype.kubevirt.io/default-preference": "desktop",
            } },
            "spec": {},
        });
        store.model().create_now("persistentvolumeclaims", claim).unwrap();
    });
    world
}

/// A machine that names only a volume, which is inferred first.
#[tokio::test]
async fn what_the_volume_names_is_expanded() {
    let volumes = json!([{ "name": "root", "persistentVolumeClaim": { "claimName": "disk" } }]);
    let machine = with_spec(&json!({
        "instancetype": { "inferFromVolume": "root" },
        "preference": { "inferFromVolume": "root" },
        "template": { "spec": { "domain": { "devices": {} }, "volumes": volumes } },
    }));
    let world = world_with_types();
    let process = world.process(1);
    let mut answers = Vec::new();
    for how in [How::Stored, How::Supplied] {
        let answer = expand(&world, &process, how, &machine).await;
        assert_eq!((answer.code.as_u16(), memory(&answer.body)), (200, &json!("2048Mi")), "{}", answer.body);
        let spec = &answer.body["spec"];
        assert_eq!((spec.get("instancetype"), spec.get("preference")), (None, None));
        let devices = &spec["template"]["spec"]["domain"]["devices"];
        let input = json!([{ "name": "default-0", "bus": "virtio", "type": "keyboard" }]);
        assert_eq!(devices["inputs"], input, "the input device is added before the preference is applied");
        assert_eq!(devices.get("interfaces"), None, "the preference refuses the default interface");
        assert_eq!(devices["disks"][0]["name"], "root", "the volume has a disk");
        answers.push(answer.body["spec"].clone());
        // The expansion of an expansion is the same.
        let again = expand(&world, &process, How::Supplied, &answer.body).await;
        assert_eq!((again.code.as_u16(), &again.body), (200, &answer.body));
    }
    assert_eq!(answers[0], answers[1]);
}

/// What the KubeVirt object of a cluster configures is in the expansion, and what it does not show is left
/// out.
#[rstest]
#[case::no_kubevirt(None, json!([{ "name": "default", "bridge": {} }]), None)]
#[case::no_configuration(Some(json!({})), json!([{ "name": "default", "bridge": {} }]), Some("q35"))]
#[case::masquerade(
    Some(json!({ "network": { "defaultNetworkInterface": "masquerade" } })),
    json!([{ "name": "default", "masquerade": {} }]), Some("q35")
)]
#[case::an_unknown_binding(
    Some(json!({ "network": { "defaultNetworkInterface": "slirp" } })), Value::Null, Some("q35")
)]
#[case::another_machine_type(
    Some(json!({ "architectureConfiguration": { "amd64": { "machineType": "q35-9" } } })),
    json!([{ "name": "default", "bridge": {} }]), Some("q35-9")
)]
#[tokio::test]
async fn a_machine_gets_what_the_cluster_adds_to_it(
    #[values(How::Stored, How::Supplied)] how: How,
    #[case] configuration: Option<Value>,
    #[case] interfaces: Value,
    #[case] machine_type: Option<&str>,
) {
    let world = world();
    if let Some(configuration) = configuration {
        world.server.store(|store| {
            let installation = json!({
                "apiVersion": "kubevirt.io/v1", "kind": "KubeVirt",
                "metadata": { "name": "kubevirt", "namespace": "kubevirt" },
                "spec": { "configuration": configuration },
                "status": { "defaultArchitecture": "amd64" },
            });
            store.model().create_now("kubevirts.kubevirt.io", installation).unwrap();
        });
    }
    let process = world.process(1);
    let answer = expand(&world, &process, how, &vm("m")).await;
    assert_eq!(answer.code, 200, "{}", answer.body);
    let domain = &answer.body["spec"]["template"]["spec"]["domain"];
    assert_eq!(domain["devices"].get("interfaces").unwrap_or(&Value::Null), &interfaces);
    assert_eq!(domain["machine"]["type"].as_str(), machine_type);
    let again = expand(&world, &process, How::Supplied, &answer.body).await;
    assert_eq!((again.code.as_u16(), &again.body), (200, &answer.body));
}

/// The defaults are read only for machines that name a type: others stay as they are.
#[tokio::test]
async fn an_unreadable_configuration_fails_only_expansions_that_need_it() {
    let world = world();
    let process = world.process(1);
    world.server.intercept(|call, _| match &*call.resource {
        "kubevirts" => RequestFault::Refuse(403, "Forbidden"),
        _ => RequestFault::None,
    });
    let answer = call(&world, &process, "GET", "virtualmachines/m/expand-spec", "").await;
    assert_eq!(answer.code, 500, "{}", answer.body);
    assert!(answer.body["message"].as_str().unwrap().contains("kubevirts.kubevirt.io"), "{}", answer.body);
    for path in ["virtualmachinepools/web/expand-spec", "virtualmachinepools/web/expand-spec?index=1"] {
        assert_eq!(call(&world, &process, "GET", path, "").await.code, 200);
    }
    let mut bare = vm("m");
    bare["spec"].as_object_mut().unwrap().remove("instancetype");
    assert_eq!(expand(&world, &process, How::Supplied, &bare).await.code, 200);
}

#[rstest]
#[tokio::test]
async fn a_machine_that_names_nothing_is_returned_unchanged(#[values(How::Stored, How::Supplied)] how: How) {
    let world = world();
    let mut machine = vm("m");
    machine["spec"].as_object_mut().unwrap().remove("instancetype");
    machine["spec"]["unknown"] = json!({ "field": ["kept"] });
    machine["status"] = json!({ "ready": true });
    let answer = expand(&world, &world.process(1), how, &machine).await;
    assert_eq!(answer.code, 200, "{}", answer.body);
    assert_eq!(answer.body["spec"], machine["spec"]);
    if how == How::Supplied {
        assert_eq!(answer.body, machine);
    }
}

#[tokio::test]
async fn a_missing_machine_is_reported_in_the_group_of_kubevirt() {
    let world = world();
    let answer = call(&world, &world.process(1), "GET", "virtualmachines/x/expand-spec", "").await;
    assert_eq!(answer.body["message"], "virtualmachine.kubevirt.io \"x\" not found");
    let details = &answer.body["details"];
    assert_eq!((&details["group"], &details["kind"]), (&json!("kubevirt.io"), &json!("virtualmachine")));
}

#[tokio::test]
async fn each_violation_of_the_schema_is_a_cause() {
    let world = world();
    let mut machine = vm("m");
    machine["spec"]["running"] = json!("yes");
    machine["spec"]["template"] = json!(5);
    let answer = call(&world, &world.process(1), "PUT", "expand-vm-spec", &machine.to_string()).await;
    assert_eq!(
        (answer.code.as_u16(), &answer.body["reason"]),
        (400, &json!("BadRequest")),
        "{}",
        answer.body
    );
    let causes = answer.body["details"]["causes"].as_array().unwrap();
    let fields: Vec<&Value> = causes.iter().map(|cause| &cause["field"]).collect();
    assert_eq!(fields, ["spec.running", "spec.template"]);
    assert!(causes.iter().all(|cause| cause["reason"] == "FieldValueInvalid"));
}

/// A request can name any ControllerRevision of its namespace, also one that the caller may not read.
#[rstest]
#[case::of_another_controller(json!({ "spec": { "template": { "password": "hunter2" } } }))]
#[case::of_another_kind(json!({ "apiVersion": "v1", "kind": "Secret", "data": { "password": "hunter2" } }))]
#[case::of_text(json!("hunter2"))]
#[case::of_a_list(json!(["hunter2"]))]
#[case::like_the_first_version(json!({ "apiVersion": "instancetype.kubevirt.io/v1alpha1", "spec": "hunter2" }))]
#[case::like_an_instance_type(json!({
    "apiVersion": "instancetype.kubevirt.io/v1beta1", "kind": "VirtualMachineInstancetype",
    "metadata": { "name": "small" }, "spec": { "cpu": { "guest": "hunter2" }, "memory": { "guest": "hunter2" } },
}))]
#[case::like_an_old_preference(json!({
    "apiVersion": "instancetype.kubevirt.io/v1alpha2", "kind": "VirtualMachinePreference",
    "metadata": { "name": "hunter2" }, "spec": { "cpu": { "preferredCPUTopology": ["hunter2"] } },
}))]
#[tokio::test]
async fn the_data_of_another_revision_is_not_quoted(
    #[values(How::Stored, How::Supplied)] how: How,
    #[values("instancetype", "preference")] matcher: &str,
    #[case] data: Value,
) {
    let world = world();
    world.server.store(|store| {
        let revision = json!({
            "apiVersion": "apps/v1", "kind": "ControllerRevision",
            "metadata": { "name": "theirs", "namespace": NAMESPACE }, "revision": 1, "data": data,
        });
        store.model().create_now("controllerrevisions.apps", revision).unwrap();
    });
    let kind =
        if matcher == "preference" { "VirtualMachinePreference" } else { "VirtualMachineInstancetype" };
    let named = json!({ "name": "small", "kind": kind, "revisionName": "theirs" });
    let answer = expand(&world, &world.process(1), how, &with_spec(&json!({ matcher: named }))).await;
    assert!(answer.code.as_u16() >= 400, "{}", answer.body);
    assert!(!answer.body.to_string().contains("hunter2"), "{}", answer.body);
    let field = &answer.body["details"]["causes"][0]["field"];
    assert!(
        field.as_str().is_some_and(|field| field.starts_with(&format!("spec.{matcher}."))),
        "{}",
        answer.body
    );
}

/// Which input device a machine gets.
#[rstest]
#[case::nothing_set(Value::Null, None, json!([]), json!([]))]
#[case::preferred(Value::Null, Some(true), json!([]), json!(["default-0"]))]
#[case::refused_by_the_machine(json!(false), Some(true), json!([]), json!([]))]
#[case::wanted_by_the_machine(json!(true), Some(false), json!([]), json!(["default-0"]))]
#[case::wanted_without_a_preference(json!(true), None, json!([]), json!(["default-0"]))]
#[case::listed(json!(true), Some(true), json!([{ "name": "mine" }]), json!(["mine"]))]
#[case::listed_without_a_preference(json!(true), None, json!([{ "name": "a" }, { "name": "b" }]), json!(["a", "b"]))]
#[tokio::test]
async fn an_input_device_is_added(
    #[values(How::Stored, How::Supplied)] how: How,
    #[case] flag: Value,
    #[case] preferred: Option<bool>,
    #[case] inputs: Value,
    #[case] expected: Value,
) {
    let world = world();
    world.server.store(|store| {
        let spec = match preferred {
            Some(preferred) => json!({ "devices": { "preferredAutoattachInputDevice": preferred } }),
            None => json!({}),
        };
        let preference = json!({
            "apiVersion": "instancetype.kubevirt.io/v1beta1", "kind": "VirtualMachineClusterPreference",
            "metadata": { "name": "p" }, "spec": spec,
        });
        let resource = "virtualmachineclusterpreferences.instancetype.kubevirt.io";
        store.model().create_now(resource, preference).unwrap();
    });
    let devices = json!({ "autoattachInputDevice": flag, "inputs": inputs });
    let machine = with_spec(&json!({
        "preference": { "name": "p" }, "template": { "spec": { "domain": { "devices": devices } } },
    }));
    let answer = expand(&world, &world.process(1), how, &machine).await;
    assert_eq!(answer.code, 200, "{}", answer.body);
    let found = answer.body["spec"]["template"]["spec"]["domain"]["devices"]["inputs"].as_array().cloned();
    let names: Vec<Value> =
        found.unwrap_or_default().into_iter().map(|input| input["name"].clone()).collect();
    assert_eq!(json!(names), expected);
}

/// Each row of the table of errors of pools.
#[rstest]
#[case::instance_type_not_found(json!({ "instancetype": { "name": "x" } }), "instancetype.name", "FieldValueNotFound")]
#[case::preference_not_found(json!({ "preference": { "name": "x" } }), "preference.name", "FieldValueNotFound")]
#[case::revision_not_found(
    json!({ "instancetype": { "name": "small", "revisionName": "x" } }), "instancetype.revisionName",
    "FieldValueNotFound"
)]
#[case::conflict(
    json!({ "template": { "spec": { "domain": { "devices": {}, "memory": { "guest": "1Gi" } } } } }),
    "template.spec.domain.memory.guest", "FieldValueInvalid"
)]
#[case::unmet_requirement(json!({ "preference": { "name": "large" } }), "instancetype", "FieldValueNotFound")]
#[case::failed_inference(
    json!({ "instancetype": { "inferFromVolume": "x" } }), "instancetype.inferFromVolume", "FieldValueNotFound"
)]
#[case::unknown_kind(
    json!({ "instancetype": { "name": "small", "kind": "Secret" } }), "instancetype.kind", "FieldValueNotFound"
)]
#[tokio::test]
async fn what_does_not_fit_in_a_pool_is_reported_with_its_field(
    #[values(How::Stored, How::Supplied)] how: How,
    #[case] change: Value,
    #[case] field: &str,
    #[case] reason: &str,
) {
    let world = world_with_types();
    let mut pool = pool();
    pool["spec"]["virtualMachineTemplate"]["spec"] = with_spec(&change)["spec"].clone();
    let process = world.process(1);
    let answer = if how == How::Supplied {
        call(&world, &process, "PUT", "expand-pool-spec?complete=true", &pool.to_string()).await
    } else {
        world.server.store(|store| {
            let resource = "virtualmachinepools.pool.kubevirt.io";
            store.model().delete_now(resource, NAMESPACE, "web", Value::Null).unwrap();
            store.model().create_now(resource, pool.clone()).unwrap();
        });
        call(&world, &process, "GET", "virtualmachinepools/web/expand-spec", "").await
    };
    assert_eq!((answer.code.as_u16(), &answer.body["reason"]), (422, &json!("Invalid")), "{}", answer.body);
    let cause = &answer.body["details"]["causes"][0];
    let field = format!("spec.virtualMachineTemplate.spec.{field}");
    assert_eq!((&cause["field"], &cause["reason"]), (&json!(field), &json!(reason)), "{}", answer.body);
}

#[rstest]
#[case::an_empty_body("PUT", "expand-pool-spec", String::new(), 400)]
#[case::no_json("PUT", "expand-pool-spec", "[".to_owned(), 400)]
#[case::a_violation_of_the_schema("PUT", "expand-pool-spec", pool().to_string().replace("\"replicas\":2", "\"replicas\":\"2\""), 400)]
#[case::another_namespace("PUT", "expand-pool-spec", pool().to_string().replace("team-a", "team-b"), 400)]
#[case::both_parameters_ill_formed(
    "GET",
    "virtualmachinepools/web/expand-spec?revision=&index=x",
    String::new(),
    400
)]
#[case::an_index_that_is_too_large(
    "GET",
    "virtualmachinepools/web/expand-spec?index=99999999999999999999",
    String::new(),
    400
)]
#[case::an_empty_index("GET", "virtualmachinepools/web/expand-spec?index=", String::new(), 400)]
#[tokio::test]
async fn an_invalid_request_for_a_pool_is_refused(
    #[case] method: &str,
    #[case] path: &str,
    #[case] body: String,
    #[case] code: u16,
) {
    let world = world();
    let answer = call(&world, &world.process(1), method, path, &body).await;
    assert_eq!((answer.code.as_u16(), &answer.body["kind"]), (code, &json!("Status")), "{}", answer.body);
}

#[tokio::test]
async fn a_terminating_pool_is_expanded() {
    let world = world();
    world.server.store(|store| {
        let resource = "virtualmachinepools.pool.kubevirt.io";
        store.model().delete_now(resource, NAMESPACE, "web", Value::Null).unwrap();
        let mut pool = pool();
        pool["metadata"]["finalizers"] = json!(["example.com/wait"]);
        store.model().create_now(resource, pool).unwrap();
        store.model().delete_now(resource, NAMESPACE, "web", Value::Null).unwrap();
    });
    let answer = call(&world, &world.process(1), "GET", "virtualmachinepools/web/expand-spec", "").await;
    assert_eq!(answer.code, 200, "{}", answer.body);
    assert!(answer.body["metadata"]["deletionTimestamp"].is_string(), "{}", answer.body);
    assert_eq!(memory(&answer.body["spec"]["virtualMachineTemplate"]), "2048Mi");
}
