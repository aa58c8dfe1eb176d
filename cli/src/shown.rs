//! Parts of a pool as several commands show them. Their JSON forms are stable.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use serde::Serialize;
use vmpool_engine::condition::StatusCondition;
use vmpool_engine::{Machine, ObjectId};

/// A condition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct ShownCondition {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) status: String,
    pub(crate) reason: String,
    pub(crate) message: String,
}

impl From<&StatusCondition> for ShownCondition {
    fn from(condition: &StatusCondition) -> Self {
        Self {
            kind: condition.kind.clone(),
            status: condition.status.clone(),
            reason: condition.reason.clone(),
            message: condition.message.clone(),
        }
    }
}

/// An event.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct ShownEvent {
    pub(crate) time: Option<Timestamp>,
    pub(crate) warning: bool,
    pub(crate) reason: String,
    pub(crate) message: String,
}

impl From<Event> for ShownEvent {
    fn from(event: Event) -> Self {
        let series = event.series.and_then(|series| series.last_observed_time).map(|time| time.0);
        let time = series
            .or(event.event_time.map(|time| time.0))
            .or(event.last_timestamp.map(|time| time.0))
            .or(event.metadata.creation_timestamp.map(|time| time.0));
        Self {
            time,
            warning: event.type_.as_deref() == Some("Warning"),
            reason: event.reason.unwrap_or_default(),
            message: event.message.unwrap_or_default(),
        }
    }
}

/// The present protection of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct ShownProtection {
    /// When it ends; `None` if the annotation cannot be read.
    pub(crate) until: Option<Timestamp>,
    /// Which user or program protects the machine, or holds the claim.
    pub(crate) by: Option<String>,
    pub(crate) reason: Option<String>,
    /// The id of the claim, if it is one.
    pub(crate) claim: Option<String>,
}

impl ShownProtection {
    /// The protection of a machine of this pool; `None` if it has ended.
    pub(crate) fn of(pool: &ObjectId, machine: &Machine, now: Timestamp) -> Option<Self> {
        let known = machine.protection.as_ref().filter(|known| known.protects(now))?;
        let claim = known.claim_of(pool.uid.as_str());
        Some(Self {
            until: known.end(),
            by: claim.map(|claim| claim.user.clone()).or(known.by.as_ref().map(ToString::to_string)),
            reason: known.reason.as_ref().map(ToString::to_string),
            claim: claim.map(|claim| claim.id.clone()),
        })
    }
}
