//! The data model of the engine: pools, machines and disks in terms that every platform can be translated to.

mod disk;
mod draft;
mod exclusion;
mod machine;
mod pool;

pub use crate::ids::{ObjectId, Uid};
pub use crate::owner::{Owner, OwnerKind};
pub use crate::revision::TemplateParts;
pub use disk::{Disk, DiskAnnotations, DiskRestore, DiskState, StoredTime};
pub use draft::{DiskDraft, DiskSource, Draft};
pub use exclusion::Exclusion;
pub use machine::{Activity, DetachedDisk, DiskRef, Instance, Machine, References, Selectable, StartHealth};
pub(crate) use pool::Transition;
pub use pool::{
    Autohealing, Budget, CurrentRevision, DiskTemplate, Finalizer, Lifetime, Membership, Naming, ParsedPool,
    PinReport, Pool, Preservation, Published, RequestedRevision, Restarts, Rollout, ScaleDownPolicy,
    Selection, StatusScope, StorageTemplate, Summary, Unresolved, UsedCopy,
};
