//! Claims: gives machines of a pool to callers for a time, and takes them back.
//!
//! ```text
//!            ┌── one batch at a time for each pool ───────────────────────────────────────┐
//!  claim  ───┤  pool and list of machines     claim (guarded patch)      read the pool    ├── response
//!            │  (shared by the batch)         409: the next candidate    a target: back   │
//!            └────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! A claim is an annotation of the machine, so no process has state of its own. If a process exits after it
//! has written a claim, the caller repeats the request with the same id, and any process finds the claim
//! again. If several processes wrote a claim with one id, the machine with the smallest UID stays claimed,
//! and the others are given back.

mod body;
mod choose;
mod current;
mod model;
mod observe;
mod queue;
mod release;
mod waiting;
mod writer;

use std::sync::Arc;
use std::time::Duration;

use futures::channel::oneshot;
use vmpool_runtime::Env;

use crate::audit::AuditInfo;
use crate::cluster::ClusterClient;
use crate::error::Error;
use crate::metrics::{ApiServerMetrics, ClaimOutcome};
use crate::removal::{PoolName, Remover};
use model::ClaimJob;
use queue::ClaimQueue;
use writer::ClaimWriter;

pub(crate) use body::{read_claim_request as read_claim, read_release_request as read_release};
pub(crate) use model::{ClaimRequest, Claimed, DEADLINE, ReleaseRequest, ReleasedMachine};

/// How long attempts of writes start, from the arrival of a request.
const WRITES: Duration = Duration::from_secs(26);

/// Gives machines to callers and takes them back.
pub(crate) struct Claims {
    cluster: ClusterClient,
    env: Env,
    metrics: ApiServerMetrics,
    queue: ClaimQueue,
    remover: Arc<Remover>,
}

impl Claims {
    pub(crate) fn new(
        cluster: ClusterClient,
        env: Env,
        metrics: ApiServerMetrics,
        remover: Arc<Remover>,
        autoscales: bool,
    ) -> Arc<Self> {
        let queue = ClaimQueue::new(cluster.clone(), env.clone(), metrics.clone(), autoscales);
        Arc::new(Self { cluster, env, metrics, queue, remover })
    }

    /// Claims a machine or renews a claim, logs and counts it, and waits for the result for at most
    /// [`DEADLINE`].
    ///
    /// # Errors
    /// The reason why no machine was claimed. After [`Error::ClaimTimeout`] and [`Error::Internal`] a machine
    /// may be claimed; a request with the same id finds it.
    pub(crate) async fn claim(
        self: &Arc<Self>,
        pool: PoolName,
        request: ClaimRequest,
        audit: AuditInfo,
    ) -> Result<Claimed, Error> {
        let start = self.env.uptime();
        let (reply, result) = oneshot::channel();
        let connected = Arc::new(());
        let job = ClaimJob {
            user: audit.user.name.clone(),
            wait_until: start + request.wait,
            deadline: start + WRITES,
            request: request.clone(),
            caller: Arc::downgrade(&connected),
            reply,
        };
        let result = match self.queue.submit(&pool, job) {
            Err(error) => Err(error),
            Ok(()) => match self.env.timeout(DEADLINE, result).await {
                Ok(Ok(result)) => result,
                Ok(Err(oneshot::Canceled)) => Err(interrupted_claim_error()),
                Err(elapsed) => Err(Error::ClaimTimeout(elapsed.0)),
            },
        };
        let duration = self.env.uptime().saturating_sub(start);
        let outcome = match &result {
            Ok(_) if request.dry_run => ClaimOutcome::DryRun,
            Ok(claimed) if claimed.renewed => ClaimOutcome::Renewed,
            Ok(_) => ClaimOutcome::Claimed,
            Err(error) => ClaimOutcome::of(error),
        };
        self.metrics.claim(outcome, duration);
        let machine = result.as_ref().ok().map(|claimed| &*claimed.machine.name);
        audit.log_claim(&pool, &request.id, machine, outcome.as_str(), result.as_ref().err(), duration);
        result
    }

    /// Releases a claimed machine, logs and counts it.
    ///
    /// # Errors
    /// The reason why the machine was not released.
    pub(crate) async fn release(
        self: &Arc<Self>,
        pool: PoolName,
        request: ReleaseRequest,
        audit: AuditInfo,
    ) -> Result<ReleasedMachine, Error> {
        let (sender, receiver) = oneshot::channel();
        let claims = Arc::clone(self);
        // A separate task, so that a caller that disconnects does not stop a release between two writes.
        let task = self.env.spawn("release", async move {
            let start = claims.env.uptime();
            let Self { cluster, env, metrics, remover, .. } = &*claims;
            let writer = ClaimWriter { cluster, env, metrics, pool: &pool };
            let result =
                release::release_claimed_machine(&writer, remover, &request, &audit, start + WRITES).await;
            let duration = env.uptime().saturating_sub(start);
            let outcome = match &result {
                Ok(_) if request.dry_run => ClaimOutcome::DryRun,
                Ok(_) => ClaimOutcome::Released,
                Err(error) => ClaimOutcome::of(error),
            };
            metrics.claim(outcome, duration);
            let machine = result.as_ref().ok().map(|released| &*released.machine.name);
            audit.log_claim(&pool, &request.id, machine, outcome.as_str(), result.as_ref().err(), duration);
            // Sending fails if the caller has disconnected.
            let _ = sender.send(result);
        });
        task.detach();
        match self.env.timeout(DEADLINE, receiver).await {
            Ok(Ok(result)) => result,
            Ok(Err(oneshot::Canceled)) => Err(interrupted_claim_error()),
            Err(elapsed) => Err(Error::ClaimTimeout(elapsed.0)),
        }
    }
}

/// A task has panicked, which is a bug.
fn interrupted_claim_error() -> Error {
    Error::Internal("the request was interrupted: repeat it with the same id".to_owned())
}

#[cfg(test)]
mod tests;
