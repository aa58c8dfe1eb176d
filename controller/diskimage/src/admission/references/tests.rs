use serde_json::json;
use vmpool_decision::{LookupOutcome, Needs};

use super::*;

/// A machine whose disk is a clone of this DataSource.
fn clone_of(source: &str) -> Value {
    json!({
        "metadata": { "name": "web" },
        "spec": { "dataVolumeTemplates": [
            { "spec": { "sourceRef": { "kind": "DataSource", "name": source, "namespace": "team-a" } } },
        ] },
    })
}

/// The number of findings, and what was read as `PLURAL NAME`. Objects have these names, too.
fn review(machine: &Value, may_reveal: bool, objects: &[(&str, Value)]) -> (usize, Vec<String>) {
    let (mut reads, mut asked) = (AdmissionReads::new(may_reveal), Vec::new());
    loop {
        let Needs(needs) = match review_references("team-a", &Value::Null, machine, &reads) {
            Ok(findings) => return (findings.len(), asked),
            Err(needs) => needs,
        };
        for read in needs {
            let AdmissionRead::Object(lookup) = read else { panic!("{read:?}") };
            let key = format!("{} {}", lookup.plural, lookup.name.as_deref().unwrap_or_default());
            let found = objects.iter().find(|(known, _)| *known == key);
            let found =
                found.map_or(LookupOutcome::Absent, |(_, object)| LookupOutcome::There(object.clone()));
            reads.add_object(lookup, Some(found));
            asked.push(key);
        }
    }
}

fn terminating() -> Value {
    json!({ "metadata": { "uid": "image-1", "deletionTimestamp": "2026-01-01T00:00:00Z" } })
}

#[test]
fn an_image_that_is_being_deleted_is_refused() {
    let (refused, asked) = review(&clone_of("debian"), true, &[("vmdiskimages debian", terminating())]);
    assert_eq!((refused, asked), (1, vec!["vmdiskimages debian".to_owned()]));
}

#[test]
fn an_alias_counts_for_the_image_behind_it() {
    let alias = json!({ "spec": { "source": { "pvc": { "name": "debian", "namespace": "team-a" } } } });
    let objects = [("datasources stable", alias), ("vmdiskimages debian", terminating())];
    let (refused, asked) = review(&clone_of("stable"), true, &objects);
    assert_eq!(refused, 1);
    assert_eq!(asked, ["vmdiskimages stable", "datasources stable", "vmdiskimages debian"]);
}

#[test]
fn an_answer_that_may_reveal_nothing_needs_no_read() {
    assert_eq!(
        review(&clone_of("debian"), false, &[("vmdiskimages debian", terminating())]),
        (0, Vec::new())
    );
}
