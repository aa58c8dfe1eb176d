//! The copies of objects that templates refer to, as far as they decide about revisions and conditions.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::identity::RevisionId;
use crate::condition::ConditionReason;
use crate::ids::ObjectId;

/// What is known of the copies of objects that the templates of one pool refer to. A pool carries it as one
/// value, which is empty on a platform without copies. Only the planner `revisions` and the conditions about
/// copies look into it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RevisionCopies {
    /// Whether the pool lost a copy of an object that the current template refers to, because a client
    /// deleted the copy, or removed the pool from its owners. Storing the revision again restores the copy.
    pub lost: bool,
    /// Whether an object that the current template refers to is being deleted, and no stored revision
    /// contains a copy of it. The controller then stores the current revision although no machine needs it
    /// yet: otherwise the pool would have to keep the object.
    pub wanted: bool,
    /// The stored revision whose copies the current one contains when it is stored. It is not deleted before.
    pub inherited_from: Option<RevisionId>,
    /// The stored revisions of other templates that lost a copy. Their machines cannot start without it.
    pub others_lost: Vec<RevisionId>,
    /// Whether the cluster does not let machines share copies of objects, so that the controller writes the
    /// objects into the machines.
    pub unavailable: bool,
    /// How the copies of the current revision differ from the objects as they are now; `None` if they do not,
    /// or this is unknown.
    pub outdated: Option<PinReport>,
    /// What machines of the stored revisions refer to, in the spelling of
    /// [`MachineReferences::text`](crate::model::MachineReferences). Revisions without copies are absent,
    /// because the platform may complete the references of their machines.
    pub references: BTreeMap<RevisionId, Arc<str>>,
    /// The copies that machines of the current revision use, without those of a revision that is not stored.
    pub used: Arc<[UsedCopy]>,
    /// Copies of objects that the pool owns and that no stored revision and no machine refers to.
    pub unused: Vec<ObjectId>,
}

/// How a pinned copy differs from the object that it was made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinReport {
    /// The reason in the condition.
    pub reason: ConditionReason,
    /// A sentence with the object, and what to do.
    pub message: String,
}

/// An object that the template refers to, and the copy of it that machines use, as the status shows them. An
/// empty text is a field that the reference does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsedCopy {
    /// The field of the template with the reference.
    pub field: &'static str,
    /// Name of the object.
    pub name: Arc<str>,
    /// Kind of the object, in the spelling of the template.
    pub kind: Arc<str>,
    /// Name of the copy.
    pub copy: Arc<str>,
    /// The volume whose labels name the object.
    pub volume: Arc<str>,
    /// What happens if they do not, as the template spells it.
    pub volume_policy: Arc<str>,
}
