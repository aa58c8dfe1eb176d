use rstest::rstest;
use serde_json::{Value, json};
use vmpool_engine::image_refresh::ImageRefresh;
use vmpool_engine::model::{Machine, MachineActivity, ObjectId, Selectable, StartHealth};
use vmpool_engine::revisions::RevisionId;
use vmpool_engine::scale_up::provisioning_limit::ProvisioningLimit;

use super::super::fixtures;
use super::*;

const SINCE: &str = "2026-11-21T13:06:07Z";

fn health(count: u64, printable_status: &str, ready: &Value) -> StartHealth {
    let mut object = fixtures::recorded_machine();
    object["status"] = json!({
        "conditions": [{ "type": "Ready", "status": ready, "lastTransitionTime": SINCE }],
        "printableStatus": printable_status,
        "startFailure": { "consecutiveFailCount": count },
    });
    read_machine(&serde_json::from_value(object).unwrap()).start_health
}

#[rstest]
#[case::crash_loop("CrashLoopBackOff")]
#[case::unschedulable("ErrorUnschedulable")]
#[case::data_volume("DataVolumeError")]
#[case::claim("ErrorPvcNotFound")]
#[case::image("ErrImagePull")]
#[case::image_backoff("ImagePullBackOff")]
fn a_bad_state_counts_while_ready_is_false(#[case] status: &str) {
    let not_ready = health(0, status, &json!("False"));
    let since = Some(SINCE.parse().unwrap());
    let expected = StartHealth { failed_starts: 0, failing: true, not_ready: true, not_ready_since: since };
    assert_eq!(not_ready, expected);
    assert!(!health(0, status, &json!("True")).failing);
    assert!(!health(0, status, &json!("Unknown")).failing);
}

#[test]
fn failed_starts_count_in_any_state() {
    let health = health(3, "Running", &json!("True"));
    assert_eq!((health.failed_starts, health.failing), (3, false));
}

#[rstest]
#[case("Starting")]
#[case("Running")]
#[case("Stopped")]
#[case("Provisioning")]
#[case("Unexpected")]
fn a_machine_that_is_not_ready_in_another_state_does_not_fail(#[case] status: &str) {
    assert!(!health(0, status, &json!("False")).failing);
}

fn expression(key: &str, operator: &str, values: &[&str]) -> Value {
    json!({ "key": key, "operator": operator, "values": values })
}

#[rstest]
#[case::absent(json!(null), true)]
#[case::empty(json!({}), true)]
#[case::empty_machines(json!({"labelSelector": {}, "nodeSelectorRequirementMatcher": []}), true)]
#[case::labels(json!({"labelSelector": {"matchLabels": {"app": "herd"}}}), true)]
#[case::nodes(json!({"nodeSelectorRequirementMatcher": [expression("zone", "In", &["a"])]}), true)]
#[case::both(
    json!({
        "labelSelector": {"matchLabels": {"app": "herd"}},
        "nodeSelectorRequirementMatcher": [expression("zone", "In", &["a"])],
    }), true)]
#[case::only_one_of_both(
    json!({
        "labelSelector": {"matchLabels": {"app": "herd"}},
        "nodeSelectorRequirementMatcher": [expression("zone", "In", &["b"])],
    }), false)]
#[case::not_in(json!({"nodeSelectorRequirementMatcher": [expression("zone", "NotIn", &["a"])]}), false)]
#[case::exists(json!({"nodeSelectorRequirementMatcher": [expression("zone", "Exists", &[])]}), true)]
#[case::does_not_exist(json!({"nodeSelectorRequirementMatcher": [expression("disk", "DoesNotExist", &[])]}), true)]
#[case::greater(json!({"nodeSelectorRequirementMatcher": [expression("cores", "Gt", &["15"])]}), true)]
#[case::not_greater(json!({"nodeSelectorRequirementMatcher": [expression("cores", "Gt", &["16"])]}), false)]
#[case::less(json!({"nodeSelectorRequirementMatcher": [expression("cores", "Lt", &["17"])]}), true)]
#[case::no_number_to_compare(json!({"nodeSelectorRequirementMatcher": [expression("zone", "Lt", &["17"])]}), false)]
#[case::nothing_to_compare(json!({"nodeSelectorRequirementMatcher": [expression("none", "Gt", &["1"])]}), false)]
fn a_scale_in_considers_machines_by_inner_labels_and_node_selector(
    #[case] selectors: Value,
    #[case] considered: bool,
) {
    let mut object = fixtures::recorded_pool();
    object["spec"]["scaleInStrategy"] =
        json!({ "proactive": { "selectionPolicy": { "selectors": selectors } } });
    let pool = read_pool(&serde_json::from_value(object).unwrap());
    assert_eq!(pool.invalid_settings, Vec::<String>::new());
    let mut object = fixtures::recorded_machine();
    object["spec"]["template"]["spec"]["nodeSelector"] = json!({ "zone": "a", "cores": "16" });
    let machine = read_machine(&serde_json::from_value(object).unwrap());
    assert_eq!(pool.scale_down_selection.includes(&machine), considered);
}

/// The facts of a pool with these settings.
fn pool_with(settings: &Value) -> ParsedPool {
    let mut object = fixtures::recorded_pool();
    for (field, value) in settings.as_object().unwrap() {
        object["spec"][field] = value.clone();
    }
    read_pool(&serde_json::from_value(object).unwrap())
}

#[rstest]
#[case::none(Value::Null, None, 600, 0)]
#[case::field(json!(3), None, 3, 0)]
#[case::annotation(Value::Null, Some("7"), 7, 0)]
#[case::unreadable(json!("soon"), None, 600, 1)]
fn the_progress_deadline_is_read(
    #[case] field: Value,
    #[case] annotation: Option<&str>,
    #[case] seconds: u64,
    #[case] messages: usize,
) {
    let mut object = fixtures::recorded_pool();
    object["spec"]["progressDeadlineSeconds"] = field;
    if let Some(text) = annotation {
        object["metadata"]["annotations"]["vmpool.dev/progress-deadline-seconds"] = json!(text);
    }
    let pool = read_pool(&serde_json::from_value(object).unwrap());
    assert_eq!(pool.progress_deadline.as_secs(), seconds);
    assert_eq!(pool.invalid_settings.len(), messages);
}

#[rstest]
#[case::none(Value::Null, None, None)]
#[case::field(json!("10%"), None, Some(ProvisioningLimit::Percent(10)))]
#[case::annotation(Value::Null, Some("4"), Some(ProvisioningLimit::Machines(4)))]
#[case::unreadable(json!(0), None, Some(ProvisioningLimit::Machines(1)))]
fn the_limit_on_provisioning_is_read(
    #[case] field: Value,
    #[case] annotation: Option<&str>,
    #[case] expected: Option<ProvisioningLimit>,
) {
    let mut object = fixtures::recorded_pool();
    object["spec"]["maxProvisioning"] = field.clone();
    if let Some(text) = annotation {
        object["metadata"]["annotations"]["vmpool.dev/max-provisioning"] = json!(text);
    }
    let pool = read_pool(&serde_json::from_value(object).unwrap());
    assert_eq!(pool.max_provisioning, expected);
    assert_eq!(pool.invalid_settings.len(), usize::from(field == 0));
}

#[test]
fn the_storage_classes_are_those_of_the_data_volume_templates() {
    let mut object = fixtures::recorded_pool();
    let template = |spec: Value| json!({ "metadata": { "name": "disk" }, "spec": spec });
    object["spec"]["virtualMachineTemplate"]["spec"]["dataVolumeTemplates"] = json!([
        template(json!({ "storage": { "storageClassName": "fast" } })),
        template(json!({ "pvc": { "storageClassName": "slow" } })),
        template(json!({ "storage": {} })),
    ]);
    let pool = read_pool(&serde_json::from_value(object).unwrap());
    assert!(pool.storage_classes.iter().map(|class| &**class).eq(["", "fast", "slow"]));
}

#[rstest]
#[case("AscendingOrder", ScaleDownPolicy::LowestOrdinalFirst)]
#[case("DescendingOrder", ScaleDownPolicy::HighestOrdinalFirst)]
#[case("Newest", ScaleDownPolicy::NewestFirst)]
#[case("Oldest", ScaleDownPolicy::OldestFirst)]
#[case("Random", ScaleDownPolicy::Random)]
fn a_sort_policy_is_an_order(#[case] name: &str, #[case] order: ScaleDownPolicy) {
    let proactive = json!({ "proactive": { "selectionPolicy": { "sortPolicy": name } } });
    let pool = pool_with(&json!({ "scaleInStrategy": proactive, "updateStrategy": proactive }));
    assert_eq!((pool.scale_down_policy, pool.rollout.order), (order, Some(order)));
}

#[rstest]
#[case("proactive", "Disabled", Preservation::Never)]
#[case("proactive", "Offline", Preservation::UnlessChanged)]
#[case("proactive", "Online", Preservation::UnlessChanged)]
#[case("opportunistic", "Disabled", Preservation::Never)]
#[case("opportunistic", "Offline", Preservation::Always)]
#[case("opportunistic", "Online", Preservation::Always)]
fn state_preservation_is_that_of_storage(
    #[case] strategy: &str,
    #[case] value: &str,
    #[case] expected: Preservation,
) {
    let pool = pool_with(&json!({ "scaleInStrategy": { strategy: { "statePreservation": value } } }));
    assert_eq!(pool.preservation, expected);
}

#[test]
fn with_unmanaged_updates_machines_keep_their_spec() {
    let disabled = |strategy: Value| pool_with(&json!({ "updateStrategy": strategy })).rollout.disabled;
    assert!(disabled(json!({ "unmanaged": {} })));
    assert!(!disabled(json!({ "opportunistic": {} })));
    assert!(!disabled(json!({ "proactive": {} })));
}

#[test]
fn earlier_revisions_are_kept_as_on_other_platforms() {
    assert_eq!(pool_with(&json!({})).rollout.history, RolloutPolicy::default().history);
    // KubeVirt keeps only revisions that machines name.
    assert_eq!(pool_with(&json!({ "revisionHistoryLimit": 0 })).rollout.history, 0);
}

#[rstest]
#[case::always(Some("Always"), true)]
#[case::manual(Some("Manual"), true)]
#[case::rerun(Some("RerunOnFailure"), true)]
#[case::a_receiver(Some("WaitAsReceiver"), false)]
#[case::an_unknown_strategy(Some("Sometimes"), false)]
fn the_controller_can_restart_machines_with(#[case] strategy: Option<&str>, #[case] restartable: bool) {
    let mut object = fixtures::recorded_machine();
    object["spec"]["runStrategy"] = json!(strategy);
    object["spec"].as_object_mut().unwrap().remove("running");
    assert_eq!(read_machine(&serde_json::from_value(object).unwrap()).restartable, restartable);
}

#[test]
fn a_machine_that_waits_for_a_migration_is_off_on_purpose() {
    let mut object = fixtures::recorded_machine();
    object["spec"]["runStrategy"] = json!("WaitAsReceiver");
    object["spec"].as_object_mut().unwrap().remove("running");
    object["status"] = json!({
        "printableStatus": "WaitingForReceiver",
        "conditions": [{ "type": "Ready", "status": "False", "lastTransitionTime": SINCE }],
    });
    assert_eq!(read_machine(&serde_json::from_value(object).unwrap()).activity, MachineActivity::Stopped);
}

#[test]
fn a_machine_that_a_user_gave_to_a_pool_and_took_away_is_released_by_that_pool() {
    let mut object = fixtures::recorded_machine();
    object["metadata"]["name"] = json!("other-7");
    object["metadata"]["labels"]["kubevirt.io/vm-pool-revision-name"] = json!("herd-3");
    object["metadata"].as_object_mut().unwrap().remove("ownerReferences");
    let released = read_machine(&serde_json::from_value(object).unwrap());
    assert_eq!(released.pool_label.as_deref(), Some("herd"));
}

#[rstest]
#[case::failing_to_create(json!("Stopped"), json!("False"), json!("True"), Some("quota exceeded"))]
#[case::a_state(json!("ErrorUnschedulable"), json!("False"), Value::Null, Some("ErrorUnschedulable"))]
#[case::an_earlier_failure(json!("Starting"), json!("False"), json!("False"), None)]
#[case::starting(json!("Starting"), json!("False"), Value::Null, None)]
#[case::ready(json!("ErrorUnschedulable"), json!("True"), json!("True"), None)]
fn why_a_machine_does_not_start(
    #[case] state: Value,
    #[case] ready: Value,
    #[case] failure: Value,
    #[case] expected: Option<&str>,
) {
    let mut object = fixtures::recorded_machine();
    let mut conditions = vec![json!({ "type": "Ready", "status": ready, "message": "not this one" })];
    if !failure.is_null() {
        conditions.push(json!({ "type": "Failure", "status": failure, "message": "quota exceeded" }));
    }
    object["status"] = json!({ "conditions": conditions, "printableStatus": state });
    assert_eq!(read_machine(&serde_json::from_value(object).unwrap()).problem.as_deref(), expected);
}

#[rstest]
#[case::a_paused_guest("Paused", "Paused", "True", Some("Paused: the disk is full"))]
#[case::no_node("ErrorUnschedulable", "PodScheduled", "False", Some("ErrorUnschedulable: the disk is full"))]
#[case::a_node_was_found("ErrorUnschedulable", "PodScheduled", "True", Some("ErrorUnschedulable"))]
#[case::a_silent_node("Unknown", "Paused", "False", Some("Unknown"))]
#[case::another_state("Starting", "PodScheduled", "False", None)]
fn the_state_of_a_machine_has_the_message_of_its_condition(
    #[case] state: &str,
    #[case] kind: &str,
    #[case] holds: &str,
    #[case] expected: Option<&str>,
) {
    let mut object = fixtures::recorded_machine();
    let conditions = json!([
        { "type": "Ready", "status": "False", "message": "not this one" },
        { "type": kind, "status": holds, "message": "the disk is full" },
    ]);
    object["status"] = json!({ "conditions": conditions, "printableStatus": state });
    assert_eq!(read_machine(&serde_json::from_value(object).unwrap()).problem.as_deref(), expected);
}

#[rstest]
#[case::kubevirt_starts_it("Always", "Stopped", json!([]), None)]
#[case::it_is_kept_off("Halted", "Stopped", json!([]), Some("runStrategy Halted keeps it off"))]
#[case::a_user_starts_it("Manual", "Stopped", json!([]), Some("runStrategy Manual only a user starts it"))]
#[case::a_start_is_requested("Manual", "Stopped", json!([{ "action": "Start" }]), None)]
#[case::it_starts("Manual", "Starting", json!([]), None)]
#[case::its_guest_was_shut_down("RerunOnFailure", "Stopped", json!([]), Some("does not start it again"))]
#[case::its_guest_has_ended("Once", "Stopped", json!([]), Some("delete the machine"))]
#[case::it_shuts_down("Halted", "Stopping", json!([]), None)]
#[case::it_receives("WaitAsReceiver", "WaitingForReceiver", json!([]), Some("another cluster"))]
fn a_stopped_machine_has_a_problem_if_kubevirt_does_not_start_it(
    #[case] strategy: &str,
    #[case] state: &str,
    #[case] requests: Value,
    #[case] expected: Option<&str>,
) {
    let mut object = fixtures::recorded_machine();
    object["spec"]["runStrategy"] = json!(strategy);
    object["spec"].as_object_mut().unwrap().remove("running");
    object["status"] = json!({
        "printableStatus": state,
        "conditions": [{ "type": "Ready", "status": "False", "lastTransitionTime": SINCE }],
        "stateChangeRequests": requests,
    });
    let problem = read_machine(&serde_json::from_value(object).unwrap()).problem;
    assert_eq!(problem.is_some(), expected.is_some());
    assert!(
        problem.iter().zip(expected).all(|(problem, expected)| problem.contains(expected)),
        "{problem:?}"
    );
}

/// A stopped machine that failed to start three times, with these fields in its status.
fn failed_with(status: &Value) -> Machine {
    let mut object = fixtures::recorded_machine();
    object["status"] = json!({
        "printableStatus": "ErrorPvcNotFound",
        "conditions": [{ "type": "Ready", "status": "False", "lastTransitionTime": SINCE }],
        "startFailure": { "consecutiveFailCount": 3 },
    });
    object["status"].as_object_mut().unwrap().extend(status.as_object().unwrap().clone());
    read_machine(&serde_json::from_value(object).unwrap())
}

#[rstest]
#[case::restored(json!({ "restoreInProgress": "back" }), "VirtualMachineRestore back is in progress, and KubeVirt starts the machine only when it has ended")]
#[case::a_snapshot_is_taken_of(json!({ "snapshotInProgress": "nightly" }), "ErrorPvcNotFound")]
fn autohealing_leaves_a_machine_as_it_is_that_is(#[case] status: Value, #[case] problem: &str) {
    let machine = failed_with(&status);
    assert_eq!((machine.start_health, machine.problem.as_deref()), (StartHealth::default(), Some(problem)));
    assert_eq!(machine.restoring, status.get("restoreInProgress").is_some());
}

#[rstest]
#[case::the_fields_are_absent(json!({}))]
#[case::the_names_are_empty(json!({ "restoreInProgress": "", "snapshotInProgress": "" }))]
#[case::the_names_cannot_be_read(json!({ "restoreInProgress": {}, "snapshotInProgress": 7 }))]
fn a_machine_is_neither_restored_nor_is_a_snapshot_taken_of_it_if(#[case] status: Value) {
    let machine = failed_with(&status);
    assert_eq!((machine.start_health.failed_starts, machine.start_health.failing), (3, true));
    assert_eq!((machine.restoring, machine.problem.as_deref()), (false, Some("ErrorPvcNotFound")));
}

#[rstest]
#[case::paused(json!({ "printableStatus": "Paused" }), true)]
#[case::shut_down(json!({ "printableStatus": "Stopping" }), true)]
#[case::migrating(json!({ "printableStatus": "Migrating" }), true)]
#[case::in_a_snapshot(json!({ "snapshotInProgress": "nightly" }), true)]
#[case::restored(json!({ "restoreInProgress": "back" }), true)]
#[case::between_two_instances(json!({ "printableStatus": "Stopped" }), false)]
#[case::on_a_lost_node(json!({ "printableStatus": "Unknown" }), false)]
#[case::unable_to_start(json!({}), false)]
fn a_machine_is_unready_on_purpose(#[case] status: Value, #[case] on_purpose: bool) {
    assert_eq!(failed_with(&status).unready_on_purpose, on_purpose);
}

/// Pausing and migrating a guest leaves it ready, and so does a snapshot.
#[rstest]
#[case::paused(json!({ "printableStatus": "Paused" }))]
#[case::migrating(json!({ "printableStatus": "Migrating" }))]
#[case::in_a_snapshot(json!({ "printableStatus": "Running", "snapshotInProgress": "nightly" }))]
fn a_ready_machine_has_no_problem_while_it_is(#[case] mut status: Value) {
    status["conditions"] = json!([
        { "type": "Ready", "status": "True" },
        { "type": "Paused", "status": "True", "message": "VMI was paused by user" },
    ]);
    let machine = failed_with(&status);
    assert_eq!((machine.activity, machine.problem), (MachineActivity::Running, None));
}

/// A machine whose own label has revision `herd-2`, with these labels in its template.
fn labeled_inside(labels: Value) -> Machine {
    let mut object = fixtures::recorded_machine();
    object["metadata"]["labels"]["kubevirt.io/vm-pool-revision-name"] = json!("herd-2");
    object["spec"]["template"]["metadata"]["labels"] = labels;
    read_machine(&serde_json::from_value(object).unwrap())
}

#[rstest]
#[case::of_both_labels(json!({ "kubevirt.io/vm-pool-revision-name": "herd-2" }), Some("herd-2"))]
#[case::of_a_restored_snapshot(json!({ "kubevirt.io/vm-pool-revision-name": "herd-1" }), Some("herd-1"))]
#[case::without_the_label(json!({ "app": "herd" }), None)]
#[case::without_labels(Value::Null, None)]
#[case::whose_labels_are_too_large(json!({ "app": "x".repeat(16 * 1024) }), Some("herd-2"))]
fn the_revision_of_a_machine_is_that_of_its_spec(#[case] labels: Value, #[case] expected: Option<&str>) {
    let machine = labeled_inside(labels);
    assert_eq!(machine.written.as_ref().map(RevisionId::as_str), expected);
    assert_eq!(machine.revision.as_ref().map(RevisionId::as_str), Some("herd-2"), "so that it stays stored");
}

#[test]
fn a_machine_without_the_label_of_its_own_has_no_revision() {
    let mut object = fixtures::recorded_machine();
    object["metadata"]["labels"] = json!({ "app": "herd" });
    assert_eq!(read_machine(&serde_json::from_value(object).unwrap()).written, None);
}

#[rstest]
#[case::a_user_stopped_it("Manual", json!([]), None, MachineActivity::Stopped)]
#[case::a_start_is_requested("Manual", json!([{ "action": "Start" }]), None, MachineActivity::NotRunning)]
#[case::also_to_rerun("RerunOnFailure", json!([{ "action": "Start" }]), None, MachineActivity::NotRunning)]
#[case::its_guest_has_ended("Once", json!([]), None, MachineActivity::Stopped)]
#[case::the_controller_deleted_its_instance("Once", json!([]), Some("herd-2"), MachineActivity::NotRunning)]
#[case::a_mark_of_an_earlier_strategy("Manual", json!([]), Some("herd-2"), MachineActivity::Stopped)]
fn a_stopped_machine_that_starts_again_is_not_off_on_purpose(
    #[case] strategy: &str,
    #[case] requests: Value,
    #[case] mark: Option<&str>,
    #[case] expected: MachineActivity,
) {
    let mut object = fixtures::recorded_machine();
    object["spec"]["runStrategy"] = json!(strategy);
    object["spec"].as_object_mut().unwrap().remove("running");
    if let Some(mark) = mark {
        object["metadata"]["annotations"] = json!({ protection::RESTARTING: mark });
    }
    object["status"] = json!({
        "printableStatus": "Stopped",
        "conditions": [{ "type": "Ready", "status": "False", "lastTransitionTime": SINCE }],
        "stateChangeRequests": requests,
    });
    assert_eq!(read_machine(&serde_json::from_value(object).unwrap()).activity, expected);
}

fn edited(mut object: Value, edit: &Value) -> Value {
    json_patch::merge(&mut object, edit);
    object
}

#[test]
fn a_machine_in_a_cluster_is_read() {
    let machine = read_machine(&serde_json::from_value(fixtures::recorded_machine()).unwrap());
    assert_eq!((&*machine.id.name, machine.id.uid.as_str()), ("herd-0", fixtures::MACHINE_UID));
    assert_eq!(machine.created.to_string(), "2026-11-21T13:05:07Z");
    assert!(!machine.terminating && !machine.restart_pending && !machine.stop_requested);
    assert!(machine.owner.as_ref().unwrap().is_pool(&ObjectId::new("herd", fixtures::POOL_UID)));
    assert_eq!(machine.revision.as_ref().map(RevisionId::as_str), Some("herd-1"));
    let Selectable { labels, instance_labels, node_selector } = &*machine.selectable;
    assert_eq!(labels.as_ref().unwrap()["app"], "herd");
    assert_eq!(instance_labels.as_ref().unwrap()["app"], "herd");
    assert!(node_selector.as_ref().unwrap().is_empty());
    assert_eq!((machine.activity, machine.start_health.failed_starts), (MachineActivity::Running, 0));
}

#[rstest]
#[case::another_api_version(json!({"apiVersion": "pool.kubevirt.io/v1alpha1"}), true)]
#[case::no_controller(json!({"controller": false}), false)]
#[case::another_group(json!({"apiVersion": "no.such.group/v1"}), false)]
#[case::another_kind(json!({"kind": "VirtualMachine"}), false)]
#[case::another_name(json!({"name": "flock"}), false)]
#[case::another_uid(json!({"uid": "u"}), false)]
fn the_owner_is_the_controller_with_group_kind_name_and_uid(#[case] edit: Value, #[case] owned: bool) {
    let mut owner = fixtures::recorded_owner_reference();
    json_patch::merge(&mut owner, &edit);
    let edit = json!({ "metadata": { "ownerReferences": [owner] } });
    let machine = read_machine(&serde_json::from_value(edited(fixtures::recorded_machine(), &edit)).unwrap());
    let pool = ObjectId::new("herd", fixtures::POOL_UID);
    assert_eq!(machine.owner.is_some_and(|owner| owner.is_pool(&pool)), owned);
}

#[rstest]
#[case::its_machine(json!({}), true)]
#[case::another_version(json!({"apiVersion": "kubevirt.io/v1alpha3"}), true)]
#[case::another_group(json!({"apiVersion": "no.such.group/v1"}), false)]
#[case::another_kind(json!({"kind": "VirtualMachinePool"}), false)]
#[case::another_name(json!({"name": "herd-1"}), false)]
fn an_instance_is_of_the_machine_of_its_name(#[case] edit: Value, #[case] owned: bool) {
    let mut stored = fixtures::recorded_instance();
    json_patch::merge(&mut stored["metadata"]["ownerReferences"][0], &edit);
    let facts = read_instance(&serde_json::from_value(stored).unwrap());
    assert_eq!(facts.machine, owned.then(|| fixtures::MACHINE_UID.into()));
}

#[test]
fn an_instance_in_a_cluster_is_read() {
    let facts = read_instance(&serde_json::from_value(fixtures::recorded_instance()).unwrap());
    assert_eq!(facts.machine, Some(fixtures::MACHINE_UID.into()));
    assert_eq!(facts.revision.as_ref().map(RevisionId::as_str), Some("herd-1"));
    assert_eq!((facts.ready, facts.terminating), (true, false));
}

#[rstest]
#[case::deleted(json!({"metadata": {"deletionTimestamp": "2026-11-21T13:05:07Z"}}))]
#[case::another_phase(json!({"status": {"phase": "Scheduling"}}))]
#[case::not_ready(json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}))]
#[case::no_status(json!({"status": null}))]
fn an_instance_is_unavailable(#[case] edit: Value) {
    let object = edited(fixtures::recorded_instance(), &edit);
    assert!(!read_instance(&serde_json::from_value(object).unwrap()).ready);
}

#[rstest]
#[case::shut_down(json!({"status": {"phase": "Succeeded"}}), true)]
#[case::shut_down_to_be_deleted(
    json!({"metadata": {"deletionTimestamp": "2026-11-21T13:05:07Z"}, "status": {"phase": "Succeeded"}}),
    false
)]
#[case::failed(json!({"status": {"phase": "Failed"}}), false)]
#[case::running(json!({}), false)]
fn a_guest_has_shut_down_by_itself(#[case] edit: Value, #[case] expected: bool) {
    let object = edited(fixtures::recorded_instance(), &edit);
    assert_eq!(read_instance(&serde_json::from_value(object).unwrap()).ended, expected);
}

#[rstest]
#[case::none(Value::Null, None, ImageRefresh::Off, 0)]
#[case::field(json!("Report"), Some("no"), ImageRefresh::Report, 0)]
#[case::annotation(Value::Null, Some("Recreate"), ImageRefresh::Recreate, 0)]
#[case::unreadable(json!(false), None, ImageRefresh::Off, 1)]
fn the_setting_of_image_refresh_is_read(
    #[case] field: Value,
    #[case] annotation: Option<&str>,
    #[case] expected: ImageRefresh,
    #[case] messages: usize,
) {
    let mut object = fixtures::recorded_pool();
    object["spec"]["imageRefresh"] = field;
    if let Some(text) = annotation {
        object["metadata"]["annotations"]["vmpool.dev/image-refresh"] = json!(text);
    }
    let pool = read_pool(&serde_json::from_value(object).unwrap());
    assert_eq!((pool.image_refresh, pool.invalid_settings.len()), (expected, messages));
}

#[rstest]
#[case::none(Value::Null, None, None, 0)]
#[case::field(json!({ "maxClaims": 3 }), Some("{"), Some(3), 0)]
#[case::annotation(Value::Null, Some(r#"{"maxClaims": 2}"#), Some(2), 0)]
#[case::unreadable(json!("often"), None, None, 1)]
fn the_setting_of_recycling_is_read(
    #[case] field: Value,
    #[case] annotation: Option<&str>,
    #[case] expected: Option<u32>,
    #[case] messages: usize,
) {
    let mut object = fixtures::recorded_pool();
    object["spec"]["recycle"] = field;
    if let Some(text) = annotation {
        object["metadata"]["annotations"]["vmpool.dev/recycle"] = json!(text);
    }
    let pool = read_pool(&serde_json::from_value(object).unwrap());
    assert_eq!((pool.recycle.max_claims, pool.invalid_settings.len()), (expected, messages));
}
