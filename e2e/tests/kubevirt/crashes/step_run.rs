//! One fault in a step, and what must hold afterwards.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Result, ensure};
use vmpool_e2e::crash::Controllers;
use vmpool_e2e::wait::{eventually_true, let_time_pass};
use vmpool_installation::fault_proxy::{DropPoint, RequestLine, WatchFault};
use vmpool_test_cluster::control_plane::AuditEntry;

use super::steps::{CrashStep, ObjectUids, clean_up};
use crate::world::{KubeVirtWorld, text};

/// How long a step has incomplete watches before they are released.
const STALL: Duration = Duration::from_secs(3);

/// How long the test waits for the write at which it kills the controller.
const PATIENCE: Duration = Duration::from_secs(20);

/// No machine is created before its copies exist. A copy of the former pool can exist already, and gets the
/// new pool as its owner.
async fn copies_come_first(world: &KubeVirtWorld<'_>, writes: &[AuditEntry]) -> Result<()> {
    let place = |resource: &str, name: &str| {
        let is = |entry: &AuditEntry| {
            entry.verb == "create" && entry.resource == resource && entry.name == name && entry.is_success()
        };
        writes.iter().position(is)
    };
    for (name, machine) in world.machines().await? {
        let Some(created) = place("virtualmachines", &name) else { continue };
        for family in ["instancetype", "preference"] {
            let copy = text(&machine, &format!("/spec/{family}/revisionName")).to_owned();
            let copied = place("controllerrevisions", &copy);
            ensure!(
                copied.is_none_or(|copied| copied < created),
                "{name} was created before {copy}: {writes:#?}"
            );
        }
    }
    Ok(())
}

/// A write that counts. Those of the status of pools depend on the timing.
pub(super) fn counts(request: &RequestLine) -> bool {
    let path = request.path.split('?').next().unwrap_or_default();
    let parts = ["kubevirt.io", "controllerrevisions"];
    let status = path.contains("/virtualmachinepools/") && path.ends_with("/status");
    request.is_write() && parts.iter().any(|part| path.contains(part)) && !status
}

/// The machines that the controller created and deleted.
fn machines_of(entries: &[AuditEntry], verb: &str) -> (usize, BTreeSet<String>) {
    let of =
        |entry: &&AuditEntry| entry.verb == verb && entry.resource == "virtualmachines" && entry.is_success();
    let names: Vec<String> = entries.iter().filter(of).map(|entry| entry.name.clone()).collect();
    (names.len(), names.into_iter().collect())
}

/// The trials of one step.
pub(super) struct StepRun<'w, 'p> {
    pub(super) world: &'w KubeVirtWorld<'p>,
    pub(super) controllers: &'w Controllers,
    pub(super) step: CrashStep,
}

impl StepRun<'_, '_> {
    fn writes(&self) -> Vec<String> {
        let writes = self.controllers.writes().into_iter();
        writes.map(|request| format!("{} {}", request.method, request.path)).collect()
    }

    /// Runs the step without a fault, and returns its writes.
    pub(super) async fn without_fault(&self) -> Result<Vec<String>> {
        let (before, audited) = self.prepare().await?;
        self.step.begin(self.world).await?;
        self.step.end(self.world, &before).await?;
        self.controllers.until_quiet().await?;
        let writes = self.writes();
        self.verify(&before, audited).await?;
        Ok(writes)
    }

    /// Kills the controller at a write. Returns whether the write came.
    pub(super) async fn with_crash(&self, place: usize, drop_point: DropPoint) -> Result<bool> {
        let (before, audited) = self.prepare().await?;
        self.controllers.kill_at(counts, place, drop_point);
        self.step.begin(self.world).await?;
        // Without the write, nothing is killed.
        let killed = async || Ok(self.controllers.has_killed());
        let _ = eventually_true("the controller is killed", PATIENCE, killed).await;
        self.controllers.remove_traps();
        let happened = self.controllers.has_killed();
        self.controllers.start_successor().await?;
        self.verify(&before, audited).await?;
        self.controllers.restart_killed().await?;
        Ok(happened)
    }

    /// Runs the step with this fault of the watches of `resources`.
    pub(super) async fn with_watch_fault(&self, resources: &[&str], fault: WatchFault) -> Result<()> {
        let (before, audited) = self.prepare().await?;
        self.controllers.set_watch_fault(resources, fault);
        self.step.begin(self.world).await?;
        let_time_pass(STALL).await;
        self.controllers.release();
        self.verify(&before, audited).await
    }

    /// Prepares the step. Returns the state before it, and the number of writes of the controllers so far.
    async fn prepare(&self) -> Result<(ObjectUids, usize)> {
        self.step.prepare(self.world).await?;
        self.controllers.until_quiet().await?;
        let before = ObjectUids::of(self.world).await?;
        let audited = self.world.writes()?.len();
        self.controllers.clear_requests();
        Ok((before, audited))
    }

    /// Waits until the step has completed, and checks that no machine was created twice or deleted without
    /// reason.
    async fn verify(&self, before: &ObjectUids, audited: usize) -> Result<()> {
        self.step.end(self.world, before).await?;
        self.controllers.until_quiet().await?;
        let writes = self.world.writes()?.split_off(audited);
        let (created, names) = machines_of(&writes, "create");
        ensure!(created == names.len(), "a machine was created twice: {writes:#?}");
        if self.step == CrashStep::CreateTyped {
            copies_come_first(self.world, &writes).await?;
        }
        let (_, deleted) = machines_of(&writes, "delete");
        let mut expected: BTreeSet<String> =
            self.step.deleted().iter().map(|name| (*name).to_owned()).collect();
        if self.step == CrashStep::Remove {
            // The aggregated API may be faster.
            expected.retain(|name| deleted.contains(name));
        }
        if self.step == CrashStep::Return {
            // While its watches do not show the machine, the controller fills its place, and deletes the new
            // machine again.
            expected.extend(names);
        }
        ensure!(deleted == expected, "deletions of {expected:?} expected: {deleted:?}");
        clean_up(self.world).await
    }
}
