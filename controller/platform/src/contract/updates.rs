//! The contract for rollouts.

use serde_json::{Value, json};
use vmpool_engine::model::DiskDraft;
use vmpool_engine::revisions::RevisionId;

use super::sample::{SamplePool, decode_body};
use crate::{Disks, Instances, Platform, RevisionObjects};

/// The key of a label and an annotation that a template can set.
const KEY: &str = "edited";

/// A template has a stable canonical form and names the disk templates of the pool.
///
/// # Panics
/// If it does not.
pub fn a_template_is_the_pools<P: Platform>(pool: &Value) {
    let sample = SamplePool::<P>::new(pool);
    let template = sample.template();
    let canonical = P::canonical(&template);
    assert_eq!(P::canonical(&canonical), canonical, "the form of the form is the form");
    let names = P::Revisions::names(&sample.facts.id, sample.facts.generation);
    assert!(names.is_none_or(|mut names| names.next().is_some()), "a generation has a name");
    assert_ne!(P::fingerprint(&edited_template::<P>(pool, "yes")), P::fingerprint(&template));
    let mut used: Vec<&str> =
        sample.facts.disks.iter().filter(|disk| disk.used).map(|disk| &*disk.name).collect();
    let mut named = P::Disks::templates(&template);
    used.sort_unstable();
    named.sort_unstable();
    assert_eq!(named, used);
}

/// An update of a machine to the template that it was created from changes only the identity of the revision.
///
/// # Panics
/// If the patch does more.
pub fn a_machine_of_the_same_template_changes_its_marker_only<P: Platform>(pool: &Value) {
    let Made { sample, live, disks } = Made::<P>::new(pool);
    let (template, revision) = (sample.template(), sample.facts.revision.id.clone());
    assert_eq!(P::update(&live, Some(&template), &revision, &template, &disks), None);
    assert_eq!(P::update(&live, None, &revision, &template, &disks), None);
    let other = RevisionId::from("another");
    let patch = P::update(&live, Some(&template), &other, &template, &disks).expect("the marker differs");
    if P::Instances::EXIST {
        // The marker is part of the template of the instance, too.
        let mut updated = live.clone();
        json_patch::merge(&mut updated, &patch);
        assert_eq!(P::read_machine(&decode_body(&updated)).written.as_ref(), Some(&other));
        assert_eq!(P::update(&updated, Some(&template), &other, &template, &disks), None);
        return;
    }
    assert_eq!(patch.get("spec"), None, "{patch}");
    let mut updated = live.clone();
    json_patch::merge(&mut updated, &patch);
    let (before, after) = (P::read_machine(&decode_body(&live)), P::read_machine(&decode_body(&updated)));
    assert_eq!((after.written.as_ref(), &after.revision), (Some(&other), &before.revision));
    assert_eq!(P::update(&updated, Some(&template), &other, &template, &disks), None);
    json_patch::merge(&mut updated, &P::record_revision(&other));
    let advanced = P::read_machine(&decode_body(&updated));
    assert_eq!(advanced.revision, Some(other), "then it is in effect");
    assert_eq!(advanced.disks, before.disks);
}

/// A machine that is taken over gets the identity of the revision, and its spec stays unchanged.
///
/// # Panics
/// If it does not.
pub fn a_machine_is_taken_over_as_it_is<P: Platform>(pool: &Value) {
    let Made { sample, mut live, disks } = Made::<P>::new(pool);
    if !sample.has_managed_labels() {
        // The machines of the platform's own controller are like those of vmpool.
        return;
    }
    live["spec"]["edited-by-hand"] = json!("yes");
    let (revision, template) = (RevisionId::from("ours"), sample.template());
    let patch = P::adopt(&live, &revision, &template, &disks).expect("the marker differs");
    assert_eq!(patch.get("spec"), None, "{patch}");
    json_patch::merge(&mut live, &patch);
    assert_eq!(P::read_machine(&decode_body(&live)).written, Some(revision.clone()));
    assert_eq!(P::adopt(&live, &revision, &template, &disks), None);
}

/// An update adds what the new template sets and removes what only the old one set. The fields of other
/// clients and the managed labels stay.
///
/// # Panics
/// If it does not.
pub fn what_a_template_adds_goes_with_it<P: Platform>(pool: &Value) {
    let Made { sample, mut live, disks } = Made::<P>::new(pool);
    for field in ["labels", "annotations"] {
        live["metadata"][field]["theirs"] = json!("kept");
    }
    let (old, new) = (sample.template(), edited_template::<P>(pool, "yes"));
    let before = P::read_machine(&decode_body(&live));
    let mut machine = live.clone();
    let there = P::update(&machine, Some(&old), &"there".into(), &new, &disks).expect("it differs");
    json_patch::merge(&mut machine, &there);
    let first = &sample.facts.revision.id;
    let back = P::update(&machine, Some(&new), first, &old, &disks).expect("it differs");
    for (field, value) in [("labels", json!("yes")), ("annotations", json!("yes"))] {
        assert_eq!(machine["metadata"][field][KEY], value);
    }
    json_patch::merge(&mut machine, &back);
    for field in ["labels", "annotations"] {
        assert_eq!(machine["metadata"][field].get(KEY), None);
        assert_eq!(machine["metadata"][field]["theirs"], "kept");
    }
    let after = P::read_machine(&decode_body(&machine));
    assert_eq!((&after.pool_uid_label, &after.pool_label), (&before.pool_uid_label, &before.pool_label));
    assert_eq!((after.owner, after.disks), (before.owner, before.disks));
    assert_eq!(machine["spec"], live["spec"]);
}

/// The template of the pool with one more label and annotation of its machines.
fn edited_template<P: Platform>(pool: &Value, value: &str) -> Value {
    let mut edited = pool.clone();
    for field in ["labels", "annotations"] {
        edited["spec"]["virtualMachineTemplate"]["metadata"][field][KEY] = json!(value);
    }
    P::template(&decode_body(&edited))
}

/// A newly created machine.
struct Made<P: Platform> {
    sample: SamplePool<P>,
    live: Value,
    disks: Vec<DiskDraft>,
}

impl<P: Platform> Made<P> {
    fn new(pool: &Value) -> Self {
        let sample = SamplePool::<P>::new(pool);
        let draft = sample.draft("7", 7);
        Self { live: sample.body(&draft), disks: draft.disks, sample }
    }
}
