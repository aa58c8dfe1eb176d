//! The fields of machine templates whose Go type makes two spellings equal, as data.
//!
//! The tables contain each bool and number, each struct, map and quantity that is no pointer, and each text
//! that is one. A field in no table is a text that is no pointer, a list, or another pointer. See
//! [`vmpool_instancetype::encoding`] for what the types mean.
//!
//! Source: the Go types of `kubevirt.io/v1` in KubeVirt 1.9.0, and of the APIs that it embeds: Kubernetes
//! `core/v1` and `meta/v1`, and `cdi.kubevirt.io/v1beta1`, in the versions of that release.

use vmpool_instancetype::encoding::FieldEncoding::{
    IntOrString, OptionalQuantity, OptionalText, Quantity, QuantityMap, RequiredText, Scalar, Struct, TextMap,
};
use vmpool_instancetype::encoding::FieldEncodings;

/// The path of the spec of a machine in a template.
pub(super) const MACHINE_SPEC: &str = "spec";
/// The path of the spec of an instance in a template.
pub(super) const INSTANCE_SPEC: &str = "spec.template.spec";

/// A machine template: metadata and spec of a VirtualMachine.
pub(super) const TEMPLATE: FieldEncodings = FieldEncodings {
    fields: &[
        ("metadata", Struct),
        (MACHINE_SPEC, Struct),
        ("spec.dataVolumeTemplates[].metadata", Struct),
        ("spec.dataVolumeTemplates[].spec", Struct),
        ("spec.dataVolumeTemplates[].spec.finalCheckpoint", Scalar),
        ("spec.dataVolumeTemplates[].spec.pvc.volumeAttributesClassName", OptionalText),
        ("spec.dataVolumeTemplates[].spec.source.registry.certConfigMap", OptionalText),
        ("spec.dataVolumeTemplates[].spec.source.registry.imageStream", OptionalText),
        ("spec.dataVolumeTemplates[].spec.source.registry.pullMethod", OptionalText),
        ("spec.dataVolumeTemplates[].spec.source.registry.secretRef", OptionalText),
        ("spec.dataVolumeTemplates[].spec.source.registry.url", OptionalText),
        ("spec.dataVolumeTemplates[].spec.sourceRef.namespace", OptionalText),
        ("spec.instancetype.inferFromVolumeFailurePolicy", OptionalText),
        ("spec.preference.inferFromVolumeFailurePolicy", OptionalText),
        ("spec.runStrategy", OptionalText),
        ("spec.template.metadata", Struct),
        (INSTANCE_SPEC, Struct),
        ("spec.updateVolumesStrategy", OptionalText),
    ],
    embedded: &[
        (INSTANCE_SPEC, &INSTANCE),
        ("metadata", &METADATA),
        ("spec.template.metadata", &METADATA),
        ("spec.dataVolumeTemplates[].metadata", &METADATA),
        ("spec.dataVolumeTemplates[].spec.pvc", &CLAIM),
        ("spec.dataVolumeTemplates[].spec.storage", &CLAIM),
    ],
};

/// The spec of a VirtualMachineInstance.
const INSTANCE: FieldEncodings = FieldEncodings {
    fields: &[
        ("accessCredentials[].sshPublicKey.propagationMethod", Struct),
        ("accessCredentials[].sshPublicKey.source", Struct),
        ("accessCredentials[].userPassword.propagationMethod", Struct),
        ("accessCredentials[].userPassword.source", Struct),
        ("dnsConfig.options[].value", OptionalText),
        ("evictionStrategy", OptionalText),
        ("networks[].multus.default", Scalar),
        ("nodeSelector", TextMap),
        ("resourceClaims[].resourceClaimName", OptionalText),
        ("resourceClaims[].resourceClaimTemplateName", OptionalText),
        ("startStrategy", OptionalText),
        ("topologySpreadConstraints[].maxSkew", Scalar),
        ("topologySpreadConstraints[].nodeAffinityPolicy", OptionalText),
        ("topologySpreadConstraints[].nodeTaintsPolicy", OptionalText),
        ("utilityVolumes[].readOnly", Scalar),
        ("utilityVolumes[].type", OptionalText),
        ("volumes[].dataVolume.hotpluggable", Scalar),
        ("volumes[].downwardAPI.fields[].resourceFieldRef.divisor", Quantity),
        ("volumes[].emptyDisk.capacity", Quantity),
        ("volumes[].ephemeral.persistentVolumeClaim.readOnly", Scalar),
        ("volumes[].hostDisk.capacity", Quantity),
        ("volumes[].memoryDump.hotpluggable", Scalar),
        ("volumes[].memoryDump.readOnly", Scalar),
        ("volumes[].persistentVolumeClaim.hotpluggable", Scalar),
        ("volumes[].persistentVolumeClaim.readOnly", Scalar),
        ("domain", Struct),
    ],
    embedded: &[
        ("affinity.nodeAffinity", &NODE_AFFINITY),
        ("affinity.podAffinity", &POD_AFFINITY),
        ("affinity.podAntiAffinity", &POD_AFFINITY),
        ("domain", &DOMAIN),
        ("livenessProbe", &PROBE),
        ("readinessProbe", &PROBE),
        ("topologySpreadConstraints[].labelSelector", &SELECTOR),
    ],
};

/// The domain of a VirtualMachineInstance.
const DOMAIN: FieldEncodings = FieldEncodings {
    fields: &[
        ("clock.timezone", OptionalText),
        ("cpu.cores", Scalar),
        ("cpu.dedicatedCpuPlacement", Scalar),
        ("cpu.isolateEmulatorThread", Scalar),
        ("cpu.maxSockets", Scalar),
        ("cpu.sockets", Scalar),
        ("cpu.threads", Scalar),
        ("devices", Struct),
        ("devices.disableHotplug", Scalar),
        ("devices.disks[].blockSize.custom.logical", Scalar),
        ("devices.disks[].blockSize.custom.physical", Scalar),
        ("devices.disks[].disk.readonly", Scalar),
        ("devices.disks[].errorPolicy", OptionalText),
        ("devices.disks[].lun.readonly", Scalar),
        ("devices.disks[].lun.reservation", Scalar),
        ("devices.interfaces[].acpiIndex", Scalar),
        ("devices.interfaces[].dhcpOptions.privateOptions[].option", Scalar),
        ("devices.interfaces[].portRanges[].end", Scalar),
        ("devices.interfaces[].portRanges[].start", Scalar),
        ("devices.interfaces[].ports[].port", Scalar),
        ("devices.panicDevices[].model", OptionalText),
        ("features.acpi", Struct),
        ("features.apic.endOfInterrupt", Scalar),
        ("features.kvm.hidden", Scalar),
        ("ioThreadsPolicy", OptionalText),
        ("machine.type", RequiredText),
        ("memory.guest", OptionalQuantity),
        ("memory.maxGuest", OptionalQuantity),
        ("memory.reservedOverhead.addedOverhead", OptionalQuantity),
        ("memory.reservedOverhead.memLock", OptionalText),
        ("rebootPolicy", OptionalText),
        ("resources", Struct),
        ("resources.limits", QuantityMap),
        ("resources.overcommitGuestOverhead", Scalar),
        ("resources.requests", QuantityMap),
    ],
    embedded: &[],
};

/// The metadata of an object. Templates lose its other fields.
const METADATA: FieldEncodings = FieldEncodings {
    fields: &[("annotations", TextMap), ("generation", Scalar), ("labels", TextMap)],
    embedded: &[],
};

/// The claim of a DataVolume, in both forms.
const CLAIM: FieldEncodings = FieldEncodings {
    fields: &[
        ("dataSource.apiGroup", OptionalText),
        ("dataSourceRef.apiGroup", OptionalText),
        ("dataSourceRef.namespace", OptionalText),
        ("resources", Struct),
        ("resources.limits", QuantityMap),
        ("resources.requests", QuantityMap),
        ("storageClassName", OptionalText),
        ("volumeMode", OptionalText),
    ],
    embedded: &[("selector", &SELECTOR)],
};

/// A probe.
const PROBE: FieldEncodings = FieldEncodings {
    fields: &[
        ("failureThreshold", Scalar),
        ("httpGet.port", IntOrString),
        ("initialDelaySeconds", Scalar),
        ("periodSeconds", Scalar),
        ("successThreshold", Scalar),
        ("tcpSocket.port", IntOrString),
        ("timeoutSeconds", Scalar),
    ],
    embedded: &[],
};

/// The affinity to nodes.
const NODE_AFFINITY: FieldEncodings = FieldEncodings {
    fields: &[
        ("preferredDuringSchedulingIgnoredDuringExecution[].preference", Struct),
        ("preferredDuringSchedulingIgnoredDuringExecution[].weight", Scalar),
    ],
    embedded: &[],
};

/// The affinity and the anti-affinity to pods.
const POD_AFFINITY: FieldEncodings = FieldEncodings {
    fields: &[
        ("preferredDuringSchedulingIgnoredDuringExecution[].podAffinityTerm", Struct),
        ("preferredDuringSchedulingIgnoredDuringExecution[].weight", Scalar),
    ],
    embedded: &[
        ("preferredDuringSchedulingIgnoredDuringExecution[].podAffinityTerm.labelSelector", &SELECTOR),
        ("preferredDuringSchedulingIgnoredDuringExecution[].podAffinityTerm.namespaceSelector", &SELECTOR),
        ("requiredDuringSchedulingIgnoredDuringExecution[].labelSelector", &SELECTOR),
        ("requiredDuringSchedulingIgnoredDuringExecution[].namespaceSelector", &SELECTOR),
    ],
};

/// A selector of labels.
const SELECTOR: FieldEncodings = FieldEncodings { fields: &[("matchLabels", TextMap)], embedded: &[] };

#[cfg(test)]
mod tests;
