//! The spec of a preference.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::instancetype::amount_at;
use crate::quantity::Amount;
use crate::tree::{self, Malformed};

/// A typed view of a preference's spec. Parts that are copied whole are JSON, so that they keep unknown
/// fields.
///
/// `None` means that the preference does not set the field. `devices.preferredVirtualGPUOptions` has no
/// effect in KubeVirt and is not in the view.
#[derive(Debug, Clone, Default)]
pub struct PreferenceSpec {
    /// `annotations` for the instance.
    pub annotations: BTreeMap<String, String>,
    /// `clock`.
    pub clock: ClockPreferences,
    /// `cpu`, and `preferSpreadSocketToCoreRatio`.
    pub cpu: CpuPreferences,
    /// `devices`.
    pub devices: Option<DevicePreferences>,
    /// `features`.
    pub features: FeaturePreferences,
    /// `firmware`.
    pub firmware: FirmwarePreferences,
    /// `machine.preferredMachineType`.
    pub machine_type: Option<String>,
    /// `volumes.preferredStorageClassName`.
    pub storage_class_name: Option<String>,
    /// `preferredSubdomain`.
    pub subdomain: Option<String>,
    /// `preferredTerminationGracePeriodSeconds`.
    pub termination_grace_period_seconds: Option<i64>,
    /// `preferredArchitecture`.
    pub architecture: Option<String>,
    /// `preferredLaunchSecurity`.
    pub launch_security: Option<Value>,
    /// `requirements`.
    pub requirements: Requirements,
}

/// `clock` of a preference.
#[derive(Debug, Clone, Default)]
pub struct ClockPreferences {
    /// `preferredClockOffset`: an object with `utc` or `timezone`.
    pub offset: Option<Value>,
    /// `preferredTimer`.
    pub timer: Option<Value>,
}

/// `cpu` of a preference.
#[derive(Debug, Clone, Default)]
pub struct CpuPreferences {
    /// `preferredCPUTopology` as it is written.
    pub topology: Option<String>,
    /// `spreadOptions.across` as it is written.
    pub spread_across: Option<String>,
    /// `spreadOptions.ratio`.
    pub spread_ratio: Option<u32>,
    /// `preferSpreadSocketToCoreRatio`, the older spelling of the ratio. Zero equals absent.
    pub socket_to_core_ratio: Option<u32>,
    /// `preferredCPUFeatures`: objects with `name` and `policy`.
    pub features: Vec<Value>,
}

/// `devices` of a preference, without the prefix `preferred`.
#[derive(Debug, Clone, Default)]
#[expect(missing_docs, reason = "each field is the default for the device setting of its name")]
pub struct DevicePreferences {
    pub autoattach_graphics_device: Option<bool>,
    pub autoattach_mem_balloon: Option<bool>,
    pub autoattach_pod_interface: Option<bool>,
    pub autoattach_serial_console: Option<bool>,
    pub autoattach_input_device: Option<bool>,
    pub disable_hotplug: Option<bool>,
    pub sound_model: Option<String>,
    pub use_virtio_transitional: Option<bool>,
    pub input_bus: Option<String>,
    pub input_type: Option<String>,
    pub disk_bus: Option<String>,
    pub disk_block_size: Option<Value>,
    pub disk_cache: Option<String>,
    pub disk_io: Option<String>,
    pub disk_dedicated_io_thread: Option<bool>,
    pub cdrom_bus: Option<String>,
    pub lun_bus: Option<String>,
    pub interface_model: Option<String>,
    pub interface_masquerade: Option<Value>,
    pub rng: Option<Value>,
    pub tpm: Option<Value>,
    pub block_multi_queue: Option<bool>,
    pub network_interface_multi_queue: Option<bool>,
    pub panic_device_model: Option<String>,
    pub video_type: Option<String>,
}

/// `features` of a preference: each is the default for the feature of its name.
#[derive(Debug, Clone, Default)]
pub struct FeaturePreferences {
    /// `preferredAcpi`, which overwrites the user's value.
    pub acpi: Option<Value>,
    /// The features whose presence in a machine is visible, by their name in the machine: `apic`, `kvm`,
    /// `pvspinlock`, `smm`.
    pub others: Vec<(&'static str, Value)>,
    /// `preferredHyperv`: the enlightenments by name, also those of a newer KubeVirt.
    pub hyperv: Map<String, Value>,
}

/// `firmware` of a preference.
#[derive(Debug, Clone, Default)]
pub struct FirmwarePreferences {
    /// `preferredUseBios`.
    pub use_bios: Option<bool>,
    /// `preferredUseBiosSerial`.
    pub use_bios_serial: Option<bool>,
    /// `preferredEfi`.
    pub efi: Option<Value>,
    /// `preferredUseEfi`, deprecated.
    pub use_efi: Option<bool>,
    /// `preferredUseSecureBoot`, deprecated.
    pub use_secure_boot: Option<bool>,
}

/// `requirements` of a preference: what a machine must have at least.
#[derive(Debug, Clone, Default)]
pub struct Requirements {
    /// The least number of vCPUs.
    pub cpu: Option<u32>,
    /// The least amount of memory.
    pub memory: Option<Amount>,
    /// The architecture.
    pub architecture: Option<String>,
}

impl PreferenceSpec {
    /// Reads a spec.
    ///
    /// # Errors
    /// A field has the wrong type. The path is relative to the spec.
    pub fn read(spec: &Value) -> Result<Self, Malformed> {
        let owned = |path| Ok::<_, Malformed>(tree::text_at(spec, path)?.map(str::to_owned));
        let object = |path| Ok::<_, Malformed>(tree::object_at(spec, path)?.cloned());
        let flag = |path| tree::flag_at(spec, path);
        Ok(Self {
            annotations: tree::text_map_at(spec, "annotations")?.unwrap_or_default(),
            clock: ClockPreferences {
                offset: object("clock.preferredClockOffset")?,
                timer: object("clock.preferredTimer")?,
            },
            cpu: CpuPreferences {
                topology: owned("cpu.preferredCPUTopology")?,
                spread_across: owned("cpu.spreadOptions.across")?,
                spread_ratio: tree::u32_at(spec, "cpu.spreadOptions.ratio")?,
                socket_to_core_ratio: tree::u32_at(spec, "preferSpreadSocketToCoreRatio")?
                    .filter(|ratio| *ratio > 0),
                features: tree::items_at(spec, "cpu.preferredCPUFeatures")?.to_vec(),
            },
            devices: tree::object_at(spec, "devices")?.map(DevicePreferences::read).transpose()?,
            features: FeaturePreferences::read(spec)?,
            firmware: FirmwarePreferences {
                use_bios: flag("firmware.preferredUseBios")?,
                use_bios_serial: flag("firmware.preferredUseBiosSerial")?,
                efi: object("firmware.preferredEfi")?,
                use_efi: flag("firmware.preferredUseEfi")?,
                use_secure_boot: flag("firmware.preferredUseSecureBoot")?,
            },
            machine_type: owned("machine.preferredMachineType")?,
            storage_class_name: owned("volumes.preferredStorageClassName")?,
            subdomain: owned("preferredSubdomain")?,
            termination_grace_period_seconds: tree::i64_at(spec, "preferredTerminationGracePeriodSeconds")?,
            architecture: owned("preferredArchitecture")?,
            launch_security: object("preferredLaunchSecurity")?,
            requirements: Requirements {
                cpu: tree::u32_at(spec, "requirements.cpu.guest")?,
                memory: amount_at(spec, "requirements.memory.guest")?,
                architecture: owned("requirements.architecture")?,
            },
        })
    }
}

impl DevicePreferences {
    fn read(devices: &Value) -> Result<Self, Malformed> {
        Self::fields(devices).map_err(|error| error.below("devices"))
    }

    fn fields(devices: &Value) -> Result<Self, Malformed> {
        let owned = |path| Ok::<_, Malformed>(tree::text_at(devices, path)?.map(str::to_owned));
        let object = |path| Ok::<_, Malformed>(tree::object_at(devices, path)?.cloned());
        let flag = |path| tree::flag_at(devices, path);
        Ok(Self {
            autoattach_graphics_device: flag("preferredAutoattachGraphicsDevice")?,
            autoattach_mem_balloon: flag("preferredAutoattachMemBalloon")?,
            autoattach_pod_interface: flag("preferredAutoattachPodInterface")?,
            autoattach_serial_console: flag("preferredAutoattachSerialConsole")?,
            autoattach_input_device: flag("preferredAutoattachInputDevice")?,
            disable_hotplug: flag("preferredDisableHotplug")?,
            sound_model: owned("preferredSoundModel")?,
            use_virtio_transitional: flag("preferredUseVirtioTransitional")?,
            input_bus: owned("preferredInputBus")?,
            input_type: owned("preferredInputType")?,
            disk_bus: owned("preferredDiskBus")?,
            disk_block_size: object("preferredDiskBlockSize")?,
            disk_cache: owned("preferredDiskCache")?,
            disk_io: owned("preferredDiskIO")?,
            disk_dedicated_io_thread: flag("preferredDiskDedicatedIoThread")?,
            cdrom_bus: owned("preferredCdromBus")?,
            lun_bus: owned("preferredLunBus")?,
            interface_model: owned("preferredInterfaceModel")?,
            interface_masquerade: object("preferredInterfaceMasquerade")?,
            rng: object("preferredRng")?,
            tpm: object("preferredTPM")?,
            block_multi_queue: flag("preferredBlockMultiQueue")?,
            network_interface_multi_queue: flag("preferredNetworkInterfaceMultiQueue")?,
            panic_device_model: owned("preferredPanicDeviceModel")?,
            video_type: owned("preferredVideoType")?,
        })
    }
}

impl FeaturePreferences {
    fn read(spec: &Value) -> Result<Self, Malformed> {
        let object = |path: &str| Ok::<_, Malformed>(tree::object_at(spec, path)?.cloned());
        let mut others = Vec::new();
        for (feature, path) in [
            ("apic", "features.preferredApic"),
            ("kvm", "features.preferredKvm"),
            ("pvspinlock", "features.preferredPvspinlock"),
            ("smm", "features.preferredSmm"),
        ] {
            others.extend(object(path)?.map(|value| (feature, value)));
        }
        let hyperv = tree::object_at(spec, "features.preferredHyperv")?.and_then(Value::as_object).cloned();
        Ok(Self { acpi: object("features.preferredAcpi")?, others, hyperv: hyperv.unwrap_or_default() })
    }
}
