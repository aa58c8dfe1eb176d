//! Inferring a matcher from the labels behind a volume.
//!
//! The labels may be several objects away, and this crate reads none. So inference is a chain of steps: each
//! asks for one object, and the caller answers.
//!
//! ```text
//!  claim volume ──────────────────────────────────────────────> claim
//!  DataVolume volume ─> own template ─────────────────> spec ─┬> claim
//!                    └> DataVolume, by labels or by its spec  ├> snapshot
//!                       └> missing: claim of that name        └> DataSource, by labels or by its source ─> claim, snapshot
//! ```

mod lookup;
mod source;

#[cfg(test)]
mod tests;

use serde_json::Value;

use crate::fields::{MachineLocation, StatusCause};
use crate::model::{FailurePolicy, TypeFamily, TypeMatcher};
use crate::tree::{self, Malformed};
use source::{LookupPurpose, Search};

pub use lookup::{InferenceError, InferenceLookup, InferenceSourceKind};

/// The result of inference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Inferred {
    /// The matcher names this object.
    Named {
        /// The name.
        name: String,
        /// The kind as the label gives it; empty for the cluster kind.
        kind: String,
    },
    /// The matcher is removed, because the failure is ignored.
    Removed(InferenceError),
}

/// What to do next.
#[derive(Debug)]
pub enum InferenceStep {
    /// Read an object, and answer with [`Inference::found`].
    Lookup(Inference),
    /// Nothing: inference has ended. An error denies the request.
    Done(Result<Inferred, InferenceError>),
}

/// An inference that waits for an object.
#[derive(Debug)]
pub struct Inference {
    search: Search,
    policy: FailurePolicy,
    lookup: InferenceLookup,
    place: LookupPurpose,
}

/// Starts the inference of a matcher. The machine is an object with a `spec`, in the given namespace. `None`
/// if the machine has no such matcher, or the matcher names no volume.
///
/// Validate the matcher first; an unknown failure policy counts as `Reject`.
///
/// # Errors
/// The matcher has the wrong type.
pub fn infer_matcher(
    machine: &Value,
    namespace: &str,
    family: TypeFamily,
) -> Result<Option<InferenceStep>, Malformed> {
    let matcher =
        TypeMatcher::of_machine(machine, family)?.filter(|matcher| !matcher.infer_from_volume.is_empty());
    let Some(matcher) = matcher else { return Ok(None) };
    let policy = matcher.failure_policy().unwrap_or(FailurePolicy::Reject);
    let search = Search { family, namespace: namespace.to_owned() };
    let next = search.volume(machine, &matcher.infer_from_volume);
    Ok(Some(inference_step(search, policy, next)))
}

impl Inference {
    /// The object that is needed.
    pub fn lookup(&self) -> &InferenceLookup {
        &self.lookup
    }

    /// Goes on with the object, or with its absence. If the lookup itself fails, deny the request.
    pub fn found(self, object: Option<&Value>) -> InferenceStep {
        let next = self.search.object(&self.lookup, self.place, object);
        inference_step(self.search, self.policy, next)
    }
}

/// Where the search is: at an object that must be read, or at the names.
type Next = Result<source::SearchStep, InferenceError>;

fn inference_step(search: Search, policy: FailurePolicy, next: Next) -> InferenceStep {
    match next {
        Ok(source::SearchStep::Lookup(lookup, place)) => {
            InferenceStep::Lookup(Inference { search, policy, lookup, place })
        }
        Ok(source::SearchStep::Labels { name, kind }) => {
            InferenceStep::Done(Ok(Inferred::Named { name, kind }))
        }
        Err(error) if policy == FailurePolicy::Ignore && error.is_ignorable() => {
            InferenceStep::Done(Ok(Inferred::Removed(error)))
        }
        Err(error) => InferenceStep::Done(Err(error)),
    }
}

/// Writes the result into the machine.
///
/// If the failure policy is `Ignore` and an instance type was inferred, the user's `domain.memory` is
/// removed: clients send it for the case that inference fails, and it would conflict.
///
/// # Errors
/// A field of the machine has the wrong type.
pub fn write_inferred_matcher(
    machine: &mut Value,
    family: TypeFamily,
    inferred: &Inferred,
) -> Result<(), Malformed> {
    let path = format!("spec.{}", family.field());
    let Inferred::Named { name, kind } = inferred else { return tree::remove_field(machine, &path) };
    let old = TypeMatcher::of_machine(machine, family)?.unwrap_or_default();
    let named = TypeMatcher { name: name.clone(), kind: kind.clone(), ..TypeMatcher::default() };
    tree::set_value(machine, &path, named.to_json())?;
    if family == TypeFamily::Instancetype && old.failure_policy() == Some(FailurePolicy::Ignore) {
        tree::remove_field(machine, "spec.template.spec.domain.memory")?;
    }
    Ok(())
}

/// The error as a cause for the denied request.
pub fn inference_error_cause(
    error: &InferenceError,
    family: TypeFamily,
    location: MachineLocation,
) -> StatusCause {
    StatusCause::invalid(location.matcher_field(family, "inferFromVolume"), error.to_string())
}
