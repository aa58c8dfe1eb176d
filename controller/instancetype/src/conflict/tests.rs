use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::testing::kubevirt::unknown_fields;
use crate::testing::typed_instancetype_spec;

fn found(instancetype: &InstancetypeSpec, spec: Value, location: MachineLocation) -> Vec<String> {
    let template = InstanceTemplate::new(json!({"spec": spec})).unwrap();
    let conflicts = find_conflicts(instancetype, &template, location).unwrap();
    conflicts.map(|conflicts| conflicts.paths().to_vec()).unwrap_or_default()
}

/// Each field conflicts if the instance type sets it, and only then.
#[rstest]
#[case::node_selector(json!({"nodeSelector": {"a": "b"}}), json!({"nodeSelector": {"c": "d"}}), "nodeSelector")]
#[case::an_empty_node_selector(json!({"nodeSelector": {}}), json!({"nodeSelector": {"c": "d"}}), "nodeSelector")]
#[case::scheduler(json!({"schedulerName": "a"}), json!({"schedulerName": "b"}), "schedulerName")]
#[case::model(json!({"cpu": {"model": "a"}}), json!({"domain": {"cpu": {"model": "b"}}}), "domain.cpu.model")]
#[case::dedicated(json!({"cpu": {"dedicatedCPUPlacement": true}}), json!({"domain": {"cpu": {"dedicatedCpuPlacement": true}}}),
    "domain.cpu.dedicatedCPUPlacement")]
#[case::dedicated_set_to_false_by_the_type(json!({"cpu": {"dedicatedCPUPlacement": false}}),
    json!({"domain": {"cpu": {"dedicatedCpuPlacement": true}}}), "domain.cpu.dedicatedCPUPlacement")]
#[case::emulator(json!({"cpu": {"isolateEmulatorThread": false}}), json!({"domain": {"cpu": {"isolateEmulatorThread": true}}}),
    "domain.cpu.isolateEmulatorThread")]
#[case::numa(json!({"cpu": {"numa": {"guestMappingPassthrough": {}}}}), json!({"domain": {"cpu": {"numa": {}}}}), "domain.cpu.numa")]
#[case::realtime(json!({"cpu": {"realtime": {"mask": "0"}}}), json!({"domain": {"cpu": {"realtime": {}}}}), "domain.cpu.realtime")]
#[case::hugepages(json!({"memory": {"hugepages": {"pageSize": "2Mi"}}}), json!({"domain": {"memory": {"hugepages": {"pageSize": "1Gi"}}}}),
    "domain.memory.hugepages")]
#[case::max_guest(json!({"memory": {"maxGuest": "4Gi"}}), json!({"domain": {"memory": {"maxGuest": "4Gi"}}}), "domain.memory.maxGuest")]
#[case::io_threads(json!({"ioThreads": {"supplementalPoolThreadCount": 2}}),
    json!({"domain": {"ioThreads": {"supplementalPoolThreadCount": 4}}}), "domain.ioThreads.supplementalPoolThreadCount")]
#[case::io_threads_policy(json!({"ioThreadsPolicy": "auto"}), json!({"domain": {"ioThreadsPolicy": "shared"}}), "domain.ioThreadsPolicy")]
#[case::launch_security(json!({"launchSecurity": {"sev": {}}}), json!({"domain": {"launchSecurity": {"snp": {}}}}), "domain.launchSecurity")]
#[case::gpus(json!({"gpus": [{"name": "a"}]}), json!({"domain": {"devices": {"gpus": [{"name": "b"}]}}}), "domain.devices.gpus")]
#[case::host_devices(json!({"hostDevices": [{"name": "a"}]}), json!({"domain": {"devices": {"hostDevices": [{"name": "b"}]}}}),
    "domain.devices.hostDevices")]
fn a_field_of_both_conflicts(#[case] more: Value, #[case] spec: Value, #[case] path: &str) {
    assert_eq!(unknown_fields(&spec), [""; 0]);
    let path = format!("spec.template.spec.{path}");
    assert_eq!(found(&typed_instancetype_spec(more), spec.clone(), MachineLocation::VirtualMachine), [path]);
    assert!(found(&typed_instancetype_spec(json!({})), spec, MachineLocation::VirtualMachine).is_empty());
}

#[rstest]
#[case::cpu_request(json!({"resources": {"requests": {"cpu": "1"}}}), "domain.resources.requests.cpu")]
#[case::cpu_limit(json!({"resources": {"limits": {"cpu": 1}}}), "domain.resources.limits.cpu")]
#[case::sockets(json!({"cpu": {"sockets": 1}}), "domain.cpu.sockets")]
#[case::cores(json!({"cpu": {"cores": 1}}), "domain.cpu.cores")]
#[case::threads(json!({"cpu": {"threads": 1}}), "domain.cpu.threads")]
#[case::memory(json!({"memory": {"guest": "1Gi"}}), "domain.memory.guest")]
#[case::memory_request(json!({"resources": {"requests": {"memory": "1Gi"}}}), "domain.resources.requests.memory")]
#[case::memory_limit(json!({"resources": {"limits": {"memory": "1Gi"}}}), "domain.resources.limits.memory")]
fn a_size_of_the_machine_always_conflicts(#[case] domain: Value, #[case] path: &str) {
    assert_eq!(unknown_fields(&json!({ "domain": domain })), [""; 0]);
    let paths =
        found(&typed_instancetype_spec(json!({})), json!({"domain": domain}), MachineLocation::Instance);
    assert_eq!(paths, [format!("spec.{path}")]);
}

#[rstest]
#[case::zero_sockets(json!({"cpu": {"sockets": 0, "cores": 0, "threads": 0}}))]
#[case::false_flags(json!({"cpu": {"dedicatedCpuPlacement": false, "isolateEmulatorThread": false}}))]
#[case::an_empty_model(json!({"cpu": {"model": ""}}))]
#[case::null(json!({"memory": {"guest": null}, "cpu": {"numa": null}}))]
#[case::empty_lists(json!({"devices": {"gpus": [], "hostDevices": []}}))]
#[case::max_sockets_are_overwritten(json!({"cpu": {"maxSockets": 8}}))]
#[case::other_resources(json!({"resources": {"requests": {"ephemeral-storage": "1Gi"}, "overcommitGuestOverhead": true}}))]
#[case::no_domain(json!(null))]
fn an_unset_field_does_not_conflict(#[case] domain: Value) {
    let everything = json!({
        "cpu": {"model": "a", "dedicatedCPUPlacement": true, "isolateEmulatorThread": true, "numa": {}, "maxSockets": 4},
        "gpus": [{"name": "a"}], "hostDevices": [{"name": "a"}],
    });
    assert!(
        found(&typed_instancetype_spec(everything), json!({"domain": domain}), MachineLocation::Instance)
            .is_empty()
    );
}

#[rstest]
#[case::guest_first(&["guest", "hugepages", "maxGuest", "requests", "limits"], "domain.memory.guest")]
#[case::then_hugepages(&["hugepages", "maxGuest", "requests", "limits"], "domain.memory.hugepages")]
#[case::then_the_maximum(&["maxGuest", "requests", "limits"], "domain.memory.maxGuest")]
#[case::then_the_request(&["requests", "limits"], "domain.resources.requests.memory")]
fn only_the_first_conflict_about_memory_is_reported(#[case] set: &[&str], #[case] path: &str) {
    let instancetype =
        typed_instancetype_spec(json!({"memory": {"maxGuest": "4Gi", "hugepages": {"pageSize": "2Mi"}}}));
    let mut domain = json!({"memory": {}, "resources": {}});
    for field in set {
        match *field {
            "requests" | "limits" => domain["resources"][*field] = json!({"memory": "1Gi"}),
            field => domain["memory"][field] = json!("1Gi"),
        }
    }
    assert_eq!(
        found(&instancetype, json!({"domain": domain}), MachineLocation::Instance),
        [format!("spec.{path}")]
    );
}

#[test]
fn all_other_conflicts_are_reported_together_in_the_order_of_application() {
    let instancetype = typed_instancetype_spec(json!({"nodeSelector": {"a": "b"}, "gpus": [{"name": "a"}]}));
    let spec = json!({
        "nodeSelector": {"c": "d"},
        "domain": {
            "devices": {"gpus": [{"name": "b"}]},
            "memory": {"guest": "1Gi"},
            "cpu": {"threads": 1, "sockets": 1},
            "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
        },
    });
    let paths = [
        "nodeSelector",
        "domain.resources.limits.cpu",
        "domain.cpu.sockets",
        "domain.cpu.threads",
        "domain.memory.guest",
        "domain.devices.gpus",
    ];
    let expected = paths.map(|path| format!("spec.virtualMachineTemplate.spec.template.spec.{path}"));
    assert_eq!(found(&instancetype, spec, MachineLocation::Pool), expected);
}

#[test]
fn annotations_with_another_value_conflict_in_the_order_of_their_keys() {
    let instancetype = typed_instancetype_spec(json!({"annotations": {"c": "1", "b": "1", "a": "1"}}));
    let template = json!({"metadata": {"annotations": {"b": "2", "a": "2", "c": "1", "d": "1"}}, "spec": {}});
    let template = InstanceTemplate::new(template).unwrap();
    let conflicts = find_conflicts(&instancetype, &template, MachineLocation::Pool).unwrap().unwrap();
    assert_eq!(conflicts.paths(), ["annotations.a", "annotations.b"]);
    assert!(conflicts.to_string().ends_with(": annotations.a, annotations.b"), "{conflicts}");
    let causes = conflicts.causes();
    assert_eq!(causes[0].field, "annotations.a");
    assert_eq!(causes[0].reason, crate::fields::CauseReason::FieldValueInvalid);
}

#[test]
fn a_malformed_machine_is_an_error_with_the_whole_path() {
    let template = InstanceTemplate::new(json!({"spec": {"domain": {"cpu": "all"}}})).unwrap();
    let error =
        find_conflicts(&typed_instancetype_spec(json!({})), &template, MachineLocation::VirtualMachine)
            .unwrap_err();
    assert_eq!(error.path, "spec.template.spec.domain.cpu");
}
