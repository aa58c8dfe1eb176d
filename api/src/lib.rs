//! Types of the virtual machine pool API, for controllers, tools and tests.
//!
//! - [`v1alpha2`] contains the kinds of `virtualization.deckhouse.io/v1alpha2`. They are generated from the
//!   CRDs, which are the source of truth; [`crds`] contains them as YAML.
//! - [`kubevirt`] contains the kinds of KubeVirt pools, `pool.kubevirt.io/v1beta1`, and of the platform below
//!   them.
//! - [`instancetype`] contains their instance types and preferences, `instancetype.kubevirt.io/v1beta1`.
//! - [`diskimage`] contains the kinds of disk images, `vmpool.dev/v1alpha1`.
//! - [`autoscaler`] contains the autoscaler of pools, `vmpool.dev/v1alpha1`.
//! - [`subresources`] contains the bodies of claims, releases and targeted removals.
//! - The rest is handwritten: keys of labels and annotations ([`labels`], [`annotations`]), types and reasons
//!   of [`conditions`], tests on a pool for programs that [`wait`], [`GoDuration`], [`Quantity`], the
//!   identities of objects ([`ObjectId`], [`ObjectKey`]) and owners ([`OwnerIdentity`]), the enumerated values of a pool ([`enums`]), the forms of object
//!   names ([`names`]), and builders for pools of DVP ([`VirtualMachinePool::builder`]) and of KubeVirt
//!   ([`kubevirt::VirtualMachinePool::builder`]).
//!
//! The crate has no client and no runtime. Enumerated values are strings in the types, so that an object of a
//! newer platform stays readable; [`enums`] parses the values of a pool.
//!
//! The layers, lowest first. A module imports only from lower layers:
//!
//! 1. `constants`, `keys`, [`names`], [`enums`], [`crds`], [`conditions`], `duration`, `identity`,
//!    `json_brackets`, `owner`, `quantity`, `share`, [`subresources`]: values and constants
//! 2. `generated`: the types, generated from the CRDs
//! 3. [`v1alpha2`]: short names of the types
//! 4. `accessors`, `builder`: methods of the types
//! 5. [`wait`]: tests on pools of both platforms
//!
//! ```
//! use vmpool_api::enums::ScaleDownPolicy;
//! use vmpool_api::v1alpha2::{DiskTemplate, VirtualMachinePool};
//!
//! let pool = VirtualMachinePool::builder("builders", ScaleDownPolicy::OldestFirst)
//!     .namespace("team-a")
//!     .replicas(2)
//!     .cpu(1, "5%")
//!     .memory("512Mi")
//!     .disk(DiskTemplate::from_cluster_image("root", "alpine"))
//!     .build();
//! assert_eq!(pool.spec.replicas, Some(2));
//! ```
//!
//! [`VirtualMachinePool::builder`]: v1alpha2::VirtualMachinePool::builder

pub mod autoscaler;
pub mod diskimage;
mod ext;
mod generated;
pub mod instancetype;
pub mod kubevirt;
pub mod v1alpha2;

pub use ext::{
    builder::PoolBuilder,
    conditions, crds,
    duration::{DurationError, GoDuration},
    enums,
    identity::{ObjectId, ObjectKey, Uid},
    json_brackets::{JsonBracket, json_brackets},
    keys::{PREFIX, annotations, is_reserved, labels},
    names,
    owner::OwnerIdentity,
    quantity::{Quantity, QuantityError},
    share::{IntOrPercent, Share, ShareError},
    subresources, wait,
};

/// The examples of the README, which rustdoc compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
