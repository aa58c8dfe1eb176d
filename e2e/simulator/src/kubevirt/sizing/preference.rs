//! Preferences: what they fill.

use super::fields::{
    append_item, change_each_item, field_at, is_unset, items_at, set_field, set_missing_field,
};
use serde_json::{Value, json};

/// Flags whether the instance gets a device. They are filled before devices are added.
pub(super) const AUTOATTACH: [(&str, &str); 5] = [
    ("autoattachGraphicsDevice", "preferredAutoattachGraphicsDevice"),
    ("autoattachMemBalloon", "preferredAutoattachMemBalloon"),
    ("autoattachPodInterface", "preferredAutoattachPodInterface"),
    ("autoattachSerialConsole", "preferredAutoattachSerialConsole"),
    ("autoattachInputDevice", "preferredAutoattachInputDevice"),
];

/// Fields of the instance, and the fields of the preference that fill them.
pub(super) const FILLED: [(&str, &str); 13] = [
    ("domain.devices.useVirtioTransitional", "devices.preferredUseVirtioTransitional"),
    ("domain.devices.blockMultiQueue", "devices.preferredBlockMultiQueue"),
    ("domain.devices.networkInterfaceMultiqueue", "devices.preferredNetworkInterfaceMultiQueue"),
    ("domain.devices.rng", "devices.preferredRng"),
    ("domain.devices.tpm", "devices.preferredTPM"),
    ("domain.devices.video.type", "devices.preferredVideoType"),
    ("domain.machine.type", "machine.preferredMachineType"),
    ("domain.clock.timer", "clock.preferredTimer"),
    ("domain.launchSecurity", "preferredLaunchSecurity"),
    ("subdomain", "preferredSubdomain"),
    ("terminationGracePeriodSeconds", "preferredTerminationGracePeriodSeconds"),
    ("architecture", "preferredArchitecture"),
    ("domain.features.apic", "features.preferredApic"),
];

/// Fields of a disk that only disks of the type `disk` get.
const OF_DISKS: [(&str, &str); 4] = [
    ("disk.bus", "preferredDiskBus"),
    ("blockSize", "preferredDiskBlockSize"),
    ("cache", "preferredDiskCache"),
    ("io", "preferredDiskIO"),
];

/// The ways in which an interface can be connected.
const BINDINGS: [&str; 8] =
    ["bridge", "slirp", "masquerade", "sriov", "macvtap", "passt", "passtBinding", "binding"];

/// Fills the flags whether devices are added.
pub(super) fn fill_autoattach_flags(spec: &mut Value, preference: &Value) {
    for (mine, theirs) in AUTOATTACH {
        set_missing_field(spec, &format!("domain.devices.{mine}"), &preference["devices"][theirs]);
    }
}

/// Fills an instance.
pub(super) fn apply_preference(spec: &mut Value, preference: &Value) {
    for feature in items_at(preference, "cpu.preferredCPUFeatures") {
        let has = |known: &Value| known["name"] == feature["name"];
        if !items_at(spec, "domain.cpu.features").iter().any(has) {
            append_item(spec, "domain.cpu.features", feature.clone());
        }
    }
    for (mine, theirs) in FILLED {
        set_missing_field(spec, mine, field_at(preference, theirs));
    }
    if preference["devices"].is_object() {
        devices(spec, &preference["devices"]);
    }
    features(spec, &preference["features"]);
    firmware(spec, &preference["firmware"]);
    let (offset, clock) =
        (field_at(preference, "clock.preferredClockOffset"), field_at(spec, "domain.clock"));
    if clock["utc"].is_null() && is_unset(&clock["timezone"]) {
        for field in ["utc", "timezone"] {
            set_missing_field(spec, &format!("domain.clock.{field}"), &offset[field]);
        }
    }
}

fn devices(spec: &mut Value, preferred: &Value) {
    if !preferred["preferredDisableHotplug"].is_null() {
        set_field(spec, "domain.devices.disableHotplug", preferred["preferredDisableHotplug"].clone());
    }
    if field_at(spec, "domain.devices.sound").is_object() {
        set_missing_field(spec, "domain.devices.sound.model", &preferred["preferredSoundModel"]);
    }
    change_each_item(spec, "domain.devices.disks", |disk| of_disk(disk, preferred));
    let networks = items_at(spec, "networks").to_vec();
    change_each_item(spec, "domain.devices.interfaces", |interface| {
        set_missing_field(interface, "model", &preferred["preferredInterfaceModel"]);
        let is_pod = |network: &Value| network["name"] == interface["name"] && !network["pod"].is_null();
        if BINDINGS.iter().all(|binding| interface[*binding].is_null()) && networks.iter().any(is_pod) {
            set_missing_field(interface, "masquerade", &preferred["preferredInterfaceMasquerade"]);
        }
    });
    change_each_item(spec, "domain.devices.inputs", |input| {
        set_missing_field(input, "bus", &preferred["preferredInputBus"]);
        set_missing_field(input, "type", &preferred["preferredInputType"]);
    });
    let panic = &preferred["preferredPanicDeviceModel"];
    if !is_unset(panic) && items_at(spec, "domain.devices.panicDevices").is_empty() {
        append_item(spec, "domain.devices.panicDevices", json!({ "model": panic }));
    }
    change_each_item(spec, "domain.devices.panicDevices", |device| set_missing_field(device, "model", panic));
}

fn of_disk(disk: &mut Value, preferred: &Value) {
    if ["disk", "lun", "cdrom"].iter().all(|target| disk[*target].is_null()) {
        disk["disk"] = json!({});
    }
    if !disk["disk"].is_null() {
        for (mine, theirs) in OF_DISKS {
            set_missing_field(disk, mine, &preferred[theirs]);
        }
        if disk["disk"]["bus"] == "virtio" {
            set_missing_field(disk, "dedicatedIOThread", &preferred["preferredDiskDedicatedIoThread"]);
        }
    } else if !disk["cdrom"].is_null() {
        set_missing_field(disk, "cdrom.bus", &preferred["preferredCdromBus"]);
    } else {
        set_missing_field(disk, "lun.bus", &preferred["preferredLunBus"]);
    }
}

fn features(spec: &mut Value, preferred: &Value) {
    if !preferred["preferredAcpi"].is_null() {
        set_field(spec, "domain.features.acpi", preferred["preferredAcpi"].clone());
    }
    for (mine, theirs) in
        [("kvm", "preferredKvm"), ("pvspinlock", "preferredPvspinlock"), ("smm", "preferredSmm")]
    {
        set_missing_field(spec, &format!("domain.features.{mine}"), &preferred[theirs]);
    }
    for (enlightenment, value) in preferred["preferredHyperv"].as_object().into_iter().flatten() {
        set_missing_field(spec, &format!("domain.features.hyperv.{enlightenment}"), value);
    }
}

fn firmware(spec: &mut Value, preferred: &Value) {
    const BIOS: &str = "domain.firmware.bootloader.bios";
    const EFI: &str = "domain.firmware.bootloader.efi";
    let has = |spec: &Value, path: &str| !field_at(spec, path).is_null();
    let has_none = |spec: &Value| !has(spec, BIOS) && !has(spec, EFI);
    if preferred["preferredUseBios"] == true && has_none(spec) {
        set_field(spec, BIOS, json!({}));
    }
    if has(spec, BIOS) {
        set_missing_field(spec, &format!("{BIOS}.useSerial"), &preferred["preferredUseBiosSerial"]);
    }
    if has_none(spec) && !preferred["preferredEfi"].is_null() {
        return set_field(spec, EFI, preferred["preferredEfi"].clone());
    }
    if has_none(spec) && preferred["preferredUseEfi"] == true {
        set_field(spec, EFI, json!({}));
    }
    if has(spec, EFI) {
        set_missing_field(spec, &format!("{EFI}.secureBoot"), &preferred["preferredUseSecureBoot"]);
    }
}
