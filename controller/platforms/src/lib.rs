//! The seam between the engine's words and the objects of one virtualization stack.
//!
//! A platform only translates. It never waits, decides, or knows what a pass is; all IO is written once, generically,
//! over its types. Whoever is about to write `match platform` outside this module is missing a verb in [`Platform`].

mod attachment;
pub mod contract;
pub mod dvp;
mod intern;
pub mod merge;
mod meta;
mod text;

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

/// What the cache and the client need of an object's type.
pub trait Stored:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + Debug
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
}

impl<K> Stored for K where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Send
        + Sync
        + 'static
{
}

/// A pool API together with its machines and disks.
///
/// The stored types decode only what is read; what is written is plain JSON, so that no field that this version does
/// not know gets lost.
pub trait Platform: Send + Sync + 'static {
    /// The word for this platform in logs, events and field managers.
    const NAME: &'static str;

    /// Whether a machine's disks are objects of [`Platform::Disk`]. Without them that type is never asked for.
    const HAS_DISKS: bool;

    /// Whether a disk can be attached to a machine by an object of [`Platform::Attachment`], past the machine's own
    /// list of devices. Without them that type is never asked for.
    const HAS_ATTACHMENTS: bool;

    /// The label of a machine that holds the revision which is in effect. Stored revisions bear it as well.
    const REVISION_LABEL: &'static str;

    /// The pool.
    type Pool: Stored;
    /// The machine.
    type Machine: Stored;
    /// The disk.
    type Disk: Stored;
    /// What attaches a disk to a machine by hand.
    type Attachment: Stored;

    /// Puts a stored pool into the engine's words. What cannot be read becomes a flaw of the pool.
    fn read_pool(pool: &Self::Pool) -> Pool;

    /// Puts a stored machine into the engine's words.
    fn read_machine(machine: &Self::Machine) -> Machine;

    /// Puts a stored disk into the engine's words.
    fn read_disk(disk: &Self::Disk) -> Disk;

    /// Puts a stored attachment into words of ours.
    fn read_attachment(attachment: &Self::Attachment) -> Attachment;

    /// The machine template of a pool, as it is stored in a revision: all that a machine is made from, and nothing
    /// that the pool decides elsewhere.
    fn template(pool: &Self::Pool) -> Value;

    /// A template in the form in which two are compared: what equals the schema's defaults left out. Equal forms are
    /// the same template.
    fn canonical(template: &Value) -> Value;

    /// Names of the disk templates that machines of `template` have a device for.
    fn disk_templates(template: &Value) -> Vec<String>;

    /// Puts a drafted machine into this stack's words, made from `template`: every marker set, every disk resolved,
    /// owned by the pool.
    fn machine(pool: &Self::Pool, template: &Value, draft: &Draft) -> Value;

    /// The merge patch that makes `live`, the machine as the API server has it with every field, one of template `to`:
    /// what template `from` set and `to` does not is taken away, what others set stays. `None` if nothing differs.
    /// `disks` fills the templates, in any order; devices of the machine that no template ever gave it stay at the end.
    fn update(
        live: &Value,
        from: Option<&Value>,
        to: (&RevisionId, &Value),
        disks: &[DiskDraft],
    ) -> Option<Value>;

    /// The merge patch that takes over `live`, a machine in which template `to` is in effect as another controller says
    /// in words of its own: markers, and disks for devices that were never given any. All else of its spec stays as it
    /// is. `None` if nothing differs.
    fn adopt(live: &Value, to: (&RevisionId, &Value), disks: &[DiskDraft]) -> Option<Value>;

    /// The merge patch that says that `revision` is in effect in a machine.
    fn record_revision(revision: &RevisionId) -> Value;

    /// The merge patch that writes all marks of a disk.
    fn disk_annotations(annotations: &DiskAnnotations) -> Value;

    /// The merge patch that makes a disk larger.
    fn expand_disk(bytes: u64) -> Value;

    /// The merge patch that gives a disk of the pool to `machine`, which is no member any more: it owns the disk from
    /// now on, and nothing of ours is left on it.
    fn transfer_disk(disk: &Self::Disk, machine: &ObjectId) -> Value;

    /// Puts a drafted disk of `member` into this stack's words, owned by the member or by the pool as its template
    /// says; `None` if the pool has no such template any more.
    fn disk(pool: &Self::Pool, member: &ObjectId, draft: &DiskDraft) -> Option<Value>;

    /// The merge patch that gives a member its managed labels back.
    fn managed_labels(pool: &Self::Pool) -> Value;

    /// The merge patch that takes our markers off a machine.
    fn remove_markers() -> Value;

    /// The JSON patch that makes a machine refer to disk `to` where it refers to `from`, at this position of its
    /// devices; it fails if the machine changed there meanwhile.
    fn repoint(machine: &Self::Machine, position: usize, from: &str, to: &DiskDraft) -> Value;

    /// The JSON patch that takes the device for disk `disk` away from a machine, at this position of its devices; it fails if
    /// the machine changed there meanwhile. The disk map stays as it is.
    fn detach(machine: &Self::Machine, position: usize, disk: &str) -> Value;

    /// The merge patch that records a block of machine numbers on the pool.
    fn name_block(block: NameBlock) -> Value;

    /// The merge patch that writes the record of named machines on the pool; one without entries is taken away.
    fn removal_record(record: &RemovalRecord) -> Value;

    /// The status object to publish.
    fn status(pool: &Self::Pool, status: &Status) -> Value;
}
