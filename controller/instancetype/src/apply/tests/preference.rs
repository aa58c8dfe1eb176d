//! Everything except for devices and firmware.

use super::*;

/// A default fills an empty field, and leaves the user's value.
#[rstest]
#[case::machine_type(json!({"machine": {"preferredMachineType": "q35"}}), "/domain/machine/type", json!("q35"), json!("pc"))]
#[case::subdomain(json!({"preferredSubdomain": "sub"}), "/subdomain", json!("sub"), json!("mine"))]
#[case::grace_period(json!({"preferredTerminationGracePeriodSeconds": 60}), "/terminationGracePeriodSeconds", json!(60), json!(0))]
#[case::architecture(json!({"preferredArchitecture": "arm64"}), "/architecture", json!("arm64"), json!("amd64"))]
#[case::launch_security(json!({"preferredLaunchSecurity": {"tdx": {}}}), "/domain/launchSecurity", json!({"tdx": {}}), json!({"snp": {}}))]
#[case::apic(json!({"features": {"preferredApic": {"enabled": true}}}), "/domain/features/apic", json!({"enabled": true}), json!({"enabled": false}))]
#[case::kvm(json!({"features": {"preferredKvm": {"hidden": true}}}), "/domain/features/kvm", json!({"hidden": true}), json!({}))]
#[case::pvspinlock(json!({"features": {"preferredPvspinlock": {}}}), "/domain/features/pvspinlock", json!({}), json!({"enabled": false}))]
#[case::smm(json!({"features": {"preferredSmm": {}}}), "/domain/features/smm", json!({}), json!({"enabled": false}))]
#[case::utc(json!({"clock": {"preferredClockOffset": {"utc": {"offsetSeconds": 1}}}}), "/domain/clock/utc", json!({"offsetSeconds": 1}), json!({}))]
#[case::time_zone(json!({"clock": {"preferredClockOffset": {"timezone": "UTC"}}}), "/domain/clock/timezone", json!("UTC"), json!("CET"))]
#[case::timer(json!({"clock": {"preferredTimer": {"hpet": {"present": false}}}}), "/domain/clock/timer",
    json!({"hpet": {"present": false}}), json!({"rtc": {}}))]
fn a_default_fills_an_empty_field(
    #[case] preferences: Value,
    #[case] pointer: &str,
    #[case] default: Value,
    #[case] mine: Value,
) {
    assert_eq!(preferred(json!({}), preferences.clone()).pointer(pointer), Some(&default));
    let set = |value: Value| {
        pointer.rsplit('/').filter(|key| !key.is_empty()).fold(value, |value, key| json!({ key: value }))
    };
    assert_eq!(preferred(set(mine.clone()), preferences.clone()).pointer(pointer), Some(&mine));
    assert_eq!(preferred(set(Value::Null), preferences).pointer(pointer), Some(&default), "null is empty");
}

#[rstest]
#[case::machine_type(json!({"machine": {"preferredMachineType": "q35"}}), json!({"domain": {"machine": {"type": ""}}}), "/domain/machine/type", json!("q35"))]
#[case::subdomain(json!({"preferredSubdomain": "sub"}), json!({"subdomain": ""}), "/subdomain", json!("sub"))]
#[case::architecture(json!({"preferredArchitecture": "arm64"}), json!({"architecture": ""}), "/architecture", json!("arm64"))]
fn an_empty_text_is_an_empty_field(
    #[case] preferences: Value,
    #[case] spec: Value,
    #[case] pointer: &str,
    #[case] default: Value,
) {
    assert_eq!(preferred(spec, preferences).pointer(pointer), Some(&default));
}

#[rstest]
#[case::absent(json!({}), json!([{"name": "a", "policy": "require"}, {"name": "b"}]))]
#[case::one_of_them(json!({"domain": {"cpu": {"features": [{"name": "b", "policy": "disable"}, {"name": "c"}]}}}),
    json!([{"name": "b", "policy": "disable"}, {"name": "c"}, {"name": "a", "policy": "require"}]))]
fn cpu_features_are_appended_by_name(#[case] spec: Value, #[case] expected: Value) {
    let preferences =
        json!({"cpu": {"preferredCPUFeatures": [{"name": "a", "policy": "require"}, {"name": "b"}]}});
    assert_eq!(preferred(spec, preferences)["domain"]["cpu"]["features"], expected);
}

#[test]
fn without_preferred_cpu_features_no_cpu_is_created() {
    assert_eq!(preferred(json!({}), json!({"cpu": {"preferredCPUTopology": "cores"}})), json!({}));
}

#[rstest]
#[case::set(json!({"domain": {"features": {"acpi": {"enabled": true}}}}))]
#[case::unset(json!({}))]
fn acpi_is_overwritten(#[case] spec: Value) {
    let spec = preferred(spec, json!({"features": {"preferredAcpi": {"enabled": false}}}));
    assert_eq!(spec["domain"]["features"]["acpi"], json!({"enabled": false}));
}

#[test]
fn a_preference_without_acpi_leaves_it() {
    let spec = json!({"domain": {"features": {"acpi": {"enabled": true}}}});
    assert_eq!(preferred(spec.clone(), json!({"features": {}})), spec);
}

#[test]
fn hyperv_is_filled_per_enlightenment() {
    let names = [
        "relaxed",
        "vapic",
        "spinlocks",
        "vpindex",
        "runtime",
        "synic",
        "synictimer",
        "reset",
        "vendorid",
        "frequencies",
        "reenlightenment",
        "tlbflush",
        "ipi",
        "evmcs",
    ];
    let all: Value = names.iter().map(|name| ((*name).to_owned(), json!({"enabled": true}))).collect();
    let preferences = json!({"features": {"preferredHyperv": all}});
    assert_eq!(preferred(json!({}), preferences.clone())["domain"]["features"]["hyperv"], all);
    for name in names {
        let spec = json!({"domain": {"features": {"hyperv": {name: {"enabled": false}}}}});
        let mut expected = all.clone();
        expected[name] = json!({"enabled": false});
        assert_eq!(preferred(spec, preferences.clone())["domain"]["features"]["hyperv"], expected, "{name}");
    }
}

#[test]
fn parts_of_an_enlightenment_are_those_of_the_preference() {
    let flush = json!({"direct": {}, "extended": {"enabled": false}});
    let preferences = json!({"features": {"preferredHyperv": {"tlbflush": flush}}});
    assert_eq!(preferred(json!({}), preferences)["domain"]["features"]["hyperv"], json!({"tlbflush": flush}));
}

#[rstest]
#[case::utc(json!({"utc": {}}))]
#[case::time_zone(json!({"timezone": "CET"}))]
fn a_clock_with_any_offset_keeps_it(#[case] clock: Value) {
    let preferences =
        json!({"clock": {"preferredClockOffset": {"utc": {"offsetSeconds": 1}, "timezone": "UTC"}}});
    let spec = json!({"domain": {"clock": clock}});
    assert_eq!(preferred(spec.clone(), preferences), spec);
}

#[test]
fn timers_are_not_merged() {
    let spec = json!({"domain": {"clock": {"timer": {}}}});
    let preferences = json!({"clock": {"preferredTimer": {"hpet": {"present": false}}}});
    assert_eq!(preferred(spec.clone(), preferences), spec);
}

#[test]
fn annotations_that_are_absent_are_added() {
    let template = InstanceTemplate::new(json!({"metadata": {"annotations": {"a": "mine"}}})).unwrap();
    let preference = typed_preference_spec(json!({"annotations": {"a": "preferred", "b": "preferred"}}));
    let applied =
        apply_instancetype_and_preference(&template, None, Some(&preference), MachineLocation::Instance)
            .unwrap();
    assert_eq!(applied.as_value()["metadata"]["annotations"], json!({"a": "mine", "b": "preferred"}));
}
