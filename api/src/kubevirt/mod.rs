//! The kinds of KubeVirt pools: the pool (`pool.kubevirt.io/v1beta1`), and the machines, their
//! VirtualMachineInstances and their DataVolumes.
//!
//! The module contains the type, spec and status of each kind. Nested types are in a submodule with the
//! kind's name; frequently used ones also have short names here.
//!
//! Every type has a field `unknown_fields` with the fields that this crate does not know. Therefore an object
//! of a newer KubeVirt loses nothing if a program reads it into its type and writes it back:
//!
//! ```
//! use vmpool_api::kubevirt::VirtualMachine;
//!
//! let stored = serde_json::json!({
//!     "apiVersion": "kubevirt.io/v1",
//!     "kind": "VirtualMachine",
//!     "metadata": {"name": "render-0"},
//!     "spec": {"runStrategy": "Always", "template": {"spec": {"domain": {"devices": {}, "newField": {"a": 1}}}}},
//! });
//! let mut machine: VirtualMachine = serde_json::from_value(stored)?;
//! machine.spec.run_strategy = Some("Halted".to_owned());
//! let written = serde_json::to_value(&machine)?;
//! assert_eq!(written["spec"]["template"]["spec"]["domain"]["newField"]["a"], 1);
//! # Ok::<_, serde_json::Error>(())
//! ```
//!
//! Two spellings are not retained: an explicit `null` becomes an absent field, which has the same meaning in
//! Kubernetes, and a time is written in its shortest form.

mod accessors;
mod account;
mod builder;
mod condition;
pub mod crds;
mod keys;
pub mod values;

pub use account::clone_account;
pub use builder::KubeVirtPoolBuilder;
pub use condition::Condition;
pub use keys::{annotations, finalizers, labels};

pub use crate::generated::kubevirt::{
    data_source::{self, DataSource, DataSourceSpec, DataSourceStatus},
    data_volume::{self, DataVolume, DataVolumeSpec, DataVolumeStatus},
    kube_virt::{self, KubeVirt, KubeVirtSpec, KubeVirtStatus},
    virtual_machine::{self, VirtualMachine, VirtualMachineSpec, VirtualMachineStatus},
    virtual_machine_instance::{
        self, VirtualMachineInstance, VirtualMachineInstanceSpec, VirtualMachineInstanceStatus,
    },
    virtual_machine_pool::{self, VirtualMachinePool, VirtualMachinePoolSpec, VirtualMachinePoolStatus},
    volume_snapshot::{self, VolumeSnapshot, VolumeSnapshotSpec, VolumeSnapshotStatus},
    volume_snapshot_content::{
        self, VolumeSnapshotContent, VolumeSnapshotContentSpec, VolumeSnapshotContentStatus,
    },
};

/// `spec.autohealing` of a pool: when the controller replaces a machine that fails to start.
pub type Autohealing = virtual_machine_pool::VirtualMachinePoolAutohealing;
/// One entry of `spec.dataVolumeTemplates` of a machine.
pub type DataVolumeTemplate = virtual_machine::VirtualMachineDataVolumeTemplates;
/// `spec.instancetype` or `spec.preference` of a machine: the object that it refers to.
pub type InstancetypeMatcher = virtual_machine::VirtualMachineInstancetype;
/// `spec.virtualMachineTemplate` of a pool.
pub type MachineTemplate = virtual_machine_pool::VirtualMachinePoolVirtualMachineTemplate;
/// `spec.nameGeneration` of a pool: which names in the template get the ordinal of the machine.
pub type NameGeneration = virtual_machine_pool::VirtualMachinePoolNameGeneration;
/// `spec.scaleInStrategy` of a pool: how surplus machines are removed.
pub type ScaleInStrategy = virtual_machine_pool::VirtualMachinePoolScaleInStrategy;
/// Which machines a scale-down or a rollout handles, and in which order.
pub type SelectionPolicy = virtual_machine_pool::VirtualMachinePoolScaleInStrategyProactiveSelectionPolicy;
/// Name, labels and annotations in a template.
pub type TemplateMetadata = virtual_machine::VirtualMachineTemplateMetadata;
/// `spec.updateStrategy` of a pool: how a changed template is applied to existing machines.
pub type UpdateStrategy = virtual_machine_pool::VirtualMachinePoolUpdateStrategy;
/// One entry of `spec.volumes` of a VirtualMachineInstance, or of `spec.template.spec.volumes` of a machine.
pub type Volume = virtual_machine_instance::VirtualMachineInstanceVolumes;

/// Group of pools.
pub const POOL_GROUP: &str = "pool.kubevirt.io";
/// Version in which pools are stored, and which [`VirtualMachinePool`] uses.
pub const POOL_VERSION: &str = "v1beta1";
/// The other version of pools that the API server serves. It has the same schema.
pub const POOL_OLD_VERSION: &str = "v1alpha1";
/// Group and version of pools, as in `apiVersion`. Owner references of machines and revisions have it.
pub const POOL_API_VERSION: &str = "pool.kubevirt.io/v1beta1";
/// Group of machines, their VirtualMachineInstances and the installation of KubeVirt.
pub const GROUP: &str = "kubevirt.io";
/// Group and version of machines, their VirtualMachineInstances and the installation of KubeVirt, as in
/// `apiVersion`.
pub const API_VERSION: &str = "kubevirt.io/v1";
/// Group and version of VolumeSnapshots and their contents, as in `apiVersion`.
pub const SNAPSHOT_API_VERSION: &str = "snapshot.storage.k8s.io/v1";
/// Group and version of DataVolumes and DataSources, as in `apiVersion`.
pub const DATA_VOLUME_API_VERSION: &str = "cdi.kubevirt.io/v1beta1";
