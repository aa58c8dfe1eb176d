//! Images, operations, attachments, pods and storage classes.

use super::{DvpObjectMetadata, Pairs, SimulatedDeviceRef, stored::StoredObject};
use k8s_openapi::api::storage::v1::StorageClass;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

/// A VirtualImage or ClusterVirtualImage.
pub type StoredImage = StoredObject<serde::de::IgnoredAny, ImageStatus>;
/// A VirtualMachineOperation.
pub type StoredOperation = StoredObject<OperationSpec, PhaseOnly>;
/// A VirtualMachineBlockDeviceAttachment.
pub type StoredAttachment = StoredObject<SimulatedAttachmentSpec, PhaseOnly>;
/// The Pod of a running machine.
pub type StoredPod = StoredObject<PodSpec, PodStatus>;

/// Status of an image.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ImageStatus {
    phase: Option<String>,
    size: Value,
}

/// An image as last observed.
#[derive(Clone, Debug)]
pub struct ImageView {
    /// Metadata.
    pub meta: DvpObjectMetadata,
    /// Phase; the simulator sets it only if it is not set.
    pub phase: Option<String>,
    /// Size of the content, a quantity.
    pub size: Option<String>,
}

impl ImageView {
    /// The view of a stored image of either kind.
    pub fn read(stored: &StoredImage) -> Self {
        Self {
            meta: DvpObjectMetadata::read(&stored.metadata),
            phase: stored.status.phase.clone(),
            size: ["unpacked", "unpackedBytes"].iter().find_map(|form| match &stored.status.size[form] {
                Value::String(text) => Some(text.clone()),
                Value::Number(number) => Some(number.to_string()),
                _ => None,
            }),
        }
    }

    /// Whether machines and disks may use it.
    pub fn is_ready(&self) -> bool {
        self.phase.as_deref() == Some("Ready") && !self.meta.deleting
    }
}

/// Type of an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum OperationType {
    /// Start a stopped machine.
    Start,
    /// Stop a running one.
    Stop,
    /// Stop and start.
    Restart,
    /// Migrate to another node.
    Migrate,
    /// Migrate away from this node.
    Evict,
    /// A type that is not simulated.
    #[default]
    #[serde(other)]
    Other,
}

/// Phases of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OperationPhase {
    /// Not started yet.
    Pending,
    /// In progress.
    InProgress,
    /// Done.
    Completed,
    /// Failed.
    Failed,
    /// The object is being deleted; the simulator never writes it.
    Terminating,
}

/// Spec of an operation.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OperationSpec {
    #[serde(rename = "type")]
    type_: OperationType,
    virtual_machine_name: String,
    force: bool,
}

/// A status of which only the phase is used.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PhaseOnly {
    phase: Option<String>,
}

/// An operation as last observed.
#[derive(Clone, Debug)]
pub struct OperationView {
    /// Metadata.
    pub meta: DvpObjectMetadata,
    /// Its type.
    pub type_: OperationType,
    /// The name of its machine.
    pub machine: String,
    /// Whether it does not wait for the guest.
    pub force: bool,
    /// Phase.
    pub phase: Option<String>,
}

impl OperationView {
    /// The view of a stored operation.
    pub fn read(stored: StoredOperation) -> Self {
        Self {
            meta: DvpObjectMetadata::read(&stored.metadata),
            type_: stored.spec.type_,
            machine: stored.spec.virtual_machine_name,
            force: stored.spec.force,
            phase: stored.status.phase,
        }
    }
}

/// Spec of an attachment.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SimulatedAttachmentSpec {
    virtual_machine_name: String,
    block_device_ref: Option<SimulatedDeviceRef>,
}

/// An attachment as last observed.
#[derive(Clone, Debug)]
pub struct AttachmentView {
    /// Metadata.
    pub meta: DvpObjectMetadata,
    /// The machine to which the device is attached.
    pub machine: String,
    /// The device.
    pub device: Option<SimulatedDeviceRef>,
    /// Phase.
    pub phase: Option<String>,
}

impl AttachmentView {
    /// The view of a stored attachment.
    pub fn read(stored: StoredAttachment) -> Self {
        Self {
            meta: DvpObjectMetadata::read(&stored.metadata),
            machine: stored.spec.virtual_machine_name,
            device: stored.spec.block_device_ref,
            phase: stored.status.phase,
        }
    }
}

/// Spec of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    node_name: Option<String>,
}

/// Status of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PodStatus {
    phase: Option<String>,
}

/// A machine's pod as last observed.
#[derive(Clone, Debug)]
pub struct PodView {
    /// Metadata.
    pub meta: DvpObjectMetadata,
    /// UID of the machine that owns it.
    pub owner: Arc<str>,
    /// Name of the machine that owns it.
    pub machine: Arc<str>,
    /// Node.
    pub node: Option<String>,
    /// Phase.
    pub phase: Option<String>,
    /// Labels.
    pub labels: Pairs,
    /// Annotations.
    pub annotations: Pairs,
}

impl PodView {
    /// The view of a stored pod, if a machine owns it.
    pub fn read(stored: StoredPod) -> Option<Self> {
        let meta = DvpObjectMetadata::read(&stored.metadata);
        let owner = stored.metadata.owner_references?.into_iter().find(|o| o.kind == "VirtualMachine")?;
        Some(Self {
            meta,
            owner: Arc::from(owner.uid),
            machine: Arc::from(owner.name),
            node: stored.spec.node_name,
            phase: stored.status.phase,
            labels: stored.metadata.labels.unwrap_or_default(),
            annotations: stored.metadata.annotations.unwrap_or_default(),
        })
    }
}

/// Volume binding mode of a storage class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindingMode {
    /// A volume is created immediately.
    Immediate,
    /// A volume is created when the first machine starts.
    WaitForFirstConsumer,
}

/// A storage class as last observed.
#[derive(Clone, Debug)]
pub struct ClassView {
    /// Volume binding mode.
    pub binding: BindingMode,
    /// Whether its volumes can be expanded.
    pub expands: bool,
    /// Whether it is the default class.
    pub is_default: bool,
}

impl ClassView {
    /// The view of a stored class.
    pub fn read(stored: &StorageClass) -> Self {
        let waits = stored.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer");
        let is_default = stored
            .metadata
            .annotations
            .as_ref()
            .and_then(|a| a.get("storageclass.kubernetes.io/is-default-class"))
            .is_some_and(|value| value == "true");
        Self {
            binding: if waits { BindingMode::WaitForFirstConsumer } else { BindingMode::Immediate },
            expands: stored.allow_volume_expansion.unwrap_or(false),
            is_default,
        }
    }
}
