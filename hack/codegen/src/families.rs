//! The families of CRDs, and what is generated for each.

use crate::options::{SharedSchemaPart, TypeOptions};

/// CRDs whose types are one Rust module and whose reference pages are one folder.
pub(crate) struct CrdFamily {
    /// Folder of the types below `api/src/generated`, and of the pages below `docs/reference`. Empty for
    /// these folders themselves.
    pub(crate) name: &'static str,
    /// Folders of the CRDs, below `api/crds/src` and `api/crds`. Empty for these folders themselves.
    pub(crate) folders: &'static [&'static str],
    /// The heading of the family in the list of reference pages. Empty for the family without a name.
    pub(crate) heading: &'static str,
    /// Which of the kinds vmpool serves, for the list of reference pages.
    pub(crate) note: &'static str,
    /// How the types are generated.
    pub(crate) types: TypeOptions,
}

/// All families. The one without a name is first, because its files are beside the folders of the others.
pub(crate) const FAMILIES: [CrdFamily; 5] = [
    CrdFamily {
        name: "",
        folders: &[""],
        heading: "",
        note: "vmpool serves VirtualMachinePool and installs its CRD. The other kinds belong to the virtualization\n\
               platform; these pages show the parts of them that vmpool reads and writes.\n",
        types: TypeOptions { keep_unknown_fields: false, shared: &DVP_SHARED },
    },
    CrdFamily {
        name: "kubevirt",
        folders: &["kubevirt", "kubevirt/platform"],
        heading: "KubeVirt",
        note: "vmpool serves VirtualMachinePool. The other kinds belong to KubeVirt, its Containerized Data Importer\n\
               (CDI) and the snapshot controller; these pages show the parts of them that vmpool reads and writes. An object marked *keeps unknown\n\
               fields* can have more fields than the page lists: the API server stores them unchanged.\n",
        types: TypeOptions { keep_unknown_fields: true, shared: &KUBEVIRT_SHARED },
    },
    CrdFamily {
        name: "instancetype",
        folders: &["instancetype"],
        heading: "Instance types and preferences",
        note: "The kinds belong to KubeVirt. vmpool reads them for pools of KubeVirt; the pages list all their fields.\n",
        types: TypeOptions { keep_unknown_fields: true, shared: &INSTANCETYPE_SHARED },
    },
    CrdFamily {
        name: "diskimage",
        folders: &["diskimage"],
        heading: "Disk images",
        note: "The kinds belong to vmpool. Its webhook validates them. No controller serves them yet.\n",
        types: TypeOptions { keep_unknown_fields: false, shared: &DISK_IMAGE_SHARED },
    },
    CrdFamily {
        name: "autoscaler",
        folders: &["autoscaler"],
        heading: "Autoscalers",
        note: "The kind belongs to vmpool, for pools of both platforms.\n",
        types: TypeOptions { keep_unknown_fields: false, shared: &[] },
    },
];

const DVP_SHARED: [SharedSchemaPart; 2] = [
    shared(
        "VirtualMachinePool",
        "spec.virtualMachineTemplate.spec",
        "super::virtual_machine::VirtualMachineSpec",
    ),
    shared("VirtualMachinePool", "spec.virtualDiskTemplates.spec", "super::virtual_disk::VirtualDiskSpec"),
];

const CONDITION: &str = "crate::kubevirt::Condition";
const LABEL_SELECTOR: &str = "k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector";
const NODE_SELECTOR_REQUIREMENT: &str = "k8s_openapi::api::core::v1::NodeSelectorRequirement";

const KUBEVIRT_SHARED: [SharedSchemaPart; 18] = [
    shared(
        "VirtualMachinePool",
        "spec.virtualMachineTemplate.metadata",
        "super::virtual_machine::VirtualMachineTemplateMetadata",
    ),
    shared(
        "VirtualMachinePool",
        "spec.virtualMachineTemplate.spec",
        "super::virtual_machine::VirtualMachineSpec",
    ),
    shared("VirtualMachinePool", "spec.selector", LABEL_SELECTOR),
    shared(
        "VirtualMachinePool",
        "spec.updateStrategy.proactive.selectionPolicy",
        "VirtualMachinePoolScaleInStrategyProactiveSelectionPolicy",
    ),
    shared(
        "VirtualMachinePool",
        "spec.scaleInStrategy.proactive.selectionPolicy.selectors.labelSelector",
        LABEL_SELECTOR,
    ),
    shared(
        "VirtualMachinePool",
        "spec.scaleInStrategy.proactive.selectionPolicy.selectors.nodeSelectorRequirementMatcher",
        NODE_SELECTOR_REQUIREMENT,
    ),
    shared("VirtualMachinePool", "status.conditions", CONDITION),
    shared(
        "VirtualMachine",
        "spec.template.spec",
        "super::virtual_machine_instance::VirtualMachineInstanceSpec",
    ),
    shared("VirtualMachine", "spec.dataVolumeTemplates.spec", "super::data_volume::DataVolumeSpec"),
    shared("VirtualMachine", "spec.dataVolumeTemplates.metadata", "VirtualMachineTemplateMetadata"),
    shared("VirtualMachine", "spec.preference", "VirtualMachineInstancetype"),
    shared("VirtualMachine", "status.preferenceRef", "VirtualMachineStatusInstancetypeRef"),
    shared("VirtualMachine", "status.conditions", CONDITION),
    shared(
        "VirtualMachineInstance",
        "spec.volumes.cloudInitConfigDrive",
        "VirtualMachineInstanceVolumesCloudInitNoCloud",
    ),
    shared("VirtualMachineInstance", "status.conditions", CONDITION),
    shared("KubeVirt", "status.conditions", CONDITION),
    shared("DataVolume", "status.conditions", CONDITION),
    shared("DataSource", "status.conditions", CONDITION),
];

/// Kinds with and without a namespace have the same spec.
const INSTANCETYPE_SHARED: [SharedSchemaPart; 16] = [
    of_instancetype("spec.cpu", "super::virtual_machine_instancetype::VirtualMachineInstancetypeCpu"),
    of_instancetype("spec.memory", "super::virtual_machine_instancetype::VirtualMachineInstancetypeMemory"),
    of_instancetype("spec.gpus", "super::virtual_machine_instancetype::VirtualMachineInstancetypeGpus"),
    of_instancetype(
        "spec.hostDevices",
        "super::virtual_machine_instancetype::VirtualMachineInstancetypeHostDevices",
    ),
    of_instancetype(
        "spec.ioThreads",
        "super::virtual_machine_instancetype::VirtualMachineInstancetypeIoThreads",
    ),
    of_instancetype("spec.launchSecurity", LAUNCH_SECURITY),
    of_preference("spec.clock", "super::virtual_machine_preference::VirtualMachinePreferenceClock"),
    of_preference("spec.cpu", "super::virtual_machine_preference::VirtualMachinePreferenceCpu"),
    of_preference("spec.devices", "super::virtual_machine_preference::VirtualMachinePreferenceDevices"),
    of_preference("spec.features", "super::virtual_machine_preference::VirtualMachinePreferenceFeatures"),
    of_preference("spec.firmware", "super::virtual_machine_preference::VirtualMachinePreferenceFirmware"),
    of_preference("spec.machine", "super::virtual_machine_preference::VirtualMachinePreferenceMachine"),
    of_preference("spec.volumes", "super::virtual_machine_preference::VirtualMachinePreferenceVolumes"),
    of_preference(
        "spec.requirements",
        "super::virtual_machine_preference::VirtualMachinePreferenceRequirements",
    ),
    of_preference("spec.preferredLaunchSecurity", LAUNCH_SECURITY),
    shared("VirtualMachinePreference", "spec.preferredLaunchSecurity", LAUNCH_SECURITY),
];

const LAUNCH_SECURITY: &str = "super::virtual_machine_instancetype::VirtualMachineInstancetypeLaunchSecurity";

const fn of_instancetype(part: &'static str, target: &'static str) -> SharedSchemaPart {
    shared("VirtualMachineClusterInstancetype", part, target)
}

const fn of_preference(part: &'static str, target: &'static str) -> SharedSchemaPart {
    shared("VirtualMachineClusterPreference", part, target)
}

/// The template of the machine is a document: its schema describes only the fields that the rules of the CRD
/// need.
const DISK_IMAGE_SHARED: [SharedSchemaPart; 2] = [
    shared("VirtualMachine", "spec.virtualMachineTemplate.spec", "serde_json::Value"),
    shared("VMDiskImageGrant", "spec.from.namespaceSelector", LABEL_SELECTOR),
];

const fn shared(kind: &'static str, part: &'static str, target: &'static str) -> SharedSchemaPart {
    SharedSchemaPart { kind, part, target }
}
