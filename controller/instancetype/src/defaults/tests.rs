use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::testing::kubevirt::unknown_fields;

fn defaults() -> InstanceDefaults {
    InstanceDefaults {
        architecture: "amd64".to_owned(),
        machine_types: [("amd64", "q35"), ("arm64", "virt")]
            .map(|(architecture, machine)| (architecture.to_owned(), machine.to_owned()))
            .into(),
        cpu_request: Some("100m".to_owned()),
        eviction_strategy: Some("LiveMigrate".to_owned()),
    }
}

fn filled(mut spec: Value) -> Value {
    assert_eq!(unknown_fields(&spec), [""; 0]);
    defaults().fill(&mut spec).unwrap();
    spec
}

#[test]
fn an_empty_instance_gets_all_defaults() {
    let expected = json!({
        "architecture": "amd64",
        "evictionStrategy": "LiveMigrate",
        "domain": {
            "machine": {"type": "q35"},
            "cpu": {"sockets": 1, "cores": 1, "threads": 1},
            "resources": {"requests": {"cpu": "100m"}},
        },
    });
    assert_eq!(filled(json!({})), expected);
}

#[test]
fn without_configuration_only_the_topology_is_filled() {
    let mut spec = json!({});
    InstanceDefaults::default().fill(&mut spec).unwrap();
    assert_eq!(spec, json!({"domain": {"cpu": {"sockets": 1, "cores": 1, "threads": 1}}}));
}

#[rstest]
#[case::architecture(json!({"architecture": "arm64"}), "/architecture", json!("arm64"))]
#[case::the_machine_type_follows_it(json!({"architecture": "arm64"}), "/domain/machine/type", json!("virt"))]
#[case::machine_type(json!({"domain": {"machine": {"type": "pc"}}}), "/domain/machine/type", json!("pc"))]
#[case::eviction(json!({"evictionStrategy": "None"}), "/evictionStrategy", json!("None"))]
#[case::cpu_request(json!({"domain": {"resources": {"requests": {"cpu": 2}}}}), "/domain/resources/requests/cpu", json!(2))]
#[case::guest(json!({"domain": {"memory": {"guest": "1Gi"}, "resources": {"requests": {"memory": "2Gi"}}}}), "/domain/memory/guest", json!("1Gi"))]
fn a_set_field_is_left_alone(#[case] spec: Value, #[case] pointer: &str, #[case] value: Value) {
    assert_eq!(filled(spec).pointer(pointer), Some(&value));
}

#[rstest]
#[case::dedicated(json!({"cpu": {"dedicatedCpuPlacement": true}}))]
#[case::limited(json!({"resources": {"limits": {"cpu": "1"}}}))]
fn dedicated_and_limited_cpus_get_no_request(#[case] domain: Value) {
    assert_eq!(filled(json!({ "domain": domain })).pointer("/domain/resources/requests/cpu"), None);
}

#[rstest]
#[case::request(json!({"resources": {"requests": {"memory": "1Gi"}, "limits": {"memory": "2Gi"}}}), json!("1Gi"))]
#[case::limit(json!({"resources": {"limits": {"memory": "2Gi"}}}), json!("2Gi"))]
#[case::a_request_of_zero_is_none(json!({"resources": {"requests": {"memory": 0}, "limits": {"memory": "2Gi"}}}), json!("2Gi"))]
#[case::hugepages(json!({"memory": {"hugepages": {"pageSize": "1Gi"}}}), json!("1Gi"))]
#[case::none(json!({}), json!(null))]
fn the_guest_sees_the_requested_memory(#[case] domain: Value, #[case] guest: Value) {
    assert_eq!(filled(json!({ "domain": domain }))["domain"]["memory"]["guest"], guest);
}

#[rstest]
#[case::request(json!({"resources": {"requests": {"cpu": "2"}}}), (2, 1, 1))]
#[case::limit(json!({"resources": {"limits": {"cpu": 4}}}), (4, 1, 1))]
#[case::the_limit_counts_before_the_request(json!({"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "4"}}}), (4, 1, 1))]
#[case::a_part_of_a_cpu_is_rounded_up(json!({"resources": {"requests": {"cpu": "1500m"}}}), (2, 1, 1))]
#[case::no_cpu_is_one_socket(json!({"resources": {"requests": {"cpu": "0"}}}), (1, 1, 1))]
#[case::a_part_of_the_topology(json!({"cpu": {"cores": 4}, "resources": {"requests": {"cpu": "2"}}}), (1, 4, 1))]
#[case::all(json!({"cpu": {"sockets": 2, "cores": 3, "threads": 4}}), (2, 3, 4))]
fn sockets_follow_the_limit_or_the_request(#[case] domain: Value, #[case] expected: (u32, u32, u32)) {
    let spec = filled(json!({ "domain": domain }));
    let cpu = &spec["domain"]["cpu"];
    let (sockets, cores, threads) = expected;
    assert_eq!(
        (&cpu["sockets"], &cpu["cores"], &cpu["threads"]),
        (&json!(sockets), &json!(cores), &json!(threads))
    );
}

#[rstest]
#[case::no_tag("registry:5000/disk", "Always")]
#[case::latest("disk:latest", "Always")]
#[case::a_tag("registry:5000/disk:v1", "IfNotPresent")]
#[case::a_digest("disk@sha256:00", "IfNotPresent")]
fn images_whose_tag_can_move_are_always_pulled(#[case] image: &str, #[case] policy: &str) {
    let volumes =
        |disk: Value| filled(json!({"volumes": [{"name": "a", "containerDisk": disk}]}))["volumes"].clone();
    let expected = json!([{"name": "a", "containerDisk": {"image": image, "imagePullPolicy": policy}}]);
    assert_eq!(volumes(json!({ "image": image })), expected);
    let never = json!({"image": image, "imagePullPolicy": "Never"});
    assert_eq!(volumes(never.clone()), json!([{"name": "a", "containerDisk": never}]));
}

#[test]
fn other_volumes_get_no_pull_policy() {
    assert_eq!(filled(json!({"volumes": [{"name": "a"}]}))["volumes"], json!([{"name": "a"}]));
}

#[test]
fn inputs_are_usb_tablets() {
    let spec = filled(
        json!({"domain": {"devices": {"inputs": [{"name": "a"}, {"bus": "virtio", "type": "keyboard"}]}}}),
    );
    let expected =
        json!([{"name": "a", "bus": "usb", "type": "tablet"}, {"bus": "virtio", "type": "keyboard"}]);
    assert_eq!(spec["domain"]["devices"]["inputs"], expected);
}
