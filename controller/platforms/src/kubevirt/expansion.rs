//! Machines and pools in which instance type and preference are written out, for the API server. Nothing is stored.

mod outcome;
mod pool;

use serde::de::DeserializeOwned;
use serde_json::Value;
use vmpool_api::kubevirt::{API_VERSION, POOL_API_VERSION, VirtualMachine, VirtualMachinePool};
use vmpool_instancetype::defaults::Defaults;
use vmpool_instancetype::expand::expand;
use vmpool_instancetype::fields::Location;
use vmpool_instancetype::model::Family;
use vmpool_instancetype::start::{Binding, Settings};

use super::keys::{MACHINE_KIND, POOL_KIND};
use super::pins::{self, Resolved, Scope};
use crate::Found;

pub use super::pins::Problem;
pub use outcome::Expansion;
pub use pool::{Revision, pool};

/// Checks a machine that a client sends: its kind, and the types of the fields that vmpool knows.
///
/// # Errors
/// What is wrong, and where.
pub fn check_machine(machine: &Value) -> Result<(), String> {
    check::<VirtualMachine>(machine, API_VERSION, MACHINE_KIND)
}

/// Checks a pool that a client sends.
///
/// # Errors
/// What is wrong, and where.
pub fn check_pool(pool: &Value) -> Result<(), String> {
    check::<VirtualMachinePool>(pool, POOL_API_VERSION, POOL_KIND)
}

fn check<T: DeserializeOwned>(object: &Value, api_version: &str, kind: &str) -> Result<(), String> {
    for (field, wanted) in [("apiVersion", api_version), ("kind", kind)] {
        if object[field] != *wanted {
            return Err(format!("{field}: must be {wanted:?}"));
        }
    }
    T::deserialize(object).map(drop).map_err(|error| error.to_string())
}

/// Expands a VirtualMachine of a namespace. A machine without matchers stays as it is.
///
/// Defaults that depend on the configuration of KubeVirt are not filled in, except the interface and what follows from the
/// rest of the machine.
pub fn machine(machine: &Value, namespace: &str, found: &Found) -> Expansion {
    let scope = Scope { namespace, location: Location::VirtualMachine };
    let has = |family: Family| machine["spec"][family.field()].is_object();
    if ![Family::Instancetype, Family::Preference].into_iter().any(has) {
        return Expansion::Done(machine.clone());
    }
    let Resolved { machine, types, .. } = match pins::resolve_machine(machine, scope, found) {
        Ok(resolved) => resolved,
        Err(open) => return open.into(),
    };
    let settings = Settings { interface: Some(Binding::Bridge), defaults: Some(Defaults::default()) };
    match expand(&machine, &types, &settings, scope.location) {
        Ok(expanded) => Expansion::Done(expanded),
        Err(error) => Expansion::Refused(pins::refused(&error, scope.location)),
    }
}

#[cfg(test)]
mod tests;
