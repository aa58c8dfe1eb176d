//! Events on pools: the reasons and messages of KubeVirt's pool controller.

use vmpool_engine::ObjectId;
use vmpool_engine::condition::{ConditionReason, ConditionType, StatusCondition};
use vmpool_engine::plan::{DeleteReason, SurplusRule};
use vmpool_engine::revisions::RevisionId;
use vmpool_platform::{ConditionEvent, Wording};

/// The words of KubeVirt.
#[derive(Clone, Copy, Debug)]
pub struct KubeVirtWording;

impl Wording for KubeVirtWording {
    const SOURCE: &'static str = "virtualmachinepool-controller";

    /// KubeVirt has no words for what only vmpool does, for example for a reservation that expired.
    fn reason(reason: &'static str) -> &'static str {
        match reason {
            "TemplateApplied" | "RestartRequested" => "SuccessfulUpdate",
            // The removal of a finalizer and the preservation of storage are such repairs.
            "FailedTemplateUpdate" | "FailedRepair" => "FailedUpdate",
            other => other,
        }
    }

    fn created(namespace: &str, machine: &ObjectId) -> String {
        format!("Created VM {namespace}/{machine}")
    }

    fn deleted(namespace: &str, machine: &ObjectId, reason: DeleteReason) -> String {
        let why = match reason {
            DeleteReason::Surplus { rule: SurplusRule::Policy } | DeleteReason::Targeted { .. } => "",
            DeleteReason::Surplus { rule: SurplusRule::Draining } => {
                ", because draining machines leave first"
            }
            DeleteReason::Surplus { rule: SurplusRule::NeverReady } => {
                ", because machines that have not been ready leave first"
            }
            DeleteReason::StandbySurplus => ", a standby machine that the pool does not need any more",
            DeleteReason::StandbyReplaced => ", a standby machine; another one takes its place",
            DeleteReason::Recycled { cause } => {
                let (uid, why) = (&machine.uid, cause.clause());
                return format!(
                    "Deleted VM {namespace}/{machine} with uid {uid}, {why}; another machine takes its place"
                );
            }
            DeleteReason::StorageChanged { preserved: true } => {
                ", because dataVolumeTemplates changed; the pool creates it again with the preserved DataVolumes"
            }
            DeleteReason::StorageChanged { preserved: false } => {
                " and its DataVolumes, because dataVolumeTemplates changed; the pool creates it again with new DataVolumes"
            }
            DeleteReason::NotReady => ", which was not ready for too long; another machine takes its place",
            DeleteReason::Unhealthy => " and its DataVolumes, because it does not start",
        };
        format!("Deleted VM {namespace}/{machine} with uid {}{why}", machine.uid)
    }

    fn removed(namespace: &str, machine: &ObjectId, why: &str) -> String {
        format!("Deleted VM {namespace}/{machine} with uid {} {why}", machine.uid)
    }

    fn updated(namespace: &str, machine: &ObjectId, _: &RevisionId) -> String {
        format!("Updated VM {namespace}/{machine}")
    }

    fn restarted(namespace: &str, machine: &ObjectId) -> String {
        format!("Restarted VM {namespace}/{machine} to apply the template")
    }

    /// A failure is reported when its condition is added, and not when the reason changes.
    fn condition_events(before: &[StatusCondition], after: &[StatusCondition]) -> Vec<ConditionEvent> {
        let find = |conditions: &[StatusCondition], kind: ConditionType| {
            conditions.iter().find(|condition| condition.is(kind) && condition.status == "True").cloned()
        };
        let mut transitions = Vec::new();
        let failed = ConditionType::ReplicaFailure;
        if let (None, Some(failure)) = (find(before, failed), find(after, failed))
            // The rejected deletion has an event with this reason and text.
            && failure.reason != ConditionReason::FailedRevisionPruning.as_str()
        {
            let StatusCondition { reason, message, .. } = failure;
            transitions.push(ConditionEvent { reason, is_warning: true, note: message });
        }
        let normal = |reason: &str, note: &str| ConditionEvent {
            reason: reason.to_owned(),
            is_warning: false,
            note: note.to_owned(),
        };
        let (paused, reason) = (ConditionType::ReplicaPaused, ConditionReason::SuccessfulPaused);
        match (find(before, paused), find(after, paused)) {
            (None, Some(_)) => transitions.push(normal(reason.as_str(), "Pool is paused")),
            (Some(_), None) => transitions.push(normal("SuccessfulResume", "Pool is no longer paused")),
            _ => {}
        }
        transitions
    }
}

/// KubeVirt's word for the step of a pass that failed, in the condition `ReplicaFailure`.
pub(super) fn failed_step(failure: &str) -> &'static str {
    match ConditionReason::parse(failure) {
        Some(ConditionReason::FailedCreate) => "FailedScaleOut",
        Some(ConditionReason::FailedDelete) => "FailedScaleIn",
        // KubeVirt has no word for the loss of a machine, and the next leader recognizes it by its reason.
        Some(reason @ (ConditionReason::FailedRevisionPruning | ConditionReason::MachineLost)) => {
            reason.as_str()
        }
        _ => "FailedUpdate",
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn machine() -> ObjectId {
        ObjectId::new("herd-0", "u")
    }

    #[rstest]
    #[case::created(KubeVirtWording::created("rec", &machine()), "Created VM rec/herd-0")]
    #[case::deleted(
        KubeVirtWording::deleted("rec", &machine(), DeleteReason::Surplus { rule: SurplusRule::Policy }),
        "Deleted VM rec/herd-0 with uid u"
    )]
    #[case::deleted_with_its_storage(
        KubeVirtWording::deleted("rec", &machine(), DeleteReason::Unhealthy),
        "Deleted VM rec/herd-0 with uid u and its DataVolumes, because it does not start"
    )]
    #[case::created_again(
        KubeVirtWording::deleted("rec", &machine(), DeleteReason::StorageChanged { preserved: true }),
        "Deleted VM rec/herd-0 with uid u, because dataVolumeTemplates changed; \
         the pool creates it again with the preserved DataVolumes"
    )]
    #[case::removed(
        KubeVirtWording::removed("rec", &machine(), "as requested by \"alice\""),
        "Deleted VM rec/herd-0 with uid u as requested by \"alice\""
    )]
    #[case::updated(KubeVirtWording::updated("rec", &machine(), &"herd-2".into()), "Updated VM rec/herd-0")]
    #[case::restarted(KubeVirtWording::restarted("rec", &machine()), "Restarted VM rec/herd-0 to apply the template")]
    fn messages_have_the_words_of_kubevirt(#[case] message: String, #[case] expected: &str) {
        assert_eq!(message, expected);
    }

    #[rstest]
    #[case("SuccessfulCreate", "SuccessfulCreate")]
    #[case("FailedCreate", "FailedCreate")]
    #[case("SuccessfulDelete", "SuccessfulDelete")]
    #[case("FailedDelete", "FailedDelete")]
    #[case("TemplateApplied", "SuccessfulUpdate")]
    #[case("RestartRequested", "SuccessfulUpdate")]
    #[case("FailedTemplateUpdate", "FailedUpdate")]
    #[case("FailedRepair", "FailedUpdate")]
    #[case("ReservationExpired", "ReservationExpired")]
    fn reasons_have_the_words_of_kubevirt(#[case] reason: &'static str, #[case] expected: &str) {
        assert_eq!(KubeVirtWording::reason(reason), expected);
    }

    #[rstest]
    #[case("FailedCreate", "FailedScaleOut")]
    #[case("FailedDelete", "FailedScaleIn")]
    #[case("FailedTemplateUpdate", "FailedUpdate")]
    #[case("FailedRepair", "FailedUpdate")]
    #[case("FailedRead", "FailedUpdate")]
    #[case("FailedRevisionPruning", "FailedRevisionPruning")]
    fn the_condition_names_the_step_that_failed(#[case] failure: &str, #[case] expected: &str) {
        assert_eq!(failed_step(failure), expected);
    }

    fn condition(kind: &str, reason: &str) -> StatusCondition {
        StatusCondition {
            kind: kind.to_owned(),
            status: "True".to_owned(),
            reason: reason.to_owned(),
            message: format!("{reason} happened"),
            last_transition: jiff::Timestamp::UNIX_EPOCH,
            observed_generation: None,
        }
    }

    #[rstest]
    #[case::nothing(&[], &[], &[])]
    #[case::a_failure_is_added(
        &[], &[condition("ReplicaFailure", "FailedScaleOut")], &["Warning FailedScaleOut FailedScaleOut happened"])]
    #[case::a_failure_has_another_reason(
        &[condition("ReplicaFailure", "FailedScaleOut")], &[condition("ReplicaFailure", "FailedUpdate")], &[])]
    #[case::a_failure_ends(&[condition("ReplicaFailure", "FailedScaleOut")], &[], &[])]
    #[case::a_pause(
        &[], &[condition("ReplicaPaused", "SuccessfulPaused")], &["Normal SuccessfulPaused Pool is paused"])]
    #[case::a_pause_that_lasts(
        &[condition("ReplicaPaused", "SuccessfulPaused")], &[condition("ReplicaPaused", "SuccessfulPaused")], &[])]
    #[case::a_resume(
        &[condition("ReplicaPaused", "SuccessfulPaused")], &[], &["Normal SuccessfulResume Pool is no longer paused"])]
    #[case::a_condition_of_another_controller(&[], &[condition("Audited", "Passed")], &[])]
    fn a_condition_that_is_added_or_removed_is_an_event(
        #[case] before: &[StatusCondition],
        #[case] after: &[StatusCondition],
        #[case] expected: &[&str],
    ) {
        let text = |ConditionEvent { reason, is_warning, note }: ConditionEvent| {
            format!("{} {reason} {note}", if is_warning { "Warning" } else { "Normal" })
        };
        let transitions: Vec<_> =
            KubeVirtWording::condition_events(before, after).into_iter().map(text).collect();
        assert_eq!(transitions, expected);
    }
}
