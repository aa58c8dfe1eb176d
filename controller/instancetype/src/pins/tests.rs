use rstest::rstest;
use serde_json::{Value, json};
use vmpool_api::kubevirt::labels::POOL_UID;
use vmpool_decision::decide_with;
use vmpool_engine::ObjectId;
use vmpool_platform::DefaultInterface;

use super::owners::{add_machine_owner, with_machine_owners};
use super::*;
use crate::sample_pool::{
    LINUX, NAMESPACE, SMALL, find_in_cluster, linux_preference, pool_id, pool_spec, pool_spec_with_both,
    small_instancetype,
};

/// Resolves with a cluster that has these objects, by their paths. Returns the paths that were read, too.
fn resolve_with(spec: &Value, cluster: &[(&str, Value)]) -> (Resolution, Vec<String>) {
    resolve_where(&Configuration::default(), spec, cluster)
}

fn resolve_where(
    configuration: &Configuration,
    spec: &Value,
    cluster: &[(&str, Value)],
) -> (Resolution, Vec<String>) {
    let mut read = Vec::new();
    let answer = |reference: &ReferencedObject| {
        read.push(format!("{}/{}", reference.collection, reference.name));
        find_in_cluster(cluster, reference)
    };
    let ended =
        decide_with(answer, |found| resolve_pool_pins(&pool_id(), NAMESPACE, spec, configuration, found));
    (ended, read)
}

fn resolved(spec: &Value, cluster: &[(&str, Value)]) -> Value {
    match resolve_with(spec, cluster).0 {
        Resolution::Resolved(content) => content,
        other => panic!("{other:?}"),
    }
}

const ROOT: &str = "/api/v1/namespaces/studio/persistentvolumeclaims/root";

#[test]
fn a_template_without_matchers_has_no_references() {
    assert!(!has_references(&pool_spec(&json!({}))));
    assert!(!has_references(&json!(null)));
    assert!(has_references(&pool_spec_with_both()));
}

#[test]
fn machines_get_the_pinned_matchers_and_the_revision_contains_the_copies() {
    let cluster = [(SMALL, small_instancetype(3, "2048Mi")), (LINUX, linux_preference(&json!({})))];
    let (resolution, read) = resolve_with(&pool_spec_with_both(), &cluster);
    let Resolution::Resolved(content) = resolution else { panic!("{resolution:?}") };
    assert_eq!(read, [SMALL, LINUX]);
    let pins = copy_objects(&content);
    assert_eq!(pins.len(), 2);
    let name = "farm-small-v1beta1-uid-of-small-3";
    assert_eq!(pins[0]["metadata"]["name"], name);
    assert_eq!(pins[0]["metadata"]["namespace"], NAMESPACE);
    assert_eq!(pins[0]["metadata"]["labels"][POOL_UID], "uid-of-farm");
    let owner = &pins[0]["metadata"]["ownerReferences"][0];
    assert_eq!((&owner["uid"], &owner["controller"]), (&json!("uid-of-farm"), &json!(true)));
    assert_eq!(pins[0]["data"]["spec"]["memory"]["guest"], "2048Mi", "the spelling stays");
    assert_eq!(pins[0]["data"]["metadata"].get("labels"), None);

    let mut machine = pool_spec_with_both()[TEMPLATE]["spec"].clone();
    apply_pins(&mut machine, &content[FIELD]);
    assert_eq!(machine["instancetype"], json!({ "name": "small", "revisionName": name }));
    assert_eq!(machine["preference"]["revisionName"], "farm-linux-v1beta1-uid-of-linux-1");
    assert_eq!(
        content[TEMPLATE],
        pool_spec_with_both()[TEMPLATE],
        "the template itself stays as the user wrote it"
    );
}

#[test]
fn what_can_be_resolved_is_copied_and_the_rest_is_added_later() {
    let missing = [(SMALL, small_instancetype(3, "2Gi"))];
    let (Resolution::Partial(partial, unresolved, _), _) = resolve_with(&pool_spec_with_both(), &missing)
    else {
        panic!()
    };
    assert_eq!(unresolved.reason, ConditionReason::PreferenceNotFound);
    assert_eq!(copy_objects(&partial).len(), 1);
    assert!(lacks_copies(&partial) && is_resolved(&partial, TypeFamily::Instancetype));
    // Nothing new can be copied.
    let (again, read) = resolve_with(&partial, &missing);
    assert!(matches!(again, Resolution::Unresolved(..)), "{again:?}");
    assert_eq!(read, [LINUX]);
    // The instance type is gone when the preference appears.
    let complete = resolved(&partial, &[(LINUX, linux_preference(&json!({})))]);
    assert!(!lacks_copies(&complete));
    assert_eq!(complete[FIELD]["instancetype"], partial[FIELD]["instancetype"]);
    assert_eq!(copy_objects(&complete).len(), 2);
    // Both are compared with the template.
    let large = linux_preference(&json!({ "requirements": { "cpu": { "guest": 64 } } }));
    let (Resolution::Unresolved(unresolved, _), _) = resolve_with(&partial, &[(LINUX, large)]) else {
        panic!()
    };
    assert_eq!(unresolved.reason, ConditionReason::RequirementsNotMet);
}

#[test]
fn a_template_that_is_written_out_gets_the_rest_later_too() {
    let mut spec = pool_spec_with_both();
    spec[policy::FIELD] = json!("Expand");
    let (Resolution::Partial(partial, ..), _) = resolve_with(&spec, &[(SMALL, small_instancetype(3, "2Gi"))])
    else {
        panic!()
    };
    let later = resolved(&partial, &[(LINUX, linux_preference(&json!({})))]);
    let small = [(SMALL, small_instancetype(3, "2Gi")), (LINUX, linux_preference(&json!({})))];
    assert_eq!(later, resolved(&spec, &small));
}

#[test]
fn the_memory_that_an_inferred_name_replaces_is_removed_in_a_copy_that_exists_already() {
    let mut spec = pool_spec(&json!({
        "instancetype": { "inferFromVolume": "root", "inferFromVolumeFailurePolicy": "Ignore" },
        "preference": { "name": "linux", "kind": "virtualmachinepreference" },
        "template": { "spec": {
            "domain": { "devices": {}, "memory": { "guest": "512Mi" } },
            "volumes": [{ "name": "root", "persistentVolumeClaim": { "claimName": "root" } }],
        } },
    }));
    let claim = json!({ "metadata": {
        "name": "root", "labels": { "instancetype.kubevirt.io/default-instancetype": "small" },
    } });
    let cluster = [(ROOT, claim), (SMALL, small_instancetype(3, "2Gi"))];
    let (Resolution::Partial(partial, ..), _) = resolve_with(&spec, &cluster) else { panic!() };
    let complete = resolved(&partial, &[(LINUX, linux_preference(&json!({})))]);
    apply_pins(&mut spec[TEMPLATE]["spec"], &complete[FIELD]);
    assert_eq!(spec.pointer("/virtualMachineTemplate/spec/template/spec/domain/memory"), None);
}

#[rstest]
#[case::a_name(json!({ "name": "small" }), &["VirtualMachineClusterInstancetype//small"])]
#[case::a_name_in_the_namespace(
    json!({ "name": "small", "kind": "VirtualMachineInstancetype" }), &["VirtualMachineInstancetype/studio/small"]
)]
#[case::a_volume(
    json!({ "inferFromVolume": "root" }), &["VirtualMachineInstancetype/studio/?", "VirtualMachineClusterInstancetype//?"]
)]
#[case::a_copy(json!({ "name": "small", "revisionName": "own" }), &[])]
#[case::a_kind_that_does_not_exist(
    json!({ "name": "small", "kind": "odd" }), &["VirtualMachineInstancetype/studio/?", "VirtualMachineClusterInstancetype//?"]
)]
fn a_template_lacks_copies_of(#[case] matcher: Value, #[case] expected: &[&str]) {
    let spec = pool_spec(&json!({ "instancetype": matcher }));
    let text = |spec: &Value| -> Vec<String> {
        let referents = source::uncopied_objects(spec, NAMESPACE);
        referents
            .iter()
            .map(|of| format!("{}/{}/{}", of.kind, of.namespace, of.name.as_deref().unwrap_or("?")))
            .collect()
    };
    assert_eq!(text(&spec), expected);
    let mut copied = spec;
    copied[FIELD]["instancetype"] = json!({});
    assert_eq!(text(&copied), [""; 0]);
    copied[FIELD] = Value::Null;
    copied[policy::FIELD] = json!("PerMember");
    assert_eq!(text(&copied), [""; 0]);
}

#[test]
fn people_see_the_objects_and_their_copies() {
    let content = resolved(&pool_spec_with_both(), &cluster());
    let small = "instance type small (copy farm-small-v1beta1-uid-of-small-3)";
    assert_eq!(
        describe_copies(&content),
        [small, "preference linux (copy farm-linux-v1beta1-uid-of-linux-1)"]
    );
    let content = resolved(&with_policy("Expand"), &cluster());
    assert_eq!(
        describe_copies(&content),
        ["instance type small (written out)", "preference linux (written out)"]
    );
    assert_eq!(describe_copies(&pool_spec_with_both()), [""; 0]);
}

#[test]
fn the_status_shows_the_copies_that_machines_name() {
    let shown = |content: &Value| -> Vec<String> {
        let line = |used: UsedCopy| {
            let UsedCopy { field, name, kind, copy, volume, volume_policy } = used;
            format!("{field} {name}/{kind} {copy} {volume}/{volume_policy}")
        };
        used_copies(content).into_iter().map(line).collect()
    };
    let small = "farm-small-v1beta1-uid-of-small-3";
    assert_eq!(
        shown(&resolved(&pool_spec_with_both(), &cluster())),
        [
            format!("instancetype small/ {small} /"),
            "preference linux/virtualmachinepreference farm-linux-v1beta1-uid-of-linux-1 /".to_owned(),
        ]
    );
    // A name from a volume is shown with the volume.
    let mut inferring = pool_spec(&json!({
        "instancetype": { "inferFromVolume": "root", "inferFromVolumeFailurePolicy": "Ignore" },
    }));
    inferring[TEMPLATE]["spec"]["template"]["spec"]["volumes"] =
        json!([{ "name": "root", "persistentVolumeClaim": { "claimName": "root" } }]);
    let labels = json!({ "instancetype.kubevirt.io/default-instancetype": "small" });
    let claim = json!({ "metadata": { "labels": labels } });
    let content = resolved(&inferring, &[(SMALL, small_instancetype(3, "2Gi")), (ROOT, claim)]);
    assert_eq!(shown(&content), [format!("instancetype small/ {small} root/Ignore")]);
    // Without a label, there is nothing to show.
    let content = resolved(&inferring, &[(ROOT, json!({ "metadata": {} }))]);
    assert_eq!(shown(&content), [""; 0]);
    // With other policies, machines name no copy of the pool.
    assert_eq!(shown(&resolved(&with_policy("Expand"), &cluster())), [""; 0]);
    assert_eq!(shown(&with_policy("PerMember")), [""; 0]);
}

#[test]
fn a_later_revision_with_the_same_template_has_the_same_pins() {
    let stored = resolved(
        &pool_spec_with_both(),
        &[(SMALL, small_instancetype(3, "2Gi")), (LINUX, linux_preference(&json!({})))],
    );
    let mut scaled = pool_spec_with_both();
    scaled["replicas"] = json!(7);
    let inherited = inherit_copies(&scaled, &stored).unwrap();
    assert_eq!(copy_objects(&inherited), copy_objects(&stored));
    assert_eq!(inherited["replicas"], 7);
    assert_eq!(
        inherit_copies(&scaled, &pool_spec_with_both()),
        None,
        "a revision without pins has none to give"
    );
}

#[rstest]
#[case::no_type(json!({ "instancetype": { "name": "small" } }), "InstancetypeNotFound", "\"small\" does not exist")]
#[case::no_preference(
    json!({ "preference": { "name": "linux" } }), "PreferenceNotFound", "\"linux\" does not exist"
)]
#[case::an_unknown_kind(
    json!({ "instancetype": { "name": "small", "kind": "Flavor" } }), "InstancetypeNotFound", "unknown kind"
)]
#[case::a_path(json!({ "instancetype": { "name": "../small" } }), "InstancetypeNotFound", "does not exist")]
#[case::an_empty_matcher(json!({ "preference": {} }), "PreferenceNotFound", "name the preference")]
#[case::no_revision(
    json!({ "instancetype": { "name": "small", "revisionName": "gone" } }), "InstancetypeNotFound", "\"gone\""
)]
#[case::no_volume(
    json!({ "instancetype": { "inferFromVolume": "root" } }), "InferenceFailed", "spec.instancetype.inferFromVolume: the machine has no volume \"root\""
)]
fn what_does_not_exist_has_a_reason(#[case] template: Value, #[case] reason: &str, #[case] message: &str) {
    let (Resolution::Unresolved(unresolved, _), _) = resolve_with(&pool_spec(&template), &[]) else {
        panic!()
    };
    assert_eq!(unresolved.reason.as_str(), reason);
    assert!(unresolved.message.contains(message), "{}", unresolved.message);
}

#[test]
fn a_conflict_names_the_field_of_the_pool() {
    let mut spec = pool_spec(&json!({ "instancetype": { "name": "small" } }));
    spec[TEMPLATE]["spec"]["template"]["spec"]["domain"]["memory"] = json!({ "guest": "1Gi" });
    let (Resolution::Unresolved(unresolved, _), _) =
        resolve_with(&spec, &[(SMALL, small_instancetype(1, "2Gi"))])
    else {
        panic!()
    };
    assert_eq!(unresolved.reason, ConditionReason::InstancetypeConflict);
    let path = "spec.virtualMachineTemplate.spec.template.spec.domain.memory.guest";
    assert!(unresolved.message.contains(path), "{}", unresolved.message);
}

#[test]
fn requirements_that_are_not_met_have_a_reason() {
    let demanding = linux_preference(&json!({ "requirements": { "cpu": { "guest": 4 } } }));
    let cluster = [(SMALL, small_instancetype(1, "2Gi")), (LINUX, demanding)];
    let (Resolution::Unresolved(unresolved, _), _) = resolve_with(&pool_spec_with_both(), &cluster) else {
        panic!()
    };
    assert_eq!(unresolved.reason, ConditionReason::RequirementsNotMet);
}

#[test]
fn a_copy_that_the_template_names_is_used_as_it_is() {
    let mut stored = copy_objects(&resolved(
        &pool_spec(&json!({ "instancetype": { "name": "small" } })),
        &[(SMALL, small_instancetype(1, "2Gi"))],
    ))
    .remove(0);
    stored["metadata"]["name"] = json!("mine");
    let matcher = json!({ "name": "small", "revisionName": "mine" });
    let own = pool_spec(&json!({ "instancetype": matcher }));
    let place = "/apis/apps/v1/namespaces/studio/controllerrevisions/mine";
    let content = resolved(&own, &[(place, stored.clone())]);
    assert_eq!(copy_objects(&content), [] as [Value; 0]);
    let mut machine = own[TEMPLATE]["spec"].clone();
    apply_pins(&mut machine, &content[FIELD]);
    assert_eq!(machine["instancetype"], matcher);

    // The copy is the user's, so it keeps its version, and machines name it. Only what can be read is used.
    let mut old = stored.clone();
    old["metadata"]["labels"]["instancetype.kubevirt.io/object-version"] = json!("v1alpha2");
    old["data"]["apiVersion"] = json!("instancetype.kubevirt.io/v1alpha2");
    assert_eq!(resolved(&own, &[(place, old.clone())]), content);
    old["data"]["spec"]["cpu"] = json!("two");
    let (Resolution::Unresolved(unresolved, _), _) = resolve_with(&own, &[(place, old)]) else { panic!() };
    assert_eq!(unresolved.reason, ConditionReason::RevisionMismatch);

    stored["metadata"]["labels"]["instancetype.kubevirt.io/object-name"] = json!("other");
    let (Resolution::Unresolved(unresolved, _), _) = resolve_with(&own, &[(place, stored)]) else { panic!() };
    assert_eq!(unresolved.reason, ConditionReason::RevisionMismatch);
}

#[test]
fn what_a_volume_names_is_pinned_and_a_default_of_memory_is_removed() {
    let claim =
        json!({ "metadata": { "labels": { "instancetype.kubevirt.io/default-instancetype": "small" } } });
    let mut spec = pool_spec(&json!({
        "instancetype": { "inferFromVolume": "root", "inferFromVolumeFailurePolicy": "Ignore" },
    }));
    let instance = &mut spec[TEMPLATE]["spec"]["template"]["spec"];
    instance["volumes"] = json!([{ "name": "root", "persistentVolumeClaim": { "claimName": "root" } }]);
    instance["domain"]["memory"] = json!({ "guest": "512Mi" });
    let content = resolved(&spec, &[(ROOT, claim), (SMALL, small_instancetype(1, "2Gi"))]);
    let mut machine = spec[TEMPLATE]["spec"].clone();
    apply_pins(&mut machine, &content[FIELD]);
    assert_eq!(
        machine["instancetype"],
        json!({ "name": "small", "revisionName": "farm-small-v1beta1-uid-of-small-1" })
    );
    assert_eq!(machine["template"]["spec"]["domain"], json!({ "devices": {} }));

    // Without the label, the failure is ignored: machines have no instance type, and keep their memory.
    let content = resolved(&spec, &[(ROOT, json!({ "metadata": {} }))]);
    let mut machine = spec[TEMPLATE]["spec"].clone();
    apply_pins(&mut machine, &content[FIELD]);
    assert_eq!(machine.get("instancetype"), None);
    assert_eq!(machine["template"]["spec"]["domain"]["memory"]["guest"], "512Mi");
}

#[test]
fn only_a_change_of_what_machines_get_counts_for_restarts() {
    let linux = || (LINUX, linux_preference(&json!({})));
    let first = resolved(&pool_spec_with_both(), &[(SMALL, small_instancetype(1, "2Gi")), linux()]);
    let annotated = resolved(&pool_spec_with_both(), &[(SMALL, small_instancetype(2, "2Gi")), linux()]);
    let larger = resolved(&pool_spec_with_both(), &[(SMALL, small_instancetype(3, "4Gi")), linux()]);
    assert_eq!(effective_type_specs(&first), effective_type_specs(&annotated));
    assert_ne!(effective_type_specs(&first), effective_type_specs(&larger));
}

#[test]
fn an_existing_object_is_compared_by_what_it_stores() {
    let spec = pool_spec(&json!({ "instancetype": { "name": "small" } }));
    let pin = copy_objects(&resolved(&spec, &[(SMALL, small_instancetype(1, "2048Mi"))])).remove(0);
    assert_eq!(compare_pinned_copy(&pool_id(), &pin, &pin), CopyComparison::Same);

    let mut live = pin.clone();
    live["data"]["spec"]["memory"]["guest"] = json!("2Gi");
    assert_eq!(
        compare_pinned_copy(&pool_id(), &pin, &live),
        CopyComparison::Same,
        "quantities are compared by value"
    );
    live["data"]["spec"]["cpu"]["guest"] = json!(3);
    assert!(matches!(compare_pinned_copy(&pool_id(), &pin, &live), CopyComparison::Replace { .. }));

    let mut live = pin.clone();
    live["metadata"]["ownerReferences"][0]["uid"] = json!("of-a-machine");
    live["metadata"]["ownerReferences"][0]["kind"] = json!("VirtualMachine");
    let CopyComparison::Incomplete(patch) = compare_pinned_copy(&pool_id(), &pin, &live) else { panic!() };
    let owners = patch[2]["value"].as_array().unwrap();
    assert_eq!(
        (owners.len(), &owners[1]["uid"], &owners[1]["controller"]),
        (2, &json!("uid-of-farm"), &json!(false))
    );

    // The pool of the same name whose copy the garbage collector has not deleted yet
    let mut live = pin.clone();
    live["metadata"]["ownerReferences"][0]["uid"] = json!("of-the-former-pool");
    live["metadata"]["labels"][POOL_UID] = json!("of-the-former-pool");
    let CopyComparison::Incomplete(patch) = compare_pinned_copy(&pool_id(), &pin, &live) else { panic!() };
    assert_eq!(
        patch[2]["value"], pin["metadata"]["ownerReferences"],
        "the former owner would keep the pool from being its controller"
    );
    let labels = json!({ "op": "add", "path": "/metadata/labels", "value": pin["metadata"]["labels"] });
    assert_eq!(patch[3], labels);

    let mut live = pin.clone();
    live["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert_eq!(compare_pinned_copy(&pool_id(), &pin, &live), CopyComparison::Other, "it will soon be gone");
}

#[test]
fn a_pin_of_the_pool_with_foreign_data_is_replaced() {
    let spec = pool_spec(&json!({ "instancetype": { "name": "small" } }));
    let pin = copy_objects(&resolved(&spec, &[(SMALL, small_instancetype(1, "2048Mi"))])).remove(0);
    let machine =
        json!({ "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": "detached", "uid": "d" });
    let mut foreign = pin.clone();
    foreign["data"]["spec"]["memory"]["guest"] = json!("64Gi");
    foreign["metadata"]["ownerReferences"].as_array_mut().unwrap().push(machine.clone());
    let CopyComparison::Replace { object: replacement, former_version: None } =
        compare_pinned_copy(&pool_id(), &pin, &foreign)
    else {
        panic!()
    };
    assert_eq!(replacement["data"], pin["data"]);
    assert_eq!(replacement["metadata"]["ownerReferences"][1], machine, "a detached machine uses it, too");
    // What does not belong to the pool stays.
    for (field, value) in [("labels", json!({})), ("ownerReferences", json!([machine]))] {
        let mut other = foreign.clone();
        other["metadata"][field] = value;
        assert_eq!(compare_pinned_copy(&pool_id(), &pin, &other), CopyComparison::Other, "{field}");
    }
}

/// A pin, and the same in a former version of the API, with these labels, as a backup of an old cluster has
/// it.
fn of_old_cluster(version: &str, labels: &Value) -> (Value, Value) {
    let spec = pool_spec(&json!({ "instancetype": { "name": "small" } }));
    let pin = copy_objects(&resolved(&spec, &[(SMALL, small_instancetype(1, "2Gi"))])).remove(0);
    let mut old = pin.clone();
    old["data"]["apiVersion"] = json!(format!("instancetype.kubevirt.io/{version}"));
    // The former versions had empty texts where the current one has nothing.
    old["data"]["spec"]["cpu"]["model"] = json!("");
    old["metadata"]["labels"] = labels.clone();
    let machine =
        json!({ "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": "detached", "uid": "d" });
    old["metadata"]["ownerReferences"] = json!([pin["metadata"]["ownerReferences"][0], machine]);
    (pin, old)
}

#[rstest]
#[case::v1alpha2("v1alpha2", json!({ "instancetype.kubevirt.io/object-version": "v1alpha2" }))]
#[case::v1alpha1("v1alpha1", json!({ "instancetype.kubevirt.io/object-version": "v1alpha1" }))]
#[case::without_labels("v1alpha2", json!(null))]
fn a_copy_in_a_former_version_is_replaced_by_the_same_in_the_current_one(
    #[case] version: &str,
    #[case] labels: Value,
) {
    let (pin, old) = of_old_cluster(version, &labels);
    let CopyComparison::Replace { object: replacement, former_version } =
        compare_pinned_copy(&pool_id(), &pin, &old)
    else {
        panic!()
    };
    assert_eq!(former_version, Some(version));
    assert_eq!(replacement["data"], pin["data"]);
    assert_eq!(replacement["metadata"]["labels"], pin["metadata"]["labels"]);
    assert_eq!(replacement["metadata"]["name"], old["metadata"]["name"], "machines refer to it");
    assert_eq!(
        replacement["metadata"]["ownerReferences"], old["metadata"]["ownerReferences"],
        "a detached machine uses it, too"
    );
    // One with another content is not replaced.
    let mut other = old;
    other["data"]["spec"]["cpu"]["guest"] = json!(9);
    assert_eq!(compare_pinned_copy(&pool_id(), &pin, &other), CopyComparison::Other);
}

#[test]
fn a_copy_without_a_label_gets_it() {
    let (pin, _) = of_old_cluster("v1alpha2", &json!(null));
    let mut live = pin.clone();
    live["metadata"]["labels"] = json!({ "mine": "1" });
    let CopyComparison::Incomplete(patch) = compare_pinned_copy(&pool_id(), &pin, &live) else { panic!() };
    let mut labels = pin["metadata"]["labels"].clone();
    labels["mine"] = json!("1");
    assert_eq!(patch[3], json!({ "op": "add", "path": "/metadata/labels", "value": labels }));
    assert_eq!(patch[2]["value"], pin["metadata"]["ownerReferences"]);
}

#[test]
fn a_revision_with_copies_in_a_former_version_is_used_in_the_current_one() {
    let content = resolved(&pool_spec_with_both(), &cluster());
    let mut old = content.clone();
    for family in FAMILIES {
        let revision = &mut old[FIELD][family.field()]["revision"];
        revision["data"]["apiVersion"] = json!("instancetype.kubevirt.io/v1alpha1");
        revision["metadata"]["labels"]["instancetype.kubevirt.io/object-version"] = json!("v1alpha1");
    }
    assert_eq!(copy_objects(&old), copy_objects(&content));
    assert_eq!(comparable_template(&old), comparable_template(&content));
    assert_eq!(effective_type_specs(&old), effective_type_specs(&content));
    assert_eq!(source::copied_objects(&old), source::copied_objects(&content));
}

#[test]
fn a_lost_copy_of_detached_machines_is_made_again_with_them_as_owners() {
    let (pin, old) = of_old_cluster("v1alpha2", &json!(null));
    let machine = ObjectId::new("detached", "d");
    let shared = with_machine_owners(&pin, std::slice::from_ref(&machine));
    assert_eq!(shared["metadata"]["ownerReferences"], old["metadata"]["ownerReferences"]);
    assert_eq!(with_machine_owners(&shared, &[machine]), shared);
    assert_eq!(with_machine_owners(&pin, &[]), pin);
}

#[test]
fn a_released_machine_becomes_a_further_owner_of_its_pins() {
    let spec = pool_spec(&json!({ "instancetype": { "name": "small" } }));
    let mut pin = copy_objects(&resolved(&spec, &[(SMALL, small_instancetype(1, "2Gi"))])).remove(0);
    let machine = ObjectId::new("farm-0", "uid-of-machine");
    let patch = add_machine_owner(&pin, &machine).unwrap();
    let owners = patch[2]["value"].clone();
    assert_eq!((&owners[0]["uid"], &owners[1]["uid"]), (&json!("uid-of-farm"), &json!("uid-of-machine")));
    assert_eq!(owners[1].get("controller"), None, "the pool stays the controller");
    pin["metadata"]["ownerReferences"] = owners;
    assert_eq!(add_machine_owner(&pin, &machine), None);
    pin["metadata"]["labels"] = json!({});
    assert_eq!(
        add_machine_owner(&pin, &ObjectId::new("farm-1", "another")),
        None,
        "KubeVirt's own copies stay as they are"
    );
}

fn with_policy(policy: &str) -> Value {
    let mut spec = pool_spec_with_both();
    spec[policy::FIELD] = json!(policy);
    spec
}

/// The spec of a machine that is created from the content of a revision.
fn machine(content: &Value) -> Value {
    let mut machine = content[TEMPLATE]["spec"].clone();
    apply_pins(&mut machine, &content[FIELD]);
    machine
}

fn cluster() -> [(&'static str, Value); 2] {
    let devices =
        json!({ "devices": { "preferredInputBus": "virtio", "preferredAutoattachInputDevice": true } });
    [(SMALL, small_instancetype(3, "2048Mi")), (LINUX, linux_preference(&devices))]
}

#[test]
fn the_policy_expand_writes_type_and_preference_into_machines_and_stores_no_copies() {
    let content = resolved(&with_policy("Expand"), &cluster());
    assert!(copy_objects(&content).is_empty(), "{content}");
    let machine = machine(&content);
    assert_eq!((machine.get("instancetype"), machine.get("preference")), (None, None));
    let domain = &machine["template"]["spec"]["domain"];
    assert_eq!(domain["memory"]["guest"], "2048Mi");
    assert_eq!(domain["cpu"]["sockets"], 2);
    assert_eq!(domain["devices"]["inputs"][0]["bus"], "virtio");
    assert_eq!(domain["devices"].get("interfaces"), None, "general defaults are KubeVirt's");
    assert_eq!(
        content[TEMPLATE],
        pool_spec_with_both()[TEMPLATE],
        "the template itself stays as the user wrote it"
    );
}

/// KubeVirt adds the default interface to a machine that starts, before it applies the preference. A machine
/// in which the preference is written out has none then.
#[rstest]
#[case::by_a_bridge(DefaultInterface::Bridge, json!([{ "name": "default", "bridge": {}, "model": "e1000e" }]))]
#[case::by_masquerade(DefaultInterface::Masquerade, json!([{ "name": "default", "masquerade": {}, "model": "e1000e" }]))]
#[case::in_an_unknown_way(DefaultInterface::Other, Value::Null)]
fn the_policy_expand_writes_out_a_default_interface_that_the_preference_changes(
    #[case] interface: DefaultInterface,
    #[case] expected: Value,
) {
    let machine = machine(&with_model(&with_policy("Expand"), "e1000e", interface));
    assert_eq!(machine["template"]["spec"]["domain"]["devices"]["interfaces"], expected);
    let networks = if expected.is_null() { Value::Null } else { json!([{ "name": "default", "pod": {} }]) };
    assert_eq!(machine["template"]["spec"]["networks"], networks);
}

#[test]
fn pinned_and_expanded_machines_start_the_same_instance() {
    let pinned = comparable_template(&resolved(&pool_spec_with_both(), &cluster())).unwrap();
    let content = resolved(&with_policy("Expand"), &cluster());
    assert_eq!(comparable_template(&content).unwrap(), pinned);
    assert_eq!(machine(&content), pinned["spec"]);
    assert_eq!(comparable_template(&pool_spec_with_both()), None, "nothing is copied yet");
}

/// The content of a revision whose preference sets this model of interfaces.
fn with_model(spec: &Value, model: &str, interface: DefaultInterface) -> Value {
    let preference = linux_preference(&json!({ "devices": { "preferredInterfaceModel": model } }));
    let cluster = [(SMALL, small_instancetype(3, "2Gi")), (LINUX, preference)];
    let (Resolution::Resolved(content), _) =
        resolve_where(&Configuration { interface, ..Configuration::default() }, spec, &cluster)
    else {
        panic!()
    };
    content
}

/// KubeVirt refuses each machine of a pool whose architecture the preference does not allow.
#[rstest]
#[case::of_the_cluster(json!({}), json!({}), Some("amd64"), false)]
#[case::of_another_cluster(json!({}), json!({}), Some("arm64"), true)]
#[case::of_an_unknown_cluster(json!({}), json!({}), None, true)]
#[case::of_the_template(json!({ "architecture": "arm64" }), json!({}), Some("amd64"), true)]
#[case::of_the_preference(json!({}), json!({ "preferredArchitecture": "arm64" }), Some("amd64"), true)]
fn the_architecture_of_the_cluster_counts_if_the_template_has_none(
    #[case] template: Value,
    #[case] preferences: Value,
    #[case] architecture: Option<&str>,
    #[case] is_met: bool,
    #[values("Pin", "Expand")] policy: &str,
) {
    let mut required = preferences.clone();
    required["requirements"] = json!({ "architecture": "arm64" });
    let cluster = [(SMALL, small_instancetype(3, "2Gi")), (LINUX, linux_preference(&required))];
    let mut spec = with_policy(policy);
    spec[TEMPLATE]["spec"]["template"]["spec"] = template.clone();
    let configuration =
        Configuration { architecture: architecture.map(Arc::from), ..Configuration::default() };
    match resolve_where(&configuration, &spec, &cluster).0 {
        Resolution::Resolved(content) => {
            assert!(is_met, "{content}");
            let is_chosen = template != json!({}) || policy == "Expand" && preferences != json!({});
            let written = machine(&content)["template"]["spec"]["architecture"].is_string();
            assert_eq!(written, is_chosen, "the default is KubeVirt's: {content}");
        }
        Resolution::Unresolved(unresolved, _) => {
            assert_eq!((unresolved.reason, is_met), (ConditionReason::RequirementsNotMet, false));
        }
        other @ Resolution::Partial(..) => panic!("{other:?}"),
    }
}

/// The webhooks fill the storage class into a machine that names the preference, and this one names none.
#[test]
fn an_expanded_machine_has_the_storage_class_of_the_preference() {
    let mut spec = with_policy("Expand");
    spec[TEMPLATE]["spec"]["dataVolumeTemplates"] = json!([
        { "metadata": { "name": "root" }, "spec": { "storage": {} } },
        { "metadata": { "name": "data" }, "spec": { "pvc": { "storageClassName": "mine" } } },
    ]);
    let volumes = |class: &str| {
        let preference = linux_preference(&json!({ "volumes": { "preferredStorageClassName": class } }));
        [(SMALL, small_instancetype(3, "2Gi")), (LINUX, preference)]
    };
    let content = resolved(&spec, &volumes("fast"));
    let templates = &machine(&content)["dataVolumeTemplates"];
    assert_eq!(templates[0]["spec"]["storage"]["storageClassName"], "fast");
    assert_eq!(templates[1]["spec"]["pvc"]["storageClassName"], "mine");
}

#[test]
fn the_policy_per_machine_leaves_the_matchers_to_kubevirt() {
    assert!(!has_references(&with_policy("PerMember")));
    assert!(has_references(&with_policy("Expand")));
    assert!(has_references(&with_policy("unknown")), "it counts as Pin");
}

#[test]
fn where_the_cluster_expands_pins_are_written_out() {
    let mut spec = pool_spec_with_both();
    assert!(write_out(&mut spec));
    assert_eq!(spec, with_policy("Expand"));
    for mut other in [with_policy("Expand"), with_policy("PerMember"), pool_spec(&json!({}))] {
        let before = other.clone();
        assert!(!write_out(&mut other));
        assert_eq!(other, before);
    }
}

#[test]
fn a_change_of_the_policy_is_a_change_of_a_template_with_matchers() {
    assert_eq!(
        canonical_policy(&pool_spec_with_both()),
        None,
        "revisions of earlier versions have no policy"
    );
    assert_eq!(canonical_policy(&with_policy("Pin")), None);
    assert_eq!(canonical_policy(&with_policy("Expand")), Some("Expand"));
    let without = json!({ (policy::FIELD): "Expand", (TEMPLATE): { "spec": {} } });
    assert_eq!(canonical_policy(&without), None);
}

#[test]
fn the_annotation_gives_the_policy_if_the_spec_has_none() {
    let completed = |mut spec: Value, annotation: Option<&str>| {
        policy::add_annotated_policy(&mut spec, annotation.map(str::to_owned).as_ref());
        spec
    };
    assert_eq!(completed(pool_spec_with_both(), Some("Expand")), with_policy("Expand"));
    assert_eq!(completed(with_policy("PerMember"), Some("Expand")), with_policy("PerMember"));
    assert_eq!(completed(pool_spec_with_both(), Some("expand")), pool_spec_with_both());
    assert_eq!(completed(pool_spec_with_both(), None), pool_spec_with_both());
}

#[test]
fn references_are_compared_with_normalized_kinds() {
    let of = |kind: Value| {
        spec_references(&json!({ "instancetype": { "name": "small", "kind": kind, "revisionName": "r" } }))
    };
    let expected = of(json!(null));
    assert_eq!(&*expected.text, "VirtualMachineClusterInstancetype/small@r ");
    assert_eq!(expected.copies, ["r".into()]);
    assert_eq!(of(json!("virtualmachineclusterinstancetypes")), expected, "KubeVirt completes an empty kind");
    assert_ne!(of(json!("VirtualMachineInstancetype")), expected);
    assert_eq!(spec_references(&json!({ "preference": null })), MachineReferences::default());
}

#[test]
fn machines_refer_to_what_their_revision_says() {
    let content = resolved(&pool_spec_with_both(), &cluster());
    assert_eq!(revision_references(&content), Some(spec_references(&machine(&content))));
    assert_eq!(
        revision_references(&resolved(&with_policy("Expand"), &cluster())),
        Some(MachineReferences::default())
    );
    assert_eq!(
        revision_references(&pool_spec_with_both()),
        None,
        "KubeVirt completes the references of these machines"
    );
}

#[rstest]
#[case::the_same(small_instancetype(3, "2048Mi"), None)]
#[case::another_spelling(small_instancetype(4, "2Gi"), None)]
#[case::another_size(small_instancetype(4, "4Gi"), Some("SpecChanged"))]
#[case::created_again(recreated("4Gi"), Some("Recreated"))]
#[case::created_again_with_the_same_spec(recreated("2Gi"), None)]
#[case::gone(Value::Null, Some("Deleted"))]
fn a_copy_is_outdated_if_its_original_differs(#[case] live: Value, #[case] expected: Option<&str>) {
    for policy in ["Pin", "Expand"] {
        let content = resolved(&with_policy(policy), &cluster());
        let copies = source::copied_objects(&content);
        let named: Vec<_> = copies.iter().map(|copy| (&*copy.kind, &*copy.namespace, &*copy.name)).collect();
        let preference = ("VirtualMachinePreference", NAMESPACE, "linux");
        assert_eq!(named, [("VirtualMachineClusterInstancetype", "", "small"), preference]);
        let report = source::compare_with_original(&copies[0], Some(&live).filter(|live| !live.is_null()));
        assert_eq!(report.as_ref().map(|report| report.reason.as_str()), expected);
        assert!(
            report
                .is_none_or(|report| report.message.contains("VirtualMachineClusterInstancetype small was "))
        );
    }
}

fn recreated(memory: &str) -> Value {
    let mut object = small_instancetype(1, memory);
    object["metadata"]["uid"] = json!("another-uid");
    object
}

#[rstest]
#[case::nothing(InferenceEffect::NamedObject, json!({}))]
#[case::the_memory(InferenceEffect::RemovedMemory, json!({ "removesMemory": true }))]
#[case::the_matcher(InferenceEffect::RemovedMatcher, json!({ "matcher": null }))]
fn a_pin_without_an_object_records_what_inference_removed(
    #[case] effect: InferenceEffect,
    #[case] expected: Value,
) {
    assert_eq!(stored::compose_pin(effect, None), expected);
}
