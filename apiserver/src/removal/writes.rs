//! The writes of a turn: guarded, repeated after conflicts, withdrawn where they lead nowhere.

use std::time::Duration;

use serde_json::{Value, json};
use vmpool_api::annotations::SCALE_DOWN_TARGETS;
use vmpool_engine::removal::RemovalRecord;

use super::batch::{Again, Attempts, TURN, Turn, refuse_all};
use super::claim::Claim;
use super::look::{conflict, deleting, not_found, passed, read_pool, record, unavailable};
use crate::cluster::{CallError, Pool};
use crate::error::Error;

/// The pauses between attempts: up to the first, doubling up to the second.
const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(320));

impl Turn<'_> {
    /// The record of a pool that machines can be removed from.
    pub(super) fn usable(&self, pool: &Pool) -> Result<RemovalRecord, Error> {
        if pool.metadata.deletion_timestamp.is_some() {
            return Err(deleting(self.pool));
        }
        record(pool, self.pool)
    }

    /// One guarded write on the pool.
    pub(super) async fn write(
        &self,
        pool: &Pool,
        record: &RemovalRecord,
        replicas: Option<i64>,
    ) -> Result<Pool, CallError> {
        let text = if record.is_empty() { Value::Null } else { record.to_string().into() };
        let mut patch = json!({ "metadata": {
            "uid": pool.metadata.uid,
            "resourceVersion": pool.metadata.resource_version,
            "annotations": { SCALE_DOWN_TARGETS: text },
        }});
        if let Some(replicas) = replicas {
            patch["spec"] = json!({ "replicas": replicas });
        }
        self.cluster.patch_pool(&self.pool.namespace, &self.pool.name, &patch).await
    }

    /// Gives the reservations back, once: if that fails, the controller drops them after a while.
    pub(super) async fn withdraw(&self, pool: &Pool, claims: &[Claim]) {
        let Ok(pool) = read_pool(self.cluster, self.pool).await.and_then(|now| self.same(pool, now)) else {
            return;
        };
        let Ok(mut known) = self.usable(&pool) else { return };
        for claim in claims {
            known.withdraw(&claim.id);
        }
        if let Err(error) = self.write(&pool, &known, None).await {
            tracing::debug!(pool = self.pool.name, %error, "reservations are left to the controller");
        }
    }

    /// A write was refused for good: each request tries by itself, since the refusal may be another one's fault.
    pub(super) fn refused(&self, claims: Vec<Claim>, error: CallError) -> Again {
        if claims.len() > 1 && !error.is_gone() {
            return Again { jobs: claims.into_iter().map(|claim| claim.job).collect(), alone: true };
        }
        refuse_all(claims, &passed(error, self.pool))
    }

    /// The pool as it is after a pause: the same one, or it is gone.
    pub(super) async fn read_again(&self, pool: &Pool, attempts: &mut Attempts) -> Result<Pool, Error> {
        self.metrics.pool_conflict();
        loop {
            if !self.pause(attempts).await {
                return Err(self.given_up(attempts));
            }
            match read_pool(self.cluster, self.pool).await {
                Ok(now) => return self.same(pool, now),
                Err(Error::Internal(why)) => attempts.failed = Some(why),
                Err(error) => return Err(error),
            }
        }
    }

    fn same(&self, pool: &Pool, now: Pool) -> Result<Pool, Error> {
        if now.metadata.uid == pool.metadata.uid { Ok(now) } else { Err(not_found(self.pool)) }
    }

    /// Waits a little, each time longer. Returns whether there is time for another attempt.
    pub(super) async fn pause(&self, attempts: &mut Attempts) -> bool {
        let (first, most) = PAUSES;
        let limit = (first * 2_u32.saturating_pow(attempts.made.min(10))).min(most);
        attempts.made += 1;
        self.env.sleep(self.env.jitter(limit)).await;
        self.env.uptime() < attempts.until
    }

    /// Why there is no further attempt: others keep changing the pool, or something else keeps failing.
    pub(super) fn given_up(&self, attempts: &Attempts) -> Error {
        if let Some(why) = &attempts.failed {
            return unavailable(self.pool, why);
        }
        conflict(self.pool, format!("the pool was changed by others again and again for {TURN:?}; try again"))
    }
}

/// `replicas` after this many machines left, if that changes it.
pub(super) fn lowered(pool: &Pool, count: usize) -> Option<i64> {
    let replicas = pool.spec.replicas.unwrap_or(0);
    let lowered = replicas.saturating_sub_unsigned(count as u64).max(0);
    (lowered < replicas).then_some(lowered)
}
