//! Judges a rollout by the changes of its pool.

use anyhow::ensure;
use vmpool_invariants::object::JsonObject;

#[cfg(test)]
mod tests;

/// What the status of a pool has shown about a rollout to all its machines.
#[derive(Debug)]
pub struct RolloutTrace {
    /// The generation of the pool that the rollout belongs to.
    generation: i64,
    replicas: i64,
    fewest_ready: i64,
    /// Whether a status described some machines as updated or ready, and others not.
    is_partial_seen: bool,
    is_complete: bool,
}

impl RolloutTrace {
    /// A rollout that begins with this generation of a pool with this number of ready machines.
    pub fn new(generation: i64, replicas: i64) -> Self {
        Self { generation, replicas, fewest_ready: replicas, is_partial_seen: false, is_complete: false }
    }

    /// Takes the next state of the pool into account. If its status describes an earlier generation, the
    /// controller has not begun the rollout, and the state is ignored.
    pub fn observe(&mut self, pool: &JsonObject) {
        if pool.number("/status/observedGeneration").is_none_or(|observed| observed < self.generation) {
            return;
        }
        // A counter that is 0 may be absent.
        let count = |path| pool.number(path).unwrap_or_default();
        let (ready, updated) = (count("/status/readyReplicas"), count("/status/updatedReplicas"));
        let is_part = |number: i64| 0 < number && number < self.replicas;
        self.fewest_ready = self.fewest_ready.min(ready);
        self.is_partial_seen |= is_part(ready) || is_part(updated);
        self.is_complete =
            [ready, updated, count("/status/replicas")].iter().all(|number| *number == self.replicas);
    }

    /// Whether the last state had all machines, ready and updated.
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Checks that the machines were updated one after the other.
    ///
    /// # Errors
    /// If no machine was ready at some moment, or if no state in the middle of the rollout was seen, so that
    /// nothing is known about it.
    pub fn check_never_all_at_once(&self) -> anyhow::Result<()> {
        ensure!(self.fewest_ready > 0, "the rollout stopped all machines at the same time");
        ensure!(self.is_partial_seen, "no status showed the rollout before its end");
        Ok(())
    }
}
