//! The contract for disks: their annotations, their size and owner, and the disks that machines refer to.

use serde_json::{Value, json};
use vmpool_engine::ObjectId;
use vmpool_engine::model::{DiskAnnotations, DiskDraft, StoredTime};

use super::sample::{MACHINE_UID, SamplePool, decode_body, sample_creation_time};
use crate::{Disks, Platform};

/// A disk as the API server stores it, for every template of the sample.
fn stored_disk_bodies<P: Platform>(sample: &SamplePool<P>) -> Vec<Value> {
    let draft = sample.draft("7", 7);
    let machine = ObjectId::new(&draft.name, MACHINE_UID);
    let bodies = draft.disks.iter().map(|disk| {
        let mut body = P::Disks::object(&sample.pool, &machine, disk).expect("the pool has the template");
        body["metadata"]["uid"] = json!("uid of the disk");
        body
    });
    bodies.collect()
}

/// Annotations that were written on a disk read back, and removed ones are gone. An unreadable time stays
/// unchanged.
///
/// # Panics
/// If it does not.
pub fn disk_annotations_read_back<P: Platform>(pool: &Value) {
    let at = Some(StoredTime::At(sample_creation_time()));
    let all = DiskAnnotations { claimed_by: Some("web-7".into()), free_since: at, collecting_since: at };
    let stages = [
        DiskAnnotations { claimed_by: None, ..all.clone() },
        all.clone(),
        DiskAnnotations { collecting_since: None, ..all.clone() },
        DiskAnnotations { claimed_by: Some("web-8".into()), ..DiskAnnotations::default() },
        DiskAnnotations::default(),
    ];
    for body in stored_disk_bodies(&SamplePool::<P>::new(pool)) {
        let plain = P::Disks::read(&decode_body(&body));
        assert_eq!(plain.annotations, DiskAnnotations::default(), "a new disk has none");
        let mut marked = body.clone();
        for annotations in &stages {
            json_patch::merge(&mut marked, &P::Disks::annotations(annotations));
            let read = P::Disks::read(&decode_body(&marked));
            assert_eq!(read.annotations, *annotations);
            assert_eq!((&read.id, &read.owner, &read.template), (&plain.id, &plain.owner, &plain.template));
            assert_eq!(marked["spec"], body["spec"], "the disk itself does not change");
        }
        let unread =
            DiskAnnotations { free_since: Some(StoredTime::Unreadable), ..DiskAnnotations::default() };
        json_patch::merge(
            &mut marked,
            &P::Disks::annotations(&DiskAnnotations { free_since: at, ..DiskAnnotations::default() }),
        );
        json_patch::merge(&mut marked, &P::Disks::annotations(&unread));
        assert_eq!(
            P::Disks::read(&decode_body(&marked)).annotations.free_since,
            at,
            "an unreadable time is not written"
        );
    }
}

/// An expanded disk has the new size and no other change.
///
/// # Panics
/// If it does not.
pub fn an_expanded_disk_reads_back<P: Platform>(pool: &Value) {
    for body in stored_disk_bodies(&SamplePool::<P>::new(pool)) {
        let before = P::Disks::read(&decode_body(&body));
        // Whole units, and a number without a unit that divides it.
        for bytes in [20 << 30, 1 << 40, 5_000_000_001] {
            let mut grown = body.clone();
            json_patch::merge(&mut grown, &P::Disks::expand(bytes));
            let after = P::Disks::read(&decode_body(&grown));
            assert_eq!(after.size, Some(bytes));
            assert_eq!(vmpool_engine::Disk { size: before.size, ..after }, before);
        }
    }
}

/// A transferred disk has the machine as its owner and no labels and annotations of the controller.
///
/// # Panics
/// If it does not.
pub fn a_transferred_disk_belongs_to_the_machine<P: Platform>(pool: &Value) {
    let machine = ObjectId::new("web-7", MACHINE_UID);
    for mut body in stored_disk_bodies(&SamplePool::<P>::new(pool)) {
        let note = json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "notes", "uid": "other" });
        let owners = body["metadata"]["ownerReferences"].as_array_mut().expect("it has an owner");
        owners.push(note.clone());
        body["metadata"]["labels"]["role"] = json!("kept");
        let at = Some(StoredTime::At(sample_creation_time()));
        let annotations =
            DiskAnnotations { claimed_by: Some("web-7".into()), free_since: at, collecting_since: at };
        json_patch::merge(&mut body, &P::Disks::annotations(&annotations));
        let spec = body["spec"].clone();
        let patch = P::Disks::transfer(&decode_body(&body), &machine);
        json_patch::merge(&mut body, &patch);
        let disk = P::Disks::read(&decode_body(&body));
        assert!(disk.is_of_machine(&machine));
        assert_eq!(
            (disk.pool_uid_label, disk.template, disk.annotations),
            (None, None, DiskAnnotations::default())
        );
        let owners = body["metadata"]["ownerReferences"].as_array().expect("it has owners");
        assert!(owners.len() == 2 && owners.contains(&note), "owners of others stay: {owners:?}");
        assert_eq!(body["metadata"]["labels"], json!({ "role": "kept" }));
        assert_eq!(body["spec"], spec);
    }
}

/// After the patch of [`Disks::repoint`] a machine refers to the other disk in the same position, without any
/// other change. The patch fails on a machine that has changed.
///
/// # Panics
/// If it does not.
pub fn a_repointed_machine_reads_back<P: Platform>(pool: &Value) {
    let sample = SamplePool::<P>::new(pool);
    let body = sample.body(&sample.draft("7", 7));
    let machine: P::Machine = decode_body(&body);
    let before = P::read_machine(&machine);
    for (index, device) in before.disks.iter().enumerate() {
        let Some(template) = device.template.clone() else { continue };
        let to = DiskDraft::new(format!("{}-2", device.disk).into(), template);
        let patch = P::Disks::repoint(&machine, device.position, &device.disk, &to);
        let patch: json_patch::Patch = serde_json::from_value(patch).expect("it is a JSON patch");
        let mut patched = body.clone();
        json_patch::patch(&mut patched, &patch).expect("it fits the machine that it was made for");
        let mut expected = before.clone();
        if expected.boot_disk.as_ref() == Some(&device.disk) {
            expected.boot_disk = Some(to.name.clone());
        }
        expected.disks[index].disk = to.name.clone();
        assert_eq!(P::read_machine(&decode_body(&patched)), expected);
        assert!(json_patch::patch(&mut patched, &patch).is_err(), "it must not fit a machine that changed");
        // A machine that another controller created has no disk map and may have no annotations.
        for annotations in [json!({ "other": "else's" }), Value::Null] {
            let mut bare = body.clone();
            bare["metadata"]["annotations"] = annotations;
            bare["metadata"]["resourceVersion"] = json!("7");
            let patch = P::Disks::repoint(&decode_body(&bare), device.position, &device.disk, &to);
            let patch: json_patch::Patch = serde_json::from_value(patch).expect("it is a JSON patch");
            let mut patched = bare.clone();
            json_patch::patch(&mut patched, &patch).expect("it fits the machine that it was made for");
            let found = &P::read_machine(&decode_body(&patched)).disks[index];
            assert_eq!((&found.disk, &found.template), (&to.name, &device.template));
            bare["metadata"]["resourceVersion"] = json!("8");
            assert!(json_patch::patch(&mut bare, &patch).is_err(), "it must not fit a machine that changed");
        }
        let mut another = body.clone();
        another["metadata"]["uid"] = json!("another machine of this name");
        assert!(json_patch::patch(&mut another, &patch).is_err(), "it must not fit another machine");
    }
}
