//! What a story costs: the writes of the controller that had an effect.

use std::collections::{BTreeMap, BTreeSet};

use vmpool_e2e::cluster::AuditEntry;
use vmpool_e2e::object::{GROUP, Kind};
use vmpool_e2e::programs::Accounts;
use vmpool_e2e::world::World;

/// Writes by `verb resource/subresource`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Ledger(BTreeMap<String, usize>);

/// A place in what a world has recorded.
pub(crate) struct Mark {
    requests: usize,
    changes: usize,
}

impl Mark {
    /// The end, as it is now.
    pub(crate) async fn now(world: &World) -> anyhow::Result<Self> {
        world.recorder().catch_up().await?;
        let changes = world.recorder().history().changes().len();
        Ok(Self { requests: world.audit()?.len(), changes })
    }

    /// The controller's writes since then that were answered with a success. The status is judged apart: how often it
    /// is written depends on how fast the world moves.
    pub(crate) fn ledger(&self, world: &World) -> anyhow::Result<Ledger> {
        let mut ledger = Ledger::default();
        let mut deleted = BTreeSet::new();
        let requests = world.audit()?.split_off(self.requests);
        for entry in requests.iter().filter(|entry| is_work(entry) && entry.subresource != "status") {
            // Whoever got no answer deletes again, which succeeds as long as the object is there and does nothing more.
            if entry.verb == "delete" && !deleted.insert((&entry.resource, &entry.name)) {
                continue;
            }
            *ledger.0.entry(format!("{} {}", entry.verb, entry.resource)).or_default() += 1;
        }
        Ok(ledger)
    }

    /// How many writes on pools changed nothing. Each one that does makes a revision of its pool.
    pub(crate) async fn in_vain(&self, world: &World) -> anyhow::Result<usize> {
        let requests = world.audit()?.split_off(self.requests);
        let writes = requests.iter().filter(|entry| {
            let changing = ["create", "update", "patch"].contains(&entry.verb.as_str());
            // A removal by name is none itself; what it writes to the pool is.
            let stored = ["", "status", "scale"].contains(&entry.subresource.as_str());
            entry.group == GROUP
                && entry.resource == Kind::Pool.plural()
                && changing
                && stored
                && entry.is_success()
                && !entry.dry_run
        });
        let writes = writes.count();
        world.recorder().catch_up().await?;
        let history = world.recorder().history();
        let changes = &history.changes()[self.changes..];
        let revisions = changes.iter().filter(|change| change.kind == Kind::Pool && !change.removed).count();
        Ok(writes.saturating_sub(revisions))
    }
}

fn is_work(entry: &AuditEntry) -> bool {
    let ours = entry.group == GROUP || entry.resource == "controllerrevisions";
    entry.user == Accounts::controller_user() && entry.is_write() && entry.is_success() && ours
}

impl Ledger {
    /// What is in this one and not in `other`, where `other` may have so many more by what it is.
    pub(crate) fn beyond(&self, other: &Self, more: impl Fn(&str) -> usize) -> Vec<String> {
        let excess = self.0.iter().filter_map(|(what, &count)| {
            let allowed = other.0.get(what).copied().unwrap_or_default() + more(what);
            (count > allowed).then(|| format!("{count} x {what}, and {allowed} would have done"))
        });
        excess.collect()
    }
}

impl std::fmt::Display for Ledger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let writes: Vec<String> = self.0.iter().map(|(what, count)| format!("{count} x {what}")).collect();
        f.write_str(&writes.join(", "))
    }
}
