//! The texts of events.

use vmpool_engine::ObjectId;
use vmpool_engine::condition::StatusCondition;
use vmpool_engine::plan::{DeleteReason, SurplusRule};
use vmpool_engine::revisions::RevisionId;

/// An event about a change of a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionEvent {
    /// The reason.
    pub reason: String,
    /// Whether it is a warning.
    pub is_warning: bool,
    /// The message.
    pub note: String,
}

/// How the events of a platform are worded. The defaults are the words of vmpool.
pub trait Wording: Send + Sync + 'static {
    /// The reporting controller of the events.
    const SOURCE: &'static str = "vmpool.dev/controller";

    /// The word of the platform for this reason.
    fn reason(reason: &'static str) -> &'static str {
        reason
    }

    /// A machine was created.
    fn created(_namespace: &str, machine: &ObjectId) -> String {
        format!("created machine {machine}")
    }

    /// The controller deleted a machine.
    fn deleted(_namespace: &str, machine: &ObjectId, reason: DeleteReason) -> String {
        let why = match reason {
            DeleteReason::Targeted { .. } => "",
            DeleteReason::Surplus { rule: SurplusRule::Policy } => ", as the scale-down policy says",
            DeleteReason::Surplus { rule: SurplusRule::Draining } => {
                ", because draining machines leave first"
            }
            DeleteReason::Surplus { rule: SurplusRule::NeverReady } => {
                ", because machines that have not been ready leave first"
            }
            DeleteReason::StandbySurplus => ", a standby machine that the pool does not need any more",
            DeleteReason::StandbyReplaced => ", a standby machine; another one takes its place",
            DeleteReason::Recycled { cause } => {
                let why = cause.clause();
                return format!("deleted machine {machine}, {why}; another machine takes its place");
            }
            DeleteReason::StorageChanged { preserved: false } => {
                " with its storage, because the storage in the template changed"
            }
            DeleteReason::StorageChanged { preserved: true } => {
                " and preserved its storage, because the storage in the template changed"
            }
            DeleteReason::NotReady => ", which was not ready for too long; another machine takes its place",
            DeleteReason::Unhealthy => " with its storage, because it does not start",
        };
        format!("deleted machine {machine}{why}")
    }

    /// The target of a targeted removal is gone. `why` names the user, if known.
    fn removed(_namespace: &str, machine: &ObjectId, why: &str) -> String {
        format!("removed machine {machine} {why}")
    }

    /// A revision of the template was written to a machine.
    fn updated(_namespace: &str, machine: &ObjectId, revision: &RevisionId) -> String {
        format!("wrote revision {revision} of the template to machine {machine}")
    }

    /// The controller requested a restart of a machine.
    fn restarted(_namespace: &str, machine: &ObjectId) -> String {
        format!("requested a restart of machine {machine}, so that the template takes effect")
    }

    /// The events about the conditions that a status added or removed.
    fn condition_events(_before: &[StatusCondition], _after: &[StatusCondition]) -> Vec<ConditionEvent> {
        Vec::new()
    }
}

/// The words of vmpool.
#[derive(Clone, Copy, Debug)]
pub struct DefaultWording;

impl Wording for DefaultWording {}
