//! The steps of a plan, for users.

use std::collections::HashMap;

use serde::Serialize;
use vmpool_controller::Preview;
use vmpool_engine::model::{Naming, Restarts};
use vmpool_engine::plan::{DeleteReason, DiskDeleteReason, Disruption, SurplusRule};
use vmpool_engine::protection::timestamp_text;
use vmpool_engine::revisions::RevisionId;
use vmpool_engine::{Plan, PoolAction};
use vmpool_platforms::TemplateEffect;

use crate::table::Tone;
use crate::visible::{escape_except_lines, escape_to_one_line};

/// One write of the controller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct PlannedStep {
    /// What the controller does: `create`, `delete`, `update` and so on.
    pub(super) verb: &'static str,
    /// The object: kind and name. The name of a new machine is unknown if the controller chooses it later.
    pub(super) object: String,
    /// Why, or with which effect.
    pub(super) why: String,
}

impl PlannedStep {
    /// The step in one line.
    pub(super) fn text(&self) -> String {
        let tone = match self.verb {
            "delete" | "restart" => Tone::Bad,
            "create" => Tone::Good,
            "update" => Tone::Notice,
            _ => Tone::Plain,
        };
        let mut text = format!("{} {}", tone.paint(self.verb), escape_to_one_line(&self.object));
        if !self.why.is_empty() {
            text.push_str(": ");
            text.push_str(&escape_except_lines(&self.why));
        }
        text
    }
}

/// The writes of a plan that concern users, in the order of the controller. Writes of labels, revisions and
/// records of the controller are omitted.
///
/// `effects` says, for the revisions that machines have now, what the change to the planned template takes.
pub(super) fn list_steps(preview: &Preview, plan: &Plan, effects: &TemplateEffects) -> Vec<PlannedStep> {
    let mut actions: Vec<&PoolAction> = plan.actions.iter().collect();
    actions.sort_by_key(|action| action.stage());
    actions.into_iter().filter_map(|action| describe_step(preview, action, effects)).collect()
}

/// What the change from a revision takes.
pub(super) type TemplateEffects = HashMap<RevisionId, TemplateEffect>;

fn describe_step(preview: &Preview, action: &PoolAction, effects: &TemplateEffects) -> Option<PlannedStep> {
    let machine = |name: &str| format!("machine {name}");
    let disk = |name: &str| format!("disk {name}");
    let (verb, object, why) = match action {
        PoolAction::Create { draft } => {
            let name = match preview.pool.naming {
                Naming::Ordinal => machine(&draft.name),
                Naming::Random => "a machine, with a new name".to_owned(),
            };
            let kind = if draft.standby.is_some() { "a standby machine, " } else { "" };
            ("create", name, format!("{kind}revision {}", draft.revision))
        }
        PoolAction::Activate { machine: id, to, .. } => {
            ("activate", machine(&id.name), format!("a standby machine, with revision {to}"))
        }
        PoolAction::StartActivated { machine: id } => {
            ("start", machine(&id.name), "it was activated".to_owned())
        }
        PoolAction::StopStandby { machine: id } => {
            ("stop", machine(&id.name), "its warm-up as a standby machine has ended".to_owned())
        }
        PoolAction::Delete { machine: id, reason } => {
            ("delete", machine(&id.name), delete_reason(preview, *reason))
        }
        PoolAction::Update { machine: id, base, to, disruption, .. } => {
            let change = base.as_ref().and_then(|base| effects.get(base));
            (
                "update",
                machine(&id.name),
                format!("to revision {to}, {}", describe_effect(preview, *disruption, change)),
            )
        }
        PoolAction::Restart { machine: id, .. } => {
            ("restart", machine(&id.name), "so that its update takes effect".to_owned())
        }
        PoolAction::BeginDrain { machine: id, mark } => (
            "drain",
            machine(&id.name),
            format!(
                "before {}: its hooks must be released, at the latest at {}",
                mark.reason.step(),
                timestamp_text(mark.deadline)
            ),
        ),
        PoolAction::EndDrain { machine: id } => {
            ("end the drain of", machine(&id.name), "it stays in the pool".to_owned())
        }
        PoolAction::ShortenProtection { machine: id, .. } => (
            "shorten",
            format!("the protection of machine {}", id.name),
            "it exceeds the maximum of the pool, or cannot be read".to_owned(),
        ),
        PoolAction::Release { machine: id, .. } => {
            ("release", machine(&id.name), "the pool no longer owns it".to_owned())
        }
        PoolAction::CreateDisk { machine: id, disk: draft } => {
            ("create", disk(&draft.name), format!("machine {} lacks it", id.name))
        }
        PoolAction::AdoptDisk { machine: id, disk: restored, .. } => {
            ("adopt", disk(&restored.name), format!("the platform restored it for machine {}", id.name))
        }
        PoolAction::Repoint { machine: id, from, to, .. } => (
            "change",
            machine(&id.name),
            format!("it uses disk {} instead of {from}, which it cannot use", to.name),
        ),
        PoolAction::Detach { machine: id, disk, .. } => {
            ("detach", format!("disk {disk} from machine {}", id.name), "another machine uses it".to_owned())
        }
        PoolAction::DeleteDisk { disk: id, reason } => ("delete", disk(&id.name), disk_reason(*reason)),
        PoolAction::ExpandDisk { disk: id, to } => ("expand", disk(&id.name), format!("to {to} bytes")),
        PoolAction::Relabel { .. }
        | PoolAction::AddPoolFinalizer
        | PoolAction::RemovePoolFinalizer
        | PoolAction::AddFinalizer { .. }
        | PoolAction::RemoveFinalizer { .. }
        | PoolAction::EndDeletion { .. }
        | PoolAction::RecordRevision { .. }
        | PoolAction::EndRestart { .. }
        | PoolAction::AnnotateDisk { .. }
        | PoolAction::OpenNameBlock { .. }
        | PoolAction::StoreRevision { .. }
        | PoolAction::RestoreCopies { .. }
        | PoolAction::PruneRevision { .. }
        | PoolAction::DeleteCopy { .. }
        | PoolAction::PruneRecord { .. } => return None,
    };
    Some(PlannedStep { verb, object, why })
}

fn delete_reason(preview: &Preview, reason: DeleteReason) -> String {
    match reason {
        DeleteReason::Surplus { rule: SurplusRule::Draining } => {
            "surplus, draining machines first".to_owned()
        }
        DeleteReason::Surplus { rule: SurplusRule::NeverReady } => {
            "surplus, machines that have not been ready first".to_owned()
        }
        DeleteReason::Surplus { rule: SurplusRule::Policy } => {
            format!("surplus, {}", preview.pool.scale_down_policy.description())
        }
        DeleteReason::StandbySurplus => "the pool has more standby machines than standby.replicas".to_owned(),
        DeleteReason::StandbyReplaced => "another standby machine takes its place".to_owned(),
        DeleteReason::Recycled { cause } => {
            format!("{}; another machine takes its place", cause.clause())
        }
        DeleteReason::Targeted { .. } => "the target of a targeted removal".to_owned(),
        DeleteReason::StorageChanged { preserved } => {
            let storage = if preserved { "with its preserved storage" } else { "with new storage" };
            format!("the storage in its template changed, so it is created again {storage}")
        }
        DeleteReason::NotReady => "it was not ready for too long; another machine takes its place".to_owned(),
        DeleteReason::Unhealthy => "it does not start, so it is created again".to_owned(),
    }
}

fn disk_reason(reason: DiskDeleteReason) -> String {
    match reason {
        DiskDeleteReason::Expired => "it was free for longer than the ttl of its template",
        DiskDeleteReason::Broken => "it failed or lost its volume",
        DiskDeleteReason::TemplateRemoved => "its disk template was removed",
    }
    .to_owned()
}

fn describe_effect(preview: &Preview, disruption: Disruption, change: Option<&TemplateEffect>) -> String {
    let needs_approval = disruption == Disruption::ForApproval;
    if let (Some(change), Disruption::ForApproval | Disruption::Budgeted) = (change, disruption) {
        return match (change, needs_approval) {
            (TemplateEffect::Hot(fields), _) => {
                format!("hot: the platform applies {} without a restart", fields.join(", "))
            }
            (TemplateEffect::Either(fields), true) => format!(
                "hot or cold: the platform applies {} without a restart if it can, or a restart needs your approval",
                fields.join(", ")
            ),
            (TemplateEffect::Either(fields), false) => format!(
                "hot or cold: the platform applies {} without a restart if it can, or restarts the machine",
                fields.join(", ")
            ),
            (TemplateEffect::Cold(fields), true) => {
                format!("cold: a restart brings {} into effect, which needs your approval", fields.join(", "))
            }
            (TemplateEffect::Cold(fields), false) => {
                format!("cold: a restart brings {} into effect, which the platform makes", fields.join(", "))
            }
        };
    }
    match (disruption, &preview.pool.rollout.restarts) {
        (Disruption::NotRunning, _) => "it does not run",
        (Disruption::MetadataOnly, _) => "only labels and annotations",
        (Disruption::ForApproval, _) => "a restart needs your approval",
        (Disruption::Budgeted, Restarts::ByPlatform) => "the platform decides whether it restarts",
        (Disruption::Budgeted, Restarts::ByController) => "a restart follows within the disruption budget",
        (Disruption::Budgeted, Restarts::ByUser) => "in effect after you restart it",
    }
    .to_owned()
}
