//! The kinds of disk images (`vmpool.dev/v1alpha1`): the image, the wrapper of a KubeVirt machine, and the
//! grant that permits references from other namespaces.
//!
//! The kind of the wrapper is called VirtualMachine; its resource is `wrappedvirtualmachines`, so that
//! `kubectl get vm` keeps its meaning on a cluster with a virtualization platform.
//!
//! ```
//! use vmpool_api::Quantity;
//! use vmpool_api::diskimage::{VmDiskImage, VmDiskImageSpec, values::SourceType};
//!
//! let image = VmDiskImage::new("debian-13", VmDiskImageSpec {
//!     url: Some("https://images.example.com/debian-13.qcow2".to_owned()),
//!     source_type: SourceType::Http.to_string(),
//!     disk_size: Quantity::new("10Gi"),
//!     ..VmDiskImageSpec::default()
//! });
//! assert_eq!(serde_json::to_value(&image)?["apiVersion"], vmpool_api::diskimage::API_VERSION);
//! # Ok::<_, serde_json::Error>(())
//! ```

pub mod crds;
mod keys;
pub mod values;

pub use keys::{PREFIX, annotations, finalizers, labels};

pub use crate::generated::diskimage::{
    virtual_machine::{self, VirtualMachine, VirtualMachineSpec, VirtualMachineStatus},
    vm_disk_image::{self, VmDiskImage, VmDiskImageSpec, VmDiskImageStatus},
    vm_disk_image_grant::{self, VmDiskImageGrant, VmDiskImageGrantSpec},
};

/// Group of images, wrappers and grants.
pub const GROUP: &str = "vmpool.dev";
/// Group and version of images, wrappers and grants, as in `apiVersion`.
pub const API_VERSION: &str = "vmpool.dev/v1alpha1";
/// Kind of wrappers.
pub const WRAPPER_KIND: &str = "VirtualMachine";
/// Resource name of wrappers. It differs from the lowercase plural of their kind.
pub const WRAPPERS: &str = "wrappedvirtualmachines";
