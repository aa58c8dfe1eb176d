//! Warnings about objects that a pool names and that do not exist.

use super::*;

fn warned(verdict: &AdmissionVerdict) -> Vec<Rule> {
    assert_eq!(verdict.outcome, AdmissionDecision::Allowed);
    verdict.warnings.iter().map(|warning| listed(warning.rule)).collect()
}

/// The webhook does not read images and storage classes for a client that is not the API server.
#[test]
fn an_object_that_was_not_read_causes_no_warning() {
    let mut world = World::complete();
    world.facts.images.clear();
    let pool = disk(1, "/spec/persistentVolumeClaim/storageClassName", json!("fast"));
    assert_allowed(&world.create(&pool));
}

#[test]
fn an_object_that_cannot_be_read_is_not_reported_as_missing() {
    let unread = || LookupOutcome::Failed("no response".to_owned());
    let pool = disk(1, "/spec/persistentVolumeClaim/storageClassName", json!("fast"));
    let mut world = World::complete().storage_class("fast", unread());
    let toolbox = ImageId { kind: ImageKind::Cluster, name: "toolbox".to_owned() };
    world.facts.images.insert(toolbox, LookupOutcome::Failed("no response".to_owned()));
    assert_allowed(&world.create(&pool));
}

#[test]
fn every_missing_object_is_named() {
    let world = World::complete().without_image("debian").without_image("toolbox");
    let pool = disk(0, "/spec/persistentVolumeClaim/storageClassName", json!("fast"));
    let verdict = world.storage_class("fast", LookupOutcome::Absent).create(&pool);
    assert_eq!(warned(&verdict), [Rule::ImageUnknown, Rule::SourceUnknown, Rule::StorageClassUnknown]);
    let texts: Vec<String> = verdict.warnings.iter().map(ToString::to_string).collect();
    for (text, name) in texts.iter().zip(["\"toolbox\"", "\"debian\"", "\"fast\""]) {
        assert!(text.contains(name), "{text}");
    }
}

#[test]
fn a_missing_snapshot_is_named() {
    let source =
        json!({ "type": "ObjectRef", "objectRef": { "kind": "VirtualDiskSnapshot", "name": "monday" } });
    let mut world = World::complete();
    world.facts.snapshots.insert("monday".to_owned(), LookupOutcome::Absent);
    let verdict = world.create(&disk(0, "/spec/dataSource", source));
    assert_eq!(warned(&verdict), [Rule::SourceUnknown]);
    assert!(verdict.warnings[0].to_string().contains("VirtualDiskSnapshot \"monday\""), "{verdict:?}");
}

/// An update reads only what it changes.
#[test]
fn an_unchanged_part_causes_no_warning() {
    let world = World::complete().without_image("debian").without_image("toolbox");
    assert_allowed(&world.update(&pool(), &with(pool(), "/spec/replicas", json!(4))));
    let resized = machine("/cpu/cores", json!(4));
    assert_eq!(warned(&world.update(&pool(), &resized)), [Rule::ImageUnknown]);
}
