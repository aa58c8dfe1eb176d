use std::collections::BTreeSet;

use rstest::rstest;
use vmpool_api::conditions::pool::{self, reason};

use super::*;

#[test]
fn each_type_has_a_text_of_its_own() {
    let texts: BTreeSet<&str> = ConditionType::ALL.into_iter().map(ConditionType::as_str).collect();
    assert_eq!(texts.len(), ConditionType::ALL.len());
    for kind in ConditionType::ALL {
        assert_eq!(ConditionType::parse(kind.as_str()), Some(kind));
        assert_eq!(kind.to_string(), kind.as_str());
    }
    assert_eq!(ConditionType::parse("example.com/Audited"), None);
}

#[test]
fn each_reason_has_a_text_of_its_own() {
    let texts: BTreeSet<&str> = ConditionReason::ALL.into_iter().map(ConditionReason::as_str).collect();
    assert_eq!(texts.len(), ConditionReason::ALL.len());
    for reason in ConditionReason::ALL {
        assert_eq!(ConditionReason::parse(reason.as_str()), Some(reason));
        assert_eq!(reason.to_string(), reason.as_str());
    }
}

#[rstest]
#[case(pool::AVAILABLE, ConditionType::Available)]
#[case(pool::PROGRESSING, ConditionType::Progressing)]
#[case(pool::SYNCED, ConditionType::Synced)]
#[case(pool::REPLICA_FAILURE, ConditionType::ReplicaFailure)]
#[case(pool::DISK_DETACHED, ConditionType::DiskDetached)]
#[case(pool::TEMPLATE_OVERRIDDEN, ConditionType::TemplateOverridden)]
fn clients_have_constants_with_the_texts_of_the_types(#[case] constant: &str, #[case] kind: ConditionType) {
    assert_eq!(constant, kind.as_str());
}

#[rstest]
#[case(reason::ALL_REPLICAS_READY, ConditionReason::AllReplicasReady)]
#[case(reason::INSUFFICIENT_READY_REPLICAS, ConditionReason::InsufficientReadyReplicas)]
#[case(reason::REPLICAS_PROGRESSING, ConditionReason::ReplicasProgressing)]
#[case(reason::POOL_SYNCED, ConditionReason::PoolSynced)]
#[case(reason::ROLLOUT_IN_PROGRESS, ConditionReason::RolloutInProgress)]
#[case(reason::RESTART_PENDING_APPROVAL, ConditionReason::RestartPendingApproval)]
#[case(reason::RECREATION_REQUIRED, ConditionReason::RecreationRequired)]
#[case(reason::DISK_DETACHED_BY_HAND, ConditionReason::DiskDetachedByHand)]
#[case(reason::FIELDS_OVERRIDDEN, ConditionReason::FieldsOverridden)]
#[case(reason::FAILED_CREATE, ConditionReason::FailedCreate)]
#[case(reason::FAILED_DELETE, ConditionReason::FailedDelete)]
#[case(reason::DISK_FAILURE, ConditionReason::DiskFailure)]
fn clients_have_constants_with_the_texts_of_the_reasons(
    #[case] constant: &str,
    #[case] reason: ConditionReason,
) {
    assert_eq!(constant, reason.as_str());
}
