//! Targeted removal: removes all targets of a request or none, and exactly once, even if a process exits at
//! any step.
//!
//! ```text
//!            ┌── one batch at a time for each pool; requests that wait form the next batch ──┐
//!  request ──┤  observe: pool and targets   reserve     verify      accept (or withdraw)     ├── delete ── response
//!            │  (concurrent reads)         (one write)  (reads)    (one write)               │
//!            └───────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! Without contention, the removal of one machine costs six sequential round trips, including the
//! authorization check. Concurrent requests in one process share the writes. Requests in several processes,
//! and status updates of the controller, cause conflicts, and the process retries. The removal record is
//! described in [`vmpool_engine::scale_down::removal`].
//!
//! # If the process exits
//!
//! Both writes to the pool carry its UID and the resource version that was read. The reads of *verify* come
//! after the reservation is stored, and *accept* checks that the record still contains the reservation.
//! Therefore no target can be replaced in between.
//!
//! | Last completed step | Stored state | What happens next | If the client repeats the request |
//! | --- | --- | --- | --- |
//! | observe | unchanged | nothing | the request starts from the beginning |
//! | reserve | a reservation; `replicas` is unchanged | The controller drops the reservation after `--reservation-timeout`. Until then it does not replace a target that vanishes | The request adds a reservation of its own. The old one has no effect |
//! | verify | as after reserve | as after reserve | as after reserve |
//! | withdraw | unchanged | nothing | the request starts from the beginning |
//! | accept | `replicas` is decremented, the targets are accepted | The controller deletes the targets, replaces none of them, and deletes no other machine in their place | The targets are already accepted: the request does not count them again and deletes them |
//! | some deletes | as after accept, and some targets are terminating | as after accept | As after accept. A target that is gone counts as removed while the record contains it |
//!
//! If the response to a write is lost, a read shows its result. While the pool still contains the
//! reservation, the next attempt carries a newer resource version, so only one of the two attempts can
//! succeed. If a reservation is missing and is too young to be dropped by the controller, the unconfirmed
//! write ended it.
//!
//! # Protected machines
//!
//! A request that names a protected machine is refused, unless it is forced. The machines are checked in
//! *observe* and again in *verify*. A machine that becomes protected after *verify* is removed nevertheless.
//!
//! If a caller disconnects, a request that has started runs to its end. A request that waits in the queue is
//! dropped.

mod batch;
mod deletes;
mod errors;
mod model;
mod observe;
mod queue;
mod reservation;
mod writes;

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::channel::oneshot;
use vmpool_runtime::Env;

use crate::audit::{AuditInfo, RemovalSummary};
use crate::body::RemovalRequest;
use crate::cluster::ClusterClient;
use crate::error::Error;
use crate::metrics::ApiServerMetrics;
use model::RemovalJob;
use queue::RemovalQueue;

pub(crate) use model::{Accepted, DEADLINE, PoolName};
#[cfg(test)]
pub(crate) use model::{RemovalTarget, TargetDeletion};

/// How long delete requests are retried, from the start of the removal.
const DELETES: Duration = Duration::from_secs(25);

/// Removes machines from pools.
pub(crate) struct Remover {
    cluster: ClusterClient,
    env: Env,
    metrics: ApiServerMetrics,
    queue: RemovalQueue,
}

impl Remover {
    /// A remover for a controller that drops no reservation before it is `accept_within` old.
    pub(crate) fn new(
        cluster: ClusterClient,
        env: Env,
        accept_within: Duration,
        metrics: ApiServerMetrics,
    ) -> Arc<Self> {
        let queue = RemovalQueue::new(cluster.clone(), env.clone(), accept_within, metrics.clone());
        Arc::new(Self { cluster, env, metrics, queue })
    }

    /// Handles a request, logs and counts it, and waits for its result for at most [`DEADLINE`].
    ///
    /// # Errors
    /// The reason why nothing was removed. After [`Error::Timeout`] and [`Error::Internal`] the removal may
    /// be applied.
    pub(crate) async fn remove(
        self: &Arc<Self>,
        pool: PoolName,
        request: RemovalRequest,
        audit: AuditInfo,
    ) -> Result<Accepted, Error> {
        let (sender, receiver) = oneshot::channel();
        let connected = Arc::new(());
        let caller = Arc::downgrade(&connected);
        let remover = Arc::clone(self);
        // A separate task, so that a caller that disconnects does not stop a removal between two writes.
        let task = self.env.spawn("removal", async move {
            let start = remover.env.uptime();
            let dry_run = request.dry_run;
            let names: Vec<String> = request.targets.iter().map(|target| target.name.clone()).collect();
            let result = remover.run(&pool, request, audit.user.name.clone(), caller).await;
            let duration = remover.env.uptime().saturating_sub(start);
            let summary = RemovalSummary::of(&result, dry_run);
            remover.metrics.removal(summary.outcome, summary.removed, duration);
            audit.log(&pool, &names, &summary, duration);
            // Sending fails if the caller has disconnected.
            let _ = sender.send(result);
        });
        task.detach();
        match self.env.timeout(DEADLINE, receiver).await {
            Ok(Ok(result)) => result,
            Ok(Err(oneshot::Canceled)) => Err(interrupted_removal_error()),
            Err(elapsed) => Err(Error::Timeout(elapsed.0)),
        }
    }

    async fn run(
        &self,
        pool: &PoolName,
        request: RemovalRequest,
        user: String,
        caller: Weak<()>,
    ) -> Result<Accepted, Error> {
        let start = self.env.uptime();
        let RemovalRequest { targets, pool_uid, dry_run, force } = request;
        if dry_run {
            let pool_uid = pool_uid.as_deref();
            return observe::dry_run(&self.cluster, &self.env, pool, &targets, force, pool_uid).await;
        }
        let (reply, result) = oneshot::channel();
        self.queue.submit(pool, RemovalJob { user, targets, pool_uid, force, caller, reply })?;
        let accepted = result.await.map_err(|oneshot::Canceled| interrupted_removal_error())??;
        deletes::delete_targets(&self.cluster, &self.env, pool, &accepted.targets, start + DELETES).await?;
        Ok(accepted)
    }
}

/// A task of the removal has panicked, which is a bug.
fn interrupted_removal_error() -> Error {
    Error::Internal(
        "the removal was interrupted: it is applied either completely or not at all; repeat the request"
            .to_owned(),
    )
}

#[cfg(test)]
mod tests;
