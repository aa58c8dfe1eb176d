//! Instance types: what they may not share with a machine, and what they write.

use super::fields::{field_at, parse_quantity, set_field, set_given_field};
use serde_json::{Value, json};

/// Fields that no machine with an instance type sets. Numbers count if they are not 0.
pub(super) const SIZES: [&str; 8] = [
    "domain.resources.requests.cpu",
    "domain.resources.limits.cpu",
    "domain.cpu.sockets",
    "domain.cpu.cores",
    "domain.cpu.threads",
    "domain.memory.guest",
    "domain.resources.requests.memory",
    "domain.resources.limits.memory",
];

/// Fields that only one of both sets: of the machine, and of the instance type.
pub(super) const SHARED: [(&str, &str); 14] = [
    ("nodeSelector", "nodeSelector"),
    ("schedulerName", "schedulerName"),
    ("domain.cpu.model", "cpu.model"),
    ("domain.cpu.dedicatedCpuPlacement", "cpu.dedicatedCPUPlacement"),
    ("domain.cpu.isolateEmulatorThread", "cpu.isolateEmulatorThread"),
    ("domain.cpu.numa", "cpu.numa"),
    ("domain.cpu.realtime", "cpu.realtime"),
    ("domain.memory.hugepages", "memory.hugepages"),
    ("domain.memory.maxGuest", "memory.maxGuest"),
    ("domain.ioThreads.supplementalPoolThreadCount", "ioThreads.supplementalPoolThreadCount"),
    ("domain.ioThreadsPolicy", "ioThreadsPolicy"),
    ("domain.launchSecurity", "launchSecurity"),
    ("domain.devices.gpus", "gpus"),
    ("domain.devices.hostDevices", "hostDevices"),
];

/// Whether a machine sets a field. What Go cannot tell from an absent field does not count.
fn sets(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Bool(true) | Value::Object(_) => true,
    }
}

/// The fields that both a machine and its instance type set.
pub(super) fn instance_type_conflicts(spec: &Value, instancetype: &Value) -> Vec<&'static str> {
    let sizes = SIZES.into_iter().filter(|path| sets(field_at(spec, path)));
    let shared = SHARED.into_iter().filter(|(mine, theirs)| {
        let theirs = field_at(instancetype, theirs);
        sets(field_at(spec, mine)) && (sets(theirs) || theirs.is_boolean())
    });
    sizes.chain(shared.map(|(mine, _)| mine)).collect()
}

/// Writes an instance type into an instance without conflicts.
pub(super) fn apply_instance_type(spec: &mut Value, instancetype: &Value, preference: &Value) {
    let [sockets, cores, threads] =
        layout(field_at(instancetype, "cpu.guest").as_u64().unwrap_or(1), preference);
    set_field(spec, "domain.cpu.sockets", json!(sockets));
    set_field(spec, "domain.cpu.cores", json!(cores));
    set_field(spec, "domain.cpu.threads", json!(threads));
    set_given_field(spec, "domain.cpu.maxSockets", field_at(instancetype, "cpu.maxSockets"));
    let guest = field_at(instancetype, "memory.guest");
    set_given_field(spec, "domain.memory.guest", guest);
    for (mine, theirs) in SHARED {
        let value = field_at(instancetype, theirs);
        if sets(value) || value.is_boolean() {
            set_field(spec, mine, value.clone());
        }
    }
    let percent = field_at(instancetype, "memory.overcommitPercent").as_u64().unwrap_or_default();
    if let (1.., Some(bytes)) = (percent, parse_quantity(guest)) {
        let request = bytes * u128::from(100_u64.saturating_sub(percent)) / 100;
        set_field(spec, "domain.resources.requests.memory", json!(request.to_string()));
    }
}

/// Sockets, cores and threads of a number of vCPUs.
fn layout(vcpus: u64, preference: &Value) -> [u64; 3] {
    let topology =
        field_at(preference, "cpu.preferredCPUTopology").as_str().unwrap_or_default().to_lowercase();
    let options = field_at(preference, "cpu.spreadOptions");
    let older = field_at(preference, "preferSpreadSocketToCoreRatio");
    let ratio = options["ratio"].as_u64().or(older.as_u64()).unwrap_or(2).max(1);
    match topology.trim_start_matches("prefer") {
        _ if vcpus <= 1 => [1, 1, 1],
        "cores" => [1, vcpus, 1],
        "threads" => [1, 1, vcpus],
        "spread" => match options["across"].as_str() {
            Some("CoresThreads") => [1, vcpus / 2, 2],
            Some("SocketsCoresThreads") => [vcpus / 2 / ratio, ratio, 2],
            _ => [vcpus / ratio, ratio, 1],
        },
        _ => [vcpus, 1, 1],
    }
}
