//! JSON documents: lists of the API server, templates, and machines with instance types.

use std::hint::black_box;

use serde_json::{Value, json};
use vmpool_controller::fuzzing;
use vmpool_engine::revisions::RevisionId;
use vmpool_instancetype::fields::MachineLocation;
use vmpool_instancetype::inference::infer_matcher;
use vmpool_instancetype::machine::{NamedTypes, validate_machine};
use vmpool_instancetype::model::{InstanceTypeAndPreference, InstanceTypeObject, TypeFamily};
use vmpool_instancetype::start::{Binding, InstanceSettings};
use vmpool_instancetype::{expand::expand_machine, validation};
use vmpool_platforms::{Dvp, KubeVirt, Platform};

/// Splits a list into its items. The result does not depend on the chunks in which the list arrives.
pub fn split_list(input: &[u8]) {
    let split = |size| {
        let mut items: Vec<Vec<u8>> = Vec::new();
        let ended = fuzzing::split_list(input, size, |item| items.push(item.to_vec()));
        (items, ended.is_ok())
    };
    let whole = split(input.len());
    for size in [1, 2, 7] {
        assert_eq!(split(size), whole, "in chunks of {size} bytes");
    }
    for item in whole.0 {
        drop(black_box(fuzzing::decode_object::<Value>(&item)));
    }
}

/// Updates a live machine from one template to another. The input is a list of the three.
pub fn merge_template(input: &[u8]) {
    let Ok([live, from, to]) = fuzzing::decode_object::<[Value; 3]>(input) else { return };
    merge_of::<Dvp>(&live, &from, &to);
    merge_of::<KubeVirt>(&live, &from, &to);
}

fn merge_of<P: Platform>(live: &Value, from: &Value, to: &Value) {
    let revision = RevisionId::of(&P::canonical(to));
    for base in [None, Some(from)] {
        if let Some(patch) = P::update(live, base, &revision, to, &[]) {
            let mut updated = live.clone();
            json_patch::merge(&mut updated, &patch);
            black_box(P::update(&updated, base, &revision, to, &[]));
        }
    }
    black_box(P::adopt(live, &revision, to, &[]));
}

/// Expands, validates and infers for a machine. The input is a list of the machine, the instance type and the
/// preference.
pub fn expand_instance_type(input: &[u8]) {
    let Ok([machine, instancetype, preference]) = fuzzing::decode_object::<[Value; 3]>(input) else { return };
    let mut types = InstanceTypeAndPreference::default();
    for document in [instancetype, preference] {
        if let Ok(object) = InstanceTypeObject::read(document.clone()) {
            black_box(validation::validate_object(&object, None));
            drop(types.insert(object));
        }
        for family in [TypeFamily::Instancetype, TypeFamily::Preference] {
            follow_inference(&machine, family, &document);
        }
    }
    let settings = InstanceSettings { interface: Some(Binding::Masquerade), ..InstanceSettings::default() };
    let named = NamedTypes { types: types.clone(), unusable: Vec::new() };
    black_box(validate_machine(&machine, None, &named, &settings, MachineLocation::VirtualMachine));
    black_box(validate_machine(
        &json!({}),
        Some(&machine),
        &named,
        &settings,
        MachineLocation::VirtualMachine,
    ));
    if let Ok(expanded) = expand_machine(&machine, &types, &settings, MachineLocation::VirtualMachine) {
        let again = expand_machine(
            &expanded,
            &InstanceTypeAndPreference::default(),
            &settings,
            MachineLocation::VirtualMachine,
        );
        assert_eq!(again.as_ref().ok(), Some(&expanded), "an expanded machine is expanded");
    }
}

/// Infers from volumes, where every object that is needed is `document`.
fn follow_inference(machine: &Value, family: TypeFamily, document: &Value) {
    drop(black_box(infer_matcher::<()>(machine, "team-a", family, |_| Ok(Some(document)))));
}
