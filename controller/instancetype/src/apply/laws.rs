//! What holds for every machine, instance type and preference.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;
use crate::testing::worlds::{
    ExpansionWorld, arbitrary_expansion_world, instance_spec, instancetype_spec, pointers_of, preference_spec,
};

/// Fields of a machine that an instance type or a preference overwrites.
const OVERWRITTEN: [&str; 3] =
    ["/spec/domain/devices/disableHotplug", "/spec/domain/features/acpi", "/spec/domain/cpu/maxSockets"];

/// Fields for which zero or false means "not set".
const UNSET_IF_FALSE: [&str; 5] = [
    "/spec/domain/cpu/sockets",
    "/spec/domain/cpu/cores",
    "/spec/domain/cpu/threads",
    "/spec/domain/cpu/dedicatedCpuPlacement",
    "/spec/domain/cpu/isolateEmulatorThread",
];

/// Whether the user chose this value.
fn is_chosen(pointer: &str, value: &Value) -> bool {
    let empty = match value {
        Value::Null => true,
        Value::String(text) => text.is_empty() && !pointer.starts_with("/metadata"),
        Value::Array(items) => items.is_empty(),
        Value::Bool(flag) => !flag && UNSET_IF_FALSE.contains(&pointer),
        Value::Number(number) => number.as_u64() == Some(0) && UNSET_IF_FALSE.contains(&pointer),
        Value::Object(_) => false,
    };
    !empty && !OVERWRITTEN.iter().any(|overwritten| pointer.starts_with(overwritten))
}

fn world_template(world: &ExpansionWorld) -> InstanceTemplate {
    InstanceTemplate::new(world.template()).unwrap()
}

fn apply_world_types(world: &ExpansionWorld) -> Result<InstanceTemplate, ApplyError> {
    let (instancetype, preference) = (world.types.instancetype_spec(), world.types.preference_spec());
    apply_instancetype_and_preference(
        &world_template(world),
        instancetype,
        preference,
        MachineLocation::VirtualMachine,
    )
}

/// The same document with the keys of every object in the opposite order of insertion.
fn reverse_key_order(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .rev()
            .map(|(key, value)| (key.clone(), reverse_key_order(value)))
            .collect::<Map<_, _>>()
            .into(),
        Value::Array(items) => items.iter().map(reverse_key_order).collect(),
        value => value.clone(),
    }
}

proptest! {
    /// Property 1 of the specification.
    #[test]
    fn no_choice_of_the_user_changes(world in arbitrary_expansion_world()) {
        let (before, Ok(after)) = (world_template(&world).into_value(), apply_world_types(&world)) else { return Ok(()) };
        let mut pointers = Vec::new();
        pointers_of(&before, "", &mut pointers);
        for pointer in pointers {
            let chosen = before.pointer(&pointer).unwrap();
            if is_chosen(&pointer, chosen) {
                let found = after.as_value().pointer(&pointer);
                // An object may get more fields, and a list more items; those it had are pointers of their
                // own.
                let container = chosen.is_object() || chosen.is_array();
                prop_assert!(found.is_some_and(|found| container || found == chosen), "{}: {:?}", pointer, found);
            }
        }
    }

    /// Property 2 of the specification.
    #[test]
    fn an_applied_instance_type_has_all_vcpus(world in arbitrary_expansion_world()) {
        let (Some(instancetype), Ok(after)) = (world.types.instancetype_spec(), apply_world_types(&world)) else { return Ok(()) };
        let cpu = &after.spec()["domain"]["cpu"];
        let count = |dimension: &str| cpu[dimension].as_u64().unwrap();
        prop_assert_eq!(count("sockets") * count("cores") * count("threads"), u64::from(instancetype.cpu.guest));
    }

    /// Property 4 of the specification.
    #[test]
    fn the_order_of_fields_changes_nothing(spec in instance_spec(), instancetype in instancetype_spec(), preference in preference_spec()) {
        let result = |order: fn(&Value) -> Value| {
            let annotations = json!({"size": "large", "team": "mine", "os": "mine"});
            let template = order(&json!({"metadata": {"annotations": annotations}, "spec": spec}));
            apply_instancetype_and_preference(
                &InstanceTemplate::new(template).unwrap(),
                Some(&InstancetypeSpec::read(&order(&instancetype)).unwrap()),
                Some(&PreferenceSpec::read(&order(&preference)).unwrap()),
                MachineLocation::Pool,
            )
        };
        prop_assert_eq!(result(Value::clone), result(reverse_key_order));
    }

    #[test]
    fn a_preference_applied_twice_changes_nothing(world in arbitrary_expansion_world()) {
        let (preference, Ok(once)) = (world.types.preference_spec(), apply_world_types(&world)) else { return Ok(()) };
        // The one exception, which is KubeVirt's: EFI of the preference ends the choice of firmware, but EFI
        // that the machine has already gets the deprecated setting.
        let firmware = preference.map(|preference| preference.firmware.clone()).unwrap_or_default();
        prop_assume!(firmware.efi.is_none() || firmware.use_secure_boot.is_none());
        prop_assert_eq!(apply_instancetype_and_preference(&once, None, preference, MachineLocation::VirtualMachine), Ok(once));
    }
}
