//! Inferring a matcher from the labels behind a volume.
//!
//! The labels may be several objects away, and this crate reads none. So inference is a decision: it needs
//! one object after the other, until all of them were read.
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
use vmpool_decision::Step;

use crate::fields::{MachineLocation, StatusCause};
use crate::model::{FailurePolicy, TypeFamily, TypeMatcher};
use crate::tree::{self, Malformed};
use source::{Search, SearchStep};

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

/// Infers a matcher. The machine is an object with a `spec`, in the given namespace. `None` if the machine
/// has no such matcher, or the matcher names no volume. `find` returns an object, or its absence. An inner
/// error denies the request.
///
/// Validate the matcher first; an unknown failure policy counts as `Reject`.
///
/// # Errors
/// `find` needs a read.
pub fn infer_matcher<'o, R>(
    machine: &Value,
    namespace: &str,
    family: TypeFamily,
    find: impl Fn(&InferenceLookup) -> Step<Option<&'o Value>, R>,
) -> Step<Result<Option<Inferred>, InferenceError>, R> {
    let matcher = match TypeMatcher::of_machine(machine, family) {
        Ok(Some(matcher)) if !matcher.infer_from_volume.is_empty() => matcher,
        Ok(_) => return Ok(Ok(None)),
        Err(error) => return Ok(Err(error.into())),
    };
    let policy = matcher.failure_policy().unwrap_or(FailurePolicy::Reject);
    let search = Search { family, namespace: namespace.to_owned() };
    let mut next = search.volume(machine, &matcher.infer_from_volume);
    loop {
        next = match next {
            Ok(SearchStep::Lookup(lookup, purpose)) => search.object(&lookup, purpose, find(&lookup)?),
            Ok(SearchStep::Labels { name, kind }) => return Ok(Ok(Some(Inferred::Named { name, kind }))),
            Err(error) if policy == FailurePolicy::Ignore && error.is_ignorable() => {
                return Ok(Ok(Some(Inferred::Removed(error))));
            }
            Err(error) => return Ok(Err(error)),
        };
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
