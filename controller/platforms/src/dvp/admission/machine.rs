//! Rules about the machine template that need no other objects.

use std::collections::BTreeMap;

use serde::Deserialize as _;
use serde_json::Value;
use vmpool_api::v1alpha2::VirtualMachineSpec;
use vmpool_api::{PREFIX, Quantity};
use vmpool_engine::admission::{Checked, Warning, refuse, shortened};
use vmpool_engine::protection;

use super::facts::{ClassName, Cluster, Known};
use super::rule::Rule;
use super::sizing::percent;
use super::unreadable::unreadable;
use super::view::{MACHINE, at, field};
use super::{affinity, devices, networks, provisioning, schema};
use crate::syntax;

const MOST_CORES: i32 = 248;

/// A template that the rules of this module accept.
#[derive(Clone, Debug)]
pub(super) struct Template<'a> {
    /// The spec of the machines in the request.
    pub(super) value: &'a Value,
    /// The parsed spec.
    pub(super) spec: VirtualMachineSpec,
}

impl Template<'_> {
    /// The class that its machines would get.
    pub(super) fn class(&self) -> ClassName {
        match self.spec.virtual_machine_class_name.as_deref() {
            None | Some("") => ClassName::Default,
            Some(name) => ClassName::Named(name.to_owned()),
        }
    }
}

pub(super) fn check<'a>(
    cluster: Cluster,
    template: &'a Value,
    warnings: &mut Vec<Warning>,
) -> Checked<Template<'a>> {
    let value = field(template, "spec");
    let spec = VirtualMachineSpec::deserialize(value).or_else(|error| unreadable(MACHINE, value, &error))?;
    metadata(template)?;
    if spec.os_type.as_deref() == Some("Legacy") {
        return refuse(
            Rule::LegacyGuest,
            format!("{MACHINE}.osType"),
            field(value, "osType"),
            "such guests cannot be provisioned, so all machines would be the same",
            "use Generic or Windows",
        );
    }
    devices::check_list(super::view::list(field(value, "blockDeviceRefs")))?;
    cores(spec.cpu.cores, value)?;
    core_fraction(spec.cpu.core_fraction.as_deref(), value)?;
    memory(&spec.memory.size, value)?;
    provisioning::check(spec.provisioning.as_ref(), warnings)?;
    affinity::check(value)?;
    identities(&spec, value)?;
    networks::check(spec.networks.as_deref().unwrap_or_default(), cluster)?;
    gpus(&spec, value, cluster.gpus)?;
    schema::machine(MACHINE, value)?;
    Ok(Template { value, spec })
}

fn metadata(template: &Value) -> Checked {
    for kind in ["labels", "annotations"] {
        let path = format!("spec.virtualMachineTemplate.metadata.{kind}");
        let keys = at(template, &["metadata", kind]);
        if keys.is_null() {
            continue;
        }
        let keys =
            BTreeMap::<String, String>::deserialize(keys).or_else(|error| unreadable(&path, keys, &error))?;
        for (key, value) in &keys {
            let (path, value) = (format!("{path}[{key}]"), Value::from(value.as_str()));
            if let Some(prefix) =
                [PREFIX, protection::PREFIX].into_iter().find(|prefix| key.starts_with(prefix))
            {
                return refuse(
                    Rule::ReservedKeys,
                    path,
                    &value,
                    format_args!("keys under {prefix} belong to the pool controller"),
                    "remove it, or choose another prefix",
                );
            }
            if key.contains("kubevirt.io") {
                return refuse(
                    Rule::PlatformKeys,
                    path,
                    &value,
                    "keys with kubevirt.io belong to the virtualization platform",
                    "remove it, or choose another prefix",
                );
            }
            let is_label = kind == "labels";
            // Kubernetes compares the keys of annotations in lower case.
            let known = if is_label { syntax::is_key(key) } else { syntax::is_key(&key.to_lowercase()) };
            if !known {
                let reason = "neither a label nor an annotation can have this key";
                return refuse(Rule::MetadataKeys, path, &value, reason, syntax::KEYS);
            }
            if is_label && !value.as_str().is_some_and(syntax::is_value) {
                return refuse(
                    Rule::MetadataKeys,
                    path,
                    &value,
                    "no label can have this value",
                    syntax::VALUES,
                );
            }
        }
    }
    Ok(())
}

/// Number of sockets that the platform uses for this number of cores.
pub(super) const fn sockets(cores: i32) -> i32 {
    match cores {
        ..=16 => 1,
        17..=32 => 2,
        33..=64 => 4,
        _ => 8,
    }
}

/// Whether a machine can have this number of cores.
const fn fills_sockets(cores: i32) -> bool {
    cores >= 1 && cores <= MOST_CORES && cores % sockets(cores) == 0
}

fn cores(cores: i32, spec: &Value) -> Checked {
    if fills_sockets(cores) {
        return Ok(());
    }
    let path = format!("{MACHINE}.cpu.cores");
    let value = at(spec, &["cpu", "cores"]);
    if !(1..=MOST_CORES).contains(&cores) {
        return refuse(
            Rule::Cores,
            path,
            value,
            "out of range",
            format_args!("use a number from 1 to {MOST_CORES}"),
        );
    }
    let less = (1..cores).rev().find(|less| fills_sockets(*less)).unwrap_or(1);
    let more = (cores..=MOST_CORES).find(|more| fills_sockets(*more)).unwrap_or(MOST_CORES);
    refuse(
        Rule::Cores,
        path,
        value,
        format_args!("so many cores are spread evenly over {} sockets", sockets(cores)),
        format_args!("use {less} or {more}"),
    )
}

fn core_fraction(fraction: Option<&str>, spec: &Value) -> Checked {
    match fraction {
        None | Some("Auto") => Ok(()),
        Some(text) if percent(text).is_some() => Ok(()),
        Some(_) => refuse(
            Rule::BadCoreFraction,
            format!("{MACHINE}.cpu.coreFraction"),
            at(spec, &["cpu", "coreFraction"]),
            "not a share of a core",
            "use Auto, or a percentage from 1% to 100% such as 25%; without it the class decides",
        ),
    }
}

fn memory(size: &Quantity, spec: &Value) -> Checked {
    let reason = match size.bytes() {
        Ok(0) => "a machine needs memory".to_owned(),
        Ok(_) => return Ok(()),
        Err(error) => shortened(&error.to_string(), 200),
    };
    refuse(
        Rule::NoMemory,
        format!("{MACHINE}.memory.size"),
        at(spec, &["memory", "size"]),
        reason,
        "use an amount such as 512Mi or 4Gi",
    )
}

/// Fields that only one machine can use. With them, one machine would run and the others would wait forever.
fn identities(spec: &VirtualMachineSpec, value: &Value) -> Checked {
    const REASON: &str = "it fits one machine only";
    // Machines are created without empty names.
    let names = |name: &Option<String>| name.as_ref().is_some_and(|name| !name.is_empty());
    if names(&spec.virtual_machine_ip_address_name) {
        return refuse(
            Rule::Identities,
            format!("{MACHINE}.virtualMachineIPAddressName"),
            field(value, "virtualMachineIPAddressName"),
            REASON,
            "remove it, and every machine gets an address of its own",
        );
    }
    for (index, network) in spec.networks.iter().flatten().enumerate() {
        for (name, value) in [
            ("virtualMachineMACAddressName", &network.virtual_machine_mac_address_name),
            ("ipAddressName", &network.ip_address_name),
        ] {
            if let Some(value) = value.as_ref().filter(|value| !value.is_empty()) {
                return refuse(
                    Rule::Identities,
                    format!("{MACHINE}.networks[{index}].{name}"),
                    &Value::from(value.as_str()),
                    REASON,
                    "remove it, and every machine gets an address of its own",
                );
            }
        }
    }
    if spec.usb_devices.as_ref().is_some_and(|devices| !devices.is_empty()) {
        return refuse(
            Rule::Identities,
            format!("{MACHINE}.usbDevices"),
            field(value, "usbDevices"),
            "a USB device fits one machine only",
            "remove usbDevices; create a machine with one outside of the pool",
        );
    }
    Ok(())
}

fn gpus(spec: &VirtualMachineSpec, value: &Value, gpus: Known) -> Checked {
    let wanted = spec.gpus.as_ref().is_some_and(|gpus| !gpus.is_empty());
    if wanted && gpus == Known::No {
        return refuse(
            Rule::Gpus,
            format!("{MACHINE}.gpus"),
            field(value, "gpus"),
            "this cluster does not pass GPUs to machines",
            "remove gpus, or have the feature switched on",
        );
    }
    Ok(())
}
