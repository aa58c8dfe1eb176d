//! The pool API and the machines of a platform.

use serde_json::Value;
use vmpool_engine::model::{DiskDraft, Draft, PublishedStatus};
use vmpool_engine::revisions::{Fingerprint, RevisionId};
use vmpool_engine::scale_down::removal::{RemovalRecord, RemovedMachines};
use vmpool_engine::scale_up::names::NameBlock;
use vmpool_engine::{ComputedStatus, Machine, ObjectId, ParsedPool, PoolSpec};

use super::{
    ApiObject, DiskSources, Disks, Finalizers, Instances, MachineStorage, OtherController, RevisionObjects,
    TemplateCopies, Wording,
};

/// A patch of an object.
#[derive(Clone, Debug, PartialEq)]
pub enum PatchBody {
    /// A merge patch. The controller adds the UID and the version that it read.
    Merge(Value),
    /// A JSON patch that tests what it depends on.
    Json(Value),
}

/// The fields of a status object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusFields {
    /// All fields of vmpool's definition of the pool.
    All,
    /// Those of the platform's own definition, because the API server removes the others. A status that never
    /// reads back would be written again.
    OfPlatform,
}

/// A platform: a pool API with its machines.
///
/// The types of objects decode only the fields that vmpool reads. Writing uses JSON, so that fields unknown
/// to this version are preserved.
pub trait Platform: Sized + Send + Sync + 'static {
    /// The name of this platform in logs, events and field managers.
    const NAME: &'static str;

    /// The pool.
    type Pool: ApiObject;
    /// The machine.
    type Machine: ApiObject;
    /// The instances of machines, if they are objects.
    type Instances: Instances<Self::Machine>;
    /// The disks of pools and machines, if they are objects of the pool.
    type Disks: Disks<Self::Pool, Self::Machine>;
    /// The sources of the disks that go with their machines.
    type DiskSources: DiskSources<Self::Pool>;
    /// The storage of machines that can be preserved.
    type Storage: MachineStorage<Self::Machine>;
    /// The stored revisions.
    type Revisions: RevisionObjects<Self::Pool>;
    /// The copies of objects that templates refer to.
    type TemplateCopies: TemplateCopies<Self::Pool, Self::Machine>;
    /// Another controller of the same pools.
    type OtherController: OtherController;
    /// The finalizers of the controller.
    type Finalizers: Finalizers<Self::Pool, Self::Machine>;
    /// The texts of events.
    type Wording: Wording;

    /// Translates a stored pool. Unreadable fields become validation errors or invalid settings of the pool.
    fn read_pool(pool: &Self::Pool) -> ParsedPool;

    /// Translates a stored machine.
    fn read_machine(machine: &Self::Machine) -> Machine;

    /// What a revision of the pool stores: all fields that machines are created from.
    fn template(pool: &Self::Pool) -> Value;

    /// The identity that the revision of the template in the spec of a pool gets if no revision is stored
    /// yet.
    fn first_revision(pool: &Self::Pool, facts: &PoolSpec) -> RevisionId {
        let named = Self::Revisions::names(&facts.id, facts.generation);
        let id = named.and_then(|mut names| names.next());
        id.unwrap_or_else(|| RevisionId::of(&Self::canonical(&Self::template(pool))))
    }

    /// The canonical form of a template, without values that equal defaults of the schema. Two templates with
    /// equal forms are the same template.
    fn canonical(template: &Value) -> Value;

    /// The fingerprint of the canonical form of a template.
    fn fingerprint(template: &Value) -> Fingerprint {
        Fingerprint::of(&Self::canonical(template))
    }

    /// The object of a drafted machine that is created from `template`: with all labels and annotations, with
    /// resolved disks, and with the pool as its owner.
    fn machine(pool: &Self::Pool, template: &Value, draft: &Draft) -> Value;

    /// The merge patch that updates `live`, the complete live machine, to template `to` of `revision`; `None`
    /// if nothing differs. It removes what template `from` set and `to` does not, and keeps the fields of
    /// other clients. `disks` contains the disks of the templates in any order. Devices that did not come
    /// from templates stay at the end.
    fn update(
        live: &Value,
        from: Option<&Value>,
        revision: &RevisionId,
        to: &Value,
        disks: &[DiskDraft],
    ) -> Option<Value>;

    /// The merge patch that takes over `live`, a machine in which template `to` of `revision` is in effect
    /// according to the labels of another controller; `None` if nothing differs. It sets labels and
    /// annotations, and disks for devices without one. The rest of the spec stays unchanged.
    fn adopt(live: &Value, revision: &RevisionId, to: &Value, disks: &[DiskDraft]) -> Option<Value>;

    /// The merge patch that makes `live`, a stopped standby machine, active: it removes the label of standby
    /// machines, sets labels and run state of template `to`, and records the time `at`. The rest of the
    /// template follows from [`Platform::update`].
    fn activate(pool: &Self::Pool, live: &Value, revision: &RevisionId, to: &Value, at: &str) -> Value;

    /// The merge patch that stops `live`, a standby machine whose warm-up has ended.
    fn stop_standby(live: &Value) -> Value;

    /// The object whose creation starts an activated machine, if the platform does not start it otherwise. It
    /// has the name of the machine and belongs to it, so that it exists once.
    fn start_operation(_namespace: &str, _machine: &ObjectId) -> Option<Value> {
        None
    }

    /// The path of the collection of such objects.
    fn start_operations(_namespace: &str) -> String {
        String::new()
    }

    /// The merge patch that records on a machine that `revision` is in effect; an empty one if the instance
    /// records it.
    fn record_revision(revision: &RevisionId) -> Value;

    /// The patch that releases a machine: it removes all marks of the controller, and the pool as its owner
    /// if the pool still is.
    fn release(machine: &Self::Machine) -> PatchBody;

    /// The merge patch that restores the managed labels of a machine; an empty one if the platform has none.
    fn managed_labels(pool: &Self::Pool) -> Value;

    /// The annotation of pools that says [whose machines exist](vmpool_engine::copied_pool).
    const MACHINES_OF: &'static str;

    /// Fields of a machine that the platform completes when it stores the machine, in the spelling of
    /// [`overridden_fields`](crate::overridden_fields). Another value in them is no sign of an admission
    /// policy.
    const COMPLETED_FIELDS: &'static [&'static str] = &[];

    /// The merge patch that records a name block on the pool, if the platform does not name machines by
    /// ordinals.
    fn name_block(block: NameBlock) -> Value;

    /// The merge patch that writes the removal record of the pool. An empty record removes the annotation.
    fn removal_record(record: &RemovalRecord) -> Value;

    /// The merge patch that writes the machines that targeted removals deleted, if the names of machines
    /// return. An empty list removes the annotation.
    fn removed_machines(removed: &RemovedMachines) -> Value;

    /// The status object to publish, with these fields.
    fn status(pool: &Self::Pool, status: &ComputedStatus, fields: StatusFields) -> Value;

    /// Whether a stored pool shows that its definition is that of vmpool. With another definition, the API
    /// server removes the fields of vmpool, and clients may know only the conditions of the platform.
    fn has_definition_of_vmpool(_: &Self::Pool) -> bool {
        true
    }

    /// The JSON patch of the status of a pool that removes the conditions in the meaning of kstatus. `None`
    /// if the pool has none, or if no other controller reconciles the pools of the platform later.
    fn remove_kstatus_conditions(_: &Self::Pool) -> Option<Value> {
        None
    }

    /// What `status` shows, as [`Platform::read_pool`] reads it from a pool with this status. The controller
    /// writes a status only if this differs from what the pool shows.
    fn published(pool: &Self::Pool, status: &Value) -> PublishedStatus;
}
