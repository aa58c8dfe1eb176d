use std::time::Duration;

use rstest::rstest;
use serde_json::{Value, json};
use vmpool_api::labels;
use vmpool_engine::image_refresh::ImageRefresh;
use vmpool_engine::model::{
    DetachedDisk, DiskAnnotations, DiskState, DisruptionBudget, Lifetime, MachineActivity, PoolDiskTemplate,
    RequestedRevision, RolloutPolicy, StoredTime,
};
use vmpool_engine::revisions::{Fingerprint, RevisionId};
use vmpool_engine::scale_up::provisioning_limit::ProvisioningLimit;
use vmpool_engine::{Disk, Machine, ObjectId, ParsedPool};

use super::super::objects::{DvpAttachmentObject, DvpDiskObject, DvpMachineObject, DvpPoolObject};

const PREFIX: &str = "vmpool.virtualization.deckhouse.io";

fn pool(spec: &Value, annotations: &Value) -> ParsedPool {
    let mut object = json!({
        "metadata": { "name": "builders", "namespace": "team-a", "uid": "p", "annotations": annotations },
        "spec": {
            "replicas": 2,
            "scaleDownPolicy": "NewestFirst",
            "virtualMachineTemplate": { "spec": { "blockDeviceRefs": [] } },
        },
    });
    json_patch::merge(&mut object["spec"], spec);
    super::read_pool(&serde_json::from_value::<DvpPoolObject>(object).unwrap())
}

fn rollout(spec: &Value, annotations: &Value) -> (RolloutPolicy, Vec<String>) {
    let pool = pool(spec, annotations);
    assert!(pool.validation_errors.is_empty(), "{:?}", pool.validation_errors);
    (pool.spec.rollout, pool.spec.invalid_settings)
}

/// An annotation of the pool, given by the last part of its key.
fn rollout_annotation(key: &str, value: &str) -> Value {
    json!({ format!("{PREFIX}/{key}"): value })
}

#[test]
fn a_pool_that_says_nothing_of_rollouts_has_the_usual_ones() {
    assert_eq!(rollout(&json!({}), &json!({})), (RolloutPolicy::default(), Vec::new()));
}

#[rstest]
#[case::paused(json!({ "rollout": { "paused": true } }), rollout_annotation("rollout-paused", "true"), RolloutPolicy { paused: true, ..RolloutPolicy::default() })]
#[case::not_paused(json!({ "rollout": { "paused": false } }), rollout_annotation("rollout-paused", "false"), RolloutPolicy::default())]
#[case::machines(json!({ "rollout": { "maxUnavailable": 3 } }), rollout_annotation("rollout-max-unavailable", "3"), RolloutPolicy { budget: DisruptionBudget::Machines(3), ..RolloutPolicy::default() })]
#[case::percent(json!({ "rollout": { "maxUnavailable": "40%" } }), rollout_annotation("rollout-max-unavailable", "40%"), RolloutPolicy { budget: DisruptionBudget::Percent(40), ..RolloutPolicy::default() })]
#[case::history(json!({ "revisionHistoryLimit": 0 }), rollout_annotation("revision-history-limit", "0"), RolloutPolicy { history: 0, ..RolloutPolicy::default() })]
fn a_field_and_its_annotation_say_the_same(
    #[case] spec: Value,
    #[case] annotation: Value,
    #[case] expected: RolloutPolicy,
) {
    assert_eq!(rollout(&spec, &json!({})), (expected.clone(), Vec::new()));
    assert_eq!(rollout(&json!({}), &annotation), (expected, Vec::new()));
}

#[test]
fn the_field_and_the_annotation_request_a_revision() {
    let expected =
        RequestedRevision { pinned: Some(RevisionId::from("0123456789abcdef")), is_unreadable: false };
    let field = json!({ "rollout": { "revision": "0123456789abcdef" } });
    assert_eq!(pool(&field, &json!({})).revision, expected);
    assert_eq!(
        pool(&json!({}), &rollout_annotation("rollout-revision", "0123456789abcdef")).revision,
        expected
    );
}

#[test]
fn a_field_wins_over_its_annotation_even_if_that_makes_no_sense() {
    let annotations = json!({
        format!("{PREFIX}/rollout-paused"): "perhaps",
        format!("{PREFIX}/rollout-max-unavailable"): "all",
        format!("{PREFIX}/rollout-revision"): "",
        format!("{PREFIX}/revision-history-limit"): "many",
    });
    let spec = json!({
        "rollout": { "paused": false, "maxUnavailable": 1, "revision": "r" },
        "revisionHistoryLimit": 4,
    });
    let expected = RolloutPolicy {
        paused: false,
        budget: DisruptionBudget::Machines(1),
        history: 4,
        ..RolloutPolicy::default()
    };
    assert_eq!(rollout(&spec, &annotations), (expected, Vec::new()));
    assert_eq!(pool(&spec, &annotations).revision.pinned, Some(RevisionId::from("r")));
}

#[rstest]
#[case::paused(json!({ "rollout": { "paused": "yes" } }), json!({}), "rollout.paused")]
#[case::paused_twin(json!({}), rollout_annotation("rollout-paused", "yes"), "rollout-paused")]
#[case::budget(json!({ "rollout": { "maxUnavailable": 0 } }), json!({}), "maxUnavailable")]
#[case::budget_without_a_sign(json!({ "rollout": { "maxUnavailable": "3" } }), json!({}), "maxUnavailable")]
#[case::budget_twin(json!({}), rollout_annotation("rollout-max-unavailable", "0%"), "rollout-max-unavailable")]
#[case::revision(json!({ "rollout": { "revision": 7 } }), json!({}), "rollout.revision")]
#[case::revision_twin(json!({}), rollout_annotation("rollout-revision", ""), "rollout-revision")]
#[case::all_of_it(json!({ "rollout": "slow" }), json!({}), "slow")]
#[case::history(json!({ "revisionHistoryLimit": -1 }), json!({}), "revisionHistoryLimit")]
#[case::history_twin(json!({}), rollout_annotation("revision-history-limit", "ten"), "revision-history-limit")]
#[case::policy(json!({ "scaleDownPolicy": "Random" }), json!({}), "scaleDownPolicy")]
fn a_setting_that_cannot_be_read_is_named_and_blocks_nothing(
    #[case] spec: Value,
    #[case] annotations: Value,
    #[case] word: &str,
) {
    let (_, unreadable) = rollout(&spec, &annotations);
    assert!(unreadable.len() == 1 && unreadable[0].contains(word), "{unreadable:?}");
}

#[test]
fn each_setting_that_cannot_be_read_takes_its_safe_value() {
    let spec = json!({
        "rollout": { "paused": 1, "maxUnavailable": [], "revision": {} },
        "revisionHistoryLimit": -1,
    });
    let expected =
        RolloutPolicy { paused: true, budget: DisruptionBudget::Machines(1), ..RolloutPolicy::default() };
    assert_eq!(rollout(&spec, &json!({})).0, expected);
    assert_eq!(pool(&spec, &json!({})).revision, RequestedRevision { pinned: None, is_unreadable: true });
}

#[rstest]
#[case::none(json!({}), json!({}), 600, 0)]
#[case::field(json!({ "progressDeadlineSeconds": 3 }), json!({}), 3, 0)]
#[case::annotation(json!({}), json!({ "vmpool.dev/progress-deadline-seconds": "7" }), 7, 0)]
#[case::unreadable(json!({ "progressDeadlineSeconds": "soon" }), json!({}), 600, 1)]
fn the_progress_deadline_is_read(
    #[case] spec: Value,
    #[case] annotations: Value,
    #[case] seconds: u64,
    #[case] messages: usize,
) {
    let pool = pool(&spec, &annotations);
    assert_eq!(pool.progress_deadline.as_secs(), seconds);
    assert_eq!(pool.invalid_settings.len(), messages);
}

#[rstest]
#[case::none(json!({}), json!({}), None)]
#[case::field(json!({ "maxProvisioning": 3 }), json!({}), Some(ProvisioningLimit::Machines(3)))]
#[case::annotation(
    json!({}), json!({ "vmpool.dev/max-provisioning": "10%" }), Some(ProvisioningLimit::Percent(10))
)]
#[case::unreadable(json!({ "maxProvisioning": "few" }), json!({}), Some(ProvisioningLimit::Machines(1)))]
fn the_limit_on_provisioning_is_read(
    #[case] spec: Value,
    #[case] annotations: Value,
    #[case] expected: Option<ProvisioningLimit>,
) {
    let pool = pool(&spec, &annotations);
    assert_eq!(pool.max_provisioning, expected);
    assert_eq!(pool.invalid_settings.len(), usize::from(spec["maxProvisioning"] == "few"));
}

#[rstest]
#[case::no_template(&[], &[""])]
#[case::no_class(&[Value::Null], &[""])]
#[case::the_same_class_twice(&[json!("fast"), json!("fast")], &["fast"])]
#[case::one_without_a_class(&[json!("slow"), Value::Null], &["", "slow"])]
fn the_storage_classes_are_those_of_the_disk_templates(#[case] classes: &[Value], #[case] expected: &[&str]) {
    let template = |(number, class): (usize, &Value)| {
        let claim = json!({ "size": "1Gi", "storageClassName": class });
        json!({ "name": format!("disk{number}"), "spec": { "persistentVolumeClaim": claim } })
    };
    let templates: Vec<Value> = classes.iter().enumerate().map(template).collect();
    let pool = pool(&json!({ "virtualDiskTemplates": templates }), &json!({}));
    assert!(pool.storage_classes.iter().map(|class| &**class).eq(expected.iter().copied()));
}

fn template(reclaim: &Value, spec: &Value) -> PoolDiskTemplate {
    let templates = json!([{ "name": "data", "reclaim": reclaim, "spec": spec }]);
    let mut pool = pool(&json!({ "virtualDiskTemplates": templates }), &json!({}));
    pool.disks.remove(0)
}

#[test]
fn a_kept_template_reads_as_its_owner_wrote_it() {
    let read = template(
        &json!({ "onScaleDown": "Retain", "keep": 2, "ttl": "1h30m" }),
        &json!({ "persistentVolumeClaim": { "size": "20Gi" } }),
    );
    let expected = PoolDiskTemplate {
        keep_free: 2,
        ttl: Some(Duration::from_mins(90)),
        size: Some(20 << 30),
        source: Some(Fingerprint::of(&json!(null))),
        ..PoolDiskTemplate::new("data", Lifetime::Retained)
    };
    assert_eq!(read, expected);
}

#[rstest]
#[case::another_image(json!({"type": "ObjectRef", "objectRef": {"kind": "VirtualImage", "name": "alpin"}}), true)]
#[case::the_same_image(json!({"objectRef": {"name": "alpine", "kind": "VirtualImage"}, "type": "ObjectRef"}), false)]
#[case::none(json!(null), true)]
fn a_disk_without_data_is_superseded_by_another_source_of_its_template(
    #[case] source: Value,
    #[case] superseded: bool,
) {
    let wanted = json!({ "type": "ObjectRef", "objectRef": { "kind": "VirtualImage", "name": "alpine" } });
    let templates = json!([{ "name": "data", "spec": { "dataSource": wanted } }]);
    let pool = pool(&json!({ "virtualDiskTemplates": templates }), &json!({}));
    let disk = |status: &Value| {
        let labels = json!({ (labels::DISK_TEMPLATE): "data" });
        let object = json!({
            "metadata": { "name": "web-a-data", "namespace": "n", "uid": "u", "labels": labels },
            "spec": { "dataSource": source },
            "status": status,
        });
        super::read_disk(&serde_json::from_value(object).unwrap())
    };
    for phase in ["Pending", "Provisioning", "WaitForUserUpload", "WaitForFirstConsumer"] {
        assert_eq!(pool.supersedes(&disk(&json!({ "phase": phase }))), superseded, "{phase}");
        let provisioned = disk(&json!({ "phase": phase, "capacity": "1Gi" }));
        assert!(!pool.supersedes(&provisioned), "{phase}: it has a volume");
    }
    for phase in ["Ready", "Resizing", "Migrating", "Failed", "PVCLost", "Exporting"] {
        assert!(!pool.supersedes(&disk(&json!({ "phase": phase }))), "{phase}: it can have data");
    }
}

#[rstest]
#[case::no_duration("soon")]
#[case::zero("0s")]
#[case::zero_without_a_unit("0")]
#[case::negative("-5m")]
#[case::empty("")]
#[case::too_long("9999999999h")]
fn a_ttl_that_cannot_be_read_collects_nothing_and_is_no_flaw(#[case] ttl: &str) {
    let reclaim = json!({ "onScaleDown": "Retain", "ttl": ttl });
    assert_eq!(template(&reclaim, &json!({})).ttl, None);
    let spec = json!({ "blockDeviceRefs": [{ "kind": "VirtualDisk", "name": "data" }] });
    let templates = json!([{ "name": "data", "reclaim": reclaim }]);
    let spec = json!({ "virtualMachineTemplate": { "spec": spec }, "virtualDiskTemplates": templates });
    let pool = pool(&spec, &json!({}));
    assert!(pool.validation_errors.is_empty(), "{:?}", pool.validation_errors);
    assert!(
        pool.invalid_settings.len() == 1 && pool.invalid_settings[0].contains("reclaim.ttl"),
        "{:?}",
        pool.invalid_settings
    );
}

#[rstest]
#[case::absent(json!({}), 0)]
#[case::null(json!({ "keep": null }), 0)]
#[case::negative(json!({ "keep": -1 }), usize::MAX)]
#[case::text(json!({ "keep": "all" }), usize::MAX)]
fn a_number_of_kept_disks_that_cannot_be_read_keeps_them_all(#[case] reclaim: Value, #[case] keep: usize) {
    assert_eq!(template(&reclaim, &json!({})).keep_free, keep);
}

#[rstest]
#[case::absent(json!({}), None)]
#[case::no_quantity(json!({ "persistentVolumeClaim": { "size": "large" } }), None)]
#[case::negative(json!({ "persistentVolumeClaim": { "size": "-1Gi" } }), None)]
#[case::a_number(json!({ "persistentVolumeClaim": { "size": 1_048_576 } }), Some(1 << 20))]
#[case::no_object(json!({ "persistentVolumeClaim": "1Gi" }), None)]
fn a_size_is_in_bytes(#[case] spec: Value, #[case] size: Option<u64>) {
    assert_eq!(template(&json!({}), &spec).size, size);
}

#[test]
fn the_template_hash_of_a_status_of_another_controller_is_known() {
    let status = |status: Value| {
        let object = json!({ "metadata": { "name": "farm", "uid": "p" }, "spec": {}, "status": status });
        super::read_pool(&serde_json::from_value::<DvpPoolObject>(object).unwrap()).spec.published
    };
    // The reference controller leaves out counters that are zero.
    let theirs = status(json!({
        "observedGeneration": 2, "replicas": 1, "updatedReplicas": 1, "desiredTemplateHash": "23fc2ae7",
        "selector": format!("{PREFIX}/pool-uid=p"),
    }));
    assert_eq!((theirs.summary, theirs.desired_revision), (None, Some((RevisionId::from("23fc2ae7"), 2))));
    assert_eq!(status(json!({ "desiredTemplateHash": "23fc2ae7" })).desired_revision, None);
    assert_eq!(status(Value::Null).desired_revision, None);
}

fn machine(body: &Value) -> Machine {
    let mut object = json!({ "metadata": { "name": "builders-7xk2d", "uid": "m", "generation": 4 } });
    json_patch::merge(&mut object, body);
    super::read_machine(&serde_json::from_value::<DvpMachineObject>(object).unwrap())
}

fn disk_ref(name: &str) -> Value {
    json!({ "kind": "VirtualDisk", "name": name })
}

#[rstest]
#[case::not_looked_at_yet(json!({}), false)]
#[case::an_earlier_one(json!({ "observedGeneration": 3 }), false)]
#[case::this_one(json!({ "observedGeneration": 4 }), true)]
#[case::odd(json!({ "observedGeneration": "4" }), false)]
fn a_machine_is_evaluated_when_its_status_speaks_of_its_spec(#[case] status: Value, #[case] evaluated: bool) {
    assert_eq!(machine(&json!({ "status": status })).evaluated, evaluated);
}

#[rstest]
#[case(json!({}), false)]
#[case(json!({ "disruptions": { "restartApprovalMode": "Manual" } }), false)]
#[case(json!({ "disruptions": { "restartApprovalMode": "Automatic" } }), true)]
fn a_machine_restarts_itself_if_its_owner_approved_in_advance(#[case] spec: Value, #[case] restarts: bool) {
    assert_eq!(machine(&json!({ "spec": spec })).restarts_itself, restarts);
}

#[test]
fn both_markers_of_a_machine_are_read() {
    let machine = machine(&json!({ "metadata": {
        "labels": { format!("{PREFIX}/template-hash"): "a" },
        "annotations": { format!("{PREFIX}/patched-template-hash"): "b" },
    }}));
    assert_eq!(
        (machine.revision, machine.written),
        (Some(RevisionId::from("a")), Some(RevisionId::from("b")))
    );
}

#[rstest]
#[case::the_first_device(json!([disk_ref("a"), disk_ref("b")]), Some("a"))]
#[case::an_image_first(json!([{ "kind": "ClusterVirtualImage", "name": "a" }, disk_ref("b")]), None)]
#[case::the_smallest_order(json!([disk_ref("a"), { "kind": "VirtualDisk", "name": "b", "bootOrder": 2 }, { "kind": "VirtualDisk", "name": "c", "bootOrder": 1 }]), Some("c"))]
#[case::an_image_with_the_smallest_order(json!([disk_ref("a"), { "kind": "VirtualImage", "name": "b", "bootOrder": 1 }]), None)]
#[case::twins(json!([disk_ref("a"), { "kind": "VirtualDisk", "name": "b", "bootOrder": 1 }, { "kind": "VirtualDisk", "name": "c", "bootOrder": 1 }]), Some("b"))]
#[case::no_devices(json!([]), None)]
fn a_machine_boots_from(#[case] devices: Value, #[case] boot: Option<&str>) {
    let machine = machine(&json!({ "spec": { "blockDeviceRefs": devices } }));
    assert_eq!(machine.boot_disk.as_deref(), boot);
}

#[test]
fn what_only_the_disk_map_names_is_detached() {
    let map = r#"{"root": "web-1-root", "data": "web-data-x", "logs": ""}"#;
    let machine = machine(&json!({
        "metadata": { "annotations": { format!("{PREFIX}/disks"): map } },
        "spec": { "blockDeviceRefs": [disk_ref("web-1-root"), disk_ref("web-data-y")] },
    }));
    let detached = DetachedDisk { template: "data".into(), disk: "web-data-x".into() };
    assert_eq!(machine.detached, [detached]);
    assert!(machine.held_disks().any(|disk| **disk == *"web-data-x"));
}

#[test]
fn what_only_the_status_shows_lingers() {
    let machine = machine(&json!({
        "spec": { "blockDeviceRefs": [disk_ref("kept")] },
        "status": { "blockDeviceRefs": [
            disk_ref("kept"), disk_ref("leaving"), { "kind": "VirtualImage", "name": "image" }, disk_ref("leaving"), 3,
        ]},
    }));
    assert_eq!(machine.lingering.iter().map(|disk| &**disk).collect::<Vec<_>>(), ["leaving"]);
}

#[rstest]
#[case::absent(json!([]), false)]
#[case::not(json!([{ "type": "BlockDevicesReady", "status": "False" }]), false)]
#[case::so(json!([{ "type": "BlockDevicesReady", "status": "True" }]), true)]
fn devices_are_ready_when_the_platform_says_so(#[case] conditions: Value, #[case] ready: bool) {
    assert_eq!(machine(&json!({ "status": { "conditions": conditions } })).devices_ready, ready);
}

#[rstest]
#[case::it_is_not_a_broken_one("Stopped", MachineActivity::Stopped)]
#[case::it_may_stop_for_a_restart("Stopping", MachineActivity::Stopping)]
fn a_stopped_machine(#[case] phase: &str, #[case] activity: MachineActivity) {
    assert_eq!(machine(&json!({ "status": { "phase": phase } })).activity, activity);
}

#[rstest]
#[case::stopped_by_a_user("Stopped", "", &[], true)]
#[case::stopped_by_its_run_policy("Stopped", "AlwaysOff", &[], true)]
#[case::stopped_under_an_unknown_policy("Stopped", "Sometimes", &[], true)]
#[case::stopped_although_it_is_always_on("Stopped", "AlwaysOn", &[], false)]
#[case::paused("Pause", "AlwaysOn", &[], true)]
#[case::restored("Pending", "AlwaysOn", &["Maintenance"], true)]
#[case::in_a_snapshot("Degraded", "", &["Snapshotting"], true)]
#[case::migrating("Degraded", "", &["Migrating"], true)]
#[case::starting("Starting", "", &["Running"], false)]
#[case::degraded("Degraded", "AlwaysOnUnlessStoppedManually", &[], false)]
fn a_machine_is_unready_on_purpose(
    #[case] phase: &str,
    #[case] run_policy: &str,
    #[case] conditions: &[&str],
    #[case] on_purpose: bool,
) {
    let conditions: Vec<Value> =
        conditions.iter().map(|kind| json!({ "type": kind, "status": "True" })).collect();
    let machine = machine(&json!({
        "spec": { "runPolicy": run_policy },
        "status": { "phase": phase, "conditions": conditions },
    }));
    assert_eq!(machine.unready_on_purpose, on_purpose);
}

#[rstest]
#[case::ready(&[("Starting", 1), ("Running", 2)], None)]
#[case::since_it_was_created(&[("Pending", 1), ("Starting", 2)], Some(1))]
#[case::since_it_last_ran(&[("Running", 1), ("Degraded", 2), ("Pending", 3), ("Degraded", 4)], Some(2))]
#[case::since_it_was_stopped(&[("Stopping", 1), ("Stopped", 2), ("Starting", 3)], Some(3))]
#[case::since_it_was_paused(&[("Running", 1), ("Pause", 2), ("Degraded", 3)], Some(3))]
#[case::paused(&[("Running", 1), ("Pause", 2)], None)]
#[case::without_a_history(&[], None)]
fn a_machine_is_not_ready_since(#[case] phases: &[(&str, i64)], #[case] minute: Option<i64>) {
    let at = |minute: i64| format!("2026-01-01T10:{minute:02}:00Z");
    let phase = phases.last().map_or("Starting", |(phase, _)| *phase);
    let transitions: Vec<Value> =
        phases.iter().map(|(phase, minute)| json!({ "phase": phase, "timestamp": at(*minute) })).collect();
    let machine = machine(&json!({
        "status": { "phase": phase, "stats": { "phasesTransitions": transitions } },
    }));
    let expected = minute.map(|minute| at(minute).parse().unwrap());
    assert_eq!(machine.start_health.not_ready_since, expected);
}

#[test]
fn the_time_of_the_deletion_of_a_machine_is_read() {
    let deleted = "2026-01-01T10:00:00Z";
    let leaving = machine(&json!({ "metadata": { "name": "m", "deletionTimestamp": deleted } }));
    assert_eq!((leaving.terminating, leaving.terminating_since), (true, Some(deleted.parse().unwrap())));
    assert_eq!(machine(&json!({})).terminating_since, None);
}

#[test]
fn the_setting_of_healing_is_read() {
    let healing = |pool: ParsedPool| pool.healing.map(|healing| healing.ceiling(10));
    assert_eq!(healing(pool(&json!({}), &json!({}))), None);
    assert_eq!(healing(pool(&json!({ "healing": {} }), &json!({}))), Some(4));
    let annotated = json!({ "vmpool.dev/healing": r#"{"maxUnhealthy": 3}"# });
    assert_eq!(healing(pool(&json!({}), &annotated)), Some(3));
    let unreadable = pool(&json!({ "healing": "on" }), &annotated);
    assert!(unreadable.invalid_settings[0].starts_with("healing: "), "{:?}", unreadable.invalid_settings);
    assert_eq!(healing(unreadable), None);
}

fn disk(body: &Value) -> Disk {
    let mut object = json!({ "metadata": { "name": "builders-data-x7k2pq", "uid": "d" } });
    json_patch::merge(&mut object, body);
    super::read_disk(&serde_json::from_value::<DvpDiskObject>(object).unwrap())
}

#[rstest]
#[case("Pending", DiskState::Pending)]
#[case("Provisioning", DiskState::Pending)]
#[case("WaitForUserUpload", DiskState::Pending)]
#[case("WaitForFirstConsumer", DiskState::Pending)]
#[case("Ready", DiskState::Ready)]
#[case("Exporting", DiskState::Ready)]
#[case("Resizing", DiskState::Changing)]
#[case("Migrating", DiskState::Changing)]
#[case("Failed", DiskState::Failed)]
#[case("PVCLost", DiskState::Lost)]
#[case("", DiskState::Pending)]
#[case("SomethingNew", DiskState::Pending)]
fn a_disk_is_what_its_phase_says(#[case] phase: &str, #[case] state: DiskState) {
    assert_eq!(disk(&json!({ "status": { "phase": phase } })).state, state);
}

#[test]
fn a_disk_that_is_resized_is_changing_in_any_phase() {
    let conditions = json!([{ "type": "Resizing", "status": "True", "reason": "InProgress" }]);
    let disk = disk(&json!({ "status": { "phase": "Ready", "conditions": conditions } }));
    assert_eq!(disk.state, DiskState::Changing);
}

#[rstest]
#[case::by_a_machine("True", "AttachedToVirtualMachine", false)]
#[case::for_an_image("True", "UsedForImageCreation", true)]
#[case::for_an_export("True", "UsedForDataExport", true)]
#[case::for_what_we_do_not_know("True", "UsedForBackup", true)]
#[case::not("False", "NotInUse", false)]
#[case::not_any_more("False", "UsedForImageCreation", false)]
fn a_disk_is_used_otherwise(#[case] status: &str, #[case] reason: &str, #[case] used: bool) {
    let conditions = json!([{ "type": "InUse", "status": status, "reason": reason }]);
    assert_eq!(disk(&json!({ "status": { "conditions": conditions } })).used_otherwise, used);
}

#[test]
fn an_exported_disk_is_used_otherwise() {
    assert!(disk(&json!({ "status": { "phase": "Exporting" } })).used_otherwise);
}

#[rstest]
#[case::no_machine(json!([]), None)]
#[case::a_stopped_machine(json!([{ "name": "a", "mounted": false }]), None)]
#[case::unknown(json!([{ "name": "a" }]), None)]
#[case::one_of_two(json!([{ "name": "a", "mounted": false }, { "name": "b", "mounted": true }]), Some("b"))]
fn a_disk_is_mounted_by(#[case] machines: Value, #[case] by: Option<&str>) {
    let disk = disk(&json!({ "status": { "attachedToVirtualMachines": machines } }));
    assert_eq!(disk.mounted_by.as_deref(), by);
}

#[test]
fn sizes_of_a_disk_are_in_bytes() {
    let sized = disk(&json!({
        "spec": { "persistentVolumeClaim": { "size": "20Gi" } }, "status": { "capacity": "21474836480" },
    }));
    assert_eq!((sized.size, sized.capacity), (Some(20 << 30), Some(20 << 30)));
    let unsized_ = disk(&json!({ "spec": {}, "status": { "capacity": "?" } }));
    assert_eq!((unsized_.size, unsized_.capacity), (None, None));
}

#[test]
fn the_annotations_of_a_disk_are_read_and_an_unreadable_time_differs_from_none() {
    let marked =
        |annotations: Value| disk(&json!({ "metadata": { "annotations": annotations } })).annotations;
    let annotations = marked(json!({
        format!("{PREFIX}/claimed-by"): "builders-7xk2d",
        format!("{PREFIX}/free-since"): "2026-01-02T03:04:05Z",
        format!("{PREFIX}/collecting-since"): "2026-01-02T05:04:05+02:00",
    }));
    let moment = StoredTime::At("2026-01-02T03:04:05Z".parse().unwrap());
    assert_eq!(annotations.claimed_by.as_deref(), Some("builders-7xk2d"));
    assert_eq!((annotations.free_since, annotations.collecting_since), (Some(moment), Some(moment)));

    let odd = marked(json!({
        format!("{PREFIX}/claimed-by"): "",
        format!("{PREFIX}/free-since"): "yesterday",
        format!("{PREFIX}/collecting-since"): "",
    }));
    assert_eq!(odd.claimed_by, None);
    assert_eq!(
        (odd.free_since, odd.collecting_since),
        (Some(StoredTime::Unreadable), Some(StoredTime::Unreadable))
    );
    assert_eq!(marked(json!({})), DiskAnnotations::default());
}

#[test]
fn a_disk_knows_its_owner_its_pool_and_its_template() {
    let disk = disk(&json!({ "metadata": {
        "labels": { format!("{PREFIX}/pool-uid"): "p", format!("{PREFIX}/disk-template"): "data" },
        "ownerReferences": [
            { "apiVersion": "v1", "kind": "ConfigMap", "name": "notes", "uid": "c" },
            { "apiVersion": "virtualization.deckhouse.io/v1alpha2", "kind": "VirtualMachinePool",
              "name": "builders", "uid": "p", "controller": true },
        ],
    }}));
    assert!(disk.belongs_to(&ObjectId::new("builders", "p")));
    assert_eq!((disk.pool_uid_label, disk.template.as_deref()), (Some("p".into()), Some("data")));
}

#[rstest]
#[case::a_disk(json!({ "kind": "VirtualDisk", "name": "data" }), Some("data"))]
#[case::an_image(json!({ "kind": "VirtualImage", "name": "data" }), None)]
#[case::nothing(json!(null), None)]
fn an_attachment_is_about(#[case] device: Value, #[case] disk: Option<&str>) {
    let object = json!({
        "metadata": { "name": "by-hand", "uid": "a" },
        "spec": { "virtualMachineName": "other", "blockDeviceRef": device },
    });
    let attachment = super::read_attachment(&serde_json::from_value::<DvpAttachmentObject>(object).unwrap());
    assert_eq!(attachment.id, ObjectId::new("by-hand", "a"));
    assert_eq!(attachment.disk.as_deref(), disk);
}

#[rstest]
#[case::nulls(json!({ "spec": null, "status": null }))]
#[case::other_types(json!({ "spec": [], "status": 3 }))]
#[case::other_types_inside(json!({
    "spec": { "persistentVolumeClaim": "1Gi", "blockDeviceRefs": {}, "blockDeviceRef": 1, "disruptions": "none" },
    "status": {
        "phase": {}, "capacity": {}, "attachedToVirtualMachines": [1, { "name": 1, "mounted": "yes" }],
        "conditions": [1, {}], "blockDeviceRefs": [null, { "bootOrder": "x" }], "observedGeneration": {},
    },
}))]
fn objects_that_make_no_sense_are_read_all_the_same(#[case] body: Value) {
    let (machine, disk) = (machine(&body), disk(&body));
    assert_eq!((machine.disks.len(), machine.lingering.len(), machine.boot_disk), (0, 0, None));
    assert_eq!((disk.state, disk.mounted_by, disk.size), (DiskState::Pending, None, None));
    let mut object = json!({ "metadata": { "name": "by-hand", "uid": "a" } });
    json_patch::merge(&mut object, &body);
    assert_eq!(
        super::read_attachment(&serde_json::from_value::<DvpAttachmentObject>(object).unwrap()).disk,
        None
    );
}

mod limits;
mod problems;

#[rstest]
#[case::none(json!({}), json!({}), ImageRefresh::Off, 0)]
#[case::field(json!({ "imageRefresh": "Report" }), json!({ "vmpool.dev/image-refresh": "no" }), ImageRefresh::Report, 0)]
#[case::annotation(json!({}), json!({ "vmpool.dev/image-refresh": "Recreate" }), ImageRefresh::Recreate, 0)]
#[case::unreadable(json!({ "imageRefresh": false }), json!({}), ImageRefresh::Off, 1)]
fn the_setting_of_image_refresh_is_read(
    #[case] spec: Value,
    #[case] annotations: Value,
    #[case] expected: ImageRefresh,
    #[case] messages: usize,
) {
    let pool = pool(&spec, &annotations);
    assert_eq!((pool.image_refresh, pool.invalid_settings.len()), (expected, messages));
}

#[rstest]
#[case::none(json!({}), json!({}), None, 0)]
#[case::field(json!({ "recycle": { "maxClaims": 3 } }), json!({ "vmpool.dev/recycle": "{" }), Some(3), 0)]
#[case::annotation(json!({}), json!({ "vmpool.dev/recycle": r#"{"maxClaims": 2}"# }), Some(2), 0)]
#[case::unreadable(json!({ "recycle": "often" }), json!({}), None, 1)]
fn the_setting_of_recycling_is_read(
    #[case] spec: Value,
    #[case] annotations: Value,
    #[case] expected: Option<u32>,
    #[case] messages: usize,
) {
    let pool = pool(&spec, &annotations);
    assert_eq!((pool.recycle.max_claims, pool.invalid_settings.len()), (expected, messages));
}
