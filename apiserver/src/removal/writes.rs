//! The guarded writes to a pool, and the reads and pauses between their attempts.

use std::time::Duration;

use serde_json::{Value, json};
use vmpool_engine::scale_down::removal::RemovalRecord;
use vmpool_runtime::Env;

use super::errors::{pool_deleting, pool_not_found, pool_unavailable_error, removal_conflict_error};
use super::model::PoolName;
use super::observe::{Removals, read_pool, removal_record};
use crate::cluster::{CallError, ClusterClient, PoolFields};
use crate::error::Error;
use crate::metrics::ApiServerMetrics;

/// How long a batch retries after conflicts. A request that arrives just after the start of a batch of this
/// duration still gets its response in time with a batch of its own, and before the controller can drop its
/// reservation.
const BATCH_TIMEOUT: Duration = Duration::from_secs(10);

/// The maximum pause before the first retry, and before any retry. It doubles in between.
const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(320));

/// Writes one pool.
pub(super) struct PoolWriter<'a> {
    pub(super) cluster: &'a ClusterClient,
    pub(super) env: &'a Env,
    pub(super) metrics: &'a ApiServerMetrics,
    pub(super) pool: &'a PoolName,
}

/// The attempts of one batch.
pub(super) struct Attempts {
    /// The uptime at which the batch gives up.
    deadline: Duration,
    made: u32,
    /// The error of the last attempt; `None` if it was a conflict.
    failure: Option<String>,
}

impl Attempts {
    /// No attempts. The deadline is [`BATCH_TIMEOUT`] from now.
    pub(super) fn begin(env: &Env) -> Self {
        Self { deadline: env.uptime() + BATCH_TIMEOUT, made: 0, failure: None }
    }

    /// Records a write that must be repeated.
    pub(super) fn record(&mut self, error: &CallError) {
        self.failure = (!error.is_conflict()).then(|| error.to_string());
    }
}

impl PoolWriter<'_> {
    /// What a pool that is not being deleted stores about its removals.
    ///
    /// # Errors
    /// Those of [`Self::record`].
    pub(super) fn removals(&self, pool: &PoolFields) -> Result<Removals, Error> {
        self.check_exists(pool)?;
        Removals::of(pool, self.pool)
    }

    /// The removal record of a pool that is not being deleted.
    ///
    /// # Errors
    /// [`Error::ClonePermissionConflict`] if the pool is being deleted, [`Error::Internal`] if the record is
    /// invalid.
    pub(super) fn record(&self, pool: &PoolFields) -> Result<RemovalRecord, Error> {
        self.check_exists(pool)?;
        removal_record(pool, self.pool)
    }

    fn check_exists(&self, pool: &PoolFields) -> Result<(), Error> {
        if pool.metadata.deletion_timestamp.is_some() { Err(pool_deleting(self.pool)) } else { Ok(()) }
    }

    /// Writes the removal record, and `replicas` if it is given.
    ///
    /// Guarantee: the write has an effect only on the UID and resource version of `pool`.
    pub(super) async fn write(
        &self,
        pool: &PoolFields,
        record: &RemovalRecord,
        replicas: Option<i64>,
    ) -> Result<PoolFields, CallError> {
        let text = if record.is_empty() { Value::Null } else { record.to_string().into() };
        let mut patch = json!({ "metadata": {
            "uid": pool.metadata.uid,
            "resourceVersion": pool.metadata.resource_version,
            "annotations": { self.pool.stored.record: text },
        }});
        if let Some(replicas) = replicas {
            patch["spec"] = json!({ "replicas": replicas });
        }
        self.cluster.patch_pool(self.pool.stored, &self.pool.namespace, &self.pool.name, &patch).await
    }

    /// Withdraws reservations, with one attempt. If it fails, the controller drops them after
    /// `--reservation-timeout`.
    ///
    /// Returns the record before the withdrawal, if that succeeded. An earlier write that is still under way
    /// then has no effect any more, because it requires an older version of the pool.
    pub(super) async fn withdraw(
        &self,
        pool: &PoolFields,
        reservations: impl Iterator<Item = &str>,
    ) -> Option<RemovalRecord> {
        let current = read_pool(self.cluster, self.pool).await;
        let pool = current.and_then(|current| self.same_pool(pool, current)).ok()?;
        let before = self.record(&pool).ok()?;
        let mut record = before.clone();
        for id in reservations {
            record.withdraw(id);
        }
        if let Err(error) = self.write(&pool, &record, None).await {
            tracing::debug!(pool = self.pool.name, %error, "withdrawing reservations failed; the controller will drop them");
            return None;
        }
        Some(before)
    }

    /// Reads the pool again after a pause.
    ///
    /// # Errors
    /// [`Error::PoolNotFound`] if the pool was deleted, and the error of [`Self::timed_out`] at the deadline.
    pub(super) async fn reread(
        &self,
        pool: &PoolFields,
        attempts: &mut Attempts,
    ) -> Result<PoolFields, Error> {
        self.metrics.pool_conflict();
        loop {
            if !self.pause(attempts).await {
                return Err(self.timed_out(attempts));
            }
            match read_pool(self.cluster, self.pool).await {
                Ok(current) => return self.same_pool(pool, current),
                Err(Error::Internal(why)) => attempts.failure = Some(why),
                Err(error) => return Err(error),
            }
        }
    }

    fn same_pool(&self, pool: &PoolFields, current: PoolFields) -> Result<PoolFields, Error> {
        if current.metadata.uid == pool.metadata.uid { Ok(current) } else { Err(pool_not_found(self.pool)) }
    }

    /// Waits before the next attempt, with exponential backoff. Returns whether time is left for the attempt.
    pub(super) async fn pause(&self, attempts: &mut Attempts) -> bool {
        let (first, most) = PAUSES;
        let limit = (first * 2_u32.saturating_pow(attempts.made.min(10))).min(most);
        attempts.made += 1;
        self.env.sleep(self.env.jitter(limit)).await;
        self.env.uptime() < attempts.deadline
    }

    /// The error for a batch that reached its deadline.
    pub(super) fn timed_out(&self, attempts: &Attempts) -> Error {
        if let Some(why) = &attempts.failure {
            return pool_unavailable_error(self.pool, why);
        }
        removal_conflict_error(
            self.pool,
            format!("other clients kept changing the pool for {BATCH_TIMEOUT:?}; try again"),
        )
    }
}

/// `replicas` decremented by `count`, if that changes it. `absent` is the number that missing `replicas`
/// stand for.
pub(super) fn decremented_replicas(pool: &PoolFields, absent: i64, count: usize) -> Option<i64> {
    let replicas = pool.spec.replicas.unwrap_or(absent);
    let decremented = replicas.saturating_sub_unsigned(count as u64).max(0);
    (decremented < replicas).then_some(decremented)
}
