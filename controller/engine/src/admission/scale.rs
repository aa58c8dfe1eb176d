//! The scale guard: what becomes of `autoscaling/v1` Scale objects that lower the count.

use serde_json::Value;

use super::count::Terms;
use super::{Refusal, Rule, refuse};

/// What the scale itself says about the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The count stays or grows, which everybody may do who may scale.
    Allow,
    /// It goes down: that depends on the policy that the pool has now.
    AskPolicy(Shrink),
}

/// A count that goes down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shrink {
    /// The count before.
    pub from: i64,
    /// The count that is wanted.
    pub to: i64,
}

/// What was sent is no Scale.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{which} is no autoscaling/v1 Scale: {what}; send kind Scale with a whole number in spec.replicas")]
pub struct NotAScale {
    which: &'static str,
    what: String,
}

/// Compares the two scales of an update.
///
/// # Errors
/// [`NotAScale`].
pub fn compare(old: &Value, new: &Value) -> Result<Step, NotAScale> {
    let (from, to) = (replicas("oldObject", old)?, replicas("object", new)?);
    Ok(if to < from { Step::AskPolicy(Shrink { from, to }) } else { Step::Allow })
}

/// The refusal of a count that goes down, if the policy of the pool is the explicit one.
pub fn judge(terms: &Terms, pool: &str, explicit: bool, shrink: Shrink) -> Option<Refusal> {
    if !explicit {
        return None;
    }
    let Shrink { from, to } = shrink;
    refuse::<()>(
        Rule::SCALE_GUARD,
        "spec.replicas",
        &Value::from(to),
        format_args!(
            "pool {pool:?} has {from} replicas and {}, so no machine leaves unless it is named",
            terms.explicit
        ),
        format_args!(
            "name the machines with a POST to virtualmachinepools/{pool}/scaledownwith; for an autoscaler set \
             behavior.scaleDown.selectPolicy to Disabled"
        ),
    )
    .err()
    .map(|refusal| *refusal)
}

fn replicas(which: &'static str, scale: &Value) -> Result<i64, NotAScale> {
    let wrong = |what: String| NotAScale { which, what };
    if !scale.is_object() {
        return Err(wrong("it is not an object".to_owned()));
    }
    let kind = &scale["kind"];
    if !kind.is_null() && kind != "Scale" {
        return Err(wrong("its kind is another one".to_owned()));
    }
    let spec = &scale["spec"];
    if !spec.is_null() && !spec.is_object() {
        return Err(wrong("spec is not an object".to_owned()));
    }
    match &spec["replicas"] {
        // Go leaves out a zero.
        Value::Null => Ok(0),
        count => count
            .as_i64()
            .filter(|count| i32::try_from(*count).is_ok())
            .ok_or_else(|| wrong("spec.replicas is not a whole number of 32 bits".to_owned())),
    }
}

#[cfg(test)]
mod tests;
