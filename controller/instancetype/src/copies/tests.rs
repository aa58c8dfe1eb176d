#![expect(clippy::needless_pass_by_value, reason = "the tables of tests write JSON in place")]

use rstest::rstest;
use serde_json::{Value, json};
use vmpool_decision::decide_with;

use super::*;

const NAMESPACE: &str = "studio";
const UID: &str = "7f0c9f0e-3d0c-4a53-9f1e-0a1b2c3d4e5f";
const NOW: &str = "2026-01-01T00:00:00Z";
const STASH: &str = "db-small-v1beta1-7f0c9f0e-3d0c-4a53-9f1e-0a1b2c3d4e5f-1";

fn instancetype(generation: i64, memory: &str) -> Value {
    json!({
        "apiVersion": "instancetype.kubevirt.io/v1beta1",
        "kind": "VirtualMachineInstancetype",
        "metadata": { "name": "small", "namespace": NAMESPACE, "uid": UID, "generation": generation },
        "spec": { "cpu": { "guest": 2 }, "memory": { "guest": memory } },
    })
}

fn machine(matcher: Value) -> Value {
    json!({
        "metadata": { "name": "db", "namespace": NAMESPACE, "uid": "uid-of-db", "resourceVersion": "7" },
        "spec": { "instancetype": matcher, "template": { "spec": { "domain": { "devices": {} } } } },
    })
}

fn small() -> Value {
    json!({ "name": "small", "kind": "VirtualMachineInstancetype" })
}

/// A cluster: its objects by path.
#[derive(Clone, Default)]
struct Cluster(Vec<(String, Value)>);

impl Cluster {
    fn with(mut self, path: &str, object: Value) -> Self {
        self.0.push((path.to_owned(), object));
        self
    }

    fn with_type(self, object: Value) -> Self {
        let path = format!(
            "/apis/instancetype.kubevirt.io/v1beta1/namespaces/{NAMESPACE}/virtualmachineinstancetypes/small"
        );
        self.with(&path, object)
    }

    fn with_revision(self, revision: Value) -> Self {
        let name = revision["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        self.with(&format!("/apis/apps/v1/namespaces/{NAMESPACE}/controllerrevisions/{name}"), revision)
    }

    fn plan_with(&self, machine: &Value, owned: &[OwnedCopy]) -> CopyPlan {
        self.plan_by(CopyPolicy::Reference, machine, owned)
    }

    fn plan_by(&self, policy: CopyPolicy, machine: &Value, owned: &[OwnedCopy]) -> CopyPlan {
        let answer = |reference: &ReferencedObject| {
            let path = format!("{}/{}", reference.collection, reference.name);
            self.0.iter().find(|(known, _)| *known == path).map(|(_, object)| object.clone())
        };
        decide_with(answer, |found| plan_machine_copies(machine, owned, found, policy, NOW))
    }

    fn plan(&self, machine: &Value) -> CopyPlan {
        self.plan_with(machine, &[])
    }

    /// Carries out a plan. Returns the machine.
    fn apply(&mut self, mut machine: Value, plan: CopyPlan) -> Value {
        for revision in plan.creates {
            *self = std::mem::take(self).with_revision(revision);
        }
        for patch in plan.spec.into_iter().chain(plan.status) {
            json_patch::patch(&mut machine, &serde_json::from_value::<json_patch::Patch>(patch).unwrap())
                .unwrap();
        }
        machine
    }
}

fn reasons(plan: &CopyPlan) -> Vec<&str> {
    plan.events.iter().map(|event| event.reason).collect()
}

#[test]
fn a_machine_gets_a_copy_and_its_status_names_it() {
    let mut cluster = Cluster::default().with_type(instancetype(1, "2048Mi"));
    let planned = cluster.plan(&machine(small()));
    assert_eq!(planned.creates[0]["metadata"]["name"], STASH);
    assert_eq!(planned.creates[0]["metadata"]["ownerReferences"][0]["uid"], "uid-of-db");
    assert_eq!(planned.creates[0]["data"]["spec"]["memory"]["guest"], "2048Mi");
    assert_eq!(reasons(&planned), ["InstancetypeStashed"]);
    let settled = cluster.apply(machine(small()), planned);
    let expected = json!({ "name": "small", "kind": "VirtualMachineInstancetype",
        "controllerRevisionRef": { "name": STASH } });
    assert_eq!(settled["status"]["instancetypeRef"], expected);
    assert_eq!(cluster.plan(&settled), CopyPlan::default(), "a settled machine needs no write");
}

#[test]
fn an_edit_and_a_deletion_of_the_type_change_nothing() {
    let mut cluster = Cluster::default().with_type(instancetype(1, "2Gi"));
    let planned = cluster.plan(&machine(small()));
    let settled = cluster.apply(machine(small()), planned);
    cluster.0[0].1 = instancetype(2, "8Gi");
    assert_eq!(cluster.plan(&settled), CopyPlan::default());
    cluster.0.remove(0);
    assert_eq!(cluster.plan(&settled), CopyPlan::default());
}

#[test]
fn a_terminating_type_is_copied() {
    let mut terminating = instancetype(1, "2Gi");
    terminating["metadata"]["deletionTimestamp"] = json!(NOW);
    let planned = Cluster::default().with_type(terminating).plan(&machine(small()));
    assert_eq!(planned.creates.len(), 1, "{planned:?}");
}

#[test]
fn a_missing_type_is_a_condition_that_ends_when_the_type_appears() {
    let cluster = Cluster::default();
    let planned = cluster.plan(&machine(small()));
    assert!(planned.is_blocked && planned.creates.is_empty());
    assert_eq!(reasons(&planned), ["FailedFindInstancetype"]);
    let blocked = Cluster::default().apply(machine(small()), planned);
    let condition = &blocked["status"]["conditions"][0];
    assert_eq!(
        (&condition["type"], &condition["reason"]),
        (&json!("Failure"), &json!("FailedFindInstancetype"))
    );
    let again = cluster.plan(&blocked);
    assert_eq!((again.status, again.events.len(), again.is_blocked), (None, 0, true), "it is written once");
    let mut cluster = cluster.with_type(instancetype(1, "2Gi"));
    let planned = cluster.plan(&blocked);
    let settled = cluster.apply(blocked, planned);
    assert_eq!(settled["status"]["conditions"], json!([]));
    assert_eq!(settled["status"]["instancetypeRef"]["controllerRevisionRef"]["name"], STASH);
}

#[rstest]
#[case::of_the_namespace(json!({ "name": "a", "kind": "virtualmachineinstancetypes" }), Some(InstanceTypeKind::Instancetype))]
#[case::of_the_cluster(json!({ "name": "a" }), Some(InstanceTypeKind::ClusterInstancetype))]
#[case::that_does_not_exist(json!({ "name": "a", "kind": "Secret" }), None)]
#[case::of_a_volume(json!({ "inferFromVolume": "root" }), None)]
fn a_failure_has_the_kind_of_the_object(#[case] matcher: Value, #[case] kind: Option<InstanceTypeKind>) {
    let failure = Cluster::default().plan(&machine(matcher)).failure;
    assert_eq!(
        failure,
        Some(LookupFailure { reason: LookupReason::NotFound, kind: kind.map(InstanceTypeKind::as_str) })
    );
}

#[test]
fn a_failure_of_both_objects_has_the_kind_of_the_one_that_does_not_fit() {
    let mut conflicting = machine(small());
    conflicting["spec"]["template"]["spec"]["domain"]["memory"] = json!({ "guest": "1Gi" });
    let failure = Cluster::default().with_type(instancetype(1, "2Gi")).plan(&conflicting).failure;
    let kind = Some(InstanceTypeKind::Instancetype.as_str());
    assert_eq!(failure, Some(LookupFailure { reason: LookupReason::Conflict, kind }));
    let mut matcher = small();
    matcher["revisionName"] = json!("mine");
    matcher["name"] = json!("other");
    let mut copy =
        Cluster::default().with_type(instancetype(1, "2Gi")).plan(&machine(small())).creates.remove(0);
    copy["metadata"]["name"] = json!("mine");
    let failure = Cluster::default().with_revision(copy).plan(&machine(matcher)).failure;
    assert_eq!(failure, Some(LookupFailure { reason: LookupReason::Mismatch, kind }));
}

#[test]
fn conditions_of_other_controllers_stay() {
    let mut blocked = machine(small());
    let theirs = json!([{ "type": "Failure", "status": "True", "reason": "Theirs" }, { "type": "Ready", "status": "False" }]);
    blocked["status"] = json!({ "conditions": theirs });
    let planned = Cluster::default().plan(&blocked);
    let blocked = Cluster::default().apply(blocked, planned);
    assert_eq!(blocked["status"]["conditions"].as_array().unwrap().len(), 3);
    let mut cluster = Cluster::default().with_type(instancetype(1, "2Gi"));
    let planned = cluster.plan(&blocked);
    assert_eq!(cluster.apply(blocked, planned)["status"]["conditions"], theirs);
}

#[test]
fn a_conflict_makes_no_copy() {
    let mut conflicting = machine(small());
    conflicting["spec"]["template"]["spec"]["domain"]["memory"] = json!({ "guest": "1Gi" });
    let planned = Cluster::default().with_type(instancetype(1, "2Gi")).plan(&conflicting);
    assert!(planned.is_blocked && planned.creates.is_empty(), "{planned:?}");
    assert_eq!(reasons(&planned), ["InstancetypeConflict"]);
    assert!(planned.events[0].message.contains("spec.template.spec.domain.memory.guest"), "{planned:?}");
}

#[test]
fn a_revision_name_is_recorded_and_nothing_is_created() {
    let mut copy =
        Cluster::default().with_type(instancetype(1, "2Gi")).plan(&machine(small())).creates.remove(0);
    copy["metadata"]["name"] = json!("mine");
    let cluster = Cluster::default().with_revision(copy.clone());
    let mut matcher = small();
    matcher["revisionName"] = json!("mine");
    let planned = cluster.plan(&machine(matcher.clone()));
    assert_eq!((planned.creates.len(), planned.is_blocked), (0, false), "{planned:?}");
    let settled = Cluster::default().apply(machine(matcher.clone()), planned);
    assert_eq!(settled["status"]["instancetypeRef"]["controllerRevisionRef"]["name"], "mine");

    let planned = Cluster::default().plan(&machine(matcher.clone()));
    assert_eq!((reasons(&planned), planned.is_blocked), (vec!["FailedFindInstancetype"], true));
    matcher["name"] = json!("other");
    let planned = cluster.plan(&machine(matcher));
    assert_eq!((reasons(&planned), planned.is_blocked), (vec!["RevisionMismatch"], true));
}

#[test]
fn a_deleted_copy_is_restored_only_from_the_same_object() {
    let mut cluster = Cluster::default().with_type(instancetype(1, "2Gi"));
    let planned = cluster.plan(&machine(small()));
    let settled = cluster.apply(machine(small()), planned);
    let without = |object| Cluster::default().with_type(object).plan(&settled);
    let restored = without(instancetype(1, "2Gi"));
    assert_eq!((restored.creates.len(), &restored.creates[0]["metadata"]["name"]), (1, &json!(STASH)));
    // The API server increments the generation of an object whose deletion begins.
    let mut terminating = instancetype(2, "2Gi");
    terminating["metadata"]["deletionTimestamp"] = json!(NOW);
    let restored = without(terminating.clone());
    assert_eq!(restored.creates[0]["metadata"]["name"], STASH);
    assert_eq!(restored.creates[0]["data"]["metadata"]["generation"], 1);
    terminating["metadata"]["generation"] = json!(3);
    assert!(without(terminating).is_blocked, "it was edited before");
    let lost = without(instancetype(2, "8Gi"));
    assert!(lost.is_blocked && lost.creates.is_empty(), "{lost:?}");
    assert!(lost.events[0].message.contains("cannot be restored"), "{lost:?}");
}

#[rstest]
#[case::removed(Value::Null, false, true)]
#[case::renamed(json!({ "name": "other", "kind": "VirtualMachineInstancetype", "revisionName": "mine" }), false, true)]
#[case::of_a_running_instance(Value::Null, true, false)]
#[case::kept(small(), false, false)]
fn a_copy_is_deleted_when_the_machine_does_not_use_it(
    #[case] matcher: Value,
    #[case] is_running: bool,
    #[case] is_deleted: bool,
) {
    let mut cluster = Cluster::default().with_type(instancetype(1, "2Gi"));
    let planned = cluster.plan(&machine(small()));
    let mut changed = cluster.apply(machine(small()), planned);
    changed["spec"]["instancetype"] = matcher;
    changed["status"]["created"] = json!(is_running);
    let mut mine = cluster.0[1].1.clone();
    mine["metadata"]["name"] = json!("mine");
    for pointer in ["/metadata/labels/instancetype.kubevirt.io~1object-name", "/data/metadata/name"] {
        *mine.pointer_mut(pointer).unwrap() = json!("other");
    }
    let owned = [OwnedCopy { name: STASH.to_owned(), uid: "uid-of-copy".to_owned() }];
    let planned = cluster.with_revision(mine).plan_with(&changed, &owned);
    assert!(!planned.is_blocked, "{planned:?}");
    assert_eq!(planned.deletes.len(), usize::from(is_deleted), "{planned:?}");
}

#[test]
fn an_old_copy_of_the_machine_is_replaced_and_a_shared_one_is_not() {
    let old = |owners: &[&str]| {
        let owner = |uid: &&str| json!({ "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": "db", "uid": uid });
        let owners: Vec<Value> = owners.iter().map(owner).collect();
        let mut data = instancetype(1, "2Gi");
        data["apiVersion"] = json!("instancetype.kubevirt.io/v1alpha2");
        let metadata =
            json!({ "name": "old", "namespace": NAMESPACE, "uid": "uid-of-old", "ownerReferences": owners });
        json!({ "metadata": metadata, "data": data })
    };
    let mut stored = machine(small());
    let mut reference = small();
    reference["controllerRevisionRef"] = json!({ "name": "old" });
    stored["status"] = json!({ "instancetypeRef": reference });
    let planned = Cluster::default().with_revision(old(&["uid-of-db"])).plan(&stored);
    assert_eq!(reasons(&planned), ["RevisionUpgraded"], "{planned:?}");
    assert_eq!(planned.creates[0]["metadata"]["name"], STASH);
    assert_eq!(planned.upgrades, [StoredVersion::V1alpha2]);
    // It has no labels, so the watch does not show it.
    assert_eq!(planned.deletes, [OwnedCopy { name: "old".to_owned(), uid: "uid-of-old".to_owned() }]);
    // The machine may have been edited since, and continues to use what it has.
    let mut edited = stored.clone();
    edited["spec"]["template"]["spec"]["domain"]["memory"] = json!({ "guest": "1Gi" });
    let of_edited = Cluster::default().with_revision(old(&["uid-of-db"])).plan(&edited);
    assert_eq!(of_edited.creates, planned.creates);
    let shared = Cluster::default().with_revision(old(&["uid-of-db", "uid-of-other"])).plan(&stored);
    assert_eq!(shared, CopyPlan::default());
    // Until version 1.4, KubeVirt wrote the name into the spec, and later versions recorded it in the status,
    // too.
    stored["spec"]["instancetype"]["revisionName"] = json!("old");
    assert_eq!(Cluster::default().with_revision(old(&["uid-of-db"])).plan(&stored), CopyPlan::default());
    stored["status"] = Value::Null;
    let unknown = Cluster::default().with_revision(old(&["uid-of-db"])).plan(&stored);
    assert_eq!(reasons(&unknown), ["RevisionMismatch"], "any client may have written it");
}

#[test]
fn a_machine_without_names_or_in_deletion_needs_nothing() {
    assert_eq!(Cluster::default().plan(&machine(Value::Null)), CopyPlan::default());
    let mut deleted = machine(small());
    deleted["metadata"]["deletionTimestamp"] = json!(NOW);
    assert_eq!(Cluster::default().plan(&deleted), CopyPlan::default());
}

#[rstest]
#[case::reference(CopyPolicy::Reference, false, false)]
#[case::expand(CopyPolicy::Expand, false, true)]
#[case::expand_with_a_copy(CopyPolicy::Expand, true, false)]
#[case::expand_all(CopyPolicy::ExpandAll, false, true)]
#[case::expand_all_with_a_copy(CopyPolicy::ExpandAll, true, true)]
fn the_policy_decides_whether_types_are_written_into_machines(
    #[case] policy: CopyPolicy,
    #[case] has_copy: bool,
    #[case] expanded: bool,
) {
    let mut cluster = Cluster::default().with_type(instancetype(1, "2048Mi"));
    let mut stored = machine(small());
    if has_copy {
        let planned = cluster.plan(&stored);
        stored = cluster.apply(stored, planned);
    }
    let plan = cluster.plan_by(policy, &stored, &[]);
    assert_eq!(plan.spec.is_some(), expanded, "{plan:?}");
    let Some(patch) = plan.spec else { return };
    assert!(plan.creates.is_empty() && plan.status.is_none(), "one write at a time");
    json_patch::patch(&mut stored, &serde_json::from_value::<json_patch::Patch>(patch).unwrap()).unwrap();
    assert_eq!(stored["spec"]["template"]["spec"]["domain"]["memory"]["guest"], "2048Mi");
    assert!(stored["spec"].get("instancetype").is_none(), "{stored}");
    // The next plan removes what the machine used before, and nothing is left to do then.
    let own = OwnedCopy { name: STASH.to_owned(), uid: "uid-of-copy".to_owned() };
    let owned: &[OwnedCopy] = if has_copy { std::slice::from_ref(&own) } else { &[] };
    let cleaning = cluster.plan_by(policy, &stored, owned);
    assert_eq!(cleaning.deletes, owned);
    let settled = cluster.apply(stored, cleaning);
    assert!(settled["status"].get("instancetypeRef").is_none(), "{settled}");
    assert_eq!(cluster.plan_by(policy, &settled, &[]), CopyPlan::default());
}

#[test]
fn a_machine_that_names_a_revision_itself_is_never_expanded() {
    let mut cluster = Cluster::default().with_type(instancetype(1, "2048Mi"));
    let planned = cluster.plan(&machine(small()));
    cluster.apply(machine(small()), planned);
    let mut matcher = small();
    matcher["revisionName"] = json!(STASH);
    assert_eq!(cluster.plan_by(CopyPolicy::ExpandAll, &machine(matcher), &[]).spec, None);
}

#[test]
fn a_machine_in_conflict_is_not_expanded() {
    let cluster = Cluster::default().with_type(instancetype(1, "2048Mi"));
    let mut odd = machine(small());
    odd["spec"]["template"]["spec"]["domain"]["memory"] = json!({ "guest": "1Gi" });
    let plan = cluster.plan_by(CopyPolicy::Expand, &odd, &[]);
    assert!(plan.spec.is_none() && plan.is_blocked);
    assert_eq!(plan.events[0].reason, "InstancetypeConflict");
}

fn claim(name: &str) -> Value {
    let labels = json!({
        "instancetype.kubevirt.io/default-instancetype": name,
        "instancetype.kubevirt.io/default-instancetype-kind": "VirtualMachineInstancetype",
    });
    json!({ "metadata": { "name": "root", "labels": labels } })
}

const CLAIM: &str = "/api/v1/namespaces/studio/persistentvolumeclaims/root";

/// A machine with this matcher, and with a volume that is the claim `root`.
fn inferring(matcher: Value) -> Value {
    let mut inferring = machine(matcher);
    inferring["spec"]["template"]["spec"]["volumes"] =
        json!([{ "name": "root", "persistentVolumeClaim": { "claimName": "root" } }]);
    inferring
}

#[test]
fn what_a_volume_names_is_written_into_the_machine_before_the_copy() {
    let mut cluster = Cluster::default().with_type(instancetype(1, "2Gi")).with(CLAIM, claim("small"));
    let stored = inferring(json!({ "inferFromVolume": "root" }));
    let planned = cluster.plan(&stored);
    assert!(planned.creates.is_empty() && planned.status.is_none(), "one write at a time: {planned:?}");
    assert_eq!(reasons(&planned), ["Inferred"]);
    let named = cluster.apply(stored, planned);
    // Programs that start machines compare the copy with this.
    assert_eq!(named["spec"]["instancetype"], small());
    let planned = cluster.plan(&named);
    let settled = cluster.apply(named, planned);
    assert_eq!(settled["status"]["instancetypeRef"]["controllerRevisionRef"]["name"], STASH);
    assert_eq!(cluster.plan(&settled), CopyPlan::default());
}

#[test]
fn a_volume_that_names_nothing_is_removed_from_the_machine_or_a_failure() {
    let cluster = || Cluster::default().with(CLAIM, json!({ "metadata": {} }));
    let ignoring = json!({ "inferFromVolume": "root", "inferFromVolumeFailurePolicy": "Ignore" });
    let stored = inferring(ignoring.clone());
    let planned = cluster().plan(&stored);
    let named = cluster().apply(stored, planned);
    assert_eq!(named["spec"].get("instancetype"), None, "it starts without an instance type");
    assert_eq!(cluster().plan(&named), CopyPlan::default());

    let rejected = cluster().plan(&inferring(json!({ "inferFromVolume": "root" })));
    assert_eq!((reasons(&rejected), &rejected.spec), (vec!["FailedFindInstancetype"], &None));

    // What the user set for the case that nothing is inferred would be a conflict.
    let mut cluster = Cluster::default().with_type(instancetype(1, "2Gi")).with(CLAIM, claim("small"));
    let mut stored = inferring(ignoring);
    stored["spec"]["template"]["spec"]["domain"]["memory"] = json!({ "guest": "1Gi" });
    let planned = cluster.plan(&stored);
    let named = cluster.apply(stored, planned);
    assert_eq!(named["spec"]["template"]["spec"]["domain"].get("memory"), None);
    let planned = cluster.plan(&named);
    assert!(!planned.is_blocked && planned.creates.len() == 1, "{planned:?}");
}

#[test]
fn each_matcher_is_inferred_on_its_own() {
    let mut cluster = Cluster::default().with_type(instancetype(1, "2Gi")).with(CLAIM, claim("small"));
    let mut stored = inferring(json!({ "inferFromVolume": "root" }));
    stored["spec"]["preference"] = json!({ "inferFromVolume": "root" });
    let planned = cluster.plan(&stored);
    let named = cluster.apply(stored, planned);
    assert_eq!(
        (&named["spec"]["instancetype"], &named["spec"]["preference"]["inferFromVolume"]),
        (&small(), &json!("root"))
    );
    let planned = cluster.plan(&named);
    assert_eq!((planned.creates.len(), planned.is_blocked), (1, true), "{planned:?}");
    assert_eq!(reasons(&planned), ["InstancetypeStashed", "FailedFindPreference"]);
}

#[rstest]
#[case::with_the_same_labels(Some(claim("small")))]
#[case::with_other_labels(Some(claim("large")))]
#[case::without_labels(Some(json!({ "metadata": {} })))]
#[case::that_is_gone(None)]
fn a_machine_that_has_a_copy_gets_the_name_of_its_copy_whatever_its_volume_says(
    #[case] volume: Option<Value>,
) {
    // Given a machine with a copy whose spec still has the volume, as former versions of the controller left
    // it,
    let mut cluster = Cluster::default().with_type(instancetype(1, "2Gi"));
    let planned = cluster.plan(&machine(small()));
    let mut settled = cluster.apply(inferring(small()), planned);
    settled["spec"]["instancetype"] = json!({ "inferFromVolume": "root" });
    settled["status"]["instancetypeRef"]["inferFromVolume"] = json!("root");
    if let Some(claim) = volume {
        cluster = cluster.with(CLAIM, claim);
    }
    // and a type that has changed since, then the machine names the type, and keeps its copy.
    cluster.0[0].1 = instancetype(2, "8Gi");
    let planned = cluster.plan(&settled);
    let named = cluster.apply(settled, planned);
    assert_eq!(named["spec"]["instancetype"], small());
    let planned = cluster.plan(&named);
    assert!(planned.creates.is_empty() && planned.deletes.is_empty(), "{planned:?}");
    let named = cluster.apply(named, planned);
    assert_eq!(named["status"]["instancetypeRef"]["controllerRevisionRef"]["name"], STASH);
    assert_eq!(cluster.plan(&named), CopyPlan::default());
    // Another volume is another name.
    let mut other = named;
    other["spec"]["instancetype"] = json!({ "inferFromVolume": "missing" });
    assert!(cluster.plan(&other).is_blocked);
}

#[rstest]
#[case::of_an_object(json!({ "name": "x".repeat(900_000), "kind": "VirtualMachineInstancetype" }))]
#[case::of_a_revision(json!({ "name": "small", "kind": "VirtualMachineInstancetype", "revisionName": "x".repeat(900_000) }))]
#[case::of_a_kind(json!({ "name": "small", "kind": "x".repeat(900_000) }))]
fn a_long_name_does_not_get_into_the_status(#[case] matcher: Value) {
    let planned = Cluster::default().plan(&machine(matcher));
    assert!(planned.is_blocked);
    let (status, events) = (planned.status.unwrap().to_string(), planned.events[0].message.len());
    assert!(status.len() < 3000 && events < 2000, "{} and {events} bytes", status.len());
}

fn preference(spec: Value) -> Value {
    json!({
        "apiVersion": "instancetype.kubevirt.io/v1beta1",
        "kind": "VirtualMachinePreference",
        "metadata": { "name": "linux", "namespace": NAMESPACE, "uid": "uid-of-linux", "generation": 1 },
        "spec": spec,
    })
}

fn with_preference(cluster: Cluster, spec: Value) -> Cluster {
    let path = "/apis/instancetype.kubevirt.io/v1beta1/namespaces/studio/virtualmachinepreferences/linux";
    cluster.with(path, preference(spec))
}

fn of_both() -> Value {
    let mut both = machine(small());
    both["spec"]["preference"] = json!({ "name": "linux", "kind": "VirtualMachinePreference" });
    both
}

/// The status fields that name a copy.
fn recorded(machine: &Value) -> Vec<&str> {
    let fields = ["instancetypeRef", "preferenceRef"];
    fields.into_iter().filter(|field| machine["status"][field]["controllerRevisionRef"].is_object()).collect()
}

#[test]
fn each_matcher_is_copied_on_its_own() {
    let no_preference = Cluster::default().with_type(instancetype(1, "2Gi"));
    let no_type = with_preference(Cluster::default(), json!({ "requirements": { "cpu": { "guest": 64 } } }));
    for (mut cluster, expected, reason) in [
        (no_preference, "instancetypeRef", "FailedFindPreference"),
        (no_type, "preferenceRef", "FailedFindInstancetype"),
    ] {
        let planned = cluster.plan(&of_both());
        assert_eq!((planned.creates.len(), planned.is_blocked), (1, true), "{planned:?}");
        let blocked = cluster.apply(of_both(), planned);
        assert_eq!(recorded(&blocked), [expected]);
        assert_eq!(blocked["status"]["conditions"][0]["reason"], reason);
        let again = cluster.plan(&blocked);
        assert_eq!(
            (again.status, again.creates.len(), again.events.len()),
            (None, 0, 0),
            "it is written once"
        );
    }
}

#[test]
fn what_does_not_fit_is_not_copied_and_the_other_one_is() {
    let demanding = json!({ "requirements": { "cpu": { "guest": 64 } } });
    let mut cluster = with_preference(Cluster::default().with_type(instancetype(1, "2Gi")), demanding);
    let planned = cluster.plan(&of_both());
    let blocked = cluster.apply(of_both(), planned);
    assert_eq!(recorded(&blocked), ["instancetypeRef"]);
    assert_eq!(blocked["status"]["conditions"][0]["reason"], "RequirementsNotMet");
    // The next plan compares again, although the machine has a copy of its instance type.
    let again = cluster.plan(&blocked);
    assert_eq!((again.status, again.creates.len(), again.is_blocked), (None, 0, true));

    let mut conflicting = of_both();
    conflicting["spec"]["template"]["spec"]["domain"]["memory"] = json!({ "guest": "1Gi" });
    let mut cluster = with_preference(Cluster::default().with_type(instancetype(1, "2Gi")), json!({}));
    let planned = cluster.plan(&conflicting);
    let blocked = cluster.apply(conflicting, planned);
    assert_eq!(recorded(&blocked), ["preferenceRef"]);
    assert_eq!(blocked["status"]["conditions"][0]["reason"], "InstancetypeConflict");
}

#[test]
fn a_machine_that_lacks_one_object_is_expanded_with_both_or_not_at_all() {
    let cluster = Cluster::default().with_type(instancetype(1, "2048Mi"));
    let plan = cluster.plan_by(CopyPolicy::Expand, &of_both(), &[]);
    assert!(plan.is_blocked && plan.spec.is_none() && plan.creates.is_empty(), "{plan:?}");
}

#[test]
fn an_unusable_matcher_keeps_the_copies_of_the_machine() {
    let mut cluster = with_preference(Cluster::default().with_type(instancetype(1, "2Gi")), json!({}));
    let planned = cluster.plan(&of_both());
    let mut changed = cluster.apply(of_both(), planned);
    changed["spec"]["instancetype"]["name"] = json!("missing");
    let owned = [OwnedCopy { name: STASH.to_owned(), uid: "uid-of-copy".to_owned() }];
    let planned = cluster.plan_with(&changed, &owned);
    assert_eq!((planned.deletes.len(), planned.is_blocked), (0, true), "{planned:?}");
    assert_eq!(recorded(&cluster.apply(changed, planned)), ["instancetypeRef", "preferenceRef"]);
}
