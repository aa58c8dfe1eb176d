//! The scale guard: the rule about `autoscaling/v1` Scale objects that lower the count.

use serde_json::Value;

use super::count::ReplicasTerms;
use super::finding::Refusal;
use super::rule::AdmissionRule;

/// The change of a Scale request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScaleChange {
    /// The count is unchanged or raised, which is always allowed.
    Allow,
    /// The count is lowered. Whether this is allowed depends on the current policy of the pool.
    AskPolicy(LoweredReplicas),
}

/// A count that is lowered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoweredReplicas {
    /// The count before.
    pub from: i64,
    /// The requested count.
    pub to: i64,
}

/// The request does not contain a valid Scale.
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
pub fn compare_scales(old: &Value, new: &Value) -> Result<ScaleChange, NotAScale> {
    let (from, to) = (parse_scale_replicas("oldObject", old)?, parse_scale_replicas("object", new)?);
    Ok(if to < from { ScaleChange::AskPolicy(LoweredReplicas { from, to }) } else { ScaleChange::Allow })
}

/// Checks a lowered count of a pool; `explicit` if only targeted removals may lower it.
pub fn scale_guard_refusal(
    terms: &ReplicasTerms,
    pool: &str,
    explicit: bool,
    shrink: LoweredReplicas,
) -> Option<Refusal> {
    let LoweredReplicas { from, to } = shrink;
    explicit.then(|| {
        Refusal::new(
            AdmissionRule::SCALE_GUARD,
            "spec.replicas",
            &Value::from(to),
            format_args!(
                "pool {pool:?} has {from} replicas and {}, so only targeted removals delete machines",
                terms.explicit
            ),
            format_args!(
                "remove machines by name with a POST to virtualmachinepools/{pool}/scaledownwith; for an autoscaler \
                 set behavior.scaleDown.selectPolicy to Disabled"
            ),
        )
    })
}

fn parse_scale_replicas(which: &'static str, scale: &Value) -> Result<i64, NotAScale> {
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
        // Go omits a zero.
        Value::Null => Ok(0),
        count => count
            .as_i64()
            .filter(|count| i32::try_from(*count).is_ok())
            .ok_or_else(|| wrong("spec.replicas is not a whole number of 32 bits".to_owned())),
    }
}

#[cfg(test)]
mod tests;
