//! The platform interface: translation between the data model of the engine and the objects of one
//! virtualization platform.
//!
//! A platform only translates. It never waits or decides, and does not know passes. All IO is generic over
//! its types. If code outside this crate needs a `match platform`, a trait of the module `platform` lacks a
//! method.

mod activity;
pub mod admission;
#[cfg(test)]
mod argocd_tests;
mod attachment;
mod claim_facts;
pub mod contract;
mod copied_pool;
mod decode;
pub mod dvp;
mod intern;
pub mod kubevirt;
mod memory_unit;
pub mod merge;
mod meta;
mod overridden;
mod owner;
mod platform;
pub mod removal;
mod removal_api;
mod rule_catalogue;
mod spec_text;
mod syntax;
mod text;
mod value;

pub use attachment::DiskAttachment;
pub use copied_pool::former_pool;
pub use dvp::Dvp;
pub use intern::intern_text;
pub use kubevirt::KubeVirt;
pub use meta::slim_metadata;
pub use overridden::overridden_fields;
pub use owner::{is_a, is_controlled_by, is_owner, owner_of, shared_owner_of};
pub use platform::{
    ApiObject, AttachmentOf, ClaimOf, ClientPlatform, ConditionEvent, Configuration, CopiedObject,
    CopyComparison, CopySource, CopySourceVisitor, CrossNamespaceReference, DefaultInterface, DefaultWording,
    DiskOf, Disks, FetchedObjects, Finalizers, InstanceOf, Instances, LookupFailure, LookupReason,
    MachineStorage, MachineView, NoDisks, NoFinalizers, NoInstances, NoObject, NoOtherController, NoStorage,
    NoTemplateCopies, OtherController, PatchBody, Permission, Platform, PoolPart, ReferencedObject,
    Resolution, RestartFailure, RestartRequest, RevisionObjects, StatusFields, StorageMove, TemplateCopies,
    TemplateEffect, UncopiedObject, VolumeOf, VolumeUse, Wording,
};
pub use text::Text;
