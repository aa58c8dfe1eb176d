//! The platform interface: translation between the data model of the engine and the objects of one virtualization
//! platform.
//!
//! A platform only translates. It never waits or decides, and does not know passes. All IO is generic over its types.
//! If code outside this crate needs a `match platform`, a trait of the seams lacks a method.

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
pub mod merge;
mod meta;
mod overridden;
mod owner;
pub mod removal;
mod removal_api;
mod rule_catalogue;
mod seam;
mod spec_text;
mod syntax;
mod text;
mod value;

pub use attachment::Attachment;
pub use copied_pool::former_pool;
pub use dvp::Dvp;
pub use intern::intern;
pub use kubevirt::KubeVirt;
pub use meta::slim_metadata;
pub use overridden::overridden_fields;
pub use owner::{is_a, is_controlled_by, is_owner, owner_of, shared_owner_of};
pub use seam::{
    ApiObject, AttachmentOf, ClaimOf, Configuration, Copied, DefaultInterface, DefaultWording, DiskOf, Disks,
    Existing, Finalizers, Foreign, Found, InstanceOf, Instances, LookupFailure, LookupReason, MachineView,
    NoDisks, NoFinalizers, NoInstances, NoObject, NoOtherController, NoPins, NoStorage, OtherController,
    PatchBody, Permission, Pins, Platform, PoolPart, Reference, Referent, Resolution, RestartRequest,
    Revisions, Source, SourceVisitor, StatusFields, Storage, StorageMove, TemplateEffect, Transition, View,
    VolumeOf, VolumeUse, Wording,
};
pub use text::Text;
