use serde_json::json;

use super::*;
use crate::{LookupNamespace, LookupSubject};

fn lookup(name: &str, reveals: bool) -> ObjectLookup {
    ObjectLookup {
        subject: LookupSubject::Image,
        api_version: "a/v1",
        plural: "images",
        namespace: LookupNamespace::Cluster,
        name: Some(name.to_owned()),
        fields: &["spec"],
        reveals,
    }
}

fn dry_run() -> DryRun {
    DryRun { api_version: "a/v1", plural: "machines", object: json!({}) }
}

#[test]
fn all_objects_are_needed_at_once() {
    let mut reads = AdmissionReads::new(true);
    let lookups = ["a", "b"].map(|name| lookup(name, true));
    let [a, b] = &lookups;
    let needs = |lookup: &ObjectLookup| AdmissionRead::Object(lookup.clone());
    assert_eq!(reads.objects(&lookups), Err(Needs(vec![needs(a), needs(b)])));
    reads.add_object(a.clone(), Some(LookupOutcome::Absent));
    assert_eq!(reads.objects(&lookups), Err(Needs(vec![needs(b)])));
    reads.add_object(b.clone(), None);
    assert_eq!(reads.objects(&lookups), Ok(vec![Some(&LookupOutcome::Absent), None]));
}

#[test]
fn what_would_reveal_facts_is_not_needed() {
    let reads = AdmissionReads::new(false);
    assert_eq!(reads.object(&lookup("a", true)), Ok(None));
    assert_eq!(reads.dry_run(dry_run()), Ok(None));
    assert!(reads.object(&lookup("a", false)).is_err());
}

#[test]
fn a_review_needs_its_dry_run_once() {
    let mut reads = AdmissionReads::new(true);
    assert_eq!(reads.dry_run(dry_run()), Err(Needs(vec![AdmissionRead::DryRun(dry_run())])));
    reads.add_dry_run(DryRunResult::Accepted);
    assert_eq!(reads.dry_run(dry_run()), Ok(Some(&DryRunResult::Accepted)));
}
