//! A CI system that drives a KubeVirt pool by its scale. Each machine runs one job and powers itself off.
//!
//! ```text
//! every 5 s:  results of jobs ─▶ PUT scale with the number of open jobs ─▶ DELETE machines that have finished
//! ```
//!
//! A scenario on a real API server with the rights of this client is in `e2e/tests/kubevirt/ci_client.rs`.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use vmpool_model::{ApiError, Verb};

use crate::manifest::POOL;
use crate::manifest_kubevirt::kubevirt_pool;
use crate::world::{NAMESPACE, SimulatedWorld};

/// The time between two rounds of the client.
pub const ROUND: Duration = Duration::from_secs(5);
/// The most machines for which the client asks.
const MOST_MACHINES: usize = 12;
/// How long a job takes, from the start of its machine until its guest powers off.
const JOB: &str = "45s";

/// The machines of the pool.
pub(crate) const MACHINES: &str = "virtualmachines.kubevirt.io";
const INSTANCES: &str = "virtualmachineinstances.kubevirt.io";

/// The pool of the client: it begins empty, and a guest that powers off stays off.
pub fn pool_of_runners(scale_in: &str) -> Value {
    let mut pool = kubevirt_pool(0, scale_in, &[]);
    let template = &mut pool["spec"]["virtualMachineTemplate"];
    template["spec"]["runStrategy"] = json!("RerunOnFailure");
    template["metadata"]["annotations"] = json!({ "simulator.vmpool.dev/shutdown": JOB });
    pool
}

/// What the client knows.
#[derive(Debug, Default)]
pub struct CiClient {
    /// The number of jobs that users have submitted.
    pub jobs: usize,
    /// The UIDs of the machines whose job has a result.
    pub finished: BTreeSet<String>,
    /// Those of them that the client deletes in its next round.
    to_delete: BTreeSet<String>,
    /// The number of changes of the API server that the client has evaluated.
    seen: usize,
}

impl CiClient {
    /// The number of jobs without a result.
    pub fn open_jobs(&self) -> usize {
        self.jobs.saturating_sub(self.finished.len())
    }

    /// Waits, and then acts once.
    ///
    /// # Errors
    /// The refusal of the write of the scale.
    pub async fn run_round(&mut self, world: &mut SimulatedWorld) -> Result<(), ApiError> {
        world.advance(ROUND).await;
        let newly_finished = self.collect_results(world);
        write_scale(world, self.open_jobs().min(MOST_MACHINES)).await?;
        let to_delete = std::mem::replace(&mut self.to_delete, newly_finished);
        delete_machines(world, &to_delete).await;
        Ok(())
    }

    /// The machines whose guests have powered off since the last round. A CI system knows the results of its
    /// jobs without the API server.
    fn collect_results(&mut self, world: &SimulatedWorld) -> BTreeSet<String> {
        let changes = world.server.changes_since(self.seen);
        self.seen += changes.len();
        let ended = changes.iter().filter(|change| {
            *change.key.resource == *INSTANCES && change.object["status"]["phase"] == "Succeeded"
        });
        let machine = |owner: &Value| owner["uid"].as_str().unwrap_or_default().to_owned();
        let ended = ended.map(|change| machine(&change.object["metadata"]["ownerReferences"][0]));
        let newly: BTreeSet<String> = ended.filter(|uid| !self.finished.contains(uid)).collect();
        self.finished.extend(newly.iter().cloned());
        newly
    }
}

/// Replaces the scale of the pool, as client libraries do.
async fn write_scale(world: &mut SimulatedWorld, replicas: usize) -> Result<(), ApiError> {
    let scale = json!({
        "apiVersion": "autoscaling/v1", "kind": "Scale",
        "metadata": { "name": POOL, "namespace": NAMESPACE },
        "spec": { "replicas": replicas },
    });
    let call = world.call(Verb::Update, "virtualmachinepools", POOL, "scale", scale);
    world.do_as_user(&call).await.map(drop)
}

/// Deletes the machines with these UIDs that still exist.
async fn delete_machines(world: &mut SimulatedWorld, uids: &BTreeSet<String>) {
    for machine in world.server.all(MACHINES) {
        let text = |field: &str| machine["metadata"][field].as_str().unwrap_or_default().to_owned();
        let (name, uid) = (text("name"), text("uid"));
        if uids.contains(&uid) {
            let options = json!({ "preconditions": { "uid": uid } });
            world.user_actions.deleted.insert(uid);
            let call = world.call(Verb::Delete, "virtualmachines", &name, "", options);
            // The controller may have removed it meanwhile.
            _ = world.do_as_user(&call).await;
        }
    }
}

#[cfg(test)]
mod tests;
