//! Machines and pools in which instance type and preference are written out, for the API server. Nothing is stored.

mod defaults;
mod outcome;
mod pool;
mod schema;

use serde::de::DeserializeOwned;
use serde_json::Value;
use vmpool_api::kubevirt::{API_VERSION, POOL_API_VERSION, VirtualMachine, VirtualMachinePool};
use vmpool_instancetype::expand::expand;
use vmpool_instancetype::fields::{Cause, CauseReason, Location};
use vmpool_instancetype::model::Family;

use super::keys::{MACHINE_KIND, POOL_KIND};
use super::pins::{self, Resolved, Scope};
use crate::Found;

pub use super::pins::Problem;
pub use defaults::StartDefaults;
pub use outcome::Expansion;
pub use pool::{Revision, has_template_of, pool};

/// Checks a machine that a client sends: its kind, and the fields in the definition of vmpool. Returns one cause for each
/// violation.
pub fn check_machine(machine: &Value) -> Vec<Cause> {
    check::<VirtualMachine>(machine, (API_VERSION, MACHINE_KIND), schema::machine)
}

/// Checks a pool that a client sends. Returns one cause for each violation.
pub fn check_pool(pool: &Value) -> Vec<Cause> {
    check::<VirtualMachinePool>(pool, (POOL_API_VERSION, POOL_KIND), schema::pool)
}

fn check<T: DeserializeOwned>(
    object: &Value,
    (api_version, kind): (&str, &str),
    violations: fn(&Value) -> Vec<Cause>,
) -> Vec<Cause> {
    let invalid = |field: &str, message: String| Cause {
        reason: CauseReason::FieldValueInvalid,
        message,
        field: field.to_owned(),
    };
    let kinds = [("apiVersion", api_version), ("kind", kind)];
    let others = kinds.into_iter().filter(|(field, wanted)| object[field] != **wanted);
    let others: Vec<Cause> =
        others.map(|(field, wanted)| invalid(field, format!("must be {wanted:?}"))).collect();
    // Fields of an object of another kind mean something else.
    if !others.is_empty() {
        return others;
    }
    let found = violations(object);
    if !found.is_empty() {
        return found;
    }
    // The schema of a definition does not describe the metadata.
    let metadata = T::deserialize(object).err();
    metadata.map(|_| invalid("metadata", "has a field of the wrong type".to_owned())).into_iter().collect()
}

/// Expands a VirtualMachine of a namespace. A machine without matchers stays as it is.
///
/// `defaults` are read only if they are needed: [`Expansion::NeedsDefaults`].
pub fn machine(
    machine: &Value,
    namespace: &str,
    (found, defaults): (&Found, Option<&StartDefaults>),
) -> Expansion {
    let scope = Scope { namespace, location: Location::VirtualMachine };
    let has = |family: Family| machine["spec"][family.field()].is_object();
    if ![Family::Instancetype, Family::Preference].into_iter().any(has) {
        return Expansion::Done(machine.clone());
    }
    let Resolved { machine, types, .. } = match pins::resolve_machine(machine, scope, found) {
        Ok(resolved) => resolved,
        Err(open) => return open.into(),
    };
    let Some(StartDefaults(settings)) = defaults else { return Expansion::NeedsDefaults };
    match expand(&machine, &types, settings, scope.location) {
        Ok(expanded) => Expansion::Done(expanded),
        Err(error) => Expansion::Refused(pins::refused(&error, scope.location)),
    }
}

#[cfg(test)]
mod tests;
