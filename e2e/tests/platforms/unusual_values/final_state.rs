//! What happens to an unusual pool that was accepted.

use std::fmt;
use std::time::Duration;

use anyhow::{Context, bail};
use kube::api::{DeleteParams, PatchParams};
use serde_json::{Value, json};
use vmpool_e2e::wait::eventually;
use vmpool_e2e::world::ScenarioWorld;
use vmpool_invariants::object::{JsonObject, TestedKind};
use vmpool_invariants::platform::TestedPlatform;

use super::judge::{make, names, respec};

/// Timeout for one pool, which shares the host with all others.
const DEADLINE: Duration = Duration::from_mins(2);

/// Maximum number of replicas of a pool that is created.
const MOST: i64 = 3;

/// The final state of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FinalState {
    /// The pool has converged.
    Converged,
    /// A condition explains the problem.
    Condition,
    /// The pool has too many replicas and was not created.
    TooMany,
}

/// Counts of final states.
pub(super) struct FinalStateCounts {
    converged: usize,
    condition: usize,
    too_many: usize,
}

impl FinalStateCounts {
    pub(super) fn of(ends: &[FinalState]) -> Self {
        let count = |end: &FinalState| ends.iter().filter(|other| *other == end).count();
        Self {
            converged: count(&FinalState::Converged),
            condition: count(&FinalState::Condition),
            too_many: count(&FinalState::TooMany),
        }
    }
}

impl fmt::Display for FinalStateCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { converged, condition, too_many } = self;
        write!(
            f,
            "{converged} converged, {condition} ended in a condition, {too_many} ask for too many machines"
        )
    }
}

/// The pool with another name, and with one replica unless `replicas` is the field under test.
fn own(pool: &Value, name: &str, pointer: &str) -> Value {
    let mut pool = pool.clone();
    pool["metadata"]["name"] = json!(name);
    if pointer != "/spec/replicas" {
        pool["spec"]["replicas"] = json!(1);
    }
    pool
}

fn asks_for_too_many(pool: &Value) -> bool {
    pool["spec"]["replicas"].as_i64().is_some_and(|replicas| replicas > MOST)
}

/// Creates the pool and waits for its final state.
pub(super) async fn lived(
    world: &ScenarioWorld,
    name: &str,
    pool: &Value,
    pointer: &str,
) -> anyhow::Result<FinalState> {
    let pool = own(pool, name, pointer);
    if asks_for_too_many(&pool) {
        return Ok(FinalState::TooMany);
    }
    make(world, &pool).await?;
    let end = until_settled(world, name, pointer).await?;
    delete(world, name).await?;
    Ok(end)
}

/// Creates a pool, changes it once it has converged, and waits for the final state after the change.
pub(super) async fn changed(
    world: &ScenarioWorld,
    name: &str,
    before: &Value,
    after: &Value,
    pointer: &str,
) -> anyhow::Result<FinalState> {
    let (before, after) = (own(before, name, pointer), own(after, name, pointer));
    if asks_for_too_many(&before) || asks_for_too_many(&after) {
        return Ok(FinalState::TooMany);
    }
    make(world, &before).await?;
    until_settled(world, name, pointer).await?;
    let patched = world.api(TestedKind::Pool).patch(name, &PatchParams::default(), &respec(&after)?).await;
    // A change may be refused although a new pool is accepted.
    let end = match patched {
        Ok(_) => until_settled(world, name, pointer).await?,
        Err(kube::Error::Api(status)) if names(&status.message, pointer) => FinalState::Condition,
        Err(error) => return Err(error).context("changing the pool"),
    };
    delete(world, name).await?;
    Ok(end)
}

async fn delete(world: &ScenarioWorld, name: &str) -> anyhow::Result<()> {
    world.api(TestedKind::Pool).delete(name, &DeleteParams::background()).await.context("deleting a pool")?;
    Ok(())
}

async fn until_settled(world: &ScenarioWorld, name: &str, pointer: &str) -> anyhow::Result<FinalState> {
    eventually(&format!("{name} has settled"), DEADLINE, async || {
        let pool = world.get(TestedKind::Pool, name).await?;
        Ok(end_of(world.platform(), &pool, pointer)?.ok_or_else(|| pool.to_yaml()))
    })
    .await
}

/// The final state of a pool, if it has reached one.
fn end_of(platform: TestedPlatform, pool: &JsonObject, pointer: &str) -> anyhow::Result<Option<FinalState>> {
    if pool.at("/status/observedGeneration") != pool.at("/metadata/generation") {
        return Ok(None);
    }
    let holds = |kind: &str| pool.condition(kind).map(|condition| condition["status"] == "True");
    if holds("ReplicaFailure") == Some(true) {
        let message = pool.condition("ReplicaFailure").map(|condition| condition["message"].to_string());
        let message = message.unwrap_or_default();
        if !names(&message, pointer) {
            bail!("a condition does not name the field: {message}");
        }
        return Ok(Some(FinalState::Condition));
    }
    if platform == TestedPlatform::KubeVirt {
        return end_on_kubevirt(pool, pointer);
    }
    let exist = pool.number("/status/replicas") == pool.number("/spec/replicas");
    // A running machine may wait for an approved restart.
    let waits =
        pool.condition("Synced").is_some_and(|condition| condition["reason"] == "RestartPendingApproval");
    Ok((exist && (holds("Synced") == Some(true) || waits)).then_some(FinalState::Converged))
}

/// The final state of a pool of KubeVirt. A machine may wait for a restart by its user.
fn end_on_kubevirt(pool: &JsonObject, pointer: &str) -> anyhow::Result<Option<FinalState>> {
    if let Some(invalid) = pool.condition("InvalidSettings") {
        let message = invalid["message"].to_string();
        if !names(&message, pointer) {
            bail!("a condition does not name the field: {message}");
        }
        return Ok(Some(FinalState::Condition));
    }
    let ready = pool.condition("Ready").map(|ready| ready["message"].to_string()).unwrap_or_default();
    // The platform cannot start the machine, and says why.
    if ready.contains(" is not ready: ") {
        return Ok(Some(FinalState::Condition));
    }
    let exist = pool.number("/status/replicas") == pool.number("/spec/replicas");
    let reason = pool.condition("Ready").map(|ready| ready["reason"].as_str().unwrap_or_default());
    let is_paused = pool.condition("ReplicaPaused").is_some();
    Ok((is_paused || exist && matches!(reason, Some("Ready" | "Paused"))).then_some(FinalState::Converged))
}
