//! Preferences: what they fill.

use super::fields::{at, each, fill, is_unset, items, push, put};
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
pub(super) fn autoattach(spec: &mut Value, preference: &Value) {
    for (mine, theirs) in AUTOATTACH {
        fill(spec, &format!("domain.devices.{mine}"), &preference["devices"][theirs]);
    }
}

/// Fills an instance.
pub(super) fn apply(spec: &mut Value, preference: &Value) {
    for feature in items(preference, "cpu.preferredCPUFeatures") {
        let has = |known: &Value| known["name"] == feature["name"];
        if !items(spec, "domain.cpu.features").iter().any(has) {
            push(spec, "domain.cpu.features", feature.clone());
        }
    }
    for (mine, theirs) in FILLED {
        fill(spec, mine, at(preference, theirs));
    }
    if preference["devices"].is_object() {
        devices(spec, &preference["devices"]);
    }
    features(spec, &preference["features"]);
    firmware(spec, &preference["firmware"]);
    let (offset, clock) = (at(preference, "clock.preferredClockOffset"), at(spec, "domain.clock"));
    if clock["utc"].is_null() && is_unset(&clock["timezone"]) {
        for field in ["utc", "timezone"] {
            fill(spec, &format!("domain.clock.{field}"), &offset[field]);
        }
    }
}

fn devices(spec: &mut Value, preferred: &Value) {
    if !preferred["preferredDisableHotplug"].is_null() {
        put(spec, "domain.devices.disableHotplug", preferred["preferredDisableHotplug"].clone());
    }
    if at(spec, "domain.devices.sound").is_object() {
        fill(spec, "domain.devices.sound.model", &preferred["preferredSoundModel"]);
    }
    each(spec, "domain.devices.disks", |disk| of_disk(disk, preferred));
    let networks = items(spec, "networks").to_vec();
    each(spec, "domain.devices.interfaces", |interface| {
        fill(interface, "model", &preferred["preferredInterfaceModel"]);
        let is_pod = |network: &Value| network["name"] == interface["name"] && !network["pod"].is_null();
        if BINDINGS.iter().all(|binding| interface[*binding].is_null()) && networks.iter().any(is_pod) {
            fill(interface, "masquerade", &preferred["preferredInterfaceMasquerade"]);
        }
    });
    each(spec, "domain.devices.inputs", |input| {
        fill(input, "bus", &preferred["preferredInputBus"]);
        fill(input, "type", &preferred["preferredInputType"]);
    });
    let panic = &preferred["preferredPanicDeviceModel"];
    if !is_unset(panic) && items(spec, "domain.devices.panicDevices").is_empty() {
        push(spec, "domain.devices.panicDevices", json!({ "model": panic }));
    }
    each(spec, "domain.devices.panicDevices", |device| fill(device, "model", panic));
}

fn of_disk(disk: &mut Value, preferred: &Value) {
    if ["disk", "lun", "cdrom"].iter().all(|target| disk[*target].is_null()) {
        disk["disk"] = json!({});
    }
    if !disk["disk"].is_null() {
        for (mine, theirs) in OF_DISKS {
            fill(disk, mine, &preferred[theirs]);
        }
        if disk["disk"]["bus"] == "virtio" {
            fill(disk, "dedicatedIOThread", &preferred["preferredDiskDedicatedIoThread"]);
        }
    } else if !disk["cdrom"].is_null() {
        fill(disk, "cdrom.bus", &preferred["preferredCdromBus"]);
    } else {
        fill(disk, "lun.bus", &preferred["preferredLunBus"]);
    }
}

fn features(spec: &mut Value, preferred: &Value) {
    if !preferred["preferredAcpi"].is_null() {
        put(spec, "domain.features.acpi", preferred["preferredAcpi"].clone());
    }
    for (mine, theirs) in
        [("kvm", "preferredKvm"), ("pvspinlock", "preferredPvspinlock"), ("smm", "preferredSmm")]
    {
        fill(spec, &format!("domain.features.{mine}"), &preferred[theirs]);
    }
    for (enlightenment, value) in preferred["preferredHyperv"].as_object().into_iter().flatten() {
        fill(spec, &format!("domain.features.hyperv.{enlightenment}"), value);
    }
}

fn firmware(spec: &mut Value, preferred: &Value) {
    const BIOS: &str = "domain.firmware.bootloader.bios";
    const EFI: &str = "domain.firmware.bootloader.efi";
    let has = |spec: &Value, path: &str| !at(spec, path).is_null();
    let has_none = |spec: &Value| !has(spec, BIOS) && !has(spec, EFI);
    if preferred["preferredUseBios"] == true && has_none(spec) {
        put(spec, BIOS, json!({}));
    }
    if has(spec, BIOS) {
        fill(spec, &format!("{BIOS}.useSerial"), &preferred["preferredUseBiosSerial"]);
    }
    if has_none(spec) && !preferred["preferredEfi"].is_null() {
        return put(spec, EFI, preferred["preferredEfi"].clone());
    }
    if has_none(spec) && preferred["preferredUseEfi"] == true {
        put(spec, EFI, json!({}));
    }
    if has(spec, EFI) {
        fill(spec, &format!("{EFI}.secureBoot"), &preferred["preferredUseSecureBoot"]);
    }
}
