//! I6: removing named machines takes effect exactly once.
//!
//! That its targets are not replaced is judged where machines join ([`super::growth`]), that nobody else leaves for
//! it where machines leave ([`super::removal`]).

use std::collections::{BTreeMap, BTreeSet};

use super::record::Record;
use super::{Grounds, Violation};
use crate::object::{Kind, Object};
use crate::recorder::History;

/// Acceptances that do not lower the count by their targets, that happen twice, or that nobody asked for; and removals
/// that were answered with a success and did not happen.
pub fn violations(history: &History, grounds: &Grounds) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut judge = Judge::default();
    history.replay(|before, change| {
        if change.kind == Kind::Pool && !change.removed {
            let former = before.get(Kind::Pool, change.object.uid());
            found.extend(judge.accepts(former, &change.object, grounds).into_iter().map(|what| {
                format!("pool {} at revision {}: {what}", change.object.name(), change.revision)
            }));
        }
    });
    let machine = |uid: &str| history.state().get(Kind::Machine, uid);
    for (uid, name) in &grounds.removed {
        if !judge.accepted.contains(uid) {
            found.push(format!("the removal of {name} was answered with a success, and never took effect"));
        // Who was taken out of the pool before it was deleted is no longer the pool's to delete.
        } else if machine(uid)
            .is_some_and(|machine| !machine.is_terminating() && !machine.owner_uid().is_empty())
        {
            found.push(format!("the removal of {name} was answered with a success, and it was not deleted"));
        }
    }
    found.into_iter().map(|what| Violation { invariant: "I6", what }).collect()
}

/// What was accepted so far.
#[derive(Default)]
struct Judge {
    accepted: BTreeSet<String>,
    /// The record of each pool, by UID.
    records: BTreeMap<String, Record>,
}

impl Judge {
    fn accepts(&mut self, former: Option<&Object>, pool: &Object, grounds: &Grounds) -> Vec<String> {
        let record = Record::of(pool);
        let known = self.records.insert(pool.uid().to_owned(), record.clone()).unwrap_or_default();
        let new: Vec<&String> = record.accepted.difference(&known.accepted).collect();
        let mut found = Vec::new();
        for &uid in &new {
            if !self.accepted.insert(uid.clone()) {
                found.push(format!("the removal of {uid} was accepted twice"));
            }
            if !grounds.asked.contains_key(uid) {
                found.push(format!("the removal of {uid} was accepted, and nobody had asked for it"));
            }
        }
        let replicas = |pool: &Object| pool.number("/spec/replicas").unwrap_or_default();
        let (had, has) = (former.map_or(0, replicas), replicas(pool));
        let wanted = had - i64::try_from(new.len()).unwrap_or(i64::MAX).min(had);
        if !new.is_empty() && has != wanted {
            found.push(format!(
                "the removal of {} machines was accepted, and replicas went from {had} to {has}",
                new.len()
            ));
        }
        found
    }
}
