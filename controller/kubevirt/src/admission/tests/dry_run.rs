use vmpool_engine::admission::DryRunCause;

use super::*;

/// The machine that the webhook creates as a dry run, and the verdict with its result.
fn reviewed(old: Option<&Value>, new: &Value, result: &DryRunResult) -> (Option<Value>, AdmissionVerdict) {
    let found = |_: &ObjectLookup| LookupOutcome::Absent;
    let (verdict, asked) = review_with("alice", old, new, Some(&found), result);
    (asked.machine, verdict)
}

#[test]
fn the_first_machine_of_a_new_template_is_validated() {
    let (machine, verdict) = reviewed(None, &pool(), &DryRunResult::Accepted);
    let machine = machine.unwrap();
    assert_eq!(machine["metadata"]["name"], "render-0");
    assert_eq!(machine["spec"]["dataVolumeTemplates"][0]["metadata"]["name"], "scratch-0");
    assert!(machine["metadata"].get("ownerReferences").is_none(), "the pool has no UID yet");
    assert_eq!(verdict.outcome, AdmissionDecision::Allowed);
    // An unrelated change must not fail because of the template.
    let scaled = with(pool(), "/spec/replicas", json!(7));
    assert_eq!(reviewed(Some(&pool()), &scaled, &DryRunResult::Accepted).0, None);
    let other = super::machine("/runStrategy", json!("Manual"));
    assert!(reviewed(Some(&pool()), &other, &DryRunResult::Accepted).0.is_some());
}

#[test]
fn the_validated_machine_has_its_host_name() {
    let annotation = json!({ "vmpool.dev/name-generation": "setHostnameToVMName" });
    let new = with(pool(), "/metadata/annotations", annotation);
    let machine = reviewed(None, &new, &DryRunResult::Accepted).0.unwrap();
    assert_eq!(machine["spec"]["template"]["spec"]["hostname"], "render-0");
}

#[test]
fn a_machine_that_gets_copies_of_types_is_not_validated() {
    for field in ["instancetype", "preference"] {
        let pool = super::machine(&format!("/{field}"), json!({ "name": "small" }));
        assert_eq!(reviewed(None, &pool, &DryRunResult::Accepted).0, None, "{field}");
    }
}

#[test]
fn causes_are_repeated_with_the_fields_of_the_pool() {
    let cause = |field: &str, message: &str| DryRunCause { field: field.into(), message: message.into() };
    let causes = vec![
        cause("spec.template.spec.volumes[0].name", "volume is too good"),
        cause("", "too much memory"),
        cause("spec.template.spec.volumes[99]", "none"),
    ];
    let (_, verdict) = reviewed(None, &pool(), &DryRunResult::Invalid(causes));
    let AdmissionDecision::Refused(refusals) = verdict.outcome else { panic!("{verdict:?}") };
    let fields: Vec<&str> = refusals.iter().map(|refusal| &*refusal.field).collect();
    assert_eq!(
        fields,
        [
            "spec.virtualMachineTemplate.spec.template.spec.volumes[0].name",
            "spec.virtualMachineTemplate",
            "spec.virtualMachineTemplate.spec.template.spec.volumes[99]",
        ]
    );
    assert!(refusals.first().cause().contains("volume is too good"), "{refusals}");
}

#[test]
fn a_machine_that_cannot_be_validated_is_a_warning() {
    let (_, verdict) = reviewed(None, &pool(), &DryRunResult::Failed("exceeded quota".into()));
    assert_eq!(verdict.outcome, AdmissionDecision::Allowed);
    let warning = verdict.warnings.iter().find(|warning| warning.detail.contains("exceeded quota"));
    assert_eq!(warning.map(|warning| &*warning.field), Some("spec.virtualMachineTemplate"));
}
