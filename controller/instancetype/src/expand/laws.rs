//! What holds for every machine, instance type and preference.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::copy::{CopyOwner, InstanceTypeCopy, decode_copy};
use crate::inference;
use crate::machine::{self, NamedTypes};
use crate::model::{InstanceTypeKind, InstanceTypeObject};
use crate::start::build_instance;
use crate::status_ref::StatusRef;
use crate::testing::instancetype_document;
use crate::testing::worlds::{
    ExpansionWorld, arbitrary_expansion_world, instancetype_spec, preference_spec, with_arbitrary_values,
};

const VM: MachineLocation = MachineLocation::VirtualMachine;

fn named_types(types: &InstanceTypeAndPreference) -> NamedTypes {
    NamedTypes { types: types.clone(), unusable: Vec::new() }
}

fn expand_world(world: &ExpansionWorld) -> Option<Value> {
    expand_machine(&world.machine, &world.types, &world.settings, VM).ok()
}

/// An instance without the annotations that name what it was made with.
fn without_names(instance: InstanceTemplate) -> Value {
    let mut instance = instance.into_value();
    for kind in InstanceTypeKind::ALL {
        if let Some(annotations) =
            instance.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut)
        {
            annotations.remove(kind.name_annotation());
        }
    }
    instance
}

proptest! {
    /// Property 5 of the specification.
    #[test]
    fn an_expanded_machine_is_expanded_already(world in arbitrary_expansion_world()) {
        let Some(expanded) = expand_world(&world) else { return Ok(()) };
        for field in ["/spec/instancetype", "/spec/preference", "/status/instancetypeRef", "/status/preferenceRef"] {
            prop_assert_eq!(expanded.pointer(field), None);
        }
        prop_assert_eq!(expand_machine(&expanded, &InstanceTypeAndPreference::default(), &world.settings, VM), Ok(expanded));
    }

    /// Property 5 of the specification.
    #[test]
    fn an_expanded_machine_starts_the_same_instance(world in arbitrary_expansion_world()) {
        let Some(expanded) = expand_world(&world) else { return Ok(()) };
        let started = |machine: &Value, types: &InstanceTypeAndPreference| {
            build_instance(&machine_instance_template(machine).unwrap(), types, &world.settings, VM).map(without_names)
        };
        prop_assert_eq!(started(&expanded, &InstanceTypeAndPreference::default()), started(&world.machine, &world.types));
    }

    /// What admission accepts, expansion expands, and the other way round.
    #[test]
    fn admission_and_expansion_agree(world in arbitrary_expansion_world()) {
        let report = machine::validate_machine(&world.machine, None, &named_types(&world.types), &world.settings, VM);
        prop_assert_eq!(report.causes.is_empty(), expand_world(&world).is_some(), "{:?}", report);
    }

    /// Property 3 of the specification.
    #[test]
    fn a_copy_has_the_same_spec(instancetype in instancetype_spec(), preference in preference_spec()) {
        for (kind, spec) in [(InstanceTypeKind::ClusterInstancetype, instancetype), (InstanceTypeKind::Preference, preference)] {
            let object = InstanceTypeObject::read(instancetype_document(kind.as_str(), "u1", spec.clone())).unwrap();
            let copy = InstanceTypeCopy::of(&object, CopyOwner::machine("db0", "uid"), "team-a").unwrap();
            let stored: Value = serde_json::from_str(&copy.to_json().to_string()).unwrap();
            let decoded = decode_copy(&InstanceTypeCopy::read(&stored).unwrap(), kind, "u1").unwrap().object;
            prop_assert_eq!(decoded.spec().to_string(), spec.to_string());
            prop_assert_eq!(decoded.identity, object.identity);
        }
    }

    /// Documents of any shape are errors, never panics.
    #[test]
    fn no_machine_makes_it_panic(machine in with_arbitrary_values(arbitrary_expansion_world().prop_map(|world| world.machine)), world in arbitrary_expansion_world()) {
        let _ = expand_machine(&machine, &world.types, &world.settings, MachineLocation::Pool).map_err(|error| error.causes(VM));
        let _ = machine::validate_machine(&machine, None, &named_types(&world.types), &world.settings, VM);
        let _ = fill_machine_from_preference(&mut machine.clone(), &world.types.preference.unwrap().spec, VM);
        for family in [TypeFamily::Instancetype, TypeFamily::Preference] {
            let _ = StatusRef::of_machine(&machine, family);
            let _ = inference::infer_matcher::<()>(&machine, "team-a", family, |_| Ok(None));
        }
    }

    #[test]
    fn no_object_makes_it_panic(
        instancetype in with_arbitrary_values(instancetype_spec().prop_map(|spec| instancetype_document("VirtualMachineInstancetype", "u1", spec))),
        preference in with_arbitrary_values(preference_spec().prop_map(|spec| instancetype_document("VirtualMachinePreference", "u1", spec))),
    ) {
        for document in [instancetype, preference] {
            let copy = json!({"metadata": {"name": "a"}, "data": document});
            let copy = InstanceTypeCopy::read(&copy).unwrap();
            let Ok(decoded) = decode_copy(&copy, InstanceTypeKind::Preference, "u1") else { continue };
            let _ = validation::validate_object(&decoded.object, None);
            let types = InstanceTypeAndPreference {
                instancetype: crate::model::Instancetype::new(decoded.object.clone()).ok(),
                preference: crate::model::Preference::new(decoded.object.clone()).ok(),
            };
            let machine = json!({"spec": {}});
            let _ = machine::validate_machine(&machine, None, &named_types(&types), &InstanceSettings::default(), VM);
        }
    }
}
