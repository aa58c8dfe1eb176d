//! Machines and pools in which instance type and preference are written out, for the API server. Nothing is
//! stored.

mod defaults;
mod form;
mod message;
mod outcome;
mod pool;
mod schema;

use serde::de::DeserializeOwned;
use serde_json::Value;
use vmpool_api::kubevirt::{API_VERSION, POOL_API_VERSION, VirtualMachine, VirtualMachinePool};
use vmpool_instancetype::fields::{CauseReason, MachineLocation, StatusCause};
use vmpool_instancetype::pins::{self, MatcherScope, ResolvedMachine};
use vmpool_platform::FetchedObjects;

pub use super::keys::{MACHINE_KIND, POOL_KIND};
pub use defaults::StartDefaults;
pub use form::ExpansionForm;
pub use outcome::Expansion;
pub use pool::{RevisionToExpand, expand_pool, has_template_of};
pub use vmpool_instancetype::pins::MatcherProblem;

/// Checks a machine that a client sends: its kind, and the fields in the definition of vmpool. Returns one
/// cause for each violation.
pub fn check_machine(machine: &Value) -> Vec<StatusCause> {
    check_sent_object::<VirtualMachine>(machine, API_VERSION, MACHINE_KIND, schema::machine_schema_violations)
}

/// Checks a pool that a client sends. Returns one cause for each violation.
pub fn check_pool(pool: &Value) -> Vec<StatusCause> {
    check_sent_object::<VirtualMachinePool>(pool, POOL_API_VERSION, POOL_KIND, schema::pool_schema_violations)
}

fn check_sent_object<T: DeserializeOwned>(
    object: &Value,
    api_version: &str,
    kind: &str,
    violations: fn(&Value) -> Vec<StatusCause>,
) -> Vec<StatusCause> {
    let invalid = |field: &str, message: String| StatusCause {
        reason: CauseReason::FieldValueInvalid,
        message,
        field: field.to_owned(),
    };
    let kinds = [("apiVersion", api_version), ("kind", kind)];
    let others = kinds.into_iter().filter(|(field, wanted)| object[field] != **wanted);
    let others: Vec<StatusCause> =
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

/// Expands a VirtualMachine of a namespace. A machine without matchers stays as it is, in the encoding of the
/// form.
///
/// `defaults` are read only if they are needed: [`Expansion::NeedsDefaults`].
pub fn expand_machine_object(
    machine: &Value,
    namespace: &str,
    form: ExpansionForm,
    found: &FetchedObjects,
    defaults: Option<&StartDefaults>,
) -> Expansion {
    let scope = MatcherScope { namespace, location: MachineLocation::VirtualMachine };
    if !form::has_matchers(machine) {
        return Expansion::Done(form.encode(machine.clone()));
    }
    let ResolvedMachine { machine: resolved, types, .. } = match pins::resolve_machine(machine, scope, found)
    {
        Ok(resolved) => resolved,
        Err(open) => return message::refuse_as_kubevirt(open.into(), machine),
    };
    let Some(StartDefaults(settings)) = defaults else { return Expansion::NeedsDefaults };
    match form.expand(&resolved, &types, settings, scope.location) {
        Ok(expanded) => Expansion::Done(expanded),
        Err(error) => Expansion::Refused(message::expansion_problem(&error, scope.location)),
    }
}

#[cfg(test)]
mod tests;
