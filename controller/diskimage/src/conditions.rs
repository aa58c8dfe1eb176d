//! Conditions in the status of images and wrappers.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// The stored conditions of one object, and what new ones contain.
pub(crate) struct ConditionBuilder<'s> {
    pub(crate) stored: Option<&'s Vec<Condition>>,
    /// `metadata.generation`.
    pub(crate) generation: Option<i64>,
    pub(crate) now: Timestamp,
}

/// The condition with this type.
pub(crate) fn find_condition<'s>(stored: Option<&'s Vec<Condition>>, kind: &str) -> Option<&'s Condition> {
    stored.into_iter().flatten().find(|condition| condition.type_ == kind)
}

impl ConditionBuilder<'_> {
    /// A condition. It keeps the time of its transition if the stored one has the same status.
    pub(crate) fn condition(&self, kind: &str, holds: bool, reason: &str, message: String) -> Condition {
        let status = if holds { "True" } else { "False" };
        let since = find_condition(self.stored, kind).filter(|before| before.status == status);
        Condition {
            type_: kind.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message,
            observed_generation: self.generation,
            last_transition_time: since.map_or(Time(self.now), |before| before.last_transition_time.clone()),
        }
    }
}
