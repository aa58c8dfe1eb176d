//! The number of machines, and who may reduce it.

use serde_json::Value;

use super::{Checked, Rule, Users, Warning, refuse};

/// The names that a pool API has for the count and the policy.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// Path of the scale-down policy, such as `spec.scaleDownPolicy`.
    pub policy: &'static str,
    /// The field and the value of the explicit policy, such as `scaleDownPolicy Explicit`.
    pub explicit: &'static str,
}

/// What one state of a pool says about its count.
#[derive(Clone, Copy, Debug)]
pub struct Count<'a> {
    /// `spec.replicas`, as the user sent it.
    pub replicas: &'a Value,
    /// The number of machines that this means.
    pub desired: i64,
    /// Whether only targeted removal reduces the number.
    pub explicit: bool,
}

/// An update of a pool, as far as it concerns the count.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// Name of the pool.
    pub pool: &'a str,
    /// The stored state.
    pub old: Count<'a>,
    /// The state that the API server would store.
    pub new: Count<'a>,
    /// The number of machines that the status shows; `None` without a status.
    pub current: Option<i64>,
}

/// Checks an update by `user`.
///
/// # Errors
/// [`Rule::EXPLICIT_COUNT`]: only targeted removal may reduce the number of machines of an explicit pool.
pub fn check(
    terms: &Terms,
    users: &Users,
    user: &str,
    change: &Change<'_>,
    warnings: &mut Vec<Warning>,
) -> Checked {
    let Change { pool, old, new, current } = *change;
    let (before, after) = (old.desired, new.desired);
    if after < before && new.explicit && users.removal_handler.as_deref() != Some(user) {
        let explicit = terms.explicit;
        let lost = if new.replicas.is_null() { ", and leaving it out means 0" } else { "" };
        return refuse(
            Rule::EXPLICIT_COUNT,
            "spec.replicas",
            new.replicas,
            format_args!("it was {before}{lost}; under {explicit} only targeted removals delete machines"),
            format_args!(
                "keep {before}, or remove machines by name with a POST to virtualmachinepools/{pool}/scaledownwith, \
                 which lowers it"
            ),
        );
    }
    if before > 0 && after <= 0 {
        let detail = format!(
            "goes from {before} to 0, so every machine of the pool is removed. An apply that leaves replicas out does that; \
             to let an autoscaler set the count, see the documentation"
        );
        warnings.push(Warning::new(Rule::EMPTIED_POOL, "spec.replicas", detail));
    }
    if let Some(current) = current.filter(|current| old.explicit && !new.explicit && *current > after) {
        let detail = format!(
            "the pool has {current} machines and replicas is {after}: without Explicit the controller deletes the \
             surplus now. \
             Raise replicas to {current} first to keep them"
        );
        warnings.push(Warning::new(Rule::LEAVING_EXPLICIT, terms.policy, detail));
    }
    Ok(())
}
