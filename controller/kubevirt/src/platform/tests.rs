mod pinned_templates;

use serde_json::{Value, json};
use vmpool_engine::model::{
    DisruptionBudget, Finalizer, MachineActivity, Membership, Naming, Preservation, Restarts,
    ScaleDownPolicy, StatusContent,
};
use vmpool_platform::contract;

use super::super::fixtures;
use super::*;

/// A pool as the API server stores it.
fn stored() -> Value {
    let mut pool = fixtures::new_pool();
    pool["metadata"] =
        json!({ "name": "p", "namespace": "studio", "uid": "9b1c", "generation": 4, "resourceVersion": "7" });
    pool["spec"].as_object_mut().unwrap().remove("maxUnavailable");
    pool
}

fn read(pool: &Value) -> ParsedPool {
    KubeVirt::read_pool(&serde_json::from_value(pool.clone()).unwrap())
}

#[test]
fn the_contract_is_kept() {
    let mut pool = stored();
    pool["metadata"]["finalizers"] = json!(["pool.kubevirt.io/finalizer"]);
    contract::check_platform_contract::<KubeVirt>(&pool);
}

#[test]
fn a_pool_without_settings_has_the_defaults_of_kubevirt() {
    let mut pool = stored();
    pool["spec"].as_object_mut().unwrap().remove("replicas");
    let facts = read(&pool);
    assert_eq!(facts.validation_errors, Vec::<String>::new());
    assert_eq!((facts.desired, facts.paused, facts.naming), (1, false, Naming::Ordinal));
    assert_eq!((facts.scale_down_policy, facts.preservation), (ScaleDownPolicy::Random, Preservation::Never));
    assert_eq!(
        (&facts.rollout.restarts, facts.rollout.budget),
        (&Restarts::ByController, DisruptionBudget::Percent(100))
    );
    assert_eq!((facts.finalizer, facts.status_content), (Finalizer::Missing, StatusContent::FailureAndPause));
    let names = <KubeVirt as Platform>::Revisions::names(&facts.id, facts.generation);
    assert_eq!(names.unwrap().next().unwrap().as_str(), "p-4");
    let Membership::Selector(selector) = &facts.membership else { panic!("it has a selector") };
    assert!(selector.matches(&[("farm".to_owned(), "render".to_owned())].into()));
    assert!(!selector.matches(&[("farm".to_owned(), "other".to_owned())].into()));
}

#[test]
fn the_storage_of_a_pool_whose_spec_is_too_large_is_preserved() {
    let mut pool = stored();
    pool["spec"]["scaleInStrategy"] = json!({ "proactive": { "statePreservation": "Offline" } });
    assert_ne!(read(&pool).preservation, Preservation::Never);
    let padding = "x".repeat(vmpool_engine::limits::POOL_SPEC);
    pool["spec"]["virtualMachineTemplate"]["metadata"]["annotations"] = json!({ "padding": padding });
    let facts = read(&pool);
    assert_eq!(facts.validation_errors.len(), 1);
    assert_ne!(facts.preservation, Preservation::Never);
}

#[test]
fn strategies_decide_what_the_controller_deletes_and_restarts() {
    let mut pool = stored();
    pool["spec"]["scaleInStrategy"] = json!({ "opportunistic": { "statePreservation": "Offline" } });
    pool["spec"]["updateStrategy"] = json!({ "opportunistic": {} });
    let facts = read(&pool);
    assert_eq!(
        (facts.scale_down_policy, facts.preservation),
        (ScaleDownPolicy::StoppedOnly, Preservation::Always)
    );
    assert_eq!((&facts.rollout.restarts, facts.rollout.disabled), (&Restarts::ByUser, false));
    pool["spec"]["scaleInStrategy"] = json!({ "unmanaged": {} });
    pool["spec"]["updateStrategy"] = json!({ "unmanaged": {} });
    let facts = read(&pool);
    assert_eq!((facts.scale_down_policy, facts.rollout.disabled), (ScaleDownPolicy::Explicit, true));
}

#[test]
fn a_selection_that_cannot_be_read_deletes_and_updates_no_machine() {
    let mut pool = stored();
    let policy = json!({ "selectionPolicy": { "selectors": { "labelSelector": 7 } } });
    pool["spec"]["scaleInStrategy"] = json!({ "proactive": policy });
    pool["spec"]["updateStrategy"] = json!({ "proactive": policy });
    let facts = read(&pool);
    assert_eq!((facts.scale_down_policy, facts.rollout.disabled), (ScaleDownPolicy::Explicit, true));
    assert_eq!(facts.invalid_settings.len(), 2, "{:?}", facts.invalid_settings);
}

#[test]
fn a_machine_runs_waits_or_is_stopped_on_purpose() {
    let activity = |spec: Value, status: Value| {
        let machine = json!({ "metadata": { "name": "p-0", "uid": "u" }, "spec": spec, "status": status });
        KubeVirt::read_machine(&serde_json::from_value(machine).unwrap()).activity
    };
    let ready = |status: &str| json!({ "conditions": [{ "type": "Ready", "status": status }] });
    assert_eq!(activity(json!({ "runStrategy": "Always" }), ready("True")), MachineActivity::Running);
    assert_eq!(activity(json!({ "runStrategy": "Always" }), ready("False")), MachineActivity::NotRunning);
    assert_eq!(activity(json!({ "running": false }), ready("False")), MachineActivity::Stopped);
    let mut stopped = ready("False");
    stopped["printableStatus"] = json!("Stopped");
    for strategy in ["Manual", "RerunOnFailure", "Once"] {
        assert_eq!(
            activity(json!({ "runStrategy": strategy }), stopped.clone()),
            MachineActivity::Stopped,
            "{strategy}"
        );
    }
}

#[test]
fn a_detached_machine_is_found_by_the_name_of_its_pool() {
    let machine = json!({ "metadata": {
        "name": "my-pool-0",
        "uid": "u",
        // As of a pool with a long name.
        "labels": { "kubevirt.io/vm-pool-revision-name": "my-a3b95299-12" },
        "finalizers": ["pool.kubevirt.io/finalizer"],
    } });
    let read = |machine: &Value| KubeVirt::read_machine(&serde_json::from_value(machine.clone()).unwrap());
    assert_eq!(read(&machine).pool_label.as_deref(), Some("my-pool"));
    let mut released = machine;
    released["metadata"]["finalizers"] = json!([]);
    assert_eq!(read(&released).pool_label, None);
}

#[test]
fn a_condition_of_another_controller_keeps_its_fields_and_the_failure_has_the_word_of_kubevirt() {
    let mut pool = stored();
    let foreign =
        json!({ "type": "Audited", "status": "True", "lastProbeTime": "2026-01-01T00:00:00Z", "more": 1 });
    pool["status"] = json!({ "conditions": [foreign] });
    let object: KubeVirtPoolObject = serde_json::from_value(pool.clone()).unwrap();
    let condition = |kind: &str, reason: &str| vmpool_engine::condition::StatusCondition {
        kind: kind.to_owned(),
        status: "True".to_owned(),
        reason: reason.to_owned(),
        message: "why".to_owned(),
        last_transition: jiff::Timestamp::UNIX_EPOCH,
        observed_generation: Some(4),
    };
    let summary = vmpool_engine::status::StatusSummary {
        observed_generation: 4,
        replicas: 2,
        ready: 1,
        available: 1,
        updated: 2,
        restart_pending: 1,
        draining: 2,
        image_outdated: 1,
        next_number: None,
        healed: 7,
        revision: "p-4".into(),
        standby: vmpool_engine::standby::StandbyCounts::default(),
        used_copies: [
            used(
                "instancetype",
                ["small", "VirtualMachineInstancetype", "p-small-v1beta1-u-1", "root", "Ignore"],
            ),
            used("preference", ["linux", "", "p-linux-v1beta1-u-1", "", ""]),
        ]
        .into(),
    };
    let conditions = vec![condition("ReplicaFailure", "FailedDelete"), condition("Audited", "")];
    let status = ComputedStatus { summary, conditions, activity: Vec::new() };
    let written = KubeVirt::status(&object, &status, StatusFields::OfPlatform);
    assert_eq!(written["conditions"][1], foreign);
    assert_eq!(written["conditions"][0]["reason"], "FailedScaleIn");
    assert_eq!(written["conditions"][0].get("observedGeneration"), None);
    assert_eq!((&written["replicas"], &written["labelSelector"]), (&json!(2), &json!("farm=render")));
    let fields: Vec<&String> = written.as_object().unwrap().keys().collect();
    assert_eq!(
        fields,
        ["conditions", "labelSelector", "readyReplicas", "replicas"],
        "those of KubeVirt only"
    );

    let written = KubeVirt::status(&object, &status, StatusFields::All);
    let parsed: vmpool_api::kubevirt::VirtualMachinePoolStatus =
        serde_json::from_value(written.clone()).unwrap();
    assert!(parsed.unknown_fields.is_empty(), "{:?}", parsed.unknown_fields);
    assert_eq!((parsed.observed_generation, parsed.available_replicas), (Some(4), Some(1)));
    assert_eq!((parsed.updated_replicas, parsed.restart_pending_replicas), (Some(2), Some(1)));
    assert_eq!(parsed.draining_replicas, Some(2));
    assert_eq!(parsed.image_outdated_replicas, Some(1));
    assert_eq!((parsed.healed_replicas, parsed.current_revision.as_deref()), (Some(7), Some("p-4")));
    assert_eq!(
        written["instancetypeRef"],
        json!({
            "name": "small",
            "kind": "VirtualMachineInstancetype",
            "controllerRevisionRef": { "name": "p-small-v1beta1-u-1" },
            "inferFromVolume": "root",
            "inferFromVolumeFailurePolicy": "Ignore",
        })
    );
    assert_eq!(
        written["preferenceRef"],
        json!({ "name": "linux", "controllerRevisionRef": { "name": "p-linux-v1beta1-u-1" } })
    );
    assert!(parsed.instancetype_ref.unwrap().unknown_fields.is_empty());
    assert_eq!(KubeVirt::published(&object, &written).summary, Some(status.summary));
}

/// A copy, with the name and the kind of its object, its own name, the volume, and the policy.
fn used(field: &'static str, [name, kind, copy, volume, policy]: [&str; 5]) -> UsedCopy {
    UsedCopy {
        field,
        name: name.into(),
        kind: kind.into(),
        copy: copy.into(),
        volume: volume.into(),
        volume_policy: policy.into(),
    }
}

#[test]
fn the_deletion_of_a_machine_records_whether_its_storage_is_discarded() {
    let discards = |deleted: bool, finalizer: &str| {
        let mut object = fixtures::recorded_machine();
        object["metadata"]["finalizers"] = json!(["pool.kubevirt.io/finalizer", finalizer]);
        if deleted {
            object["metadata"]["deletionTimestamp"] = json!("2026-11-24T09:00:00Z");
        }
        KubeVirt::read_machine(&serde_json::from_value(object).unwrap()).discards_storage
    };
    assert!(discards(true, "foregroundDeletion"));
    assert!(!discards(true, "orphan") && !discards(false, "foregroundDeletion"));
}

#[test]
fn a_release_removes_the_mark_of_a_restart() {
    let released = |annotations: Value| {
        let mut machine = fixtures::recorded_machine();
        machine["metadata"]["annotations"] = annotations;
        match <KubeVirt as Platform>::release(&serde_json::from_value(machine).unwrap()) {
            PatchBody::Json(Value::Array(operations)) => operations,
            other => panic!("{other:?}"),
        }
    };
    let marked = released(json!({ "vmpool.dev/restarting": "herd-1", "a": "b" }));
    let expected = json!({ "op": "remove", "path": "/metadata/annotations/vmpool.dev~1restarting" });
    assert_eq!(marked.last(), Some(&expected));
    assert_eq!(released(json!({ "a": "b" })), marked[..marked.len() - 1]);
}

#[test]
fn a_pool_of_the_definition_of_vmpool_has_the_default_of_its_status() {
    let is_own = |status: Value| {
        let mut pool = stored();
        pool["status"] = status;
        KubeVirt::has_definition_of_vmpool(&serde_json::from_value(pool).unwrap())
    };
    assert!(is_own(json!({ "observedGeneration": -1 })));
    assert!(is_own(json!({ "observedGeneration": 4, "replicas": 3 })));
    assert!(!is_own(json!({ "labelSelector": "farm=render", "replicas": 3 })));
    assert!(!is_own(Value::Null));
}

#[test]
fn a_patch_removes_the_conditions_for_clients_that_wait_and_no_others() {
    let condition = |kind: &str| json!({ "type": kind, "status": "True" });
    let kinds = ["Ready", "ReplicaPaused", "Reconciling", "Audited", "Stalled"];
    let mut pool = stored();
    pool["status"] = json!({ "conditions": kinds.map(condition), "replicas": 3 });
    let removal = |pool: &Value| {
        let object: KubeVirtPoolObject = serde_json::from_value(pool.clone()).unwrap();
        KubeVirt::remove_kstatus_conditions(&object)
    };
    let patch: json_patch::Patch = serde_json::from_value(removal(&pool).unwrap()).unwrap();
    let before = pool.clone();
    json_patch::patch(&mut pool, &patch).unwrap();
    let left = json!(["ReplicaPaused", "Audited"].map(condition));
    assert_eq!(pool["status"], json!({ "conditions": left, "replicas": 3 }));
    assert_eq!(removal(&pool), None, "nothing is left to remove");
    // A pool whose conditions changed meanwhile stays as it is.
    let mut changed = before;
    changed["status"]["conditions"].as_array_mut().unwrap().remove(1);
    assert!(json_patch::patch(&mut changed, &patch).is_err());
}
