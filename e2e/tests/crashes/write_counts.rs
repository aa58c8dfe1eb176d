//! Counts the controller's effective writes in a scenario.

use std::collections::{BTreeMap, BTreeSet};

use vmpool_api::v1alpha2::GROUP;
use vmpool_e2e::world::ScenarioWorld;
use vmpool_installation::programs::Accounts;
use vmpool_invariants::object::TestedKind;
use vmpool_test_cluster::control_plane::AuditEntry;

/// Numbers of writes by `verb resource/subresource`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct WriteCounts(BTreeMap<String, usize>);

/// A position in the recorded history.
pub(crate) struct HistoryPosition {
    requests: usize,
    changes: usize,
}

impl HistoryPosition {
    /// The current end of the history.
    pub(crate) async fn now(world: &ScenarioWorld) -> anyhow::Result<Self> {
        world.recorder().catch_up().await?;
        let changes = world.recorder().history().changes().len();
        Ok(Self { requests: world.audit()?.len(), changes })
    }

    /// The controller's successful writes since the mark. Writes of the status are not included, because
    /// their number depends on the timing.
    pub(crate) fn write_counts(&self, world: &ScenarioWorld) -> anyhow::Result<WriteCounts> {
        let mut write_counts = WriteCounts::default();
        let mut deleted = BTreeSet::new();
        let requests = world.audit()?.split_off(self.requests);
        for entry in requests.iter().filter(|entry| is_work(entry) && entry.subresource != "status") {
            // After an unconfirmed deletion the controller deletes again. The second deletion succeeds but
            // has no effect.
            if entry.verb == "delete" && !deleted.insert((&entry.resource, &entry.name)) {
                continue;
            }
            *write_counts.0.entry(format!("{} {}", entry.verb, entry.resource)).or_default() += 1;
        }
        Ok(write_counts)
    }

    /// Number of writes on pools that changed nothing. A write that changes something creates a new revision
    /// of its pool.
    pub(crate) async fn writes_without_effect(&self, world: &ScenarioWorld) -> anyhow::Result<usize> {
        let requests = world.audit()?.split_off(self.requests);
        let writes = requests.iter().filter(|entry| {
            let changing = ["create", "update", "patch"].contains(&entry.verb.as_str());
            // The removal endpoint itself stores nothing; the write to the pool that it causes is counted.
            let stored = ["", "status", "scale"].contains(&entry.subresource.as_str());
            entry.group == GROUP
                && entry.resource == TestedKind::Pool.plural()
                && changing
                && stored
                && entry.is_success()
                && !entry.dry_run
        });
        let writes = writes.count();
        world.recorder().catch_up().await?;
        let history = world.recorder().history();
        let changes = &history.changes()[self.changes..];
        let revisions =
            changes.iter().filter(|change| change.kind == TestedKind::Pool && !change.removed).count();
        Ok(writes.saturating_sub(revisions))
    }
}

fn is_work(entry: &AuditEntry) -> bool {
    let ours = entry.group == GROUP || entry.resource == "controllerrevisions";
    entry.user == Accounts::controller_user() && entry.is_write() && entry.is_success() && ours
}

impl WriteCounts {
    /// The excess over `other`, where `more` returns the additional writes that are allowed for each key.
    pub(crate) fn excess_over(&self, other: &Self, more: impl Fn(&str) -> usize) -> Vec<String> {
        let excess = self.0.iter().filter_map(|(what, &count)| {
            let allowed = other.0.get(what).copied().unwrap_or_default() + more(what);
            (count > allowed).then(|| format!("{count} x {what}, but at most {allowed} are needed"))
        });
        excess.collect()
    }
}

impl std::fmt::Display for WriteCounts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let writes: Vec<String> = self.0.iter().map(|(what, count)| format!("{count} x {what}")).collect();
        f.write_str(&writes.join(", "))
    }
}
