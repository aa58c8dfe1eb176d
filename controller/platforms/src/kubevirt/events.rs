//! Events on pools: the types, reasons and messages of KubeVirt's pool controller.
//!
//! The controller emits an event only for an action that it took.

use vmpool_engine::condition::SUCCESSFUL_PAUSED;

/// The component in the source of events.
pub const COMPONENT: &str = "virtualmachinepool-controller";
/// Up to this number, each machine of a pass gets an event of its own. Beyond it, one event lists their names.
pub const INDIVIDUAL: usize = 10;

/// The step of a pass that failed, as the reason of the condition `ReplicaFailure` and of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailedStep {
    /// Creating machines.
    ScaleOut,
    /// Deleting machines.
    ScaleIn,
    /// Updating or restarting machines.
    Update,
    /// Deleting revisions that no machine names.
    RevisionPruning,
}

impl FailedStep {
    /// The reason.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::ScaleOut => "FailedScaleOut",
            Self::ScaleIn => "FailedScaleIn",
            Self::Update => "FailedUpdate",
            Self::RevisionPruning => "FailedRevisionPruning",
        }
    }
}

/// The type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventType {
    /// Something was done.
    Normal,
    /// Something failed.
    Warning,
}

/// An event on a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its type.
    pub kind: EventType,
    /// Its reason.
    pub reason: &'static str,
    /// Its message.
    pub message: String,
}

impl Event {
    fn normal(reason: &'static str, message: String) -> Self {
        Self { kind: EventType::Normal, reason, message }
    }

    fn warning(reason: &'static str, message: String) -> Self {
        Self { kind: EventType::Warning, reason, message }
    }

    /// A machine was created.
    pub fn created(namespace: &str, machine: &str) -> Self {
        Self::normal("SuccessfulCreate", format!("Created VM {namespace}/{machine}"))
    }

    /// Several machines were created.
    pub fn created_many(namespace: &str, machines: &[&str]) -> Self {
        let message = format!("Created {} VMs in {namespace}: {}", machines.len(), machines.join(", "));
        Self::normal("SuccessfulCreate", message)
    }

    /// Machines of a batch were not created. `error` is the first error.
    pub fn create_failed(error: &str) -> Self {
        Self::warning("FailedCreate", format!("Failed to create VM: {error}"))
    }

    /// A machine was deleted, because of a scale-down or by autohealing.
    pub fn deleted(namespace: &str, machine: &str, uid: &str) -> Self {
        Self::normal("SuccessfulDelete", format!("Deleted VM {namespace}/{machine} with uid {uid}"))
    }

    /// Several machines were deleted.
    pub fn deleted_many(namespace: &str, machines: &[&str]) -> Self {
        let message = format!("Deleted {} VMs in {namespace}: {}", machines.len(), machines.join(", "));
        Self::normal("SuccessfulDelete", message)
    }

    /// The delete of a machine failed.
    pub fn delete_failed(namespace: &str, machine: &str, error: &str) -> Self {
        Self::warning("FailedDelete", format!("Failed to delete VM {namespace}/{machine}: {error}"))
    }

    /// A template was written to a machine.
    pub fn updated(namespace: &str, machine: &str) -> Self {
        Self::normal("SuccessfulUpdate", format!("Updated VM {namespace}/{machine}"))
    }

    /// A machine was restarted so that it runs with its template.
    pub fn restarted(namespace: &str, machine: &str) -> Self {
        let message = format!("Restarted VM {namespace}/{machine} to apply the template");
        Self::normal("SuccessfulUpdate", message)
    }

    /// A machine was deleted with its storage, because the DataVolume templates changed.
    pub fn recreated(namespace: &str, machine: &str) -> Self {
        let message = format!(
            "Deleted VM {namespace}/{machine} with its DataVolumes, because dataVolumeTemplates changed; the pool \
             creates it again with new DataVolumes"
        );
        Self::normal("SuccessfulDelete", message)
    }

    /// Writing a template to a machine, its restart, preserving its storage or removing its finalizer failed.
    pub fn update_failed(namespace: &str, machine: &str, error: &str) -> Self {
        Self::warning("FailedUpdate", format!("Failed to update VM {namespace}/{machine}: {error}"))
    }

    /// The condition `ReplicaFailure` was added.
    pub fn failed(step: FailedStep, error: &str) -> Self {
        Self::warning(step.reason(), error.to_owned())
    }

    /// The pool was paused.
    pub fn paused() -> Self {
        Self::normal(SUCCESSFUL_PAUSED, "Pool is paused".to_owned())
    }

    /// The pool was resumed.
    pub fn resumed() -> Self {
        Self::normal("SuccessfulResume", "Pool is no longer paused".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::created(Event::created("rec", "herd-0"), "Normal SuccessfulCreate Created VM rec/herd-0")]
    #[case::created_many(
        Event::created_many("rec", &["herd-0", "herd-1"]), "Normal SuccessfulCreate Created 2 VMs in rec: herd-0, herd-1")]
    #[case::create_failed(Event::create_failed("quota"), "Warning FailedCreate Failed to create VM: quota")]
    #[case::deleted(
        Event::deleted("rec", "herd-0", "u"),
        "Normal SuccessfulDelete Deleted VM rec/herd-0 with uid u"
    )]
    #[case::deleted_many(Event::deleted_many("rec", &["herd-0", "herd-1"]), "Normal SuccessfulDelete Deleted 2 VMs in rec: herd-0, herd-1")]
    #[case::delete_failed(
        Event::delete_failed("rec", "herd-0", "conflict"),
        "Warning FailedDelete Failed to delete VM rec/herd-0: conflict"
    )]
    #[case::updated(Event::updated("rec", "herd-0"), "Normal SuccessfulUpdate Updated VM rec/herd-0")]
    #[case::update_failed(
        Event::update_failed("rec", "herd-0", "conflict"),
        "Warning FailedUpdate Failed to update VM rec/herd-0: conflict"
    )]
    #[case::scale_out(Event::failed(FailedStep::ScaleOut, "e"), "Warning FailedScaleOut e")]
    #[case::scale_in(Event::failed(FailedStep::ScaleIn, "e"), "Warning FailedScaleIn e")]
    #[case::update(Event::failed(FailedStep::Update, "e"), "Warning FailedUpdate e")]
    #[case::pruning(Event::failed(FailedStep::RevisionPruning, "e"), "Warning FailedRevisionPruning e")]
    #[case::paused(Event::paused(), "Normal SuccessfulPaused Pool is paused")]
    #[case::resumed(Event::resumed(), "Normal SuccessfulResume Pool is no longer paused")]
    fn events_have_the_words_of_kubevirt(#[case] event: Event, #[case] expected: &str) {
        assert_eq!(format!("{:?} {} {}", event.kind, event.reason, event.message), expected);
    }
}
