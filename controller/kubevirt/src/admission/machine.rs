//! Rules about the machine template. KubeVirt validates the machines that are created from it; these rules
//! check only what users get wrong most often, and what the controller relies on.

use serde_json::Value;
use vmpool_api::Quantity;
use vmpool_api::kubevirt::labels::RESERVED;
use vmpool_api::kubevirt::values::RunStrategy;
use vmpool_engine::protection::PREFIX;
use vmpool_platform::memory_unit::missing_unit_text;
use vmpool_platform::syntax;
use vmpool_platform::value::{json_at_path, json_field, json_text};

use super::super::machine::is_reserved;
use super::findings::Findings;
use super::pool::{INSTANCE, KubeVirtPoolView, MACHINE, TEMPLATE};
use super::rule::Rule;

/// The service accounts of KubeVirt in its usual namespace. They may use its reserved labels.
const KUBEVIRT: [&str; 4] = [
    "system:serviceaccount:kubevirt:kubevirt-apiserver",
    "system:serviceaccount:kubevirt:kubevirt-controller",
    "system:serviceaccount:kubevirt:kubevirt-handler",
    "system:serviceaccount:kubevirt:kubevirt-operator",
];

/// Whether the template has the parts that all other rules are about.
pub(super) fn has_required_templates(pool: KubeVirtPoolView<'_>, findings: &mut Findings) -> bool {
    const REASON: &str = "missing virtual machine template";
    // A part of another type is an error of the decoder.
    let is_map = |value: &Value| value.is_object() || value.is_null();
    if pool.template().is_null() && is_map(pool.spec()) {
        // KubeVirt reports this field, although it has another name.
        let way_out = "add spec.virtualMachineTemplate";
        findings.refuse(Rule::NoTemplate, "spec.template", pool.template(), REASON, way_out);
        return false;
    }
    if pool.instance().is_null()
        && !pool.template().is_null()
        && is_map(pool.template())
        && is_map(pool.machine())
    {
        let way_out = "add the template of the VirtualMachineInstances";
        findings.refuse(Rule::NoInstanceTemplate, INSTANCE, pool.instance(), REASON, way_out);
        return false;
    }
    true
}

pub(super) fn check_template_metadata(user: &str, pool: KubeVirtPoolView<'_>, findings: &mut Findings) {
    refuse_reserved_labels(user, pool, findings);
    refuse_reserved_keys(pool, findings);
    check_instance_metadata(pool, findings);
}

/// KubeVirt accepts a machine with such labels and annotations, and cannot start it: the API server rejects
/// its instance.
fn check_instance_metadata(pool: KubeVirtPoolView<'_>, findings: &mut Findings) {
    for kind in ["labels", "annotations"] {
        let map = json_at_path(pool.instance(), &["metadata", kind]).as_object();
        for (key, value) in map.into_iter().flatten() {
            let text = value.as_str().unwrap_or_default();
            // The API server compares the keys of annotations in lower case.
            let (reason, way_out, wrong) = if kind == "labels" && syntax::is_key(key) {
                ("no label can have this value", syntax::VALUES, (!syntax::is_value(text)).then_some(text))
            } else {
                let known = kind == "annotations" && syntax::is_key(&key.to_lowercase());
                (
                    "neither a label nor an annotation can have this key",
                    syntax::KEYS,
                    (!known).then_some(key.as_str()),
                )
            };
            if let Some(wrong) = wrong {
                let path = format!("{INSTANCE}.metadata.{kind}");
                findings.refuse(Rule::InstanceMetadata, path, &Value::from(wrong), reason, way_out);
                return;
            }
        }
    }
}

/// Such a key would protect every new machine, or pretend a claim.
fn refuse_reserved_keys(pool: KubeVirtPoolView<'_>, findings: &mut Findings) {
    for kind in ["labels", "annotations"] {
        let map = json_at_path(pool.template(), &["metadata", kind]).as_object();
        if let Some(key) = map.into_iter().flat_map(|map| map.keys()).find(|key| is_reserved(key)) {
            findings.refuse(
                Rule::ReservedKeys,
                format!("{TEMPLATE}.metadata.{kind}"),
                &Value::from(key.as_str()),
                format!("keys under {PREFIX} belong to vmpool"),
                "remove the key",
            );
        }
    }
}

/// The rules after those about volumes.
pub(super) fn check_run_settings(pool: KubeVirtPoolView<'_>, findings: &mut Findings) {
    check_run_strategy(pool, findings);
    check_live_update_limits(pool, findings);
    warn_about_type_conflict(pool, findings);
    warn_about_shared_identity(pool, findings);
    warn_about_missing_units(pool, findings);
}

fn warn_about_missing_units(pool: KubeVirtPoolView<'_>, findings: &mut Findings) {
    let domain = json_at_path(pool.instance(), &["spec", "domain"]);
    let amounts: [&[&str]; 4] = [
        &["memory", "guest"],
        &["memory", "maxGuest"],
        &["resources", "requests", "memory"],
        &["resources", "limits", "memory"],
    ];
    for path in amounts {
        let amount = json_at_path(domain, path).clone();
        let detail =
            serde_json::from_value::<Quantity>(amount).ok().and_then(|size| missing_unit_text(&size));
        if let Some(detail) = detail {
            findings.warn(Rule::MemoryUnit, format!("{INSTANCE}.spec.domain.{}", path.join(".")), detail);
        }
    }
}

/// A user who pastes the spec of a running machine gives its identity to every machine of the pool.
fn warn_about_shared_identity(pool: KubeVirtPoolView<'_>, findings: &mut Findings) {
    let spec = json_field(pool.instance(), "spec");
    let domain = json_field(spec, "domain");
    let interfaces =
        json_at_path(domain, &["devices", "interfaces"]).as_array().into_iter().flatten().enumerate();
    let addresses = interfaces.map(|(place, interface)| {
        (format!("domain.devices.interfaces[{place}].macAddress"), json_field(interface, "macAddress"))
    });
    let hostname = if pool.name_generation().hostname { &Value::Null } else { json_field(spec, "hostname") };
    let fixed = [
        ("hostname".to_owned(), hostname),
        ("domain.firmware.uuid".to_owned(), json_at_path(domain, &["firmware", "uuid"])),
        ("domain.firmware.serial".to_owned(), json_at_path(domain, &["firmware", "serial"])),
    ];
    let is_set = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
    let mut set = fixed.into_iter().chain(addresses).filter(|(_, value)| is_set(value)).map(|(path, _)| path);
    let Some(first) = set.next() else { return };
    let others: Vec<String> = set.collect();
    let also = match &*others {
        [] => String::new(),
        [other] => format!("; so does {other}"),
        [other, rest @ ..] => format!("; so do {other} and {} more", rest.len()),
    };
    let detail = format!("gives all machines of the pool the same identity: remove it{also}");
    findings.warn(Rule::SharedIdentity, format!("{INSTANCE}.spec.{first}"), detail);
}

fn refuse_reserved_labels(user: &str, pool: KubeVirtPoolView<'_>, findings: &mut Findings) {
    let reserved = RESERVED.iter().find(|key| !json_field(pool.inner_labels(), key).is_null());
    if let Some(key) = reserved.filter(|_| !KUBEVIRT.contains(&user)) {
        findings.refuse(
            Rule::ReservedLabels,
            format!("{INSTANCE}.metadata.labels"),
            &Value::from(*key),
            "creation of the following reserved kubevirt.io/ labels on a VMI object is prohibited",
            "remove the label",
        );
    }
}

fn check_run_strategy(pool: KubeVirtPoolView<'_>, findings: &mut Findings) {
    let (running, strategy) =
        (json_field(pool.machine(), "running"), json_field(pool.machine(), "runStrategy"));
    let running_path = format!("{MACHINE}.running");
    match (running.is_null(), strategy.is_null()) {
        (false, false) => findings.refuse(
            Rule::RunningAndStrategy,
            running_path,
            running,
            "running and runStrategy are mutually exclusive",
            "remove running",
        ),
        (true, true) => findings.refuse(
            Rule::NoRunStrategy,
            running_path,
            running,
            "RunStrategy must be specified",
            format_args!("set {MACHINE}.runStrategy, for example to Always"),
        ),
        _ => {}
    }
    let path = format!("{MACHINE}.runStrategy");
    match strategy.as_str().map(str::parse::<RunStrategy>) {
        Some(Ok(RunStrategy::WaitAsReceiver)) => findings.warn(
            Rule::WaitAsReceiver,
            path,
            "KubeVirt accepts WaitAsReceiver only with its feature gate, and such a machine waits for a migration from \
             another cluster; use Always to start machines",
        ),
        Some(Ok(_)) => {}
        None if strategy.is_null() => {}
        None | Some(Err(_)) => findings.refuse(
            Rule::RunStrategy,
            path,
            strategy,
            "Invalid RunStrategy",
            "use Always, Halted, Manual, RerunOnFailure or Once",
        ),
    }
}

/// KubeVirt refuses more than the maximum only if it updates running machines, which this API does not show.
fn check_live_update_limits(pool: KubeVirtPoolView<'_>, findings: &mut Findings) {
    let domain = json_at_path(pool.instance(), &["spec", "domain"]);
    let path = format!("{INSTANCE}.spec.domain");
    let cores = |name: &str| json_at_path(domain, &["cpu", name]).as_i64();
    if let (Some(sockets), Some(max)) = (cores("sockets"), cores("maxSockets"))
        && sockets > max
    {
        let detail = format!("{sockets} sockets exceed maxSockets {max}; KubeVirt may refuse the machines");
        findings.warn(Rule::LiveUpdateLimit, format!("{path}.cpu.sockets"), detail);
    }
    let bytes = |name: &str| -> Option<u64> {
        serde_json::from_value::<Quantity>(json_at_path(domain, &["memory", name]).clone()).ok()?.bytes().ok()
    };
    if let (Some(guest), Some(max)) = (bytes("guest"), bytes("maxGuest"))
        && guest > max
    {
        let (guest, max) =
            (json_at_path(domain, &["memory", "guest"]), json_at_path(domain, &["memory", "maxGuest"]));
        let detail = format!("{guest} exceeds maxGuest {max}; KubeVirt may refuse the machines");
        findings.warn(Rule::LiveUpdateLimit, format!("{path}.memory.guest"), detail);
    }
}

/// The instance type is not read: it can change until a machine is created. What no instance type allows is
/// known.
fn warn_about_type_conflict(pool: KubeVirtPoolView<'_>, findings: &mut Findings) {
    let Some(name) = json_text(json_field(pool.machine(), "instancetype"), "name") else { return };
    let domain = json_at_path(pool.instance(), &["spec", "domain"]);
    let set = |below: &[&str]| !json_at_path(domain, below).is_null();
    let conflict = [
        ("cpu.cores", set(&["cpu", "cores"])),
        ("cpu.sockets", set(&["cpu", "sockets"])),
        ("cpu.threads", set(&["cpu", "threads"])),
        ("memory.guest", set(&["memory", "guest"])),
        ("resources.requests.cpu", set(&["resources", "requests", "cpu"])),
        ("resources.requests.memory", set(&["resources", "requests", "memory"])),
    ];
    if let Some((below, _)) = conflict.into_iter().find(|(_, is_set)| *is_set) {
        let name = vmpool_engine::admission::shorten_text(name, 63);
        let detail =
            format!("instance type {name:?} sets it too, so KubeVirt refuses the machines; remove it here");
        findings.warn(Rule::TypeConflict, format!("{INSTANCE}.spec.domain.{below}"), detail);
    }
}
