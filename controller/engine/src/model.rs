//! The data model of the engine: pools, machines and disks in terms that every platform can be translated to.

mod disk;
mod draft;
mod exclusion;
mod machine;
mod pool;

pub use crate::ids::{ObjectId, Uid};
pub use crate::membership::owner::{Owner, OwnerKind};
pub use crate::revisions::{PinReport, RevisionCopies, TemplateParts, UsedCopy};
pub use crate::scale_down::policy::ScaleDownPolicy;
pub use disk::{Disk, DiskAnnotations, DiskRestore, DiskState, StoredTime};
pub use draft::{DiskDraft, DiskSource, Draft};
pub use exclusion::Exclusion;
pub use machine::{
    DetachedDisk, DiskRef, Instance, Machine, MachineActivity, MachineReferences, Selectable, StartHealth,
};
pub(crate) use pool::InstanceTransition;
pub use pool::{
    AutohealingPolicy, CurrentRevision, DisruptionBudget, Finalizer, Lifetime, MachineFilter, Membership,
    Naming, ParsedPool, Pool, PoolDiskTemplate, PoolSpec, Preservation, PublishedStatus, RequestedRevision,
    Restarts, RolloutPolicy, StatusContent, StatusSummary, StorageTemplate, UnusableTemplate,
};
