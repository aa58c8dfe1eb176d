//! Types of the virtual machine pool API, for controllers, tools and tests.
//!
//! - [`v1alpha2`] has the kinds of `virtualization.deckhouse.io/v1alpha2`. They are generated from the CRDs, which
//!   are the source of truth and which [`crds`] carries as YAML.
//! - The rest is written by hand and makes the kinds pleasant to use: names of labels and annotations
//!   ([`labels`], [`annotations`]), [`conditions`], [`GoDuration`], [`Quantity`], the fixed words of the API as enums
//!   ([`words`]), and short ways to write a pool down ([`VirtualMachinePool::sketch`]).
//!
//! The crate has no client and no runtime. Words that the API fixes, such as phases, are strings in the types, so
//! that an object from a newer platform stays readable; [`words`] parses them.
//!
//! ```
//! use vmpool_api::v1alpha2::{DiskTemplate, VirtualMachinePool};
//! use vmpool_api::words::ScaleDownPolicy;
//!
//! let pool = VirtualMachinePool::sketch("builders", ScaleDownPolicy::OldestFirst)
//!     .namespace("team-a")
//!     .replicas(2)
//!     .cpu(1, "5%")
//!     .memory("512Mi")
//!     .disk(DiskTemplate::from_cluster_image("root", "alpine"))
//!     .build();
//! assert_eq!(pool.spec.replicas, Some(2));
//! ```
//!
//! [`VirtualMachinePool::sketch`]: v1alpha2::VirtualMachinePool::sketch

mod ext;
mod generated;
pub mod v1alpha2;

pub use ext::{
    conditions, crds,
    duration::{DurationError, GoDuration},
    finalizers,
    keys::{PREFIX, annotations, is_reserved, labels},
    quantity::{Quantity, QuantityError},
    share::{IntOrPercent, Share, ShareError},
    sketch::PoolSketch,
    words,
};
