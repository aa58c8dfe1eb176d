//! Conditions about the objects that the template refers to, and the copies of them that machines use.

use std::sync::Arc;

use crate::condition::{ComputedCondition, ConditionReason, ConditionType};
use crate::model::Machine;
use crate::plan::observed::ObservedPool;

/// The conditions that hold. Each is True, and absent otherwise.
pub(super) fn pin_conditions(observed: &ObservedPool<'_>) -> Vec<ComputedCondition> {
    let revision = &observed.pool.revision;
    let mut wanted = Vec::new();
    let mut add =
        |kind, reason, message| wanted.push(ComputedCondition { kind, holds: true, reason, message });
    if revision.copies.unavailable {
        let message = "the KubeVirt object has the reference policy expand or expandAll, so machines cannot share copies of \
             instance types; the controller writes instance type and preference into the machines";
        add(ConditionType::PinningUnavailable, ConditionReason::ClusterPolicyExpands, message.to_owned());
    }
    if let Some(outdated) = &revision.copies.outdated {
        add(ConditionType::InstancetypeOutdated, outdated.reason, outdated.message.clone());
    }
    let drifted = drifted_machines(observed);
    if !drifted.is_empty() {
        let names = summarize_names(&drifted);
        let message = format!(
            "{} to another instance type or preference than the revision that was written to them: {names}; the next \
             update of their template sets them back",
            if drifted.len() == 1 {
                "1 machine refers".to_owned()
            } else {
                format!("{} machines refer", drifted.len())
            }
        );
        add(ConditionType::MembersDrifted, ConditionReason::ReferencesChanged, message);
    }
    wanted
}

/// The machines of the pool that refer to other objects than the revision that was written to them, by name.
pub(crate) fn drifted_machines<'a>(observed: &ObservedPool<'a>) -> Vec<&'a str> {
    let references = &observed.pool.revision.copies.references;
    if references.is_empty() {
        return Vec::new();
    }
    let is_drifted = |machine: &&Arc<Machine>| {
        let expected = machine.written.as_ref().and_then(|written| references.get(written));
        !machine.terminating && expected.is_some_and(|expected| *expected != machine.references.text)
    };
    let mut names: Vec<&str> =
        observed.pool_machines().filter(is_drifted).map(|machine| &*machine.id.name).collect();
    names.sort_unstable();
    names
}

/// The first names of a list, and the number of the others.
fn summarize_names(names: &[&str]) -> String {
    const SHOWN: usize = 10;
    let shown = names.iter().take(SHOWN).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
