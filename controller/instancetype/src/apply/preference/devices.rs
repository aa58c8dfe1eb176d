//! Device settings, except for disks.

use serde_json::{Map, Value, json};

use crate::model::DevicePreferences;
use crate::tree::{self, Malformed};

/// The settings that decide which devices an instance gets without listing them. They also apply before
/// default devices are added.
pub(crate) fn fill_autoattach_settings(
    preferred: &DevicePreferences,
    spec: &mut Value,
) -> Result<(), Malformed> {
    for (field, default) in [
        ("autoattachGraphicsDevice", preferred.autoattach_graphics_device),
        ("autoattachMemBalloon", preferred.autoattach_mem_balloon),
        ("autoattachPodInterface", preferred.autoattach_pod_interface),
        ("autoattachSerialConsole", preferred.autoattach_serial_console),
        ("autoattachInputDevice", preferred.autoattach_input_device),
    ] {
        tree::set_default(spec, &format!("domain.devices.{field}"), default)?;
    }
    Ok(())
}

pub(super) fn apply_device_preferences(
    preferred: &DevicePreferences,
    spec: &mut Value,
) -> Result<(), Malformed> {
    for (field, default) in [
        ("useVirtioTransitional", preferred.use_virtio_transitional),
        ("blockMultiQueue", preferred.block_multi_queue),
        ("networkInterfaceMultiqueue", preferred.network_interface_multi_queue),
    ] {
        tree::set_default(spec, &format!("domain.devices.{field}"), default)?;
    }
    tree::set_given(spec, "domain.devices.disableHotplug", preferred.disable_hotplug)?;
    if tree::object_at(spec, "domain.devices.sound")?.is_some() {
        tree::set_default_text(spec, "domain.devices.sound.model", preferred.sound_model.as_deref())?;
    }
    tree::set_default(spec, "domain.devices.rng", preferred.rng.clone())?;
    tree::set_default(spec, "domain.devices.tpm", preferred.tpm.clone())?;
    tree::set_default_text(spec, "domain.devices.video.type", preferred.video_type.as_deref())?;
    fill_autoattach_settings(preferred, spec)?;
    fill_interfaces(preferred, spec)?;
    tree::for_each_item(spec, "domain.devices.inputs", |input| {
        tree::set_default_text(input, "bus", preferred.input_bus.as_deref())?;
        tree::set_default_text(input, "type", preferred.input_type.as_deref())
    })?;
    panic_devices(preferred, spec)
}

fn fill_interfaces(preferred: &DevicePreferences, spec: &mut Value) -> Result<(), Malformed> {
    let networks = tree::items_at(spec, "networks")?;
    let pod_networks = networks.iter().filter(|network| network.get("pod").is_some_and(|pod| !pod.is_null()));
    let pod_networks: Vec<Value> = pod_networks.filter_map(|network| network.get("name").cloned()).collect();
    tree::for_each_item(spec, "domain.devices.interfaces", |interface| {
        tree::set_default_text(interface, "model", preferred.interface_model.as_deref())?;
        let on_pod_network = interface.get("name").is_some_and(|name| pod_networks.contains(name));
        match &preferred.interface_masquerade {
            Some(masquerade) if on_pod_network && !interface.as_object().is_some_and(has_binding) => {
                tree::set_value(interface, "masquerade", masquerade.clone())
            }
            _ => Ok(()),
        }
    })
}

/// Whether an interface chooses how it is connected. Each binding is an object under a key of its own.
/// Recognizing bindings by that, and not by a list of keys, includes those of a newer KubeVirt; `dhcpOptions`
/// is the one other object.
fn has_binding(interface: &Map<String, Value>) -> bool {
    interface.iter().any(|(key, value)| value.is_object() && key != "dhcpOptions")
}

fn panic_devices(preferred: &DevicePreferences, spec: &mut Value) -> Result<(), Malformed> {
    let Some(model) = &preferred.panic_device_model else { return Ok(()) };
    let devices = tree::items_mut(spec, "domain.devices.panicDevices")?;
    if devices.is_empty() {
        devices.push(json!({ "model": model }));
    }
    tree::for_each_item(spec, "domain.devices.panicDevices", |device| {
        tree::set_default_text(device, "model", Some(model))
    })
}
