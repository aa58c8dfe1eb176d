//! The removal of chosen machines: all of them or none, exactly once, whoever dies in between.
//!
//! ```text
//!            ┌── one at a time for each pool; who arrives meanwhile shares the next turn ──┐
//!  request ──┤  look: pool and machines     reserve     verify      accept (or withdraw)   ├── delete ── answer
//!            │  (reads, side by side)      (one write)  (reads)    (one write)             │
//!            └─────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! Uncontended, one machine costs six round trips one after the other, the question whether the caller may do this
//! included. Requests that meet in one process share the writes; those of several processes, and the controller's status,
//! meet in conflicts, which are repeated. The record is that of [`vmpool_engine::removal`].
//!
//! # What dies where
//!
//! Both writes on the pool carry its UID and the resource version that was read. The reads of *verify* come after the
//! reservation is stored, and *accept* looks that it still is: so no target can have been replaced in between.
//!
//! | The last thing done | What is there | What becomes of it | If the caller repeats the request |
//! | --- | --- | --- | --- |
//! | look | nothing | nothing | as if for the first time |
//! | reserve | a reservation; `replicas` is as it was | the controller drops it after `--reservation-timeout`. Until then a target that vanishes is not replaced, and thereafter it is | a reservation of its own beside the old one, which does not count |
//! | verify | the same | the same | the same |
//! | withdraw | nothing | nothing | as if for the first time |
//! | accept | `replicas` is lower, the targets are accepted | the controller deletes them, replaces none of them and takes nobody else | the targets are accepted already: they are not counted, only deleted |
//! | some deletes | the same, some targets are leaving | the same | the same; a target that is gone while its entry is there counts as removed |
//!
//! A write whose answer was lost is settled by a read: as long as the reservation is there, the next attempt carries a
//! newer resource version, so one of the two fails. A reservation that is missing although it is too young to have been
//! dropped was used up by the write whose answer was lost.
//!
//! A caller that hangs up changes nothing: what was begun is finished. What was not begun is dropped.

mod batch;
mod claim;
mod deletes;
mod look;
mod queue;
mod writes;

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::channel::oneshot;
use vmpool_engine::ObjectId;
use vmpool_runtime::Env;

use crate::audit::{Audit, Verdict};
use crate::body::{Named, Wish};
use crate::cluster::Cluster;
use crate::error::Error;
use crate::metrics::Metrics;

use queue::Queue;

/// From the arrival of a request to its answer. Beyond it the caller is told to ask again.
pub(crate) const DEADLINE: Duration = Duration::from_secs(28);
/// For how long the deletes are tried again.
const DELETES: Duration = Duration::from_secs(25);

/// The name of a pool and of its namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PoolName {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// What one request wants of a pool.
struct Job {
    /// The name of whoever asks.
    user: String,
    targets: Vec<Named>,
    pool_uid: Option<String>,
    /// Dead when nobody waits for the answer any more.
    caller: Weak<()>,
    reply: oneshot::Sender<Result<Accepted, Error>>,
}

/// The pool has let the machines go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Accepted {
    pub(crate) pool_uid: String,
    /// `replicas` afterwards, if this request has changed it.
    pub(crate) replicas: Option<i64>,
    pub(crate) machines: Vec<Leaving>,
}

/// A machine that leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Leaving {
    pub(crate) id: ObjectId,
    /// An earlier request has removed it: it was not counted for this one.
    pub(crate) already: bool,
    /// It need not be deleted: somebody has done it, or it is gone.
    pub(crate) deleted: bool,
}

/// Removes machines.
pub(crate) struct Remover {
    cluster: Cluster,
    env: Env,
    metrics: Metrics,
    queue: Queue,
}

impl Remover {
    /// No reservation is dropped by the controller before it is `accept_within` old.
    pub(crate) fn new(cluster: Cluster, env: Env, accept_within: Duration, metrics: Metrics) -> Arc<Self> {
        let queue = Queue::new(cluster.clone(), env.clone(), accept_within, metrics.clone());
        Arc::new(Self { cluster, env, metrics, queue })
    }

    /// Does what is wished, tells the log and the metrics about it, and waits for the end of it, or for [`DEADLINE`].
    ///
    /// # Errors
    /// Why nothing was done. [`Error::Timeout`] and [`Error::Internal`] leave open whether it was.
    pub(crate) async fn remove(
        self: &Arc<Self>,
        pool: PoolName,
        wish: Wish,
        audit: Audit,
    ) -> Result<Accepted, Error> {
        let (sender, receiver) = oneshot::channel();
        let here = Arc::new(());
        let caller = Arc::downgrade(&here);
        let remover = Arc::clone(self);
        // A task of its own, so that a caller who hangs up does not stop it half-way.
        let task = self.env.spawn("removal", async move {
            let begun = remover.env.uptime();
            let dry_run = wish.dry_run;
            let names: Vec<String> = wish.targets.iter().map(|target| target.name.clone()).collect();
            let result = remover.work(&pool, wish, audit.user.name.clone(), caller).await;
            let took = remover.env.uptime().saturating_sub(begun);
            let verdict = Verdict::of(&result, dry_run);
            remover.metrics.removal(verdict.outcome, verdict.counted, took);
            audit.tell(&pool, &names, &verdict, took);
            // Nobody may wait for it any more.
            let _ = sender.send(result);
        });
        task.detach();
        match self.env.timeout(DEADLINE, receiver).await {
            Ok(Ok(result)) => result,
            Ok(Err(oneshot::Canceled)) => Err(interrupted()),
            Err(elapsed) => Err(Error::Timeout(elapsed.0)),
        }
    }

    async fn work(
        &self,
        pool: &PoolName,
        wish: Wish,
        user: String,
        caller: Weak<()>,
    ) -> Result<Accepted, Error> {
        let begun = self.env.uptime();
        let Wish { targets, pool_uid, dry_run } = wish;
        if dry_run {
            return look::rehearse(&self.cluster, pool, &targets, pool_uid.as_deref()).await;
        }
        let (reply, answer) = oneshot::channel();
        self.queue.submit(pool, Job { user, targets, pool_uid, caller, reply })?;
        let accepted = answer.await.map_err(|oneshot::Canceled| interrupted())??;
        let until = begun + DELETES;
        deletes::delete(&self.cluster, &self.env, pool, &accepted.machines, until).await?;
        Ok(accepted)
    }
}

/// The program is wrong: a task has panicked.
fn interrupted() -> Error {
    Error::Internal(
        "the request was interrupted: it is done in full or not at all, and can be repeated".to_owned(),
    )
}

#[cfg(test)]
mod tests;
