//! The scale guard: the rule about `autoscaling/v1` Scale objects that lower the count.

use serde_json::Value;
use vmpool_decision::{AdmissionRead, AdmissionReads, LookupOutcome, Step};

use super::count::ReplicasTerms;
use super::finding::Refusal;
use super::review::ScaleGuard;
use super::rule::AdmissionRule;
use super::verdict::AdmissionDecision;

/// An update of the scale of a pool.
#[derive(Clone, Copy, Debug)]
pub struct ScaleRequest<'a> {
    /// The namespace of the pool.
    pub namespace: &'a str,
    /// The name of the pool.
    pub name: &'a str,
    /// The scale before.
    pub old: &'a Value,
    /// The requested scale.
    pub new: &'a Value,
}

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

/// The decision about an update of the scale.
///
/// # Errors
/// The pool was not read.
pub fn review_scale(
    guard: &ScaleGuard,
    request: ScaleRequest<'_>,
    reads: &AdmissionReads,
) -> Step<AdmissionDecision, AdmissionRead> {
    let ScaleRequest { namespace, name, old, new } = request;
    let shrink = match compare_scales(old, new) {
        Ok(ScaleChange::Allow) => return Ok(AdmissionDecision::Allowed),
        Ok(ScaleChange::AskPolicy(shrink)) => shrink,
        Err(error) => return Ok(AdmissionDecision::Malformed(error.to_string())),
    };
    let uid_of = |object: &Value| object["metadata"]["uid"].as_str().map(str::to_owned);
    // kube-apiserver sends the UID of the stored pool. A client without permission to read the pool does not
    // know the UID, and gets the same response as for a pool that does not exist.
    let uid = uid_of(old);
    if uid.is_none() && !reads.may_reveal() {
        let message = "the request has no oldObject.metadata.uid".to_owned();
        return Ok(AdmissionDecision::Malformed(message));
    }
    let ScaleGuard { terms, lookup, is_explicit, .. } = guard;
    Ok(match reads.object(&lookup(name))? {
        Some(LookupOutcome::There(pool)) if uid.is_some() && uid_of(pool) != uid => {
            AdmissionDecision::Allowed
        }
        Some(LookupOutcome::There(pool)) => scale_guard_refusal(terms, name, is_explicit(pool), shrink)
            .map_or(AdmissionDecision::Allowed, |refusal| AdmissionDecision::Refused(refusal.into())),
        Some(LookupOutcome::Absent) | None => AdmissionDecision::Allowed,
        Some(LookupOutcome::Failed(reason)) => {
            let policy = terms.policy.rsplit('.').next().unwrap_or_default();
            let message = format!("reading the {policy} of pool {namespace}/{name}: {reason}");
            AdmissionDecision::Undecided(message)
        }
    })
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
