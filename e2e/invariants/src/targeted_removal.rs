//! I6: a targeted removal takes effect exactly once.
//!
//! [`super::machine_count`] checks that its targets are not replaced, and [`super::removal`] that no other
//! machine is removed in their place.

use std::collections::{BTreeMap, BTreeSet};

use super::draining::has_hooks;
use super::removal_record::ParsedRemovalRecord;
use super::{UserActions, Violation};
use crate::object::{JsonObject, TestedKind};
use crate::recorder::RecordedHistory;

/// Finds removals that were accepted without lowering `replicas` by their targets, that were accepted twice
/// or without a request, and removals that were answered with a success but did not happen.
pub fn check_targeted_removals(history: &RecordedHistory, actions: &UserActions) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut accepted_removals = AcceptedRemovals::default();
    history.replay(|before, change| {
        if change.kind == TestedKind::Pool && !change.removed {
            let former = before.get(TestedKind::Pool, change.object.uid());
            found.extend(accepted_removals.check(former, &change.object, actions).into_iter().map(|what| {
                format!("pool {} at revision {}: {what}", change.object.name(), change.revision)
            }));
        }
    });
    let machine = |uid: &str| history.state().get(TestedKind::Machine, uid);
    for (uid, name) in &actions.completed_removals {
        if !accepted_removals.accepted.contains(uid) {
            found.push(format!("the removal of {name} was answered with a success, but never took effect"));
        // A machine that was released before it was deleted is no longer the pool's to delete.
        } else if machine(uid).is_some_and(|machine| {
            !machine.is_terminating() && !machine.owner_uid().is_empty() && !waits_for_pool(history, machine)
        }) {
            found.push(format!(
                "the removal of {name} was answered with a success, but the machine was not deleted"
            ));
        }
    }
    found.into_iter().map(|what| Violation { invariant: "I6", what }).collect()
}

/// Whether the machine has hooks, and its pool is paused: the controller neither begins nor ends drains
/// there.
fn waits_for_pool(history: &RecordedHistory, machine: &JsonObject) -> bool {
    let pool = history.state().get(TestedKind::Pool, machine.owner_uid());
    has_hooks(machine) && pool.is_some_and(|pool| pool.is_kubevirt() && pool.at("/spec/paused") == true)
}

/// The removals that were accepted so far.
#[derive(Default)]
struct AcceptedRemovals {
    accepted: BTreeSet<String>,
    /// The removal record of each pool, by UID.
    records: BTreeMap<String, ParsedRemovalRecord>,
}

impl AcceptedRemovals {
    fn check(
        &mut self,
        former: Option<&JsonObject>,
        pool: &JsonObject,
        actions: &UserActions,
    ) -> Vec<String> {
        let record = ParsedRemovalRecord::of(pool);
        let known = self.records.insert(pool.uid().to_owned(), record.clone()).unwrap_or_default();
        let new: Vec<&String> = record.accepted.difference(&known.accepted).collect();
        let mut found = Vec::new();
        for &uid in &new {
            if !self.accepted.insert(uid.clone()) {
                found.push(format!("the removal of {uid} was accepted twice"));
            }
            if !actions.removal_requests.contains_key(uid) {
                found.push(format!("the removal of {uid} was accepted without a request"));
            }
        }
        let replicas = |pool: &JsonObject| pool.number("/spec/replicas").unwrap_or_default();
        let (had, has) = (former.map_or(0, replicas), replicas(pool));
        let wanted = had - i64::try_from(new.len()).unwrap_or(i64::MAX).min(had);
        if !new.is_empty() && has != wanted {
            found.push(format!(
                "the removal of {} machines was accepted, but replicas changed from {had} to {has}",
                new.len()
            ));
        }
        found
    }
}
