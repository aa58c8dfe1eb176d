//! Types of the virtual machine pool API, for controllers, tools and tests.
//!
//! - [`v1alpha2`] contains the kinds of `virtualization.deckhouse.io/v1alpha2`. They are generated from the CRDs, which are
//!   the source of truth; [`crds`] contains them as YAML.
//! - [`kubevirt`] contains the kinds of KubeVirt pools, `pool.kubevirt.io/v1beta1`, and of the platform below them.
//! - The rest is handwritten: keys of labels and annotations ([`labels`], [`annotations`]), [`conditions`], [`GoDuration`],
//!   [`Quantity`], the enumerated values of the API as enums ([`words`]), and a builder for pools
//!   ([`VirtualMachinePool::sketch`]).
//!
//! The crate has no client and no runtime. Enumerated values, such as phases, are strings in the types, so that an
//! object of a newer platform stays readable; [`words`] parses them.
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
pub mod kubevirt;
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
