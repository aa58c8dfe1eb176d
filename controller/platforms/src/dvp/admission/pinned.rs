//! Rules about the revision that a pool is pinned to: it must be stored, and its disks must have templates.

use std::collections::BTreeSet;

use serde_json::Value;
use vmpool_engine::ObjectId;
use vmpool_engine::admission::{Checked, Found, Outcome, refuse};
use vmpool_engine::revision::RevisionId;

use super::facts::{Facts, Needs, Revision};
use super::rollout;
use super::rule::Rule;
use super::view::{Pool, at};

/// The advice for a revision that is not stored.
const WAY_OUT: &str = "take the name of one of the pool's ControllerRevisions, which kubectl get controllerrevisions shows, \
                       or remove this";

/// The possible names of the object of the revision.
fn names_of(pool: Pool<'_>, id: &str) -> [String; 2] {
    let uid = at(pool.0, &["metadata", "uid"]).as_str().unwrap_or_default();
    RevisionId::from(id).object_names(pool.name(), uid)
}

fn names(pool: Pool<'_>) -> BTreeSet<&str> {
    pool.disks().map(|disk| disk.name).collect()
}

/// Whether the request changes the input of the rule.
pub(super) fn touched(old: Option<Pool<'_>>, new: Pool<'_>) -> bool {
    let pinned = rollout::pinned(new);
    pinned.is_some() && old.is_none_or(|old| rollout::pinned(old) != pinned || names(old) != names(new))
}

/// The objects to read, for an existing pool.
pub(super) fn needs(old: Option<Pool<'_>>, new: Pool<'_>, needs: &mut Needs) -> Checked {
    if !touched(old, new) {
        return Ok(());
    }
    let Some(id) = rollout::pinned(new) else { return Ok(()) };
    if old.is_none() {
        return unknown(new, &id, "a new pool has no earlier revisions");
    }
    needs.revisions = names_of(new, &id).into();
    Ok(())
}

fn unknown(pool: Pool<'_>, id: &str, reason: &str) -> Checked {
    refuse(Rule::PinnedRevision, rollout::pinned_by(pool), &Value::from(id), reason, WAY_OUT)
}

pub(super) fn check(pool: Pool<'_>, facts: &Facts) -> Result<(), Box<Outcome>> {
    let Some(id) = rollout::pinned(pool) else { return Ok(()) };
    let uid = at(pool.0, &["metadata", "uid"]).as_str().unwrap_or_default();
    let own = ObjectId::new(pool.name(), uid);
    // A revision of another pool, for example of an earlier pool with the same name, does not count.
    let ours = facts.revisions.iter().find_map(|found| match found {
        Found::There(revision) => (revision.owner.as_ref() == Some(&own)).then_some(revision),
        Found::Absent | Found::Failed(_) => None,
    });
    if let Some(revision) = ours {
        return Ok(fits(pool, &id, revision)?);
    }
    for (name, found) in names_of(pool, &id).into_iter().zip(&facts.revisions) {
        if let Found::Failed(reason) = found {
            return Err(Box::new(Outcome::Undecided(format!(
                "reading ControllerRevision {name:?}, which {} names: {reason}",
                rollout::pinned_by(pool)
            ))));
        }
    }
    Ok(unknown(pool, &id, "the pool has no stored revision of this name")?)
}

/// Machines of the revision need a disk template for each of their disks.
fn fits(pool: Pool<'_>, id: &str, revision: &Revision) -> Checked {
    let there = names(pool);
    match revision.disks.iter().find(|disk| !there.contains(disk.as_str())) {
        Some(disk) => refuse(
            Rule::PinnedRevision,
            rollout::pinned_by(pool),
            &Value::from(id),
            format_args!(
                "machines of this revision have disk {disk:?}, and spec.virtualDiskTemplates has no entry for it"
            ),
            "add the entry, or name another revision",
        ),
        None => Ok(()),
    }
}
