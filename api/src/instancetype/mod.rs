//! The kinds of instance types and preferences, `instancetype.kubevirt.io/v1beta1`.
//!
//! An instance type fixes the size of a machine, and a preference fills what the machine leaves empty. Each
//! exists for one namespace and for the whole cluster; both forms have the same fields.
//!
//! Every type has a field `unknown_fields` with the fields that this crate does not know, like the types of
//! [`kubevirt`](crate::kubevirt).
//!
//! ```
//! use vmpool_api::instancetype::ClusterInstancetype;
//!
//! let stored = serde_json::json!({
//!     "apiVersion": "instancetype.kubevirt.io/v1beta1",
//!     "kind": "VirtualMachineClusterInstancetype",
//!     "metadata": {"name": "u1.small"},
//!     "spec": {"cpu": {"guest": 1}, "memory": {"guest": "2048Mi"}},
//! });
//! let small: ClusterInstancetype = serde_json::from_value(stored)?;
//! assert_eq!((small.spec.cpu.guest, small.spec.memory.guest.as_str()), (1, "2048Mi"));
//! # Ok::<_, serde_json::Error>(())
//! ```
//!
//! These types are for programs that read and write the objects, such as clients, tools and tests. The CRDs
//! are their source. The functions of `vmpool-instancetype`, which apply instance types to machines, read the
//! JSON of an object instead: a stored copy must keep every byte of a quantity, and an error must contain the
//! path of the field.

pub mod crds;

pub use crate::generated::instancetype::{
    virtual_machine_cluster_instancetype::{
        self, VirtualMachineClusterInstancetype as ClusterInstancetype,
        VirtualMachineClusterInstancetypeSpec as ClusterInstancetypeSpec,
    },
    virtual_machine_cluster_preference::{
        self, VirtualMachineClusterPreference as ClusterPreference,
        VirtualMachineClusterPreferenceSpec as ClusterPreferenceSpec,
    },
    virtual_machine_instancetype::{
        self, VirtualMachineInstancetype as Instancetype, VirtualMachineInstancetypeSpec as InstancetypeSpec,
    },
    virtual_machine_preference::{
        self, VirtualMachinePreference as Preference, VirtualMachinePreferenceSpec as PreferenceSpec,
    },
};

/// Group of the four kinds.
pub const GROUP: &str = "instancetype.kubevirt.io";
/// The version in which they are served and stored.
pub const VERSION: &str = "v1beta1";
/// Group and version of the four kinds, as in `apiVersion`.
pub const API_VERSION: &str = "instancetype.kubevirt.io/v1beta1";
