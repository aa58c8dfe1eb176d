use proptest::prelude::*;
use rstest::rstest;
use vmpool_platform::Platform;

use super::super::fixtures;
use super::super::objects::InstanceObject;
use super::super::platform::KubeVirt;
use super::*;

fn template() -> Value {
    fixtures::recorded_pool_spec()["virtualMachineTemplate"].clone()
}

fn edited(edit: &Value) -> Value {
    let mut template = template();
    json_patch::merge(&mut template, edit);
    template
}

/// The template with this inner spec besides its own.
fn inner(edit: &Value) -> Value {
    edited(&json!({ "spec": { "template": { "spec": edit } } }))
}

/// How two templates differ.
#[derive(Debug, PartialEq, Eq)]
enum Difference {
    None,
    /// Only in parts that a running guest does not have.
    Outside,
    Live,
    Instance,
    Storage,
}

fn difference(from: &Value, to: &Value) -> Difference {
    let (one, other) = (template_parts(from, from, &Value::Null), template_parts(to, to, &Value::Null));
    match () {
        () if one.storage != other.storage => Difference::Storage,
        () if one.instance != other.instance => Difference::Instance,
        () if one.live != other.live => Difference::Live,
        () if canonical_template(from) != canonical_template(to) => Difference::Outside,
        () => Difference::None,
    }
}

/// Whether an instance with this spec has the live parts of a template.
fn is_live_updated(template: &Value, instance: &Value) -> bool {
    let mut object = fixtures::recorded_instance();
    object["spec"] = instance["spec"].clone();
    let object: InstanceObject = serde_json::from_value(object).unwrap();
    object.live.include(&template_parts(template, template, &Value::Null).live)
}

#[rstest]
#[case::null_and_absent(json!({"hostname": null}), json!({}))]
#[case::an_empty_list_and_absent(json!({"tolerations": []}), json!({}))]
#[case::an_empty_map_and_absent(json!({"nodeSelector": {}}), json!({}))]
#[case::an_empty_text_and_absent(json!({"hostname": ""}), json!({}))]
#[case::an_empty_struct_and_absent(json!({"domain": {"cpu": {"cores": 1}, "devices": {}}}), json!({"domain": {"cpu": {"cores": 1}}}))]
#[case::false_and_absent(json!({"domain": {"cpu": {"cores": 1, "dedicatedCpuPlacement": false}}}), json!({"domain": {"cpu": {"cores": 1}}}))]
#[case::the_empty_acpi_of_go_and_absent(json!({"domain": {"features": {"acpi": {}, "apic": {}}}}), json!({"domain": {"features": {"apic": {}}}}))]
#[case::zero_and_absent(json!({"domain": {"cpu": {"cores": 1, "maxSockets": 0}}}), json!({"domain": {"cpu": {"cores": 1}}}))]
#[case::spellings_of_memory(json!({"domain": {"memory": {"guest": "1024Mi"}}}), json!({"domain": {"memory": {"guest": "1Gi"}}}))]
#[case::spellings_of_requests(
    json!({"domain": {"resources": {"requests": {"cpu": "0.5", "memory": "512Mi"}}}}),
    json!({"domain": {"resources": {"requests": {"cpu": "500m", "memory": 536_870_912}}}}))]
#[case::spellings_of_an_empty_disk(
    json!({"volumes": [{"name": "a", "emptyDisk": {"capacity": "1Gi"}}]}),
    json!({"volumes": [{"name": "a", "emptyDisk": {"capacity": "1024Mi"}}]}))]
fn equal(#[case] one: Value, #[case] other: Value) {
    assert_eq!(canonical_template(&inner(&one)), canonical_template(&inner(&other)));
    assert_eq!(difference(&inner(&one), &inner(&other)), Difference::None);
}

#[rstest]
#[case::an_empty_binding(json!({"domain": {"devices": {"interfaces": [{"name": "a", "masquerade": {}}]}}}),
    json!({"domain": {"devices": {"interfaces": [{"name": "a"}]}}}))]
#[case::an_empty_pointer(json!({"affinity": {}}), json!({}))]
#[case::an_empty_label(json!({"nodeSelector": {"a": ""}}), json!({}))]
#[case::false_in_a_pointer(json!({"domain": {"devices": {"autoattachSerialConsole": false}}}), json!({}))]
#[case::a_label_that_looks_like_a_quantity(json!({"nodeSelector": {"a": "1024"}}), json!({"nodeSelector": {"a": "1Ki"}}))]
#[case::text_that_looks_like_a_quantity(json!({"hostname": "1000"}), json!({"hostname": "1k"}))]
#[case::the_order_of_a_list(json!({"tolerations": [{"key": "a"}, {"key": "b"}]}), json!({"tolerations": [{"key": "b"}, {"key": "a"}]}))]
#[case::another_binding(json!({"domain": {"devices": {"interfaces": [{"name": "a", "masquerade": {}}]}}}),
    json!({"domain": {"devices": {"interfaces": [{"name": "a", "bridge": {}}]}}}))]
#[case::another_target_of_a_disk(json!({"domain": {"devices": {"disks": [{"name": "a", "disk": {}}]}}}),
    json!({"domain": {"devices": {"disks": [{"name": "a", "cdrom": {}}]}}}))]
#[case::a_device_without_settings(json!({"domain": {"devices": {"rng": {}}}}), json!({}))]
fn different(#[case] one: Value, #[case] other: Value) {
    assert_ne!(canonical_template(&inner(&one)), canonical_template(&inner(&other)));
    let fingerprint = |spec: &Value| KubeVirt::fingerprint(&json!({ "virtualMachineTemplate": inner(spec) }));
    assert_ne!(fingerprint(&one), fingerprint(&other));
}

#[rstest]
#[case::nothing(json!({}), Difference::None)]
#[case::ignored_metadata(json!({"metadata": {"name": "x", "finalizers": ["y"], "creationTimestamp": null}}), Difference::None)]
#[case::a_label_of_the_machine(json!({"metadata": {"labels": {"tier": "a"}}}), Difference::Outside)]
#[case::an_annotation_of_the_machine(json!({"metadata": {"annotations": {"note": "a"}}}), Difference::Outside)]
#[case::the_run_strategy(json!({"spec": {"runStrategy": "Manual"}}), Difference::Outside)]
#[case::the_instance_type(json!({"spec": {"instancetype": {"name": "large"}}}), Difference::Outside)]
#[case::a_label_of_the_instance(json!({"spec": {"template": {"metadata": {"labels": {"tier": "a"}}}}}), Difference::Instance)]
#[case::a_disk(json!({"spec": {"template": {"spec": {"domain": {"devices": {"disks": []}}}}}}), Difference::Instance)]
#[case::a_device_without_settings(json!({"spec": {"template": {"spec": {"domain": {"devices": {"rng": {}}}}}}}), Difference::Instance)]
#[case::cores(json!({"spec": {"template": {"spec": {"domain": {"cpu": {"cores": 2}}}}}}), Difference::Instance)]
#[case::sockets(json!({"spec": {"template": {"spec": {"domain": {"cpu": {"sockets": 2}}}}}}), Difference::Live)]
#[case::memory(json!({"spec": {"template": {"spec": {"domain": {"memory": {"guest": "1Gi"}}}}}}), Difference::Live)]
#[case::placement(
    json!({"spec": {"template": {"spec": {"affinity": {"nodeAffinity": {}}, "nodeSelector": {"a": "b"}, "tolerations": [{"key": "a"}]}}}}),
    Difference::Live)]
#[case::sockets_and_a_label_of_the_machine(
    json!({"metadata": {"labels": {"tier": "a"}}, "spec": {"template": {"spec": {"domain": {"cpu": {"sockets": 2}}}}}}),
    Difference::Live)]
#[case::sockets_and_cores(json!({"spec": {"template": {"spec": {"domain": {"cpu": {"sockets": 2, "cores": 2}}}}}}), Difference::Instance)]
#[case::data_volume_templates(json!({"spec": {"dataVolumeTemplates": []}}), Difference::Storage)]
#[case::storage_takes_precedence(
    json!({"metadata": {"labels": {"tier": "a"}}, "spec": {"dataVolumeTemplates": [], "template": {"spec": {"hostname": "h"}}}}),
    Difference::Storage)]
fn a_difference_requires(#[case] edit: Value, #[case] expected: Difference) {
    assert_eq!(difference(&template(), &edited(&edit)), expected);
    assert_eq!(difference(&edited(&edit), &template()), expected);
}

#[rstest]
#[case::hot_plugged(json!({"domain": {"cpu": {"sockets": 2}, "memory": {"guest": "1024Mi"}}}), true)]
#[case::not_yet(json!({"domain": {"cpu": {"sockets": 1}, "memory": {"guest": "1Gi"}}}), false)]
#[case::memory_missing(json!({"domain": {"cpu": {"sockets": 2}}}), false)]
#[case::fields_that_admission_added(
    json!({"domain": {"cpu": {"sockets": 2, "model": "host-model"}, "memory": {"guest": "1Gi"}}, "nodeSelector": {"arch": "amd64"}}), true)]
fn an_instance_is_live_updated(#[case] spec: Value, #[case] expected: bool) {
    let template = inner(&json!({ "domain": { "cpu": { "sockets": 2 }, "memory": { "guest": "1Gi" } } }));
    assert_eq!(is_live_updated(&template, &json!({ "spec": spec })), expected);
}

#[test]
fn placement_counts_as_updated_if_its_entries_are_there() {
    let template = inner(&json!({ "nodeSelector": { "a": "b" }, "tolerations": [{ "key": "a" }] }));
    let instance = |key: &str| json!({ "spec": { "nodeSelector": { "a": "b", "arch": "x" }, "tolerations": [{ "key": "z" }, { "key": key }] } });
    assert!(is_live_updated(&template, &instance("a")));
    assert!(!is_live_updated(&template, &instance("b")));
}

#[rstest]
#[case::null(json!(null))]
#[case::a_text(json!("x"))]
#[case::unexpected_types(json!({"metadata": {"labels": []}, "spec": {"template": [1], "dataVolumeTemplates": 3}}))]
fn a_template_of_any_type_can_be_compared(#[case] content: Value) {
    assert_eq!(difference(&content, &content), Difference::None);
    assert_ne!(difference(&content, &template()), Difference::None);
}

/// Trees of the fields that the comparison treats specially.
fn tree() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        Just(json!(false)),
        Just(json!(0)),
        Just(json!("")),
        Just(json!("1Gi")),
        Just(json!("1024Mi")),
        Just(json!([])),
        Just(json!({})),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let key = prop::sample::select(vec![
            "labels",
            "nodeSelector",
            "requests",
            "memory",
            "guest",
            "cores",
            "resources",
            "masquerade",
            "template",
            "spec",
        ]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map(key.prop_map(str::to_owned), inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn the_canonical_form_is_its_own(spec in tree()) {
        let once = canonical_template(&json!({ "spec": spec }));
        prop_assert_eq!(canonical_template(&once), once);
    }

    #[test]
    fn a_difference_does_not_depend_on_the_direction(one in tree(), other in tree()) {
        let (one, other) = (json!({ "spec": one }), json!({ "spec": other }));
        prop_assert_eq!(difference(&one, &other), difference(&other, &one));
        prop_assert_eq!(difference(&one, &one), Difference::None);
    }
}

#[test]
fn the_annotation_that_refreshes_an_instance_type_is_a_change_of_the_template() {
    let refresh = |value: &str| {
        edited(&json!({ "metadata": { "annotations": { "vmpool.dev/refresh-instancetype": value } } }))
    };
    assert_eq!(difference(&template(), &refresh("1")), Difference::Outside);
    assert_eq!(difference(&refresh("1"), &refresh("2")), Difference::Outside);
    let forged = edited(&json!({ "metadata": { "annotations": { "vmpool.dev/protected-until": "x" } } }));
    assert_eq!(difference(&template(), &forged), Difference::None);
}
