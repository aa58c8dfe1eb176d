//! KubeVirt instance types and preferences as pure functions.
//!
//! An *instance type* sets the size of a machine: vCPUs, memory, devices, placement. It wins, and never
//! merges with what the machine sets. A *preference* fills what is still empty: buses, firmware, features,
//! clock. Neither is written into the machine: both are applied to the instance when it starts, from an
//! immutable copy, the *copy*.
//!
//! The crate has no client, no runtime, no clock and no randomness. The controller, the webhook and the API
//! server look objects up and ask it; all give the same answers. It contains all that is decided about
//! instance types: the rules, what is copied for pools and for machines, what requests may do, and how long
//! an object stays. How a template reaches a machine is up to the platform.
//!
//! # Layers
//!
//! Each layer uses those below it.
//!
//! ```text
//!  type_admission   reviews of requests, with the reads that they need
//!  type_protection  the finalizer that keeps an object until all users have copies
//!  copies       copies for single machines, as a plan of writes
//!  pins         copies for pools, in the content of revisions     keys   kinds of owners
//!  machine      admission of machines           expand      a machine without matchers, which starts the same instance
//!  kubevirt_expansion   the same with the steps of KubeVirt's own request
//!  protection   whether an object is still needed
//!  start        from a template to an instance: added devices, apply, defaults
//!  requirements · validation · inference · status_ref · copy · fill
//!  apply        instance type and preference onto an instance      conflict    fields that both set
//!  topology     vCPUs as sockets, cores and threads                defaults    what is still empty in the end
//!  model        the four kinds and matchers                        fields      paths in errors
//!  quantity     amounts that keep their spelling                   encoding    values in one spelling
//!  metadata     the metadata of documents
//! ```
//!
//! # Documents
//!
//! Machines are JSON documents, and objects keep the document that they were read from. So no field of a
//! newer KubeVirt is lost, and a copy contains `2048Mi` if the user wrote `2048Mi`. Typed views, such as
//! [`model::InstancetypeSpec`], have the fields that this crate interprets. A field of the wrong type is an
//! error with its path, and never a panic.
//!
//! ```
//! use serde_json::json;
//! use vmpool_instancetype::fields::MachineLocation;
//! use vmpool_instancetype::model::{InstanceTypeAndPreference, InstanceTypeObject, Instancetype};
//! use vmpool_instancetype::{expand::expand_machine, start::InstanceSettings};
//!
//! let small = json!({
//!     "apiVersion": "instancetype.kubevirt.io/v1beta1",
//!     "kind": "VirtualMachineClusterInstancetype",
//!     "metadata": {"name": "u1.small"},
//!     "spec": {"cpu": {"guest": 2}, "memory": {"guest": "2Gi"}},
//! });
//! let small = Instancetype::new(InstanceTypeObject::read(small)?)?;
//! let types = InstanceTypeAndPreference { instancetype: Some(small), preference: None };
//! let machine = json!({"spec": {"instancetype": {"name": "u1.small"}, "template": {"spec": {}}}});
//! let settings = InstanceSettings::default();
//! let expanded = expand_machine(&machine, &types, &settings, MachineLocation::VirtualMachine)?;
//! assert_eq!(expanded["spec"]["template"]["spec"]["domain"]["memory"]["guest"], "2Gi");
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

#![cfg_attr(test, expect(clippy::needless_pass_by_value, reason = "the tables of tests write JSON in place"))]

pub mod apply;
pub mod conflict;
pub mod copies;
pub mod copy;
pub mod defaults;
pub mod encoding;
pub mod expand;
pub mod fields;
pub mod fill;
pub mod inference;
pub mod keys;
pub mod kubevirt_expansion;
pub mod machine;
pub mod metadata;
pub mod model;
pub mod pins;
pub mod protection;
pub mod quantity;
pub mod requirements;
#[cfg(any(test, feature = "testing"))]
pub mod sample_pool;
pub mod start;
pub mod status_ref;
pub mod topology;
pub mod type_admission;
pub mod type_protection;
pub mod validation;

#[cfg(test)]
mod testing;
mod tree;

pub use tree::Malformed;
