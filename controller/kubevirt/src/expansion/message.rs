//! Messages of refusals, in the words of KubeVirt. The causes have those of vmpool, with a remedy.

use serde_json::Value;
use vmpool_instancetype::apply::ApplyError;
use vmpool_instancetype::expand::ExpandError;
use vmpool_instancetype::fields::MachineLocation;
use vmpool_instancetype::model::{GROUP, TypeFamily, TypeMatcher};
use vmpool_instancetype::pins::{self, MatcherProblem};
use vmpool_platform::LookupReason;

use super::outcome::Expansion;

/// The problem of a machine whose objects exist.
pub(super) fn expansion_problem(error: &ExpandError, location: MachineLocation) -> MatcherProblem {
    let problem = pins::expansion_problem(error, location);
    let ExpandError::Apply(ApplyError::Conflicts(conflicts)) = error else { return problem };
    let message =
        format!("VM field(s) {} conflicts with selected instance type", conflicts.paths().join(", "));
    MatcherProblem { message, ..problem }
}

/// The refusal of a machine of which an object does not exist.
pub(super) fn refuse_as_kubevirt(expansion: Expansion, machine: &Value) -> Expansion {
    match expansion {
        Expansion::Refused(problem) => {
            let message = missing_object_message(&problem, machine).unwrap_or(problem.message);
            Expansion::Refused(MatcherProblem { message, ..problem })
        }
        other => other,
    }
}

/// `None` if no object is missing, or KubeVirt has no message for it.
fn missing_object_message(problem: &MatcherProblem, machine: &Value) -> Option<String> {
    let field = problem.causes.first()?.field.rsplit('.').next()?;
    let matcher = TypeMatcher::of_machine(machine, problem.family).ok()??;
    let is_missing = problem.lookup == LookupReason::NotFound;
    match field {
        "kind" if matcher.infer_from_volume.is_empty() => {
            let noun = match problem.family {
                TypeFamily::Instancetype => "InstancetypeMatcher",
                TypeFamily::Preference => "PreferenceMatcher",
            };
            Some(format!("got unexpected kind in {noun}: {}", matcher.kind))
        }
        "name" if is_missing && !matcher.name.is_empty() => {
            let plural = matcher.kind(problem.family).ok()?.plural();
            Some(format!("{plural}.{GROUP} {:?} not found", matcher.name))
        }
        "revisionName" if is_missing && !matcher.revision_name.is_empty() => {
            Some(format!("controllerrevisions.apps {:?} not found", matcher.revision_name))
        }
        _ => None,
    }
}
