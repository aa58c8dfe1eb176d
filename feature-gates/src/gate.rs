//! The known feature gates.

use std::fmt;

/// The maturity of a feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FeatureStage {
    /// May change or be removed in any release; off by default. `AllAlpha` sets these.
    Alpha,
    /// Well tested, but details may change. `AllBeta` sets these.
    Beta,
    /// Stable; the gate will be removed.
    Ga,
    /// The feature and its gate will be removed.
    Deprecated,
}

impl fmt::Display for FeatureStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Alpha => "ALPHA",
            Self::Beta => "BETA",
            Self::Ga => "GA",
            Self::Deprecated => "DEPRECATED",
        })
    }
}

/// A feature that code can query. Its gate decides whether it is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Feature {
    /// Pools of virtual machines.
    VirtualMachinePool,
    /// Disk images: VMDiskImage and VMDiskImageGrant.
    DiskImages,
    /// Machines with disks from earlier content of their images.
    ImageRefresh,
    /// The version `v1` of instance types and preferences. Only the chart uses its gate.
    InstancetypeV1,
    /// The wrapper of a machine.
    MachineWrapper,
    /// The autoscaler of pools: PoolAutoscaler.
    PoolAutoscaler,
    /// Limits on machines that have not been ready yet.
    ProvisioningLimit,
    /// Stopped machines in reserve.
    StandbyMachines,
}

impl Feature {
    /// The name of its gate.
    pub const fn name(self) -> &'static str {
        match self {
            Self::VirtualMachinePool => "VirtualMachinePool",
            Self::DiskImages => "DiskImages",
            Self::ImageRefresh => "ImageRefresh",
            Self::InstancetypeV1 => "InstancetypeV1",
            Self::MachineWrapper => "MachineWrapper",
            Self::PoolAutoscaler => "PoolAutoscaler",
            Self::ProvisioningLimit => "ProvisioningLimit",
            Self::StandbyMachines => "StandbyMachines",
        }
    }
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A gate with its attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gate {
    /// Its name in `--feature-gates`.
    pub name: &'static str,
    /// The maturity of the feature.
    pub stage: FeatureStage,
    /// Whether the feature is on by default.
    pub default: bool,
    /// Whether the default cannot be changed.
    pub locked: bool,
    /// The version that introduced the gate.
    pub since: &'static str,
    /// What the feature does, in one line without a period.
    pub description: &'static str,
}

/// The gates of vmpool with the attributes of the open build.
pub const KNOWN: &[Gate] = &[
    alpha_gate(
        Feature::VirtualMachinePool,
        "Pools of identical virtual machines: controller, admission and targeted removal",
    ),
    alpha_gate(Feature::DiskImages, "Disk images: admission and the controller of images"),
    alpha_gate(
        Feature::ImageRefresh,
        "Image refresh: imageRefresh of pools, and the watches of the images that disks are created from",
    ),
    alpha_gate(
        Feature::InstancetypeV1,
        "Version v1 of instance types and preferences beside v1beta1, in the definitions that the chart installs",
    ),
    alpha_gate(
        Feature::MachineWrapper,
        "The controller of wrappers, which create a machine after its disk image is ready; requires DiskImages",
    ),
    alpha_gate(
        Feature::PoolAutoscaler,
        "Autoscalers of pools: admission, the controller of autoscalers and the record of waiting claims",
    ),
    alpha_gate(
        Feature::ProvisioningLimit,
        "Limits on machines that have not been ready yet: maxProvisioning of pools, and for each storage class",
    ),
    alpha_gate(
        Feature::StandbyMachines,
        "Stopped machines in reserve, which the controller starts instead of creating new ones",
    ),
];

const fn alpha_gate(feature: Feature, description: &'static str) -> Gate {
    Gate {
        name: feature.name(),
        stage: FeatureStage::Alpha,
        default: false,
        locked: false,
        since: "0.1",
        description,
    }
}
