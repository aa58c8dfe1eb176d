//! The registry of platforms, and what programs use of them. Programs depend on this crate only: it exports
//! the platform interface, too.
//!
//! The module `registry` has the table of platforms: one row for each. From it follow [`PlatformName`], which
//! is the value of flags and the label of metrics, [`with_platform`], with which programs do something for a
//! platform that is chosen while they run, the APIs in [`removal`], and the rules in [`admission`].

pub mod admission;
mod registered_apis;
mod registry;
pub mod removal;
#[cfg(test)]
mod tests;

pub use vmpool_dvp as dvp;
pub use vmpool_instancetype as instancetype;
pub use vmpool_kubevirt as kubevirt;
pub use vmpool_platform::{
    ApiObject, AttachmentOf, ClaimOf, ClaimedPlatform, ClientPlatform, CloneTarget, ConditionEvent,
    Configuration, CopiedObject, CopyComparison, CopySource, CopySourceVisitor, CrossNamespaceReference,
    DefaultInterface, DefaultWording, DiskAttachment, DiskOf, DiskSourceKind, DiskSourceRef, DiskSourceState,
    DiskSourceVisitor, DiskSources, Disks, FetchedObjects, Finalizers, InstanceOf, Instances, LookupFailure,
    LookupReason, MachineStorage, MachineView, NamedDiskSource, NoDisks, NoFinalizers, NoInstances, NoObject,
    NoOtherController, NoStorage, NoTemplateCopies, OtherController, PatchBody, Permission, Platform,
    PoolPart, ReferencedObject, RegisteredPlatform, Resolution, RestartFailure, RestartRequest,
    RevisionObjects, StatusFields, StorageMove, TemplateCopies, TemplateEffect, Text, UncopiedObject,
    VolumeOf, VolumeUse, Wording, api_object, former_pool, intern_text, is_a, is_controlled_by, is_owner,
    merge, overridden_fields, owner_of, shared_owner_of, slim_metadata,
};

pub use dvp::Dvp;
pub use kubevirt::KubeVirt;
pub use registry::{PlatformName, UnknownPlatform, registered};
