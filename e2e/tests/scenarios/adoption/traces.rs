//! The effects of a migration: writes, markers, and disturbed machines.

use std::collections::BTreeSet;

use anyhow::{Context, ensure};
use vmpool_api::{annotations, labels};
use vmpool_e2e::world::{PoolHandle, ScenarioWorld};
use vmpool_installation::programs::Accounts;
use vmpool_invariants::object::{JsonObject, TestedKind, object_uids};

use super::fixture::SETTLED;

/// Label and annotation of a machine: the revision in effect, and the last written revision.
pub(super) fn markers(machine: &JsonObject) -> (&str, &str) {
    let written = machine.annotation(annotations::PATCHED_TEMPLATE_HASH);
    (machine.label(labels::TEMPLATE_HASH).unwrap_or_default(), written.unwrap_or_default())
}

/// Successful writes of the controller since a mark, without leases and events: `verb resource name`.
pub(super) fn writes(world: &ScenarioWorld, since: usize) -> anyhow::Result<Vec<String>> {
    let audit = world.audit()?;
    let ours = audit[since..].iter().filter(|entry| entry.user == Accounts::controller_user());
    let writes = ours.filter(|entry| entry.is_write() && entry.is_success() && !entry.dry_run);
    let work = writes.filter(|entry| !["leases", "events"].contains(&entry.resource.as_str()));
    Ok(work
        .map(|entry| {
            let slash = if entry.subresource.is_empty() { "" } else { "/" };
            format!("{} {}{slash}{} {}", entry.verb, entry.resource, entry.subresource, entry.name)
        })
        .collect())
}

/// How many of these writes concern the object with this name.
pub(super) fn about(writes: &[String], name: &str) -> usize {
    writes.iter().filter(|write| write.ends_with(&format!(" {name}"))).count()
}

/// Machines that ran at a mark of the history and did not run at some later moment.
pub(super) fn disturbed(world: &ScenarioWorld, since: usize) -> Vec<String> {
    let history = world.recorder().history();
    let machines = history.changes().iter().filter(|change| change.kind == TestedKind::Machine);
    let mut running = BTreeSet::new();
    let mut disturbed = Vec::new();
    for (place, change) in machines.enumerate() {
        let (uid, runs) = (change.object.uid().to_owned(), change.object.is_running() && !change.removed);
        if place < since {
            if runs {
                running.insert(uid)
            } else {
                running.remove(&uid)
            };
        } else if running.contains(&uid) && (!runs || change.object.is_terminating()) {
            disturbed.push(format!("{} at revision {}", change.object.name(), change.revision));
        }
    }
    disturbed
}

/// A mark of the history for [`disturbed`].
pub(super) fn machine_changes(world: &ScenarioWorld) -> usize {
    world.recorder().history().changes().iter().filter(|change| change.kind == TestedKind::Machine).count()
}

pub(super) fn references(machine: &JsonObject) -> Vec<&str> {
    machine.disk_references().collect()
}

/// Checks that a migration has not stopped, created or deleted a machine, or changed its disks.
pub(super) async fn untouched(
    world: &ScenarioWorld,
    pool: &PoolHandle<'_>,
    before: &[JsonObject],
) -> anyhow::Result<()> {
    let now = pool.machines().await?;
    ensure!(object_uids(&now) == object_uids(before), "machines were created or deleted");
    for (name, kept) in SETTLED {
        let machine = world.get(TestedKind::Machine, name).await?;
        let former =
            before.iter().find(|former| former.name() == name).context("a machine of the fixture")?;
        ensure!(machine.at("/spec") == former.at("/spec"), "the spec of {name} was changed");
        ensure!(
            machine.at("/metadata/generation") == former.at("/metadata/generation"),
            "{name} was changed"
        );
        ensure!(references(&machine).contains(&kept), "{name} no longer uses {kept}");
    }
    Ok(())
}
