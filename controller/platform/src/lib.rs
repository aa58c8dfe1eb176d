//! The platform interface: translation between the data model of the engine and the objects of one
//! virtualization platform.
//!
//! A platform only translates. It never waits or decides, and does not know passes. All IO is generic over
//! its types. If code outside the crates of platforms needs a `match platform`, a trait of the module
//! `platform` lacks a method.
//!
//! A platform is a crate that implements [`Platform`]. It may use everything here, and nothing here names a
//! platform. The module [`contract`] contains the tests that every platform must pass.

pub mod activity;
pub mod admission;
mod attachment;
mod claim_facts;
pub mod contract;
pub mod copied_pool;
pub mod decode;
pub mod intern;
pub mod memory_unit;
pub mod merge;
pub mod meta;
mod overridden;
pub mod owner;
mod platform;
pub mod removal_api;
pub mod rule_catalogue;
pub mod spec_text;
mod stored_objects;
mod stored_reader;
pub mod syntax;
mod text;
pub mod value;

pub use attachment::DiskAttachment;
pub use copied_pool::former_pool;
pub use intern::intern_text;
pub use meta::slim_metadata;
pub use overridden::overridden_fields;
pub use owner::{is_a, is_controlled_by, is_owner, owner_of, shared_owner_of};
pub use platform::{
    ApiObject, AttachmentOf, ClaimOf, ClaimedPlatform, ClientPlatform, CloneTarget, ConditionEvent,
    Configuration, CopiedObject, CopyComparison, CopySource, CopySourceVisitor, CrossNamespaceReference,
    DefaultInterface, DefaultWording, DiskOf, DiskSourceKind, DiskSourceRef, DiskSourceState,
    DiskSourceVisitor, DiskSources, Disks, FetchedObjects, Finalizers, InstanceOf, Instances, LookupFailure,
    LookupReason, MachineStorage, MachineView, NamedDiskSource, NoDisks, NoFinalizers, NoInstances, NoObject,
    NoOtherController, NoStorage, NoTemplateCopies, OtherController, PatchBody, Permission, Platform,
    PoolPart, ReferencedObject, RegisteredPlatform, Resolution, RestartFailure, RestartRequest,
    RevisionObjects, StatusFields, StorageMove, TemplateCopies, TemplateEffect, UncopiedObject, VolumeOf,
    VolumeUse, Wording, revision_at,
};
pub use stored_objects::{StoredInstance, StoredMachine, StoredObjectPage, instance_addresses};
pub use stored_reader::StoredReader;
pub use text::Text;
