//! The contract of platforms: tests that every [`Platform`] must pass.
//!
//! Start a new platform by passing [`check_platform_contract`] with a sample pool. The functions are not test
//! functions, so that platforms in other crates can call them from their tests:
//!
//! ```text
//! #[test]
//! fn the_contract_is_kept() {
//!     contract::check_platform_contract::<Mine>(&sample_pool());
//! }
//! ```
//!
//! The sample is a pool as the API server stores it: with name, namespace, UID and generation, without a
//! status, and with at least one disk template if the platform has disks.

mod disks;
mod sample;
mod updates;

use std::sync::Arc;

use kube::Resource;
use serde_json::{Value, json};
use vmpool_engine::condition::StatusCondition;
use vmpool_engine::failure::{FailureReason, PoolFailure};
use vmpool_engine::model::{DiskDraft, Finalizer, MachineActivity, Naming, ScaleDownPolicy};
use vmpool_engine::scale_down::removal::{RemovalRecord, RemovedMachines};
use vmpool_engine::scale_up::names::NameBlock;
use vmpool_engine::{Machine, ObjectId, Pool, copied_pool};

use super::{DiskOf, Disks, PatchBody, Platform, StatusFields};
use sample::{MACHINE_UID, SamplePool, decode_body, sample_creation_time};

pub use disks::{
    a_repointed_machine_reads_back, a_transferred_disk_belongs_to_the_machine, an_expanded_disk_reads_back,
    disk_annotations_read_back,
};

pub use updates::{
    a_machine_is_taken_over_as_it_is, a_machine_of_the_same_template_changes_its_marker_only,
    a_template_is_the_pools, what_a_template_adds_goes_with_it,
};

/// The complete contract.
///
/// # Panics
/// If the platform breaks a rule.
pub fn check_platform_contract<P: Platform>(pool: &Value) {
    what_is_written_reads_back::<P>(pool);
    a_written_machine_is_one_of_the_platforms_own::<P>(pool);
    drafts_do_not_depend_on_each_other::<P>(pool);
    lost_markers_are_complete_again_after_mark::<P>(pool);
    nothing_of_ours_stays_after_unmark::<P>(pool);
    disks_belong_to_their_machine::<P>(pool);
    disk_annotations_read_back::<P>(pool);
    an_expanded_disk_reads_back::<P>(pool);
    a_transferred_disk_belongs_to_the_machine::<P>(pool);
    a_repointed_machine_reads_back::<P>(pool);
    a_recorded_block_reads_back::<P>(pool);
    a_copy_is_held::<P>(pool);
    a_written_record_reads_back::<P>(pool);
    removed_machines_read_back_if_names_return::<P>(pool);
    a_published_status_reads_back::<P>(pool);
    the_revision_follows_nothing_but_the_template::<P>(pool);
    a_template_is_the_pools::<P>(pool);
    a_machine_of_the_same_template_changes_its_marker_only::<P>(pool);
    what_a_template_adds_goes_with_it::<P>(pool);
    a_machine_is_taken_over_as_it_is::<P>(pool);
}

/// A drafted machine reads back as a live machine of the pool, at the drafted revision, with the drafted
/// disks.
///
/// # Panics
/// If it does not.
pub fn what_is_written_reads_back<P: Platform>(pool: &Value) {
    let sample = SamplePool::<P>::new(pool);
    let draft = sample.draft("7", 7);
    let machine = P::read_machine(&sample.machine(&draft));
    assert_eq!(machine.id, ObjectId::new(&draft.name, MACHINE_UID), "name and UID");
    assert!(machine.belongs_to(&sample.facts.id), "the pool owns it");
    assert_eq!(machine.revision.as_ref(), Some(&draft.revision), "the revision is marked as in effect");
    assert_eq!(machine.written.as_ref(), Some(&draft.revision), "and as written");
    assert!(!machine.terminating, "it is not deleted");
    assert_eq!(machine.activity, MachineActivity::NotRunning, "it has not started");
    assert!(!machine.restart_pending, "nothing has changed since");
    assert_eq!(machine.created, sample_creation_time(), "its age is known");
    if sample.has_managed_labels() {
        assert_marked(&sample.facts, &machine);
    }
    assert_eq!(machine.has_finalizer, sample.facts.finalizer != Finalizer::Unused, "the finalizer");
    let mut filled: Vec<(Arc<str>, Arc<str>)> =
        machine.disks.iter().filter_map(|disk| Some((disk.template.clone()?, disk.disk.clone()))).collect();
    let mut drafted: Vec<_> =
        draft.disks.iter().map(|disk| (disk.template.clone(), disk.name.clone())).collect();
    filled.sort();
    drafted.sort();
    assert_eq!(filled, drafted, "every template is filled once, by the drafted disk");
}

/// A drafted machine is an object of the platform's kind, in the pool's namespace.
///
/// # Panics
/// If it is not.
pub fn a_written_machine_is_one_of_the_platforms_own<P: Platform>(pool: &Value) {
    let sample = SamplePool::<P>::new(pool);
    let draft = sample.draft("7", 7);
    let body = P::machine(&sample.pool, &sample.template(), &draft);
    assert_eq!(body["apiVersion"], *P::Machine::api_version(&()));
    assert_eq!(body["kind"], *P::Machine::kind(&()));
    assert_eq!(body["metadata"]["name"], *draft.name);
    assert_eq!(body["metadata"]["namespace"], *sample.facts.namespace);
    assert!(body["metadata"]["generateName"].is_null(), "names are chosen by the engine");
    assert!(body["status"].is_null(), "the status is the platform's to write");
    let owner = &body["metadata"]["ownerReferences"][0];
    assert_eq!(owner["apiVersion"], *P::Pool::api_version(&()));
    assert_eq!(owner["kind"], *P::Pool::kind(&()));
    assert_eq!(owner["name"], *sample.facts.id.name);
    assert_eq!(owner["controller"], true);
    assert_eq!(owner["blockOwnerDeletion"], true, "foreground deletion waits for machines");
}

/// Two drafted machines of one pool share no disk, and the platform keeps no state between them.
///
/// # Panics
/// If both refer to one disk, or the second differs when it is written after the first.
pub fn drafts_do_not_depend_on_each_other<P: Platform>(pool: &Value) {
    let sample = SamplePool::<P>::new(pool);
    let (first, second) = (sample.draft("1", 1), sample.draft("2", 2));
    let alone = P::machine(&sample.pool, &sample.template(), &second);
    let one = P::read_machine(&sample.machine(&first));
    let other = P::read_machine(&sample.machine(&second));
    assert_eq!(P::machine(&sample.pool, &sample.template(), &second), alone, "writing has no memory");
    for disk in one.disks.iter().filter(|disk| disk.template.is_some()) {
        assert!(other.disks.iter().all(|other| other.disk != disk.disk), "{} is in both", disk.disk);
    }
}

/// The patch of [`Platform::managed_labels`] restores all managed labels of a machine.
///
/// # Panics
/// If it is not.
pub fn lost_markers_are_complete_again_after_mark<P: Platform>(pool: &Value) {
    let sample = SamplePool::<P>::new(pool);
    if !sample.has_managed_labels() {
        return;
    }
    let mut body = sample.body(&sample.draft("7", 7));
    body["metadata"]["labels"] = json!({ "role": "kept" });
    let lost = P::read_machine(&decode_body(&body));
    assert_eq!((lost.pool_uid_label, lost.pool_label), (None, None), "the markers are labels");
    json_patch::merge(&mut body, &P::managed_labels(&sample.pool));
    assert_marked(&sample.facts, &P::read_machine(&decode_body(&body)));
    assert_eq!(body["metadata"]["labels"]["role"], "kept", "labels of others stay");
}

/// The patch of [`Platform::release`] removes all labels and annotations of the controller and no others.
///
/// # Panics
/// If it does not.
pub fn nothing_of_ours_stays_after_unmark<P: Platform>(pool: &Value) {
    let sample = SamplePool::<P>::new(pool);
    let mut body = sample.body(&sample.draft("7", 7));
    body["metadata"]["labels"]["role"] = json!("kept");
    body["metadata"]["annotations"]["note"] = json!("kept");
    let before = body.clone();
    let patch = P::release(&decode_body(&body));
    apply_patch_body(&mut body, patch);
    let released = P::read_machine(&decode_body(&body));
    assert_eq!((released.pool_uid_label, released.pool_label), (None, None));
    assert!(!released.has_finalizer, "it can be deleted");
    if sample.has_managed_labels() {
        assert_eq!((released.revision, released.written), (None, None));
        assert_eq!(body["metadata"]["ownerReferences"], before["metadata"]["ownerReferences"]);
    } else {
        assert_eq!(released.owner, None, "no label selects its pool, so only the owner can be removed");
    }
    assert!(released.disks.iter().all(|disk| disk.template.is_none()), "no disk fills a template of ours");
    assert_eq!(body["metadata"]["labels"]["role"], "kept");
    assert_eq!(body["metadata"]["annotations"]["note"], "kept");
    assert_eq!(body["spec"], before["spec"], "the machine itself goes on as it is");
}

/// A drafted disk has its machine as its owner, so that it is deleted with it. A removed template yields no
/// disk.
///
/// # Panics
/// If it does not.
pub fn disks_belong_to_their_machine<P: Platform>(pool: &Value) {
    let sample = SamplePool::<P>::new(pool);
    let draft = sample.draft("7", 7);
    assert!(
        P::Disks::EXIST || draft.disks.is_empty(),
        "a platform without disk objects has no disk templates"
    );
    let machine = ObjectId::new(&draft.name, MACHINE_UID);
    for drafted in &draft.disks {
        let mut body = P::Disks::object(&sample.pool, &machine, drafted).expect("the pool has the template");
        assert_eq!(body["apiVersion"], *DiskOf::<P>::api_version(&()));
        assert_eq!(body["kind"], *DiskOf::<P>::kind(&()));
        assert_eq!(body["metadata"]["namespace"], *sample.facts.namespace);
        assert_eq!(body["metadata"]["ownerReferences"][0]["kind"], *P::Machine::kind(&()));
        body["metadata"]["uid"] = json!("uid of the disk");
        let disk = P::Disks::read(&decode_body(&body));
        assert_eq!(disk.id, ObjectId::new(&drafted.name, "uid of the disk"));
        assert!(disk.is_of_machine(&machine));
        assert_eq!(disk.pool_uid_label.as_ref(), Some(&sample.facts.id.uid));
        assert!(!disk.terminating);
    }
    let gone = DiskDraft::new("any".into(), "a-template-that-no-pool-has".into());
    assert_eq!(P::Disks::object(&sample.pool, &machine, &gone), None);
}

/// A name block that was recorded on the pool reads back. Pools with ordinal names need none.
///
/// # Panics
/// If it is not.
pub fn a_recorded_block_reads_back<P: Platform>(pool: &Value) {
    let sample = SamplePool::<P>::new(pool);
    if sample.facts.naming == Naming::Ordinal {
        return;
    }
    assert_eq!(sample.facts.name_block, None, "the sample is a new pool");
    let mut body = pool.clone();
    for block in [NameBlock { first: 0, end: 64 }, NameBlock { first: 64, end: 1000 }] {
        json_patch::merge(&mut body, &P::name_block(block));
        assert_eq!(P::read_pool(&decode_body(&body)).name_block, Some(block));
        assert_eq!(body["spec"], pool["spec"]);
    }
}

/// Of a pool that records that the machines of a former pool of its name exist, no machine is created or
/// removed. The record of its own changes nothing.
///
/// # Panics
/// If it is not so.
pub fn a_copy_is_held<P: Platform>(pool: &Value) {
    let sample = SamplePool::<P>::new(pool);
    let read = |former: &ObjectId| {
        let mut body = pool.clone();
        body["metadata"]["annotations"][P::MACHINES_OF] = copied_pool::machines_record(former).into();
        P::read_pool(&decode_body(&body))
    };
    assert_eq!(read(&sample.facts.id), P::read_pool(&sample.pool), "its own record changes nothing");
    let copy = read(&ObjectId::new(&sample.facts.id.name, "a-former-uid"));
    assert_eq!(copy.scale_down_policy, ScaleDownPolicy::Explicit);
    assert!(copy.validation_errors.iter().any(|error| error.contains("a-former-uid")), "{copy:?}");
}

/// A removal record that was written on the pool reads back, and an empty record removes the annotation.
///
/// # Panics
/// If it is not.
pub fn a_written_record_reads_back<P: Platform>(pool: &Value) {
    let sample = SamplePool::<P>::new(pool);
    assert!(sample.facts.record.is_empty(), "the sample is a new pool");
    let mut body = pool.clone();
    let mut record = RemovalRecord::default();
    let targets = [ObjectId::new("a", "uid-a"), ObjectId::new("b", "uid-b")];
    record.reserve("request", &targets).expect("there is room");
    json_patch::merge(&mut body, &P::removal_record(&record));
    assert_eq!(P::read_pool(&decode_body(&body)).record, record);
    record.accept("request");
    json_patch::merge(&mut body, &P::removal_record(&record));
    let read = P::read_pool(&decode_body(&body));
    assert_eq!(read.record, record);
    assert_eq!(read.validation_errors, sample.facts.validation_errors);
    assert_eq!(body["spec"], pool["spec"]);
    json_patch::merge(&mut body, &P::removal_record(&RemovalRecord::default()));
    let left = body["metadata"]["annotations"].as_object().is_none_or(serde_json::Map::is_empty);
    assert!(left || body["metadata"] == pool["metadata"], "in {}", body["metadata"]);
}

/// Machines that a targeted removal deleted read back on a platform whose names return. Another platform
/// writes nothing.
///
/// # Panics
/// If they do not.
pub fn removed_machines_read_back_if_names_return<P: Platform>(pool: &Value) {
    let sample = SamplePool::<P>::new(pool);
    let mut removed = RemovedMachines::default();
    removed.add(ObjectId::new("web-1", "uid-1"));
    let mut body = pool.clone();
    json_patch::merge(&mut body, &P::removed_machines(&removed));
    match sample.facts.naming {
        Naming::Ordinal => assert_eq!(P::read_pool(&decode_body(&body)).removed, removed),
        Naming::Random => assert_eq!(body, *pool),
    }
    assert_eq!(body["spec"], pool["spec"]);
    json_patch::merge(&mut body, &P::removed_machines(&RemovedMachines::default()));
    assert!(P::read_pool(&decode_body(&body)).removed.is_empty(), "in {}", body["metadata"]);
}

/// A published status reads back unchanged, so that the controller writes it only if it differs.
///
/// # Panics
/// If it does not.
pub fn a_published_status_reads_back<P: Platform>(pool: &Value) {
    let sample = SamplePool::<P>::new(pool);
    let failure = PoolFailure { reason: FailureReason::FailedCreate, message: "exceeded quota".to_owned() };
    for failure in [None, Some(&failure)] {
        let status = sample.status(failure);
        let mut body = pool.clone();
        body["status"] = P::status(&sample.pool, &status, StatusFields::All);
        let published = P::read_pool(&decode_body(&body)).spec.published;
        assert_eq!(published, P::published(&sample.pool, &body["status"]), "in {}", body["status"]);
        let summary = published.summary.as_ref().expect("the status is complete");
        assert_eq!((summary.replicas, summary.ready), (status.summary.replicas, status.summary.ready));
        let kinds = |conditions: &[StatusCondition]| -> Vec<(String, String, String)> {
            let shown = |condition: &StatusCondition| {
                (condition.kind.clone(), condition.status.clone(), condition.message.clone())
            };
            conditions.iter().map(shown).collect()
        };
        assert_eq!(kinds(&published.conditions), kinds(&status.conditions), "in {}", body["status"]);
    }
    assert_eq!(sample.facts.published.summary, None, "a pool without a status has published nothing");
}

/// The revision depends only on the template and not on other fields of the pool.
///
/// # Panics
/// If it does.
pub fn the_revision_follows_nothing_but_the_template<P: Platform>(pool: &Value) {
    let sample = SamplePool::<P>::new(pool);
    let mut other = pool.clone();
    other["spec"]["replicas"] = json!(17);
    other["metadata"]["generation"] = json!(99);
    other["metadata"]["uid"] = json!("another pool");
    other["metadata"]["labels"]["edited"] = json!("yes");
    other["status"] = P::status(&sample.pool, &sample.status(None), StatusFields::All);
    let content = |pool: &P::Pool| P::fingerprint(&P::template(pool));
    let facts = P::read_pool(&decode_body(&other));
    assert_eq!(content(&decode_body(&other)), content(&sample.pool));
    assert_eq!((facts.desired, facts.generation), (17, 99));
}

fn assert_marked(pool: &Pool, machine: &Machine) {
    assert_eq!(machine.pool_uid_label.as_ref(), Some(&pool.id.uid), "the label with the pool's UID");
    assert_eq!(machine.pool_label.as_ref(), Some(&pool.id.name), "the label with the pool's name");
}

/// The object after a patch.
fn apply_patch_body(body: &mut Value, patch: PatchBody) {
    match patch {
        PatchBody::Merge(patch) => json_patch::merge(body, &patch),
        PatchBody::Json(operations) => {
            let patch: json_patch::Patch = serde_json::from_value(operations).expect("it is a JSON patch");
            json_patch::patch(body, &patch).expect("it fits the object that it was made for");
        }
    }
}
