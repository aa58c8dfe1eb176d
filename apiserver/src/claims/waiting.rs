//! The record of claims that found no machine, in an annotation of the pool. An autoscaler of the pool counts
//! them.
//!
//! Each process merges its claims into the annotation at the version that it read, at most once in
//! [`WRITE_INTERVAL`] for each pool. A record that is lost is written again with the next attempt of its
//! claim, so no write is repeated for long.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use vmpool_api::annotations::WAITING_CLAIMS;
use vmpool_autoscaler::waiting::{
    ENTRY_SECONDS, MOST_ENTRIES, MOST_ENTRIES_OF_A_USER, WaitingClaimKey, WaitingClaims,
};
use vmpool_runtime::Env;

use super::model::ClaimJob;
use crate::cluster::{CallError, ClusterClient, PoolFields};
use crate::removal::PoolName;

/// The minimum time between two writes to one pool.
const WRITE_INTERVAL: Duration = Duration::from_secs(2);
/// Number of attempts of a write whose version was outdated.
const ATTEMPTS: usize = 3;
/// How long it is remembered which pools of a namespace autoscalers name.
const REMEMBER_AUTOSCALERS: Duration = Duration::from_secs(10);
/// A claim whose entry lasts longer than this, in seconds, needs no new one.
const FRESH_SECONDS: i64 = ENTRY_SECONDS / 2;

/// Identifies a pool: API group, namespace and name.
type PoolId = (&'static str, String, String);

/// Records the claims that found no machine.
pub(super) struct WaitingRecorder {
    cluster: ClusterClient,
    env: Env,
    state: Mutex<RecorderState>,
}

#[derive(Default)]
struct RecorderState {
    pools: BTreeMap<PoolId, RecordedPool>,
    /// By namespace: when the autoscalers were read, and the groups and names of the pools that they name.
    autoscaled: BTreeMap<String, (Duration, BTreeSet<(String, String)>)>,
}

/// What this process remembers of a pool.
#[derive(Default)]
struct RecordedPool {
    /// Claims that are not written yet.
    pending: BTreeSet<WaitingClaimKey>,
    /// The second at which the entry of each written claim ends.
    written: BTreeMap<WaitingClaimKey, i64>,
    /// The uptime of the last write.
    last_write: Option<Duration>,
    /// Whether a task will write.
    is_scheduled: bool,
}

impl RecordedPool {
    /// Adds a claim to the next write, within the limits of the annotation: one user cannot keep out the
    /// claims of others. Returns whether the write has the claim.
    fn add_pending(&mut self, key: WaitingClaimKey) -> bool {
        let of_user = self.pending.iter().filter(|other| other.has_user_of(&key)).count();
        let is_full = self.pending.len() >= MOST_ENTRIES || of_user >= MOST_ENTRIES_OF_A_USER;
        if is_full && !self.pending.contains(&key) {
            return false;
        }
        self.pending.insert(key);
        true
    }
}

impl WaitingRecorder {
    pub(super) fn new(cluster: ClusterClient, env: Env) -> Arc<Self> {
        Arc::new(Self { cluster, env, state: Mutex::default() })
    }

    /// A claim found no machine. If an autoscaler names the pool, the claim is recorded soon.
    pub(super) fn note(self: &Arc<Self>, pool: &PoolName, job: &ClaimJob) {
        let request = &job.request;
        if request.dry_run || request.renew || request.machine.is_some() {
            return;
        }
        let key = WaitingClaimKey::new(&job.user, &request.id);
        let now = self.env.now().as_second();
        let wait = {
            let mut state = self.state.lock();
            let known = state.pools.entry(pool_id(pool)).or_default();
            known.written.retain(|_, end| *end > now);
            let is_fresh = known.written.get(&key).is_some_and(|end| end - now > FRESH_SECONDS);
            if is_fresh || !known.add_pending(key) {
                return;
            }
            if std::mem::replace(&mut known.is_scheduled, true) {
                return;
            }
            let due = known.last_write.map(|last| last + WRITE_INTERVAL);
            due.map(|due| due.saturating_sub(self.env.uptime())).unwrap_or_default()
        };
        let (recorder, pool) = (Arc::clone(self), pool.clone());
        let write = async move {
            recorder.env.sleep(wait).await;
            recorder.write_pending(&pool).await;
        };
        self.env.spawn("waiting claims", write).detach();
    }

    /// Writes the claims that are pending.
    async fn write_pending(&self, pool: &PoolName) {
        self.write_pending_claims(pool).await;
        self.forget_idle();
    }

    async fn write_pending_claims(&self, pool: &PoolName) {
        let is_autoscaled = self.is_autoscaled(pool).await;
        let (pending, now) = {
            let mut state = self.state.lock();
            let known = state.pools.entry(pool_id(pool)).or_default();
            known.is_scheduled = false;
            known.last_write = Some(self.env.uptime());
            (std::mem::take(&mut known.pending), self.env.now().as_second())
        };
        if !is_autoscaled || pending.is_empty() {
            return;
        }
        match self.merge_claims(pool, &pending).await {
            Ok(recorded) => {
                let mut state = self.state.lock();
                let known = state.pools.entry(pool_id(pool)).or_default();
                known.written.extend(recorded.into_iter().map(|key| (key, now + ENTRY_SECONDS)));
            }
            Err(error) => tracing::warn!(
                pool = format!("{}/{}", pool.namespace, pool.name), %error,
                "waiting claims are not recorded; the next attempt of a claim records it"
            ),
        }
    }

    /// Merges claims into the annotation. Returns those that it has now.
    async fn merge_claims(
        &self,
        pool: &PoolName,
        pending: &BTreeSet<WaitingClaimKey>,
    ) -> Result<BTreeSet<WaitingClaimKey>, CallError> {
        let mut attempts = ATTEMPTS;
        loop {
            let fields: PoolFields = self.cluster.pool(pool.stored, &pool.namespace, &pool.name).await?;
            let now = self.env.now().as_second();
            let text = fields.metadata.annotations.get(WAITING_CLAIMS);
            let mut waiting = text.map(|text| WaitingClaims::parse(text, now)).unwrap_or_default();
            let mut recorded = pending.clone();
            recorded.retain(|key| waiting.record(key.clone(), now));
            let patch = json!({ "metadata": {
                "uid": fields.metadata.uid,
                "resourceVersion": fields.metadata.resource_version,
                "annotations": { WAITING_CLAIMS: waiting.text() },
            }});
            attempts -= 1;
            match self.cluster.patch_pool(pool.stored, &pool.namespace, &pool.name, &patch).await {
                Ok(_) => return Ok(recorded),
                Err(error) if error.is_conflict() && attempts > 0 => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether an autoscaler of the namespace names the pool. If the autoscalers cannot be read, none does.
    async fn is_autoscaled(&self, pool: &PoolName) -> bool {
        let named = (pool.stored.pools.group.to_owned(), pool.name.clone());
        let uptime = self.env.uptime();
        if let Some((read, pools)) = self.state.lock().autoscaled.get(&pool.namespace)
            && uptime.saturating_sub(*read) < REMEMBER_AUTOSCALERS
        {
            return pools.contains(&named);
        }
        match self.cluster.autoscalers(&pool.namespace).await {
            Ok(list) => {
                let pools = read_autoscaled_pools(&list);
                let is_named = pools.contains(&named);
                self.state.lock().autoscaled.insert(pool.namespace.clone(), (uptime, pools));
                is_named
            }
            Err(error) => {
                tracing::warn!(namespace = pool.namespace, %error, "the autoscalers cannot be listed");
                false
            }
        }
    }

    /// Drops what is outdated, so that the memory does not grow with the number of pools.
    fn forget_idle(&self) {
        let (uptime, now) = (self.env.uptime(), self.env.now().as_second());
        let mut state = self.state.lock();
        state.autoscaled.retain(|_, (read, _)| uptime.saturating_sub(*read) < REMEMBER_AUTOSCALERS);
        state.pools.retain(|_, known| {
            let is_recent = known.last_write.is_some_and(|last| uptime.saturating_sub(last) < WRITE_INTERVAL);
            known.written.retain(|_, end| *end > now);
            is_recent || known.is_scheduled || !known.pending.is_empty() || !known.written.is_empty()
        });
    }
}

fn pool_id(pool: &PoolName) -> PoolId {
    (pool.stored.pools.group, pool.namespace.clone(), pool.name.clone())
}

/// The groups and names of the pools that the autoscalers of a list name.
fn read_autoscaled_pools(list: &Value) -> BTreeSet<(String, String)> {
    let items = list["items"].as_array().into_iter().flatten();
    let pools = items.filter_map(|item| {
        let reference = &item["spec"]["poolRef"];
        let (group, _) = reference["apiVersion"].as_str()?.split_once('/')?;
        Some((group.to_owned(), reference["name"].as_str()?.to_owned()))
    });
    pools.collect()
}

#[cfg(test)]
mod tests;
