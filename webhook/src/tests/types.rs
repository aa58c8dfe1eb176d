//! The webhooks for instance types, preferences, and the machines that name them.
#![expect(clippy::needless_pass_by_value, reason = "the tables of tests write JSON in place")]

use rstest::rstest;
use vmpool_platforms::instancetype::type_admission::{
    COMPLETE_PATH, MACHINE_PATH, OBJECT_PATH, PROTECT_PATH,
};

use super::*;

const TYPES: &str = "/apis/instancetype.kubevirt.io/v1beta1";
const CLAIM: &str = "/api/v1/namespaces/team-a/persistentvolumeclaims/debian";

impl World {
    /// A webhook that reviews instance types.
    fn of_types(callers: Callers) -> Self {
        let clock = ManualClock::new();
        let (server, metrics) = (Server::default(), WebhookMetrics::new());
        let state = ReviewState::new(Vec::new(), server.client(), metrics.clone(), test_env(&clock, 0));
        let router = webhook_router(&state.accepting(callers).with_types());
        Self { server, metrics, clock, router, certificate: Some(API_SERVER) }
    }

    /// A webhook that reviews pools of KubeVirt, and leaves instance types to KubeVirt's own webhooks.
    fn beside_kubevirt() -> Self {
        Self::new()
    }

    fn of_types_certified() -> Self {
        Self::of_types(Callers::Certified([API_SERVER.to_owned()].into()))
    }

    fn stored(self, path: &str, object: Value) -> Self {
        self.server.0.lock().objects.insert(path.to_owned(), (StatusCode::OK, object));
        self
    }

    fn with_small(self, is_cluster: bool) -> Self {
        let (kind, path) = if is_cluster {
            ("VirtualMachineClusterInstancetype", format!("{TYPES}/virtualmachineclusterinstancetypes/small"))
        } else {
            let path = format!("{TYPES}/namespaces/team-a/virtualmachineinstancetypes/small");
            ("VirtualMachineInstancetype", path)
        };
        self.stored(&path, instancetype(kind, 2))
    }

    async fn reviewed(&self, path: &str, object: &Value) -> Value {
        self.review(path, &review("CREATE", "", &Value::Null, object)).await
    }
}

fn instancetype(kind: &str, cpus: u32) -> Value {
    json!({
        "apiVersion": "instancetype.kubevirt.io/v1beta1", "kind": kind, "metadata": { "name": "small" },
        "spec": { "cpu": { "guest": cpus }, "memory": { "guest": "2Gi" } },
    })
}

/// A machine with its own memory and this matcher.
fn machine(matcher: Value) -> Value {
    json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
        "metadata": { "name": "db", "namespace": "team-a" },
        "spec": {
            "instancetype": matcher,
            "template": { "spec": {
                "domain": { "memory": { "guest": "1Gi" } },
                "volumes": [{ "name": "root", "persistentVolumeClaim": { "claimName": "debian" } }],
            } },
        },
    })
}

#[tokio::test]
async fn an_invalid_object_is_refused_with_its_field() {
    let world = World::of_types_certified();
    let response = world.reviewed(OBJECT_PATH, &instancetype("VirtualMachineInstancetype", 0)).await;
    assert_eq!(
        (&response["allowed"], &response["status"]["code"]),
        (&json!(false), &json!(422)),
        "{response}"
    );
    let details = &response["status"]["details"];
    assert_eq!(details["kind"], "VirtualMachineInstancetype");
    let cause = &details["causes"][0];
    assert_eq!((&cause["field"], &cause["reason"]), (&json!("spec.cpu.guest"), &json!("FieldValueInvalid")));
    let response = world.reviewed(OBJECT_PATH, &instancetype("VirtualMachineInstancetype", 1)).await;
    assert_eq!(response["allowed"], true, "{response}");
    assert_eq!(
        world.series(
            r#"vmpool_webhook_requests_total{path="instancetype",operation="create",verdict="refused"}"#
        ),
        1
    );
}

#[tokio::test]
async fn an_object_of_another_kind_is_malformed() {
    let response = World::of_types_certified().reviewed(OBJECT_PATH, &machine(Value::Null)).await;
    assert_eq!(response["status"]["code"], 400, "{response}");
}

#[tokio::test]
async fn a_machine_in_conflict_is_refused_with_field_and_source() {
    let world = World::of_types_certified().with_small(true);
    let response = world.reviewed(MACHINE_PATH, &machine(json!({ "name": "small" }))).await;
    let message = response["status"]["message"].as_str().unwrap();
    assert!(message.contains("spec.template.spec.domain.memory.guest"), "{message}");
    assert!(message.contains("VirtualMachineClusterInstancetype \"small\""), "{message}");
    let series = r#"vmpool_webhook_reads_total{resource="instancetype",result="found"}"#;
    assert_eq!(world.series(series), 1);
}

#[tokio::test]
async fn a_failed_read_is_a_warning() {
    let world = World::of_types_certified();
    let path = format!("{TYPES}/virtualmachineclusterinstancetypes/small");
    let failure = (StatusCode::INTERNAL_SERVER_ERROR, json!({ "message": "etcd is slow" }));
    world.server.0.lock().objects.insert(path, failure);
    let response = world.reviewed(MACHINE_PATH, &machine(json!({ "name": "small" }))).await;
    assert_eq!(response["allowed"], true, "{response}");
    assert!(response["warnings"][0].as_str().unwrap().contains("etcd is slow"), "{response}");
}

#[rstest]
#[case::of_the_cluster(json!({ "name": "small" }), true)]
#[case::of_a_namespace(json!({ "name": "small", "kind": "VirtualMachineInstancetype" }), false)]
#[tokio::test]
async fn a_client_without_certificate_learns_only_what_all_users_may_read(
    #[case] matcher: Value,
    #[case] is_read: bool,
) {
    let world = World::of_types(Callers::Any).with_small(true).with_small(false);
    let response = world.reviewed(MACHINE_PATH, &machine(matcher)).await;
    assert_eq!(response["allowed"], !is_read, "{response}");
    assert_eq!(world.server.requests().len(), usize::from(is_read));
}

#[tokio::test]
async fn a_name_is_inferred_by_a_patch() {
    let labels = json!({ "instancetype.kubevirt.io/default-instancetype": "small" });
    let claim = json!({ "metadata": { "name": "debian", "labels": labels } });
    let world = World::of_types_certified().stored(CLAIM, claim);
    let matcher = json!({ "inferFromVolume": "root" });
    let response = world.reviewed(COMPLETE_PATH, &machine(matcher)).await;
    assert_eq!(response["allowed"], true, "{response}");
    let mut new = machine(json!({ "inferFromVolume": "root" }));
    json_patch::patch(&mut new, &serde_json::from_value::<json_patch::Patch>(patch(&response)).unwrap())
        .unwrap();
    assert_eq!(new, machine(json!({ "name": "small" })));
    assert_eq!(world.series(r#"vmpool_webhook_reads_total{resource="volume",result="found"}"#), 1);
}

#[tokio::test]
async fn a_failed_inference_is_a_bad_request() {
    let world = World::of_types_certified();
    let response = world.reviewed(COMPLETE_PATH, &machine(json!({ "inferFromVolume": "root" }))).await;
    assert_eq!(response["status"]["code"], 400, "{response}");
    assert_eq!(response["status"]["details"]["causes"][0]["field"], "spec.instancetype.inferFromVolume");
}

#[tokio::test]
async fn a_namespace_cannot_change_the_path_of_a_read() {
    let world = World::of_types_certified();
    let mut request = review("CREATE", "", &Value::Null, &machine(json!({ "name": "small" })));
    request["request"]["namespace"] = json!("a/../b");
    let response = world.review(MACHINE_PATH, &request).await;
    assert_eq!(response["status"]["code"], 400, "{response}");
    assert_eq!(world.server.requests(), Vec::<String>::new());
}

#[tokio::test]
async fn a_machine_that_is_being_deleted_is_allowed_without_reads() {
    let world = World::of_types_certified().with_small(true);
    let mut new = machine(json!({ "name": "small" }));
    new["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    for path in [MACHINE_PATH, COMPLETE_PATH] {
        let response = world.review(path, &review("UPDATE", "", &machine(Value::Null), &new)).await;
        assert_eq!((&response["allowed"], response.get("patch")), (&json!(true), None), "{response}");
    }
    assert_eq!(world.server.requests(), Vec::<String>::new());
}

#[tokio::test]
async fn without_the_mode_the_paths_for_machines_do_not_exist() {
    let world = World::new();
    for path in [MACHINE_PATH, COMPLETE_PATH] {
        assert_eq!(world.post(path, "{}").await.0, StatusCode::NOT_FOUND);
    }
}

/// An edit of the namespaced instance type `small`, whose old object the API server has.
fn edit() -> Value {
    let named = |cpus: u32| {
        let mut object = instancetype("VirtualMachineInstancetype", cpus);
        object["metadata"]["namespace"] = json!("team-a");
        object
    };
    review("UPDATE", "", &named(1), &named(2))
}

/// A world with a machine without a copy, one with a copy, and two pools that the controller has not seen.
/// The machines of the second one get copies of their own.
fn with_users(world: World) -> World {
    let named = json!({ "name": "small", "kind": "VirtualMachineInstancetype" });
    let mut waiting = machine(named.clone());
    waiting["metadata"]["name"] = json!("waiting");
    let mut copied = machine(named.clone());
    copied["status"]["instancetypeRef"] = json!({
        "name": "small", "kind": "VirtualMachineInstancetype", "controllerRevisionRef": { "name": "copy" },
    });
    let pool = json!({
        "metadata": { "name": "p", "namespace": "team-a" },
        "spec": { "virtualMachineTemplate": { "spec": { "instancetype": named } } },
    });
    let mut per_machine = pool.clone();
    per_machine["metadata"] = json!({
        "name": "q", "namespace": "team-a",
        "annotations": { "vmpool.dev/instancetype-policy": "PerMember" },
    });
    let machines = "/apis/kubevirt.io/v1/namespaces/team-a/virtualmachines";
    let pools = "/apis/pool.kubevirt.io/v1beta1/namespaces/team-a/virtualmachinepools";
    world
        .stored(
            &format!("{machines}?limit=250"),
            json!({ "metadata": { "continue": "more" }, "items": [waiting] }),
        )
        .stored(&format!("{machines}?limit=250&continue=more"), json!({ "metadata": {}, "items": [copied] }))
        .stored(&format!("{pools}?limit=250"), json!({ "metadata": {}, "items": [pool, per_machine] }))
}

#[rstest]
#[case::without_kubevirt(with_users(World::of_types_certified()))]
#[case::beside_kubevirt(with_users(World::beside_kubevirt()))]
#[tokio::test]
async fn an_edit_warns_about_machines_and_pools_without_a_copy(#[case] world: World) {
    let response = world.review(OBJECT_PATH, &edit()).await;
    assert_eq!(response["allowed"], true, "{response}");
    let warning = response["warnings"][0].as_str().unwrap();
    assert!(
        warning.starts_with("2 machines or pools") && warning.ends_with(": machine waiting, pool p"),
        "{warning}"
    );
    assert_eq!(world.server.requests().len(), 3);
}

#[tokio::test]
async fn an_edit_that_a_client_without_certificate_reports_reveals_nothing() {
    let world = with_users(World::of_types(Callers::Any));
    let response = world.review(OBJECT_PATH, &edit()).await;
    assert_eq!((&response["allowed"], response.get("warnings")), (&json!(true), None), "{response}");
    assert!(world.server.requests().is_empty());
}

#[tokio::test]
async fn beside_kubevirt_an_object_is_protected_and_not_validated() {
    let world = World::beside_kubevirt();
    let response = world.reviewed(OBJECT_PATH, &instancetype("VirtualMachineInstancetype", 0)).await;
    assert_eq!(response["allowed"], true, "{response}");
    let response = world.reviewed(PROTECT_PATH, &instancetype("VirtualMachineInstancetype", 1)).await;
    assert_eq!(patch(&response)[0]["value"], json!(["vmpool.dev/instancetype-protection"]), "{response}");
}
