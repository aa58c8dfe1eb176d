//! The seams of a platform: what varies between virtualization platforms, one trait for each.
//!
//! [`Platform`] has the pool API and the machines. What a platform may lack is an associated type with a trait of its own,
//! and a type such as [`NoDisks`] for platforms without it.

mod disks;
mod finalizers;
mod instances;
mod no_object;
mod platform;
mod revisions;
mod storage;

pub use disks::{AttachmentOf, DiskOf, Disks, NoDisks};
pub use finalizers::{Finalizers, NoFinalizers};
pub use instances::{InstanceOf, Instances, NoInstances, RestartRequest};
pub use no_object::NoObject;
pub use platform::{ApiObject, PatchBody, Platform};
pub use revisions::Revisions;
pub use storage::{ClaimOf, NoStorage, Storage, VolumeOf};
