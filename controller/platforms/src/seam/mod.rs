//! The seams of a platform: what varies between virtualization platforms, one trait for each.
//!
//! [`Platform`] has the pool API and the machines. What a platform may lack is an associated type with a trait of its own,
//! and a type such as [`NoDisks`] for platforms without it.

mod api_object;
mod disks;
mod finalizers;
mod instances;
mod no_object;
mod of;
mod other_controller;
mod pins;
mod platform;
mod revisions;
mod storage;
mod view;
mod wording;

pub use api_object::ApiObject;
pub use disks::{Disks, NoDisks};
pub use finalizers::{Finalizers, NoFinalizers};
pub use instances::{Instances, NoInstances, RestartRequest};
pub use no_object::NoObject;
pub use of::{AttachmentOf, ClaimOf, DiskOf, InstanceOf, VolumeOf};
pub use other_controller::{Configuration, DefaultInterface, NoOtherController, OtherController};
pub use pins::{
    Copied, Existing, Foreign, Found, LookupFailure, LookupReason, NoPins, Permission, Pins, Reference,
    Referent, Resolution, Source, SourceVisitor,
};
pub use platform::{PatchBody, Platform, StatusFields};
pub use revisions::Revisions;
pub use storage::{NoStorage, Storage, StorageMove, VolumeUse};
pub use view::{MachineView, PoolPart, TemplateEffect, View};
pub use wording::{DefaultWording, Transition, Wording};
