//! Rules about the revision that a pool is pinned to: it must be stored, and its disks must have templates.

use std::collections::BTreeSet;

use serde_json::Value;
use vmpool_engine::ObjectId;
use vmpool_engine::admission::{AdmissionDecision, LookupOutcome, RuleResult, refuse_value};
use vmpool_engine::revisions::RevisionId;

use super::facts::{DvpAdmissionFacts, NeededObjects, StoredRevisionFacts};
use super::rollout;
use super::rule::Rule;
use super::view::{ReviewedPool, json_at_path};

/// The advice for a revision that is not stored.
const WAY_OUT: &str = "take the name of one of the pool's ControllerRevisions, which kubectl get controllerrevisions shows, \
                       or remove this";

/// The possible names of the object of the revision.
fn revision_object_names(pool: ReviewedPool<'_>, id: &str) -> [String; 2] {
    let uid = json_at_path(pool.0, &["metadata", "uid"]).as_str().unwrap_or_default();
    RevisionId::from(id).object_names(pool.name(), uid)
}

fn disk_template_names(pool: ReviewedPool<'_>) -> BTreeSet<&str> {
    pool.disks().map(|disk| disk.name).collect()
}

/// Whether the request changes the input of the rule.
pub(super) fn changes_pinned_revision(old: Option<ReviewedPool<'_>>, new: ReviewedPool<'_>) -> bool {
    let pinned = rollout::pinned_revision(new);
    pinned.is_some()
        && old.is_none_or(|old| {
            rollout::pinned_revision(old) != pinned || disk_template_names(old) != disk_template_names(new)
        })
}

/// The objects to read, for an existing pool.
pub(super) fn add_needed_revisions(
    old: Option<ReviewedPool<'_>>,
    new: ReviewedPool<'_>,
    needs: &mut NeededObjects,
) -> RuleResult {
    if !changes_pinned_revision(old, new) {
        return Ok(());
    }
    let Some(id) = rollout::pinned_revision(new) else { return Ok(()) };
    if old.is_none() {
        return refuse_missing_revision(new, &id, "a new pool has no earlier revisions");
    }
    needs.revisions = revision_object_names(new, &id).into();
    Ok(())
}

fn refuse_missing_revision(pool: ReviewedPool<'_>, id: &str, reason: &str) -> RuleResult {
    refuse_value(Rule::PinnedRevision, rollout::pinned_revision_path(pool), &Value::from(id), reason, WAY_OUT)
}

pub(super) fn check_pinned_revision(
    pool: ReviewedPool<'_>,
    facts: &DvpAdmissionFacts,
) -> Result<(), Box<AdmissionDecision>> {
    let Some(id) = rollout::pinned_revision(pool) else { return Ok(()) };
    let uid = json_at_path(pool.0, &["metadata", "uid"]).as_str().unwrap_or_default();
    let own = ObjectId::new(pool.name(), uid);
    // A revision of another pool, for example of an earlier pool with the same name, does not count.
    let ours = facts.revisions.iter().find_map(|found| match found {
        LookupOutcome::There(revision) => (revision.owner.as_ref() == Some(&own)).then_some(revision),
        LookupOutcome::Absent | LookupOutcome::Failed(_) => None,
    });
    if let Some(revision) = ours {
        return Ok(check_revision_disks(pool, &id, revision)?);
    }
    for (name, found) in revision_object_names(pool, &id).into_iter().zip(&facts.revisions) {
        if let LookupOutcome::Failed(reason) = found {
            return Err(Box::new(AdmissionDecision::Undecided(format!(
                "reading ControllerRevision {name:?}, which {} names: {reason}",
                rollout::pinned_revision_path(pool)
            ))));
        }
    }
    Ok(refuse_missing_revision(pool, &id, "the pool has no stored revision of this name")?)
}

/// Machines of the revision need a disk template for each of their disks.
fn check_revision_disks(pool: ReviewedPool<'_>, id: &str, revision: &StoredRevisionFacts) -> RuleResult {
    let there = disk_template_names(pool);
    match revision.disks.iter().find(|disk| !there.contains(disk.as_str())) {
        Some(disk) => refuse_value(
            Rule::PinnedRevision,
            rollout::pinned_revision_path(pool),
            &Value::from(id),
            format_args!(
                "machines of this revision have disk {disk:?}, and spec.virtualDiskTemplates has no entry for it"
            ),
            "add the entry, or name another revision",
        ),
        None => Ok(()),
    }
}
