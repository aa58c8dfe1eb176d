use std::collections::BTreeSet;

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

#[test]
fn clients_have_constants_with_the_texts_of_all_types() {
    let texts: Vec<&str> = ConditionType::ALL.into_iter().map(ConditionType::as_str).collect();
    assert_eq!(pool::ALL, texts, "vmpool_api::conditions::pool lists the types in the order of the engine");
}

#[test]
fn clients_have_constants_with_the_texts_of_all_reasons() {
    let texts: Vec<&str> = ConditionReason::ALL.into_iter().map(ConditionReason::as_str).collect();
    assert_eq!(
        reason::ALL,
        texts,
        "vmpool_api::conditions::pool::reason lists the reasons in the same order"
    );
}

#[test]
fn three_conditions_have_the_meaning_of_kstatus() {
    let condition = |kind: ConditionType| StatusCondition {
        kind: kind.to_string(),
        status: "True".to_owned(),
        reason: String::new(),
        message: String::new(),
        last_transition: Timestamp::UNIX_EPOCH,
        observed_generation: None,
    };
    let found: Vec<ConditionType> =
        ConditionType::ALL.into_iter().filter(|kind| condition(*kind).is_kstatus()).collect();
    assert_eq!(found, [ConditionType::Ready, ConditionType::Reconciling, ConditionType::Stalled]);
}
