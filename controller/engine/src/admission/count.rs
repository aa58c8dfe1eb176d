//! Rules about the number of machines and about lowering it.

use serde_json::Value;

use super::finding::{RuleResult, Warning, refuse_value};
use super::request::PrivilegedUsers;
use super::rule::AdmissionRule;

/// The names of a pool API for count and policy, for messages.
#[derive(Clone, Copy, Debug)]
pub struct ReplicasTerms {
    /// The path of the scale-down policy, such as `spec.scaleDownPolicy`.
    pub policy: &'static str,
    /// The field and the value of the explicit policy, such as `scaleDownPolicy Explicit`.
    pub explicit: &'static str,
    /// The number of machines that a missing `spec.replicas` stands for.
    pub absent: i64,
}

/// The count in one state of a pool.
#[derive(Clone, Copy, Debug)]
pub struct ReplicasState<'a> {
    /// `spec.replicas` of the object; null if it is absent.
    pub replicas: &'a Value,
    /// The number of machines that it stands for.
    pub desired: i64,
    /// Whether only targeted removals lower the number.
    pub explicit: bool,
}

/// The change of the count in an update of a pool.
#[derive(Clone, Copy, Debug)]
pub struct ReplicasChange<'a> {
    /// The name of the pool.
    pub pool: &'a str,
    /// The stored state.
    pub old: ReplicasState<'a>,
    /// The requested state.
    pub new: ReplicasState<'a>,
    /// The number of machines in the status, if the controller has published one.
    pub current: Option<i64>,
}

/// Checks whether `user` may lower the count.
///
/// # Errors
/// [`AdmissionRule::EXPLICIT_COUNT`].
pub fn check_replicas_change(
    terms: &ReplicasTerms,
    users: &PrivilegedUsers,
    user: &str,
    change: &ReplicasChange<'_>,
) -> RuleResult {
    let ReplicasChange { pool, old, new, .. } = *change;
    let (before, after) = (old.desired, new.desired);
    if after >= before || !new.explicit || users.removal_handler.as_deref() == Some(user) {
        return Ok(());
    }
    let explicit = terms.explicit;
    let lost =
        if new.replicas.is_null() { format!(", and leaving it out means {after}") } else { String::new() };
    refuse_value(
        AdmissionRule::EXPLICIT_COUNT,
        "spec.replicas",
        new.replicas,
        format_args!("it was {before}{lost}; under {explicit} only targeted removals delete machines"),
        format_args!(
            "keep {before}, or remove machines by name with a POST to virtualmachinepools/{pool}/scaledownwith, \
             which lowers it"
        ),
    )
}

/// Warns if an allowed update makes the controller delete more machines than its author may expect.
pub fn warn_about_replicas_change(
    terms: &ReplicasTerms,
    change: &ReplicasChange<'_>,
    warnings: &mut Vec<Warning>,
) {
    let ReplicasChange { old, new, current, .. } = *change;
    let (before, after) = (old.desired, new.desired);
    if before > 0 && after <= 0 {
        let lost = if terms.absent == 0 {
            ". An apply that leaves replicas out does that; to let an autoscaler set the count, see the documentation"
        } else {
            ""
        };
        let detail = format!("goes from {before} to 0, so every machine of the pool is removed{lost}");
        warnings.push(Warning::new(AdmissionRule::EMPTIED_POOL, "spec.replicas", detail));
    }
    if let Some(current) = current.filter(|current| old.explicit && !new.explicit && *current > after) {
        let detail = format!(
            "the pool has {current} machines and replicas is {after}: without Explicit the controller deletes the \
             surplus now. \
             Raise replicas to {current} first to keep them"
        );
        warnings.push(Warning::new(AdmissionRule::LEAVING_EXPLICIT, terms.policy, detail));
    }
    if let Some(current) = current.filter(|current| !old.explicit && new.explicit && *current > after) {
        let surplus = current - after;
        let detail = format!(
            "the pool has {current} machines and replicas is {after}: with Explicit the controller keeps the surplus of \
             {surplus}. Remove machines by name, and then raise replicas to the number that you want"
        );
        warnings.push(Warning::new(AdmissionRule::BECOMING_EXPLICIT, terms.policy, detail));
    }
}
