#![expect(clippy::needless_pass_by_value, reason = "the tables of tests write JSON in place")]

use rstest::rstest;
use serde_json::{Value, json};

use super::*;

const NAMESPACE: &str = "studio";
const TYPES: &str = "/apis/instancetype.kubevirt.io/v1beta1";
const CLAIMS: &str = "/api/v1/namespaces/studio/persistentvolumeclaims";

fn document(kind: &str, name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "instancetype.kubevirt.io/v1beta1",
        "kind": kind,
        "metadata": { "name": name, "uid": format!("uid-of-{name}"), "generation": 1 },
        "spec": spec,
    })
}

fn instancetype(spec: Value) -> (String, Value) {
    let object = document("VirtualMachineInstancetype", "small", spec);
    (format!("{TYPES}/namespaces/{NAMESPACE}/virtualmachineinstancetypes/small"), object)
}

fn small() -> (String, Value) {
    instancetype(json!({ "cpu": { "guest": 2 }, "memory": { "guest": "2Gi" } }))
}

fn preference(spec: Value) -> (String, Value) {
    let object = document("VirtualMachineClusterPreference", "linux", spec);
    (format!("{TYPES}/virtualmachineclusterpreferences/linux"), object)
}

fn claim(labels: Value) -> (String, Value) {
    (format!("{CLAIMS}/debian"), json!({ "metadata": { "name": "debian", "labels": labels } }))
}

/// A machine with these fields in its spec.
fn machine(spec: Value) -> Value {
    json!({ "metadata": { "name": "db" }, "spec": spec })
}

/// A machine that names instance type `small`, with this template.
fn sized(template: Value) -> Value {
    machine(json!({
        "instancetype": { "name": "small", "kind": "VirtualMachineInstancetype" },
        "template": { "spec": template },
    }))
}

/// A machine whose `field` is inferred from its claim.
fn inferring(field: &str, policy: &str) -> Value {
    machine(json!({
        field: { "inferFromVolume": "root", "inferFromVolumeFailurePolicy": policy },
        "template": { "spec": {
            "domain": { "memory": { "guest": "1Gi" } },
            "volumes": [{ "name": "root", "persistentVolumeClaim": { "claimName": "debian" } }],
        } },
    }))
}

/// The objects of a cluster, by path. An `Err` is a read that fails, or is not permitted if it has no text.
type Cluster = Vec<(String, Result<Value, Option<&'static str>>)>;

fn cluster(objects: impl IntoIterator<Item = (String, Value)>) -> Cluster {
    objects.into_iter().map(|(path, object)| (path, Ok(object))).collect()
}

fn path_of(ObjectLookup { api_version, plural, namespace, name, .. }: &ObjectLookup) -> String {
    let root = if api_version.contains('/') { "apis" } else { "api" };
    let namespace = match namespace {
        LookupNamespace::Cluster => String::new(),
        LookupNamespace::Reviewed => format!("namespaces/{NAMESPACE}/"),
        LookupNamespace::Named(other) => panic!("{other} is another namespace"),
    };
    format!("/{root}/{api_version}/{namespace}{plural}/{}", name.as_deref().unwrap_or_default())
}

/// Reviews with the objects of a cluster. Returns the paths that were read, too.
fn decide(
    cluster: &Cluster,
    review: impl Fn(&AdmissionReads) -> Step<TypeReviewDecision, AdmissionRead>,
) -> (TypeReviewDecision, Vec<String>) {
    let (mut reads, mut paths) = (AdmissionReads::new(true), Vec::new());
    loop {
        let Needs(needs) = match review(&reads) {
            Ok(decision) => return (decision, paths),
            Err(needs) => needs,
        };
        for read in needs {
            let AdmissionRead::Object(lookup) = read else { panic!("{read:?}") };
            let path = path_of(&lookup);
            assert!(!paths.contains(&path), "{path} was read before");
            let stored = cluster.iter().find(|(known, _)| *known == path).map(|(_, object)| object.clone());
            let found = match stored {
                None => Some(LookupOutcome::Absent),
                Some(Ok(object)) => Some(LookupOutcome::There(object)),
                Some(Err(failure)) => failure.map(|text| LookupOutcome::Failed(text.to_owned())),
            };
            reads.add_object(lookup, found);
            paths.push(path);
        }
    }
}

fn validated(machine: &Value, cluster: &Cluster) -> TypeReviewDecision {
    decide(cluster, |reads| review_machine(NAMESPACE, None, machine, reads)).0
}

fn completed(machine: &Value, cluster: &Cluster) -> TypeReviewDecision {
    decide(cluster, |reads| complete_machine(NAMESPACE, machine, reads)).0
}

const UNCHANGED: TypeReviewDecision = TypeReviewDecision::Allowed { machine: None, warnings: Vec::new() };

fn warnings(decision: &TypeReviewDecision) -> &[String] {
    match decision {
        TypeReviewDecision::Allowed { warnings, .. } | TypeReviewDecision::Refused { warnings, .. } => {
            warnings
        }
        other => panic!("{other:?}"),
    }
}

fn fields(decision: &TypeReviewDecision) -> Vec<(CauseReason, &str)> {
    let causes = match decision {
        TypeReviewDecision::Refused { causes, .. } | TypeReviewDecision::NotInferred(causes) => causes,
        other => panic!("{other:?}"),
    };
    causes.iter().map(|cause| (cause.reason, cause.field.as_str())).collect()
}

#[test]
fn a_conflict_is_refused_with_field_and_source() {
    let decision =
        validated(&sized(json!({ "domain": { "memory": { "guest": "1Gi" } } })), &cluster([small()]));
    let TypeReviewDecision::Refused { causes, .. } = &decision else { panic!("{decision:?}") };
    assert_eq!(causes[0].field, "spec.template.spec.domain.memory.guest");
    assert!(
        causes[0].message.starts_with("VirtualMachineInstancetype \"small\" sets"),
        "{}",
        causes[0].message
    );
    assert_eq!(validated(&sized(json!({})), &cluster([small()])), UNCHANGED);
}

#[test]
fn unmet_requirements_are_refused() {
    let mut machine = sized(json!({}));
    machine["spec"]["preference"] = json!({ "name": "linux" });
    let large = preference(json!({ "requirements": { "memory": { "guest": "4Gi" } } }));
    let decision = validated(&machine, &cluster([small(), large]));
    assert_eq!(fields(&decision), [(CauseReason::FieldValueNotFound, "spec.instancetype")]);
}

#[test]
fn a_missing_object_gives_a_warning_with_its_kind_and_name() {
    let decision = validated(&sized(json!({})), &Cluster::new());
    let [warning] = warnings(&decision) else { panic!("{decision:?}") };
    assert!(warning.contains("VirtualMachineInstancetype \"small\" does not exist"), "{warning}");
}

#[rstest]
#[case::a_failed_read(Some("etcd is slow"), "etcd is slow")]
#[case::a_read_that_is_not_permitted(None, "no client certificate")]
fn a_machine_whose_objects_are_not_read_is_allowed_with_a_warning(
    #[case] failure: Option<&'static str>,
    #[case] part: &str,
) {
    let cluster = vec![(small().0, Err(failure))];
    let machine = sized(json!({ "domain": { "memory": { "guest": "1Gi" } } }));
    let decision = validated(&machine, &cluster);
    assert!(matches!(decision, TypeReviewDecision::Allowed { machine: None, .. }), "{decision:?}");
    assert!(warnings(&decision)[0].contains(part), "{decision:?}");
}

#[test]
fn a_stored_copy_precedes_the_live_object() {
    let copy = json!({
        "metadata": { "name": "copy", "namespace": NAMESPACE, "labels": {
            "instancetype.kubevirt.io/object-name": "small",
            "instancetype.kubevirt.io/object-kind": "VirtualMachineInstancetype",
            "instancetype.kubevirt.io/object-version": "v1beta1",
        } },
        "data": small().1,
    });
    let pinning =
        instancetype(json!({ "cpu": { "guest": 2, "model": "EPYC" }, "memory": { "guest": "2Gi" } }));
    let path = format!("/apis/apps/v1/namespaces/{NAMESPACE}/controllerrevisions/copy");
    let cluster = cluster([pinning, (path.clone(), copy)]);
    let mut machine = sized(json!({ "domain": { "cpu": { "model": "Haswell" } } }));
    assert_eq!(fields(&validated(&machine, &cluster))[0].1, "spec.template.spec.domain.cpu.model");
    machine["spec"]["instancetype"]["revisionName"] = json!("copy");
    let (decision, paths) = decide(&cluster, |reads| review_machine(NAMESPACE, None, &machine, reads));
    assert_eq!((decision, paths), (UNCHANGED, vec![path]));
}

#[test]
fn an_unrelated_update_and_a_deletion_read_nothing() {
    let old = sized(json!({ "domain": { "memory": { "guest": "1Gi" } } }));
    let mut stopped = old.clone();
    stopped["spec"]["runStrategy"] = json!("Halted");
    let cluster = cluster([small()]);
    let review = |new: &Value| decide(&cluster, |reads| review_machine(NAMESPACE, Some(&old), new, reads));
    assert_eq!(review(&stopped), (UNCHANGED, Vec::new()));
    let mut deleted = sized(json!({ "domain": { "memory": { "guest": "2Gi" } } }));
    assert_eq!(fields(&review(&deleted).0).len(), 1);
    deleted["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert_eq!(review(&deleted), (UNCHANGED, Vec::new()));
    let (decision, paths) = decide(&cluster, |reads| complete_machine(NAMESPACE, &deleted, reads));
    assert_eq!((decision, paths), (UNCHANGED, Vec::new()));
}

#[test]
fn names_are_inferred_from_a_volume() {
    let labels = json!({
        "instancetype.kubevirt.io/default-instancetype": "small",
        "instancetype.kubevirt.io/default-instancetype-kind": "VirtualMachineInstancetype",
    });
    let decision = completed(&inferring("instancetype", "Reject"), &cluster([claim(labels)]));
    let TypeReviewDecision::Allowed { machine: Some(machine), .. } = decision else { panic!("{decision:?}") };
    let named = json!({ "name": "small", "kind": "VirtualMachineInstancetype" });
    assert_eq!(machine["spec"]["instancetype"], named);
}

#[rstest]
#[case::no_label("Reject", Some(claim(json!({}))))]
#[case::no_claim("Reject", None)]
#[case::no_claim_is_never_ignored("Ignore", None)]
fn a_failed_inference_is_refused(#[case] policy: &str, #[case] claim: Option<(String, Value)>) {
    let decision = completed(&inferring("preference", policy), &cluster(claim));
    assert!(matches!(decision, TypeReviewDecision::NotInferred(_)), "{decision:?}");
    assert_eq!(fields(&decision)[0].1, "spec.preference.inferFromVolume");
}

#[test]
fn an_ignored_failure_removes_the_matcher_with_a_warning() {
    let decision = completed(&inferring("preference", "Ignore"), &cluster([claim(json!({}))]));
    let TypeReviewDecision::Allowed { machine: Some(machine), warnings } = decision else {
        panic!("{decision:?}")
    };
    assert_eq!(machine["spec"].get("preference"), None);
    assert!(warnings[0].contains("spec.preference was removed"), "{warnings:?}");
}

#[test]
fn a_failed_read_leaves_inference_undecided() {
    let failing = |failure| vec![(format!("{CLAIMS}/debian"), Err(failure))];
    let machine = inferring("preference", "Ignore");
    let decision = completed(&machine, &failing(Some("etcd is slow")));
    let TypeReviewDecision::Undecided(message) = decision else { panic!("{decision:?}") };
    assert!(message.contains("PersistentVolumeClaim debian: etcd is slow"), "{message}");
    let decision = completed(&machine, &failing(None));
    assert!(warnings(&decision)[0].contains("no client certificate"), "{decision:?}");
}

#[test]
fn a_preference_fills_what_is_needed_before_the_instance() {
    let prefers = preference(json!({
        "preferredArchitecture": "arm64",
        "machine": { "preferredMachineType": "virt" },
        "volumes": { "preferredStorageClassName": "fast" },
        "preferredSubdomain": "not-yet",
    }));
    let new = machine(json!({
        "preference": { "name": "linux" },
        "dataVolumeTemplates": [{ "spec": { "storage": {} } }],
        "template": { "spec": { "domain": { "machine": { "type": "q35" } } } },
    }));
    let decision = completed(&new, &cluster([prefers]));
    let TypeReviewDecision::Allowed { machine: Some(machine), .. } = decision else { panic!("{decision:?}") };
    let spec = json!({ "architecture": "arm64", "domain": { "machine": { "type": "q35" } } });
    assert_eq!(machine["spec"]["template"]["spec"], spec);
    assert_eq!(machine["spec"]["dataVolumeTemplates"][0]["spec"]["storage"]["storageClassName"], "fast");
    assert_eq!(
        completed(&machine, &cluster([preference(json!({ "preferredArchitecture": "arm64" }))])),
        UNCHANGED
    );
    assert_eq!(completed(&new, &Cluster::new()), UNCHANGED, "the preference may be created later");
}

#[test]
fn an_invalid_matcher_is_left_to_the_validation() {
    let new = machine(json!({ "instancetype": {}, "template": {} }));
    assert_eq!(completed(&new, &Cluster::new()), UNCHANGED);
    let decision = validated(&new, &Cluster::new());
    assert_eq!(fields(&decision), [(CauseReason::FieldValueNotFound, "spec.instancetype")]);
}

#[test]
fn only_objects_of_namespaces_reveal_facts() {
    let need = |spec| {
        let needs = review_machine(NAMESPACE, None, &machine(spec), &AdmissionReads::new(true)).unwrap_err();
        let [AdmissionRead::Object(lookup)] = &needs.0[..] else { panic!("{needs:?}") };
        (lookup.subject, lookup.reveals)
    };
    assert_eq!(need(json!({ "preference": { "name": "linux" } })), (LookupSubject::Instancetype, false));
    let namespaced = json!({ "preference": { "name": "linux", "kind": "VirtualMachinePreference" } });
    assert_eq!(need(namespaced), (LookupSubject::Instancetype, true));
    let pinned = json!({ "preference": { "name": "linux", "revisionName": "copy" } });
    assert_eq!(need(pinned), (LookupSubject::Revision, true));
}

#[test]
fn an_object_is_validated_and_an_unrelated_update_is_not() {
    let bad = instancetype(json!({ "cpu": { "guest": 0 }, "memory": { "guest": "2Gi" } })).1;
    let decision = review_type_object(None, &bad).unwrap();
    assert_eq!(fields(&decision), [(CauseReason::FieldValueInvalid, "spec.cpu.guest")]);
    assert_eq!(review_type_object(Some(&bad), &bad).unwrap(), UNCHANGED);
    assert!(review_type_object(None, &json!({ "kind": "Secret", "apiVersion": "v1" })).is_err());
}

/// A pool whose template is this machine.
fn pooled(machine: &Value) -> Value {
    json!({ "metadata": { "name": "p" }, "spec": { "virtualMachineTemplate": { "spec": machine["spec"] } } })
}

#[test]
fn a_pool_in_conflict_is_refused_and_one_whose_type_is_missing_is_allowed_with_a_warning() {
    let conflicting = pooled(&sized(json!({ "domain": { "memory": { "guest": "1Gi" } } })));
    let review = |old: Option<&Value>, cluster: &Cluster| {
        decide(cluster, |reads| review_pool_template(NAMESPACE, old, &conflicting, reads)).0
    };
    let refused = review(None, &cluster([small()]));
    let field = "spec.virtualMachineTemplate.spec.template.spec.domain.memory.guest";
    assert_eq!(fields(&refused), [(CauseReason::FieldValueInvalid, field)]);
    let missing = review(None, &cluster([]));
    let warning = &warnings(&missing)[0];
    assert!(warning.contains("does not exist") && warning.contains("creates no machine"), "{warning}");
    // A change of the number of machines reads nothing.
    let (decision, read) = decide(&cluster([small()]), |reads| {
        review_pool_template(NAMESPACE, Some(&conflicting), &conflicting, reads)
    });
    assert_eq!((warnings(&decision).len(), read.len()), (0, 0));
}
