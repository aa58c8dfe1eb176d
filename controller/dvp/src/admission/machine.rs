//! Rules about the machine template that need no other objects.

use std::collections::BTreeMap;

use serde::Deserialize as _;
use serde_json::Value;
use vmpool_api::v1alpha2::VirtualMachineSpec;
use vmpool_api::{PREFIX, Quantity};
use vmpool_engine::admission::{RuleResult, Warning, refuse_value, shorten_text};
use vmpool_engine::protection;
use vmpool_platform::memory_unit::missing_unit_text;
use vmpool_platform::syntax;

use super::facts::{CapabilityState, ClassName, ClusterCapabilities};
use super::rule::Rule;
use super::sizing::parse_core_fraction;
use super::unreadable::refuse_unreadable_value;
use super::view::{MACHINE, json_at_path, json_field};
use super::{affinity, devices, networks, provisioning, schema};

const MOST_CORES: i32 = 248;

/// A template that the rules of this module accept.
#[derive(Clone, Debug)]
pub(super) struct AcceptedTemplate<'a> {
    /// The spec of the machines in the request.
    pub(super) value: &'a Value,
    /// The parsed spec.
    pub(super) spec: VirtualMachineSpec,
}

impl AcceptedTemplate<'_> {
    /// The class that its machines would get.
    pub(super) fn class(&self) -> ClassName {
        match self.spec.virtual_machine_class_name.as_deref() {
            None | Some("") => ClassName::Default,
            Some(name) => ClassName::Named(name.to_owned()),
        }
    }
}

pub(super) fn check_machine_template<'a>(
    cluster: ClusterCapabilities,
    template: &'a Value,
    warnings: &mut Vec<Warning>,
) -> RuleResult<AcceptedTemplate<'a>> {
    let value = json_field(template, "spec");
    let spec = VirtualMachineSpec::deserialize(value)
        .or_else(|error| refuse_unreadable_value(MACHINE, value, &error))?;
    check_template_metadata(template)?;
    if spec.os_type.as_deref() == Some("Legacy") {
        return refuse_value(
            Rule::LegacyGuest,
            format!("{MACHINE}.osType"),
            json_field(value, "osType"),
            "such guests cannot be provisioned, so all machines would be the same",
            "use Generic or Windows",
        );
    }
    devices::check_list(super::view::json_entries(json_field(value, "blockDeviceRefs")))?;
    check_core_count(spec.cpu.cores, value)?;
    core_fraction(spec.cpu.core_fraction.as_deref(), value)?;
    check_memory_size(&spec.memory.size, value, warnings)?;
    provisioning::check_provisioning(spec.provisioning.as_ref(), warnings)?;
    affinity::check_placement(value)?;
    refuse_single_machine_fields(&spec, value)?;
    networks::check_networks(spec.networks.as_deref().unwrap_or_default(), cluster)?;
    check_gpus(&spec, value, cluster.gpus)?;
    schema::check_machine_schema(MACHINE, value)?;
    Ok(AcceptedTemplate { value, spec })
}

fn check_template_metadata(template: &Value) -> RuleResult {
    for kind in ["labels", "annotations"] {
        let path = format!("spec.virtualMachineTemplate.metadata.{kind}");
        let keys = json_at_path(template, &["metadata", kind]);
        if keys.is_null() {
            continue;
        }
        let keys = BTreeMap::<String, String>::deserialize(keys)
            .or_else(|error| refuse_unreadable_value(&path, keys, &error))?;
        for (key, value) in &keys {
            let (path, value) = (format!("{path}[{key}]"), Value::from(value.as_str()));
            if let Some(prefix) =
                [PREFIX, protection::PREFIX].into_iter().find(|prefix| key.starts_with(prefix))
            {
                return refuse_value(
                    Rule::ReservedKeys,
                    path,
                    &value,
                    format_args!("keys under {prefix} belong to the pool controller"),
                    "remove it, or choose another prefix",
                );
            }
            if key.contains("kubevirt.io") {
                return refuse_value(
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
                return refuse_value(Rule::MetadataKeys, path, &value, reason, syntax::KEYS);
            }
            if is_label && !value.as_str().is_some_and(syntax::is_value) {
                return refuse_value(
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
pub(super) const fn socket_count(cores: i32) -> i32 {
    match cores {
        ..=16 => 1,
        17..=32 => 2,
        33..=64 => 4,
        _ => 8,
    }
}

/// Whether a machine can have this number of cores.
const fn fills_sockets(cores: i32) -> bool {
    cores >= 1 && cores <= MOST_CORES && cores % socket_count(cores) == 0
}

fn check_core_count(cores: i32, spec: &Value) -> RuleResult {
    if fills_sockets(cores) {
        return Ok(());
    }
    let path = format!("{MACHINE}.cpu.cores");
    let value = json_at_path(spec, &["cpu", "cores"]);
    if !(1..=MOST_CORES).contains(&cores) {
        return refuse_value(
            Rule::Cores,
            path,
            value,
            "out of range",
            format_args!("use a number from 1 to {MOST_CORES}"),
        );
    }
    let less = (1..cores).rev().find(|less| fills_sockets(*less)).unwrap_or(1);
    let more = (cores..=MOST_CORES).find(|more| fills_sockets(*more)).unwrap_or(MOST_CORES);
    refuse_value(
        Rule::Cores,
        path,
        value,
        format_args!("so many cores are spread evenly over {} sockets", socket_count(cores)),
        format_args!("use {less} or {more}"),
    )
}

fn core_fraction(fraction: Option<&str>, spec: &Value) -> RuleResult {
    match fraction {
        None | Some("Auto") => Ok(()),
        Some(text) if parse_core_fraction(text).is_some() => Ok(()),
        Some(_) => refuse_value(
            Rule::BadCoreFraction,
            format!("{MACHINE}.cpu.coreFraction"),
            json_at_path(spec, &["cpu", "coreFraction"]),
            "not a share of a core",
            "use Auto, or a percentage from 1% to 100% such as 25%; without it the class decides",
        ),
    }
}

fn check_memory_size(size: &Quantity, spec: &Value, warnings: &mut Vec<Warning>) -> RuleResult {
    let field = format!("{MACHINE}.memory.size");
    let reason = match size.bytes() {
        Ok(0) => "a machine needs memory".to_owned(),
        Ok(_) => {
            let detail = missing_unit_text(size);
            warnings.extend(detail.map(|detail| Warning::new(Rule::MemoryUnit, field, detail)));
            return Ok(());
        }
        Err(error) => shorten_text(&error.to_string(), 200),
    };
    refuse_value(
        Rule::NoMemory,
        field,
        json_at_path(spec, &["memory", "size"]),
        reason,
        "use an amount such as 512Mi or 4Gi",
    )
}

/// Fields that only one machine can use. With them, one machine would run and the others would wait forever.
fn refuse_single_machine_fields(spec: &VirtualMachineSpec, value: &Value) -> RuleResult {
    const REASON: &str = "it fits one machine only";
    // Machines are created without empty names.
    let names = |name: &Option<String>| name.as_ref().is_some_and(|name| !name.is_empty());
    if names(&spec.virtual_machine_ip_address_name) {
        return refuse_value(
            Rule::Identities,
            format!("{MACHINE}.virtualMachineIPAddressName"),
            json_field(value, "virtualMachineIPAddressName"),
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
                return refuse_value(
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
        return refuse_value(
            Rule::Identities,
            format!("{MACHINE}.usbDevices"),
            json_field(value, "usbDevices"),
            "a USB device fits one machine only",
            "remove usbDevices; create a machine with one outside of the pool",
        );
    }
    Ok(())
}

fn check_gpus(spec: &VirtualMachineSpec, value: &Value, gpus: CapabilityState) -> RuleResult {
    let wanted = spec.gpus.as_ref().is_some_and(|gpus| !gpus.is_empty());
    if wanted && gpus == CapabilityState::No {
        return refuse_value(
            Rule::Gpus,
            format!("{MACHINE}.gpus"),
            json_field(value, "gpus"),
            "this cluster does not pass GPUs to machines",
            "remove gpus, or have the feature switched on",
        );
    }
    Ok(())
}
