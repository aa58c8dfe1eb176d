use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Map, Value, json};
use vmpool_engine::revisions::Fingerprint;
use vmpool_instancetype::encoding::FieldEncoding;
use vmpool_platform::Platform;

use super::super::canonical_values::canonical_value;
use super::super::platform::KubeVirt;
use super::super::template::template_parts;
use super::*;

/// The bools and numbers of a machine template that are pointers, without those of metadata. Source: as that
/// of the tables.
const POINTERS: &[&str] = &[
    "spec.dataVolumeTemplates[].spec.preallocation",
    "spec.dataVolumeTemplates[].spec.source.imageio.insecureSkipVerify",
    "spec.running",
    "spec.template.spec.domain.clock.timer.hpet.present",
    "spec.template.spec.domain.clock.timer.hyperv.present",
    "spec.template.spec.domain.clock.timer.kvm.present",
    "spec.template.spec.domain.clock.timer.pit.present",
    "spec.template.spec.domain.clock.timer.rtc.present",
    "spec.template.spec.domain.clock.utc.offsetSeconds",
    "spec.template.spec.domain.devices.autoattachGraphicsDevice",
    "spec.template.spec.domain.devices.autoattachInputDevice",
    "spec.template.spec.domain.devices.autoattachMemBalloon",
    "spec.template.spec.domain.devices.autoattachPodInterface",
    "spec.template.spec.domain.devices.autoattachSerialConsole",
    "spec.template.spec.domain.devices.autoattachVSOCK",
    "spec.template.spec.domain.devices.blockMultiQueue",
    "spec.template.spec.domain.devices.disks[].blockSize.custom.discardGranularity",
    "spec.template.spec.domain.devices.disks[].blockSize.matchVolume.enabled",
    "spec.template.spec.domain.devices.disks[].bootOrder",
    "spec.template.spec.domain.devices.disks[].cdrom.readonly",
    "spec.template.spec.domain.devices.disks[].changedBlockTracking",
    "spec.template.spec.domain.devices.disks[].dedicatedIOThread",
    "spec.template.spec.domain.devices.disks[].shareable",
    "spec.template.spec.domain.devices.gpus[].virtualGPUOptions.display.enabled",
    "spec.template.spec.domain.devices.gpus[].virtualGPUOptions.display.ramFB.enabled",
    "spec.template.spec.domain.devices.interfaces[].bootOrder",
    "spec.template.spec.domain.devices.logSerialConsole",
    "spec.template.spec.domain.devices.networkInterfaceMultiqueue",
    "spec.template.spec.domain.devices.tpm.enabled",
    "spec.template.spec.domain.devices.tpm.persistent",
    "spec.template.spec.domain.devices.useVirtioTransitional",
    "spec.template.spec.domain.features.acpi.enabled",
    "spec.template.spec.domain.features.apic.enabled",
    "spec.template.spec.domain.features.hyperv.evmcs.enabled",
    "spec.template.spec.domain.features.hyperv.frequencies.enabled",
    "spec.template.spec.domain.features.hyperv.ipi.enabled",
    "spec.template.spec.domain.features.hyperv.reenlightenment.enabled",
    "spec.template.spec.domain.features.hyperv.relaxed.enabled",
    "spec.template.spec.domain.features.hyperv.reset.enabled",
    "spec.template.spec.domain.features.hyperv.runtime.enabled",
    "spec.template.spec.domain.features.hyperv.spinlocks.enabled",
    "spec.template.spec.domain.features.hyperv.spinlocks.spinlocks",
    "spec.template.spec.domain.features.hyperv.synic.enabled",
    "spec.template.spec.domain.features.hyperv.synictimer.direct.enabled",
    "spec.template.spec.domain.features.hyperv.synictimer.enabled",
    "spec.template.spec.domain.features.hyperv.tlbflush.direct.enabled",
    "spec.template.spec.domain.features.hyperv.tlbflush.enabled",
    "spec.template.spec.domain.features.hyperv.tlbflush.extended.enabled",
    "spec.template.spec.domain.features.hyperv.vapic.enabled",
    "spec.template.spec.domain.features.hyperv.vendorid.enabled",
    "spec.template.spec.domain.features.hyperv.vpindex.enabled",
    "spec.template.spec.domain.features.hypervPassthrough.enabled",
    "spec.template.spec.domain.features.pvspinlock.enabled",
    "spec.template.spec.domain.features.smm.enabled",
    "spec.template.spec.domain.firmware.bootloader.bios.useSerial",
    "spec.template.spec.domain.firmware.bootloader.efi.persistent",
    "spec.template.spec.domain.firmware.bootloader.efi.secureBoot",
    "spec.template.spec.domain.ioThreads.supplementalPoolThreadCount",
    "spec.template.spec.domain.launchSecurity.sev.policy.encryptedState",
    "spec.template.spec.terminationGracePeriodSeconds",
    "spec.template.spec.tolerations[].tolerationSeconds",
    "spec.template.spec.topologySpreadConstraints[].minDomains",
    "spec.template.spec.volumes[].configMap.optional",
    "spec.template.spec.volumes[].containerPath.readOnly",
    "spec.template.spec.volumes[].downwardAPI.fields[].mode",
    "spec.template.spec.volumes[].hostDisk.shared",
    "spec.template.spec.volumes[].secret.optional",
];

/// All fields of a kind with their paths from the root.
fn fields_of(kind: &FieldEncodings, root: &str) -> Vec<(String, FieldEncoding)> {
    let path = |field: &str| if root.is_empty() { field.to_owned() } else { format!("{root}.{field}") };
    let own = kind.fields.iter().map(|(field, encoding)| (path(field), *encoding));
    let embedded = kind.embedded.iter().flat_map(|(field, kind)| fields_of(kind, &path(field)));
    own.chain(embedded).collect()
}

fn fields() -> Vec<(String, FieldEncoding)> {
    fields_of(&TEMPLATE, "")
}

/// The values of a field that equal an absent one.
fn absent_values(encoding: FieldEncoding) -> Vec<Value> {
    match encoding {
        Scalar => vec![json!(null), json!(false), json!(0)],
        IntOrString => vec![json!(null), json!(0)],
        OptionalText | OptionalQuantity => vec![json!(null)],
        RequiredText => vec![json!(null), json!("")],
        Struct | TextMap | QuantityMap => vec![json!(null), json!({})],
        Quantity => vec![json!(null), json!("0"), json!("0Gi")],
    }
}

/// Values of a field that differ from an absent one.
fn present_values(encoding: FieldEncoding) -> Vec<Value> {
    match encoding {
        Scalar => vec![json!(true), json!(1)],
        IntOrString => vec![json!(1), json!(""), json!("http")],
        OptionalText => vec![json!(""), json!("a")],
        RequiredText => vec![json!("a")],
        Struct => vec![json!({ "other": "a" })],
        TextMap => vec![json!({ "a": "" }), json!({ "a": "1" })],
        QuantityMap => vec![json!({ "memory": "0" }), json!({ "memory": "1Gi" })],
        Quantity => vec![json!("1Gi")],
        OptionalQuantity => vec![json!("0"), json!("1Gi")],
    }
}

/// Sets the field at a path, with the objects and the first items of lists around it. An object that is there
/// stays.
fn set(template: &mut Value, path: &str, value: Value) {
    let mut place = template;
    for segment in path.split('.') {
        place = match segment.strip_suffix("[]") {
            None => &mut place[segment],
            Some(list) => {
                let list = &mut place[list];
                if list.is_null() {
                    *list = json!([{}]);
                }
                &mut list[0]
            }
        };
    }
    if place.is_null() {
        *place = value;
    }
}

/// A template with one field.
fn template_with(path: &str, value: Value) -> Value {
    let mut template = json!({});
    set(&mut template, path, value);
    template
}

/// The template without the field at a path, but with the object around it.
fn template_without(path: &str) -> Value {
    path.rsplit_once('.').map_or_else(|| json!({}), |(around, _)| template_with(around, json!({})))
}

#[test]
fn a_zero_value_equals_an_absent_field() {
    for (path, encoding) in fields() {
        let without = canonical_value(&template_without(&path));
        for value in absent_values(encoding) {
            assert_eq!(canonical_value(&template_with(&path, value.clone())), without, "{path}: {value}");
        }
        for value in present_values(encoding) {
            assert_ne!(canonical_value(&template_with(&path, value.clone())), without, "{path}: {value}");
        }
    }
}

#[test]
fn a_zero_value_in_a_pointer_differs_from_an_absent_field() {
    for path in POINTERS {
        let without = canonical_value(&template_without(path));
        for value in [json!(false), json!(0)] {
            assert_ne!(canonical_value(&template_with(path, value.clone())), without, "{path}: {value}");
        }
    }
}

#[test]
fn a_field_is_in_one_table_once() {
    let mut paths: Vec<String> = fields().into_iter().map(|(path, _)| path).collect();
    paths.extend(POINTERS.iter().map(|path| (*path).to_owned()));
    let number = paths.len();
    paths.sort();
    paths.dedup();
    assert_eq!(paths.len(), number);
}

#[rstest]
#[case::disable_hotplug(json!({"domain": {"devices": {"disableHotplug": false}}}))]
#[case::a_hidden_hypervisor(json!({"domain": {"features": {"kvm": {"hidden": false}}}}))]
#[case::the_end_of_interrupt(json!({"domain": {"features": {"apic": {"endOfInterrupt": false}}}}))]
#[case::overcommit(json!({"domain": {"resources": {"overcommitGuestOverhead": false}}}))]
#[case::an_acpi_index(json!({"domain": {"devices": {"interfaces": [{"name": "a", "acpiIndex": 0}]}}}))]
#[case::a_probe(json!({"readinessProbe": {"initialDelaySeconds": 0, "timeoutSeconds": 0, "tcpSocket": {"port": 0}}}))]
#[case::a_disk(json!({"domain": {"devices": {"disks": [{"name": "a", "disk": {"readonly": false}}]}}}))]
#[case::a_weight(json!({"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 0}]}}}))]
#[case::the_effect_of_a_toleration(json!({"tolerations": [{"key": "a", "effect": ""}]}))]
fn a_template_equals_the_revision_without_its_zero_values(#[case] instance: Value) {
    let template = json!({ "spec": { "template": { "spec": instance } } });
    let stored = encoded(&template, "");
    assert_ne!(stored, template);
    assert_eq!(fingerprint(&stored), fingerprint(&template));
}

fn fingerprint(template: &Value) -> Fingerprint {
    KubeVirt::fingerprint(&json!({ "virtualMachineTemplate": template }))
}

/// What the encoder of Go makes of the object at a path: it drops zero values, adds structs and quantities
/// that are no pointers, and changes the spelling of quantities.
fn encoded(value: &Value, path: &str) -> Value {
    let fields = fields();
    let encoding = |path: &str| fields.iter().find(|(known, _)| known == path).map(|(_, is)| *is);
    encoded_value(value, path, &encoding, &fields)
}

fn encoded_value(
    value: &Value,
    path: &str,
    encoding: &dyn Fn(&str) -> Option<FieldEncoding>,
    fields: &[(String, FieldEncoding)],
) -> Value {
    match (encoding(path), value) {
        (Some(TextMap), _) => value.clone(),
        (Some(QuantityMap), Value::Object(entries)) => {
            Value::Object(entries.iter().map(|(key, value)| (key.clone(), respelled(value))).collect())
        }
        (Some(Quantity | OptionalQuantity), _) => respelled(value),
        (_, Value::Array(items)) => {
            let path = format!("{path}[]");
            items.iter().map(|item| encoded_value(item, &path, encoding, fields)).collect()
        }
        (_, Value::Object(object)) => {
            let below =
                |field: &str| if path.is_empty() { field.to_owned() } else { format!("{path}.{field}") };
            let mut result = Map::new();
            for (field, value) in object {
                let path = below(field);
                if !is_dropped(value, encoding(&path)) {
                    result.insert(field.clone(), encoded_value(value, &path, encoding, fields));
                }
            }
            for (known, encoding_of_field) in fields {
                let (around, field) = known.rsplit_once('.').unwrap_or(("", known.as_str()));
                if around != path || result.contains_key(field) {
                    continue;
                }
                let added = match encoding_of_field {
                    Struct => encoded_value(&json!({}), known, encoding, fields),
                    Quantity => json!("0"),
                    IntOrString => json!(0),
                    _ => continue,
                };
                result.insert(field.to_owned(), added);
            }
            Value::Object(result)
        }
        _ => value.clone(),
    }
}

fn is_dropped(value: &Value, encoding: Option<FieldEncoding>) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::String(text) => text.is_empty() && !matches!(encoding, Some(OptionalText | IntOrString)),
        Value::Object(entries) => entries.is_empty() && matches!(encoding, Some(TextMap | QuantityMap)),
        Value::Bool(is_set) => !is_set && encoding == Some(Scalar),
        Value::Number(number) => number.as_i64() == Some(0) && encoding == Some(Scalar),
    }
}

/// A quantity in another spelling.
fn respelled(value: &Value) -> Value {
    if *value == json!("1Gi") { json!("1024Mi") } else { value.clone() }
}

/// Templates with any selection of the fields, each with a value that equals an absent one or with another.
fn any_template() -> impl Strategy<Value = Value> {
    let pointers = POINTERS.iter().map(|path| ((*path).to_owned(), vec![json!(false), json!(0), json!(1)]));
    let tables = fields().into_iter().map(|(path, encoding)| {
        let mut values = absent_values(encoding);
        values.extend(present_values(encoding));
        (path, values)
    });
    let known: Vec<(String, Vec<Value>)> = tables.chain(pointers).collect();
    prop::collection::vec(0..8_usize, known.len()).prop_map(move |choices| {
        let mut template = json!({});
        for ((path, values), choice) in known.iter().zip(choices) {
            if let Some(value) = values.get(choice) {
                set(&mut template, path, value.clone());
            }
        }
        template
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_template_equals_what_the_encoder_of_go_makes_of_it(template in any_template()) {
        let stored = encoded(&template, "");
        prop_assert_eq!(canonical_value(&stored), canonical_value(&template));
        prop_assert_eq!(fingerprint(&stored), fingerprint(&template));
        let parts = |template: &Value| template_parts(template, template, &Value::Null);
        let (one, other) = (parts(&stored), parts(&template));
        prop_assert_eq!(one.instance, other.instance);
        prop_assert_eq!(one.live, other.live);
        prop_assert_eq!(one.storage, other.storage);
    }

    #[test]
    fn another_value_of_a_field_is_a_difference(
        template in any_template(),
        index in any::<prop::sample::Index>(),
    ) {
        let fields = fields();
        let (path, encoding) = index.get(&fields);
        let mut one = template.clone();
        let mut other = template;
        let before = canonical_value(&one);
        set(&mut one, path, absent_values(*encoding)[0].clone());
        set(&mut other, path, present_values(*encoding)[0].clone());
        // A field that the template has stays, and so does a struct with fields.
        prop_assume!(one != other && *encoding != Struct);
        prop_assert_ne!(canonical_value(&other), before);
    }
}
