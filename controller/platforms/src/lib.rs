//! The platform interface: translation between the data model of the engine and the objects of one virtualization
//! platform.
//!
//! A platform only translates. It never waits or decides, and does not know passes. All IO is generic over its types.
//! If code outside this crate needs a `match platform`, the trait [`Platform`] lacks a method.

pub mod admission;
mod attachment;
pub mod contract;
mod decode;
pub mod dvp;
mod intern;
pub mod kubevirt;
pub mod merge;
mod meta;
pub mod removal;
mod removal_api;
mod syntax;
mod text;
mod value;

use std::fmt::Debug;

use kube::Resource;
use kube::core::NamespaceResourceScope;
use serde::de::DeserializeOwned;
use serde_json::Value;
use vmpool_engine::model::{DiskAnnotations, DiskDraft, Draft, ObjectId};
use vmpool_engine::names::NameBlock;
use vmpool_engine::removal::RemovalRecord;
use vmpool_engine::revision::RevisionId;
use vmpool_engine::{Disk, Machine, Pool, Status};

pub use attachment::Attachment;
pub use dvp::Dvp;
pub use intern::intern;
pub use meta::{controller_of, controller_reference, slim_metadata};
pub use text::Text;

/// The trait bounds of API objects for the client and the caches.
pub trait ApiObject:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + Debug
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
}

impl<K> ApiObject for K where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Send
        + Sync
        + 'static
{
}

/// A platform: a pool API with its machines and disks.
///
/// The types of objects decode only the fields that vmpool reads. Writing uses JSON, so that fields unknown to this
/// version are preserved.
pub trait Platform: Send + Sync + 'static {
    /// The name of this platform in logs, events and field managers.
    const NAME: &'static str;

    /// Whether disks are objects of type [`Platform::Disk`]. If not, the controller does not request that type.
    const HAS_DISKS: bool;

    /// Whether objects of type [`Platform::Attachment`] can attach disks to machines in addition to the device list of
    /// the machine. If not, the controller does not request that type.
    const HAS_ATTACHMENTS: bool;

    /// The label of a machine that contains the revision in effect. Stored revisions have it as well.
    const REVISION_LABEL: &'static str;

    /// The pool.
    type Pool: ApiObject;
    /// The machine.
    type Machine: ApiObject;
    /// The disk.
    type Disk: ApiObject;
    /// An object that attaches a disk to a machine.
    type Attachment: ApiObject;

    /// Translates a stored pool. Unreadable fields become validation errors or invalid settings of the pool.
    fn read_pool(pool: &Self::Pool) -> Pool;

    /// Translates a stored machine.
    fn read_machine(machine: &Self::Machine) -> Machine;

    /// Translates a stored disk.
    fn read_disk(disk: &Self::Disk) -> Disk;

    /// Translates a stored attachment.
    fn read_attachment(attachment: &Self::Attachment) -> Attachment;

    /// The machine template of a pool as stored in a revision: all fields that machines are created from, and no other
    /// fields of the pool.
    fn template(pool: &Self::Pool) -> Value;

    /// The canonical form of a template, without values that equal defaults of the schema. Two templates with equal
    /// forms are the same template.
    fn canonical(template: &Value) -> Value;

    /// Names of the disk templates that machines of `template` have a device for.
    fn disk_templates(template: &Value) -> Vec<String>;

    /// The object of a drafted machine that is created from `template`: with all labels and annotations, with resolved
    /// disks, and with the pool as its owner.
    fn machine(pool: &Self::Pool, template: &Value, draft: &Draft) -> Value;

    /// The merge patch that updates `live`, the complete live machine, to template `to`; `None` if nothing differs. It
    /// removes what template `from` set and `to` does not, and keeps the fields of other clients. `disks` contains the
    /// disks of the templates in any order. Devices that did not come from templates stay at the end.
    fn update(
        live: &Value,
        from: Option<&Value>,
        to: (&RevisionId, &Value),
        disks: &[DiskDraft],
    ) -> Option<Value>;

    /// The merge patch that takes over `live`, a machine in which template `to` is in effect according to the labels of
    /// another controller; `None` if nothing differs. It sets labels and annotations, and disks for devices without
    /// one. The rest of the spec stays unchanged.
    fn adopt(live: &Value, to: (&RevisionId, &Value), disks: &[DiskDraft]) -> Option<Value>;

    /// The merge patch that records on a machine that `revision` is in effect.
    fn record_revision(revision: &RevisionId) -> Value;

    /// The merge patch that writes all annotations of a disk.
    fn disk_annotations(annotations: &DiskAnnotations) -> Value;

    /// The merge patch that expands a disk to this size in bytes.
    fn expand_disk(bytes: u64) -> Value;

    /// The merge patch that makes `machine`, a released machine, the owner of a disk of the pool. It removes the labels
    /// and annotations of the controller.
    fn transfer_disk(disk: &Self::Disk, machine: &ObjectId) -> Value;

    /// The object of a drafted disk of `machine`, with the machine or the pool as its owner, depending on its template;
    /// `None` if the template was removed from the pool.
    fn disk(pool: &Self::Pool, machine: &ObjectId, draft: &DiskDraft) -> Option<Value>;

    /// The merge patch that restores the managed labels of a machine.
    fn managed_labels(pool: &Self::Pool) -> Value;

    /// The merge patch that removes the labels and annotations of the controller from a machine.
    fn remove_markers() -> Value;

    /// The JSON patch that replaces disk `from` with disk `to` at this position of the machine's devices. It fails if
    /// the device has changed.
    fn repoint(machine: &Self::Machine, position: usize, from: &str, to: &DiskDraft) -> Value;

    /// The JSON patch that removes the device for `disk` at this position of the machine's devices. It fails if the
    /// device has changed. The disk map stays unchanged.
    fn detach(machine: &Self::Machine, position: usize, disk: &str) -> Value;

    /// The merge patch that records a name block on the pool.
    fn name_block(block: NameBlock) -> Value;

    /// The merge patch that writes the removal record of the pool. An empty record removes the annotation.
    fn removal_record(record: &RemovalRecord) -> Value;

    /// The status object to publish.
    fn status(pool: &Self::Pool, status: &Status) -> Value;
}
