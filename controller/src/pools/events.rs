//! Kubernetes events of pools.
//!
//! Their number is limited: up to ten events per reason and pass are sent separately, one event lists the
//! names of the rest, and [`EventSender`] limits what is left.

use vmpool_engine::condition::ConditionReason;
use vmpool_engine::limits::shorten_message;
use vmpool_kit::events::{EventKind, EventSender, EventSubject};
use vmpool_platforms::{ConditionEvent, Wording};

/// Maximum number of separate events per reason and pass.
pub(crate) const INDIVIDUAL: usize = 10;

/// The reason of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventReason {
    /// A machine was created.
    SuccessfulCreate,
    /// A standby machine became active.
    Activated,
    /// Creating a machine failed, or the activation of a standby machine.
    FailedCreate,
    /// The controller deleted a machine, or the target of a targeted removal is gone.
    SuccessfulDelete,
    /// A machine that the controller created does not belong to the pool.
    MachineLost,
    /// A disk that the controller created does not have its owner.
    DiskLost,
    /// Deleting a machine failed.
    FailedDelete,
    /// A missing disk of a machine was created.
    DiskCreated,
    /// The platform restored a disk, and the controller made it a disk of its machine again.
    DiskRestored,
    /// A free disk was allocated to a machine.
    DiskReused,
    /// The controller detached a disk from a machine.
    DiskDetached,
    /// A user detached a disk from a machine.
    DiskDetachedByHand,
    /// A free disk was deleted.
    DiskDeleted,
    /// A disk was expanded.
    DiskResized,
    /// Creating, allocating, marking, expanding or deleting a disk, or changing the disk that a machine
    /// refers to, failed.
    FailedDisk,
    /// Restoring labels, or writing the removal record, failed.
    FailedRepair,
    /// Deleting a revision that no machine needs failed.
    FailedRevisionPruning,
    /// A changed template was written to a machine.
    TemplateApplied,
    /// The controller requested a restart of a machine, so that a changed template takes effect.
    RestartRequested,
    /// The controller changed the end of the protection of a machine, which could not be read or was too
    /// late.
    ProtectionShortened,
    /// A machine finishes the work of its guest before it leaves or restarts.
    DrainBegan,
    /// A machine drains no longer, because its step does not follow.
    DrainEnded,
    /// A machine leaves or restarts although its hooks are not released, because its deadline has passed.
    DrainDeadlinePassed,
    /// Healing replaces no further machine, because too many are unhealthy.
    HealingBlocked,
    /// Writing a changed template to a machine failed.
    FailedTemplateUpdate,
    /// A reservation of a targeted removal expired.
    ReservationExpired,
    /// A setting of the pool cannot be read.
    InvalidSettings,
    /// An object that the template refers to is missing or does not fit. The reason is that of the condition.
    TemplateUnresolved(ConditionReason),
    /// The controller restored a copy of an object that the template refers to.
    PinRepaired,
    /// Reading objects that the plan depends on failed.
    FailedRead,
    /// A machine does not become ready by itself: the platform does not start it, or reports a failure.
    MachineNotStarted,
    /// The pool has made no progress until its deadline.
    ProgressDeadlineExceeded,
    /// Another controller may reconcile the pool, so this one does not.
    OtherControllerActive,
}

impl EventReason {
    /// The reason in the event.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SuccessfulCreate => "SuccessfulCreate",
            Self::Activated => "Activated",
            Self::FailedCreate => "FailedCreate",
            Self::SuccessfulDelete => "SuccessfulDelete",
            Self::MachineLost => "MachineLost",
            Self::DiskLost => "DiskLost",
            Self::FailedDelete => "FailedDelete",
            Self::DiskCreated => "DiskCreated",
            Self::DiskRestored => "DiskRestored",
            Self::DiskReused => "DiskReused",
            Self::DiskDetached => "DiskDetached",
            Self::DiskDetachedByHand => "DiskDetachedByHand",
            Self::DiskDeleted => "DiskDeleted",
            Self::DiskResized => "DiskResized",
            Self::FailedDisk => "FailedDisk",
            Self::FailedRepair => "FailedRepair",
            Self::FailedRevisionPruning => "FailedRevisionPruning",
            Self::TemplateApplied => "TemplateApplied",
            Self::RestartRequested => "RestartRequested",
            Self::ProtectionShortened => "ProtectionShortened",
            Self::DrainBegan => "DrainBegan",
            Self::DrainEnded => "DrainEnded",
            Self::DrainDeadlinePassed => "DrainDeadlinePassed",
            Self::HealingBlocked => "HealingBlocked",
            Self::FailedTemplateUpdate => "FailedTemplateUpdate",
            Self::ReservationExpired => "ReservationExpired",
            Self::InvalidSettings => "InvalidSettings",
            Self::TemplateUnresolved(reason) => reason.as_str(),
            Self::PinRepaired => "PinRepaired",
            Self::FailedRead => "FailedRead",
            Self::MachineNotStarted => "MachineNotStarted",
            Self::ProgressDeadlineExceeded => "ProgressDeadlineExceeded",
            Self::OtherControllerActive => "OtherControllerActive",
        }
    }

    fn action(self) -> &'static str {
        match self {
            Self::SuccessfulCreate | Self::FailedCreate | Self::MachineLost => "Create",
            Self::Activated => "Activate",
            Self::SuccessfulDelete | Self::FailedDelete => "Delete",
            Self::DiskCreated
            | Self::DiskRestored
            | Self::DiskReused
            | Self::DiskDetached
            | Self::DiskDetachedByHand
            | Self::DiskDeleted
            | Self::DiskResized
            | Self::DiskLost
            | Self::FailedDisk => "Disk",
            Self::FailedRepair
            | Self::FailedRevisionPruning
            | Self::ProtectionShortened
            | Self::PinRepaired => "Repair",
            Self::TemplateApplied | Self::RestartRequested | Self::FailedTemplateUpdate => "Update",
            Self::ReservationExpired => "Remove",
            Self::InvalidSettings | Self::TemplateUnresolved(_) | Self::FailedRead => "Read",
            Self::MachineNotStarted => "Start",
            Self::DrainBegan | Self::DrainEnded | Self::DrainDeadlinePassed => "Drain",
            Self::HealingBlocked => "Heal",
            Self::ProgressDeadlineExceeded | Self::OtherControllerActive => "Reconcile",
        }
    }

    /// Whether the event is a warning rather than a normal one.
    pub fn is_warning(self) -> bool {
        matches!(
            self,
            Self::FailedCreate
                | Self::MachineLost
                | Self::DiskLost
                | Self::FailedDelete
                | Self::FailedDisk
                | Self::DiskDetachedByHand
                | Self::FailedRepair
                | Self::FailedRevisionPruning
                | Self::FailedTemplateUpdate
                | Self::ProtectionShortened
                | Self::DrainDeadlinePassed
                | Self::HealingBlocked
                | Self::ReservationExpired
                | Self::InvalidSettings
                | Self::TemplateUnresolved(_)
                | Self::PinRepaired
                | Self::FailedRead
                | Self::MachineNotStarted
                | Self::ProgressDeadlineExceeded
                | Self::OtherControllerActive
        )
    }
}

/// One event of a pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PoolEvent {
    pub(crate) reason: EventReason,
    /// The name of the object, for the event that lists names.
    pub(crate) name: String,
    pub(crate) note: String,
}

/// Queues the events of one pass.
pub(crate) fn publish_pool_events<W: Wording>(
    sender: &EventSender,
    subject: &EventSubject,
    events: Vec<PoolEvent>,
) {
    for (reason, note) in condense_events(events) {
        sender.publish(subject, pool_event_kind::<W>(reason), note);
    }
}

/// An event of this reason, in the words of a platform.
fn pool_event_kind<W: Wording>(reason: EventReason) -> EventKind {
    EventKind {
        source: W::SOURCE,
        reason: W::reason(reason.as_str()).into(),
        action: reason.action(),
        is_warning: reason.is_warning(),
    }
}

/// Queues the events about changed conditions.
pub(crate) fn publish_transitions<W: Wording>(
    sender: &EventSender,
    subject: &EventSubject,
    transitions: Vec<ConditionEvent>,
) {
    for ConditionEvent { reason, is_warning, note } in transitions {
        let kind = EventKind { source: W::SOURCE, reason: reason.into(), action: "Status", is_warning };
        sender.publish(subject, kind, shorten_message(note));
    }
}

/// Maximum length of the note that the event about the rest repeats, in bytes.
const EXAMPLE: usize = 400;

/// At most [`INDIVIDUAL`] notes per reason, and one note with the names of the rest and the note of the first
/// of them. Equal notes are merged.
fn condense_events(events: Vec<PoolEvent>) -> Vec<(EventReason, String)> {
    let mut notes: Vec<(EventReason, String)> = Vec::new();
    let mut rest: Vec<(EventReason, String, Vec<String>)> = Vec::new();
    for PoolEvent { reason, name, note } in events {
        if notes.contains(&(reason, note.clone())) {
            continue;
        }
        if notes.iter().filter(|(other, _)| *other == reason).count() < INDIVIDUAL {
            notes.push((reason, note));
        } else if let Some((.., names)) = rest.iter_mut().find(|(other, ..)| *other == reason) {
            names.push(name);
        } else {
            rest.push((reason, note, vec![name]));
        }
    }
    notes.extend(rest.into_iter().map(|(reason, first, names)| {
        let first = first.get(..first.floor_char_boundary(EXAMPLE)).unwrap_or_default();
        (reason, format!("and {} more, the first: {first}; all: {}", names.len(), names.join(", ")))
    }));
    notes.into_iter().map(|(reason, note)| (reason, shorten_message(note))).collect()
}

#[cfg(test)]
mod tests;
