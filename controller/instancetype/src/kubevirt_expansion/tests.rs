use rstest::rstest;
use serde_json::json;

use super::*;
use crate::defaults::InstanceDefaults;
use crate::expand::expand_machine;
use crate::start::Binding;
use crate::testing::types_from_sketches;

const VM: MachineLocation = MachineLocation::VirtualMachine;
const INSTANCETYPE: &str = "VirtualMachineInstancetype";
const PREFERENCE: &str = "VirtualMachinePreference";

/// The spec of an instance, expanded with an instance type and a preference.
fn expanded(
    instancetype: Option<Value>,
    preference: Option<Value>,
    spec: Value,
) -> Result<Value, ExpandError> {
    let mut machine = json!({ "spec": { "template": { "spec": spec } } });
    for (field, name, kind, given) in
        [("instancetype", "t", INSTANCETYPE, &instancetype), ("preference", "p", PREFERENCE, &preference)]
    {
        if given.is_some() {
            machine["spec"][field] = json!({ "name": name, "kind": kind });
        }
    }
    let types = types_from_sketches(
        instancetype.map(|spec| (INSTANCETYPE, "t", spec)),
        preference.map(|spec| (PREFERENCE, "p", spec)),
    );
    let defaults = InstanceDefaults { cpu_request: Some("250m".to_owned()), ..InstanceDefaults::default() };
    let settings = InstanceSettings { interface: Some(Binding::Bridge), defaults: Some(defaults) };
    let expanded = expand_machine_as_kubevirt(&machine, &types, &settings, VM)?;
    Ok(expanded["spec"]["template"]["spec"].clone())
}

fn preferred(preference: Value, spec: Value) -> Value {
    expanded(None, Some(preference), spec).unwrap()
}

#[test]
fn no_input_device_is_added_and_none_gets_a_bus() {
    let spec = json!({"domain": {"devices": {"inputs": [{"name": "mine"}]}}});
    let wanted = json!({"devices": {"preferredAutoattachInputDevice": true}});
    assert_eq!(
        preferred(wanted.clone(), spec.clone())["domain"]["devices"]["inputs"],
        json!([{"name": "mine"}])
    );
    assert_eq!(preferred(wanted, json!({}))["domain"]["devices"].get("inputs"), None);
}

#[test]
fn the_default_interface_comes_before_the_preference() {
    let spec = preferred(json!({"devices": {"preferredAutoattachPodInterface": false}}), json!({}));
    assert_eq!(spec["domain"]["devices"]["interfaces"], json!([{"name": "default", "bridge": {}}]));
}

#[rstest]
#[case::none(json!({}), json!({"sockets": 1, "cores": 1, "threads": 1}))]
#[case::a_part(json!({"cpu": {"cores": 2}}), json!({"cores": 2}))]
#[case::a_limit(json!({"resources": {"limits": {"cpu": "1500m"}}}), json!({"sockets": 2, "cores": 1, "threads": 1}))]
fn a_topology_is_filled_only_as_a_whole(#[case] domain: Value, #[case] cpu: Value) {
    assert_eq!(preferred(json!({}), json!({ "domain": domain }))["domain"]["cpu"], cpu);
}

#[rstest]
#[case::the_limit(json!({"limits": {"cpu": "2"}}), json!("2"))]
#[case::of_zero(json!({"limits": {"cpu": "2"}, "requests": {"cpu": "0"}}), json!("2"))]
#[case::another(json!({"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}), json!("1"))]
#[case::the_configured(json!({}), json!("250m"))]
fn a_cpu_request_equals_the_limit(#[case] resources: Value, #[case] request: Value) {
    let spec = preferred(json!({}), json!({"domain": {"resources": resources}}));
    assert_eq!(spec["domain"]["resources"]["requests"]["cpu"], request);
}

#[test]
fn a_memory_limit_is_no_request() {
    let spec = preferred(json!({}), json!({"domain": {"resources": {"limits": {"memory": "2Gi"}}}}));
    assert_eq!(spec["domain"]["memory"], json!({"guest": "2Gi"}));
    assert_eq!(spec["domain"]["resources"]["requests"].get("memory"), None);
    assert_eq!(preferred(json!({}), json!({}))["domain"]["memory"], json!({}));
}

#[test]
fn the_port_of_a_registry_counts_as_a_tag() {
    let volumes = json!([{"name": "a", "containerDisk": {"image": "registry:5000/disk"}}]);
    let spec = preferred(json!({}), json!({ "volumes": volumes }));
    assert_eq!(spec["volumes"][0]["containerDisk"]["imagePullPolicy"], "IfNotPresent");
}

#[test]
fn the_request_of_an_instance_type_with_overcommit_is_that_of_kubevirt() {
    let instancetype = json!({"memory": {"guest": "1Gi", "overcommitPercent": 15}});
    let spec = expanded(Some(instancetype), None, json!({})).unwrap();
    assert_eq!(spec["domain"]["resources"]["requests"]["memory"], "912680576");
}

#[test]
fn neither_requirements_nor_the_spread_are_checked() {
    let preference = json!({
        "cpu": {"preferredCPUTopology": "spread"},
        "requirements": {"cpu": {"guest": 16}, "memory": {"guest": "64Gi"}, "architecture": "s390x"},
    });
    let spec = expanded(Some(json!({"cpu": {"guest": 3}})), Some(preference), json!({})).unwrap();
    assert_eq!(spec["domain"]["cpu"], json!({"sockets": 1, "cores": 2, "threads": 1}));
}

#[rstest]
#[case::firmware("firmware", json!({"preferredUseEfi": false}), "/domain/firmware", json!({"bootloader": {}}))]
#[case::enlightenments("features", json!({"preferredHyperv": {}}), "/domain/features", json!({"hyperv": {}}))]
#[case::a_clock("clock", json!({}), "/domain/clock", json!({}))]
fn a_preference_without_effect_creates_an_object(
    #[case] part: &str,
    #[case] preferred: Value,
    #[case] pointer: &str,
    #[case] expected: Value,
) {
    let spec = self::preferred(json!({ (part): preferred }), json!({}));
    assert_eq!(spec.pointer(pointer), Some(&expected));
}

#[test]
fn a_storage_class_is_left_to_admission() {
    let machine = json!({ "spec": {
        "preference": {"name": "p", "kind": PREFERENCE},
        "dataVolumeTemplates": [{"metadata": {"name": "root"}, "spec": {"storage": {}}}],
    } });
    let preference = json!({"volumes": {"preferredStorageClassName": "fast"}});
    let types = types_from_sketches(None, Some((PREFERENCE, "p", preference)));
    let settings = InstanceSettings::default();
    let class = |expanded: Value| expanded["spec"]["dataVolumeTemplates"][0]["spec"]["storage"].clone();
    let ours = expand_machine(&machine, &types, &settings, VM).unwrap();
    assert_eq!(class(ours), json!({"storageClassName": "fast"}));
    let expanded = expand_machine_as_kubevirt(&machine, &types, &settings, VM).unwrap();
    assert_eq!(class(expanded), json!({}));
}
