//! The platform interface: what varies between virtualization platforms, one trait for each.
//! `docs/architecture.md` lists the traits, and `cargo xtask hygiene` compares the list with this folder.
//!
//! [`Platform`] has the pool API and the machines. What a platform may lack is an associated type with a
//! trait of its own, and a type such as [`NoDisks`] for platforms without it.

mod api_object;
mod associated_types;
mod claimed_platform;
mod client_platform;
mod disk_sources;
mod disks;
mod finalizers;
mod instances;
mod no_object;
mod other_controller;
mod platform_trait;
mod referenced_object;
mod registered_platform;
mod revisions;
mod storage;
mod template_copies;
mod wording;

pub use api_object::ApiObject;
pub use associated_types::{AttachmentOf, ClaimOf, DiskOf, InstanceOf, VolumeOf};
pub use claimed_platform::ClaimedPlatform;
pub use client_platform::{ClientPlatform, MachineView, PoolPart, RestartFailure, TemplateEffect};
pub use disk_sources::{
    DiskSourceKind, DiskSourceRef, DiskSourceState, DiskSourceVisitor, DiskSources, NamedDiskSource,
};
pub use disks::{Disks, NoDisks};
pub use finalizers::{Finalizers, NoFinalizers};
pub use instances::{Instances, NoInstances, RestartRequest};
pub use no_object::NoObject;
pub use other_controller::{Configuration, DefaultInterface, NoOtherController, OtherController};
pub use platform_trait::{PatchBody, Platform, StatusFields};
pub use referenced_object::{CloneTarget, CrossNamespaceReference, Permission, ReferencedObject};
pub use registered_platform::RegisteredPlatform;
pub use revisions::{RevisionObjects, revision_at};
pub use storage::{MachineStorage, NoStorage, StorageMove, VolumeUse};
pub use template_copies::{
    CopiedObject, CopyComparison, CopySource, CopySourceVisitor, FetchedObjects, LookupFailure, LookupReason,
    NoTemplateCopies, Resolution, TemplateCopies, UncopiedObject,
};
pub use wording::{ConditionEvent, DefaultWording, Wording};
