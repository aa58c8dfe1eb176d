//! Users and addresses of the guest, which a wrapper writes as data of cloud-init.
//!
//! The data is part of the machine: the controller has no right to write Secrets. All users who may read the
//! wrapper or the machine can read it.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use vmpool_api::diskimage::VirtualMachine;
use vmpool_api::diskimage::virtual_machine::VirtualMachineInterfaces;

use super::fields::{list_field_mut, list_items, object_field_mut};

#[cfg(test)]
mod tests;

/// Name of the volume and the disk with the data.
const CLOUD_INIT: &str = "vmpool-cloud-init";
/// The volumes with data of cloud-init, which a machine has once.
const CLOUD_INIT_SOURCES: [&str; 2] = ["cloudInitNoCloud", "cloudInitConfigDrive"];
/// KubeVirt refuses more data in a machine, for users and for networks each.
const MAX_DATA_BYTES: usize = 2048;

/// Why no machine can be made from the users and interfaces of a wrapper. No text contains a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum GuestError {
    /// The template configures the guest, too.
    #[error(
        "virtualMachineTemplate has a cloud-init volume, and users and interfaces need one; set users and addresses in one \
         place"
    )]
    CloudInit,
    /// The template has network interfaces, too.
    #[error("virtualMachineTemplate has networks or interfaces; set all network interfaces in one place")]
    Networks,
    /// Two networks would have one name in the machine.
    #[error(
        "the networks of interfaces {0} and {1} differ only in dots, dashes and slashes; rename one of them"
    )]
    SameName(usize, usize),
    /// It is no address with the length of a prefix.
    #[error(
        "interfaces[{0}].ipAddress is no address with the length of its prefix, for example 10.10.0.161/24"
    )]
    Address(usize),
    /// KubeVirt would refuse the machine.
    #[error(
        "{field} need {bytes} bytes of cloud-init data, and KubeVirt accepts {MAX_DATA_BYTES}; remove some of them, or use a \
         cloud-init volume with a Secret in virtualMachineTemplate"
    )]
    TooLong {
        /// The field of the wrapper.
        field: &'static str,
        /// The size of its data.
        bytes: usize,
    },
}

fn list_interfaces(wrapper: &VirtualMachine) -> &[VirtualMachineInterfaces] {
    wrapper.spec.interfaces.as_deref().unwrap_or_default()
}

/// Why no machine can be made from the users and interfaces of a wrapper.
pub(super) fn find_guest_error(wrapper: &VirtualMachine) -> Option<GuestError> {
    let instance = &wrapper.spec.virtual_machine_template.spec["template"]["spec"];
    let data = [("users", user_data(wrapper)), ("interfaces", network_data(wrapper))];
    let is_cloud_init = |volume: &Value| {
        volume["name"] == CLOUD_INIT || CLOUD_INIT_SOURCES.iter().any(|source| !volume[*source].is_null())
    };
    if data.iter().any(|(_, data)| data.is_some()) && list_items(&instance["volumes"]).any(is_cloud_init) {
        return Some(GuestError::CloudInit);
    }
    let too_long = data.into_iter().find_map(|(field, data)| {
        let bytes = data?.len();
        (bytes > MAX_DATA_BYTES).then_some(GuestError::TooLong { field, bytes })
    });
    too_long.or_else(|| find_interface_error(list_interfaces(wrapper), instance))
}

fn find_interface_error(interfaces: &[VirtualMachineInterfaces], instance: &Value) -> Option<GuestError> {
    let of_template = [&instance["networks"], &instance["domain"]["devices"]["interfaces"]];
    if !interfaces.is_empty() && of_template.into_iter().any(|list| list_items(list).next().is_some()) {
        return Some(GuestError::Networks);
    }
    let names: Vec<String> = interfaces.iter().map(|each| interface_name(&each.network)).collect();
    let mut known = BTreeSet::new();
    if let Some(second) = names.iter().position(|name| !known.insert(name)) {
        let first = names.iter().position(|name| *name == names[second]).unwrap_or_default();
        return Some(GuestError::SameName(first, second));
    }
    let is_invalid = |each: &VirtualMachineInterfaces| {
        each.ip_address.as_deref().is_some_and(|address| !is_interface_address(address))
    };
    interfaces.iter().position(is_invalid).map(GuestError::Address)
}

/// Whether the text is an address with the length of a prefix.
fn is_interface_address(text: &str) -> bool {
    let Some((address, prefix)) = text.split_once('/') else { return false };
    match (address.parse::<IpAddr>(), prefix.parse::<u8>()) {
        (Ok(IpAddr::V4(_)), Ok(length)) => length <= 32,
        (Ok(IpAddr::V6(_)), Ok(length)) => length <= 128,
        _ => false,
    }
}

/// Adds the interfaces and the volume with the data. Nothing if the wrapper sets neither users nor
/// interfaces.
pub(super) fn add_guest_settings(instance: &mut Map<String, Value>, wrapper: &VirtualMachine) {
    add_interfaces(instance, wrapper);
    let mut source = Map::new();
    let data = [("userData", user_data(wrapper)), ("networkData", network_data(wrapper))];
    source.extend(data.into_iter().filter_map(|(field, data)| Some((field.to_owned(), data?.into()))));
    if source.is_empty() {
        return;
    }
    // cloud-init reads no network without user data.
    source.entry("userData").or_insert_with(|| "#cloud-config\n{}".into());
    if let Some(volumes) = list_field_mut(instance, "volumes") {
        volumes.push(json!({ "name": CLOUD_INIT, "cloudInitNoCloud": source }));
    }
    let devices = object_field_mut(instance, "domain").and_then(|domain| object_field_mut(domain, "devices"));
    if let Some(disks) = devices.and_then(|devices| list_field_mut(devices, "disks")) {
        disks.push(json!({ "name": CLOUD_INIT, "disk": {} }));
    }
}

fn add_interfaces(instance: &mut Map<String, Value>, wrapper: &VirtualMachine) {
    let interfaces = list_interfaces(wrapper);
    if interfaces.is_empty() {
        return;
    }
    if let Some(networks) = list_field_mut(instance, "networks") {
        networks.extend(interfaces.iter().map(|each| {
            json!({ "name": interface_name(&each.network), "multus": { "networkName": each.network } })
        }));
    }
    let devices = object_field_mut(instance, "domain").and_then(|domain| object_field_mut(domain, "devices"));
    if let Some(devices) = devices.and_then(|devices| list_field_mut(devices, "interfaces")) {
        devices.extend(interfaces.iter().map(|each| {
            let (name, address) = (interface_name(&each.network), hardware_address(wrapper, &each.network));
            json!({ "name": name, "bridge": {}, "macAddress": address })
        }));
    }
}

/// Name of the network in the machine, where names have neither dots nor slashes.
fn interface_name(network: &str) -> String {
    network.replace(['/', '.'], "-")
}

/// The hardware address by which the guest finds the interface. It is the same after each start.
fn hardware_address(wrapper: &VirtualMachine, network: &str) -> String {
    let uid = wrapper.metadata.uid.as_deref().unwrap_or_default();
    let digest = Sha256::digest(format!("{uid}\n{network}").as_bytes());
    // The first byte says that no manufacturer has assigned the address.
    let bytes: Vec<String> = digest.iter().take(5).map(|byte| format!("{byte:02x}")).collect();
    format!("02:{}", bytes.join(":"))
}

/// The users, as cloud-init reads them. JSON is YAML, too.
fn user_data(wrapper: &VirtualMachine) -> Option<String> {
    let users = wrapper.spec.users.as_ref().filter(|users| !users.is_empty())?;
    Some(format!("#cloud-config\n{}", json!({ "users": users })))
}

/// The addresses, in version 2 of cloud-init's network configuration.
fn network_data(wrapper: &VirtualMachine) -> Option<String> {
    let interfaces = list_interfaces(wrapper);
    let settings = |each: &VirtualMachineInterfaces| {
        let found = json!({ "macaddress": hardware_address(wrapper, &each.network) });
        match &each.ip_address {
            Some(address) => json!({ "match": found, "addresses": [address] }),
            None => json!({ "match": found, "dhcp4": true }),
        }
    };
    let ethernets: Map<String, Value> =
        interfaces.iter().map(|each| (interface_name(&each.network), settings(each))).collect();
    (!ethernets.is_empty()).then(|| json!({ "version": 2, "ethernets": ethernets }).to_string())
}
