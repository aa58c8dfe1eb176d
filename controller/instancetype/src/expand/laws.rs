//! What holds for every machine, instance type and preference.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::inference;
use crate::machine::{self, Named};
use crate::model::{Kind, Object};
use crate::start::instance;
use crate::stash::{Owner, Stash, decode};
use crate::status_ref::StatusRef;
use crate::testing::object;
use crate::testing::worlds::{World, instancetype_spec, preference_spec, spoiled, world};

const VM: Location = Location::VirtualMachine;

fn named(types: &Types) -> Named {
    Named { types: types.clone(), unusable: Vec::new() }
}

fn expanded(world: &World) -> Option<Value> {
    expand(&world.machine, &world.types, &world.settings, VM).ok()
}

/// An instance without the annotations that name what it was made with.
fn without_names(instance: InstanceTemplate) -> Value {
    let mut instance = instance.into_value();
    for kind in Kind::ALL {
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
    fn an_expanded_machine_is_expanded_already(world in world()) {
        let Some(expanded) = expanded(&world) else { return Ok(()) };
        for field in ["/spec/instancetype", "/spec/preference", "/status/instancetypeRef", "/status/preferenceRef"] {
            prop_assert_eq!(expanded.pointer(field), None);
        }
        prop_assert_eq!(expand(&expanded, &Types::default(), &world.settings, VM), Ok(expanded));
    }

    /// Property 5 of the specification.
    #[test]
    fn an_expanded_machine_starts_the_same_instance(world in world()) {
        let Some(expanded) = expanded(&world) else { return Ok(()) };
        let started = |machine: &Value, types: &Types| {
            instance(&template(machine).unwrap(), types, &world.settings, VM).map(without_names)
        };
        prop_assert_eq!(started(&expanded, &Types::default()), started(&world.machine, &world.types));
    }

    /// What admission accepts, expansion expands, and the other way round.
    #[test]
    fn admission_and_expansion_agree(world in world()) {
        let report = machine::validate(&world.machine, None, &named(&world.types), &world.settings, VM);
        prop_assert_eq!(report.causes.is_empty(), expanded(&world).is_some(), "{:?}", report);
    }

    /// Property 3 of the specification.
    #[test]
    fn a_stash_has_the_same_spec(instancetype in instancetype_spec(), preference in preference_spec()) {
        for (kind, spec) in [(Kind::ClusterInstancetype, instancetype), (Kind::Preference, preference)] {
            let object = Object::read(object(kind.as_str(), "u1", spec.clone())).unwrap();
            let stash = Stash::of(&object, Owner::machine("db0", "uid"), "team-a").unwrap();
            let stored: Value = serde_json::from_str(&stash.to_json().to_string()).unwrap();
            let decoded = decode(&Stash::read(&stored).unwrap(), kind, "u1").unwrap().object;
            prop_assert_eq!(decoded.spec().to_string(), spec.to_string());
            prop_assert_eq!(decoded.identity, object.identity);
        }
    }

    /// Documents of any shape are errors, never panics.
    #[test]
    fn no_machine_makes_it_panic(machine in spoiled(world().prop_map(|world| world.machine)), world in world()) {
        let _ = expand(&machine, &world.types, &world.settings, Location::Pool).map_err(|error| error.causes(VM));
        let _ = machine::validate(&machine, None, &named(&world.types), &world.settings, VM);
        let _ = fill(&mut machine.clone(), &world.types.preference.unwrap().spec, VM);
        for family in [Family::Instancetype, Family::Preference] {
            let _ = StatusRef::of_machine(&machine, family);
            let _ = inference::infer(&machine, "team-a", family);
        }
    }

    #[test]
    fn no_object_makes_it_panic(
        instancetype in spoiled(instancetype_spec().prop_map(|spec| object("VirtualMachineInstancetype", "u1", spec))),
        preference in spoiled(preference_spec().prop_map(|spec| object("VirtualMachinePreference", "u1", spec))),
    ) {
        for document in [instancetype, preference] {
            let stash = json!({"metadata": {"name": "a"}, "data": document});
            let stash = Stash::read(&stash).unwrap();
            let Ok(decoded) = decode(&stash, Kind::Preference, "u1") else { continue };
            let _ = validation::object(&decoded.object, None);
            let types = Types {
                instancetype: crate::model::Instancetype::new(decoded.object.clone()).ok(),
                preference: crate::model::Preference::new(decoded.object.clone()).ok(),
            };
            let machine = json!({"spec": {}});
            let _ = machine::validate(&machine, None, &named(&types), &Settings::default(), VM);
        }
    }
}
