//! The rule about misspelled fields in the machine template. The definition of pools stores all fields there,
//! and KubeVirt drops those that it does not have without an error.

use super::findings::Findings;
use super::pool::{KubeVirtPoolView, MACHINE};
use super::rule::Rule;
use vmpool_platform::value::json_at_path;

/// The maximum number of fields that a response names.
const MAX_NAMED: usize = 3;

/// An object in the spec of a machine, and its fields in KubeVirt 1.9 and older releases.
struct KnownObject {
    path: &'static [&'static str],
    fields: &'static [&'static str],
}

/// The upper objects, which users write themselves. Objects below them are not compared: they have many
/// fields, and a new release of KubeVirt adds fields there first.
static KNOWN: [KnownObject; 8] = [
    KnownObject {
        path: &[],
        fields: &[
            "dataVolumeTemplates",
            "instancetype",
            "preference",
            "running",
            "runStrategy",
            "template",
            "updateVolumesStrategy",
        ],
    },
    KnownObject { path: &["template"], fields: &["metadata", "spec"] },
    KnownObject {
        path: &["template", "spec"],
        fields: &[
            "accessCredentials",
            "affinity",
            "architecture",
            "dnsConfig",
            "dnsPolicy",
            "domain",
            "evictionStrategy",
            "hostname",
            "livenessProbe",
            "networks",
            "nodeSelector",
            "priorityClassName",
            "readinessProbe",
            "resourceClaims",
            "schedulerName",
            "serviceAccountName",
            "startStrategy",
            "subdomain",
            "terminationGracePeriodSeconds",
            "tolerations",
            "topologySpreadConstraints",
            "utilityVolumes",
            "volumes",
        ],
    },
    KnownObject {
        path: &["template", "spec", "domain"],
        fields: &[
            "chassis",
            "clock",
            "cpu",
            "devices",
            "features",
            "firmware",
            "ioThreads",
            "ioThreadsPolicy",
            "launchSecurity",
            "machine",
            "memory",
            "rebootPolicy",
            "resources",
        ],
    },
    KnownObject {
        path: &["template", "spec", "domain", "cpu"],
        fields: &[
            "cores",
            "dedicatedCpuPlacement",
            "features",
            "isolateEmulatorThread",
            "maxSockets",
            "model",
            "numa",
            "realtime",
            "sockets",
            "threads",
        ],
    },
    KnownObject {
        path: &["template", "spec", "domain", "memory"],
        fields: &["guest", "hugepages", "maxGuest", "reservedOverhead"],
    },
    KnownObject {
        path: &["template", "spec", "domain", "resources"],
        fields: &["limits", "overcommitGuestOverhead", "requests"],
    },
    KnownObject {
        path: &["template", "spec", "domain", "devices"],
        fields: &[
            "autoattachGraphicsDevice",
            "autoattachInputDevice",
            "autoattachMemBalloon",
            "autoattachPodInterface",
            "autoattachSerialConsole",
            "autoattachVSOCK",
            "blockMultiQueue",
            "clientPassthrough",
            "disableHotplug",
            "disks",
            "downwardMetrics",
            "filesystems",
            "gpus",
            "hostDevices",
            "inputs",
            "interfaces",
            "logSerialConsole",
            "networkInterfaceMultiqueue",
            "panicDevices",
            "rng",
            "sound",
            "tpm",
            "useVirtioTransitional",
            "video",
            "watchdog",
        ],
    },
];

/// Warns about fields of the template that KubeVirt would drop. It does not refuse them, because a newer
/// KubeVirt may have them.
pub(super) fn warn_about_template_fields(pool: KubeVirtPoolView<'_>, findings: &mut Findings) {
    let unknown = KNOWN.iter().flat_map(|known| {
        let fields = json_at_path(pool.machine(), known.path).as_object().into_iter().flatten();
        fields
            .filter(move |(name, value)| !value.is_null() && !known.fields.contains(&name.as_str()))
            .map(move |(name, _)| field_path(known.path, name))
    });
    for path in unknown.take(MAX_NAMED) {
        let detail = "KubeVirt 1.9 has no such field and drops it; correct its name or remove it, unless your \
                      KubeVirt is newer and has it";
        findings.warn(Rule::UnknownTemplateField, path, detail);
    }
}

fn field_path(parent: &[&str], name: &str) -> String {
    let mut path = MACHINE.to_owned();
    for field in parent.iter().chain([&name]) {
        path.push('.');
        path.push_str(field);
    }
    path
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Fields that KubeVirt has, which the simulator and the instance types are compared with.
    const INSTANCE: &str = include_str!("../../../../api/tests/fixtures/kubevirt/instance-fields.txt");

    #[test]
    fn each_field_of_an_instance_is_known() {
        let mut compared = 0;
        for line in INSTANCE.lines() {
            let names: Vec<&str> = line.split('.').map(|name| name.trim_end_matches("[]")).collect();
            for known in &KNOWN {
                let Some(path) = known.path.strip_prefix(&["template", "spec"]) else { continue };
                if let Some([name, ..]) = names.strip_prefix(path) {
                    assert!(known.fields.contains(name), "{line}");
                    compared += 1;
                }
            }
        }
        assert!(compared > 100, "only {compared} fields are compared");
    }

    #[test]
    fn only_null_equals_an_absent_field() {
        let pool = |value: Value| {
            let mut findings = Findings::default();
            let pool = json!({ "spec": { "virtualMachineTemplate": { "spec": { "runPolicy": value } } } });
            warn_about_template_fields(KubeVirtPoolView(&pool), &mut findings);
            findings.warnings.into_iter().map(|warning| warning.field).collect::<Vec<_>>()
        };
        assert_eq!(pool(Value::Null), [""; 0]);
        assert_eq!(pool(Value::from(false)), ["spec.virtualMachineTemplate.spec.runPolicy"]);
    }
}
