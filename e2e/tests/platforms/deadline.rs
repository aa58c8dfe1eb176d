//! The progress deadline: a pool with a machine that never starts is stalled, and says which one.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use rstest::rstest;
use serde_json::{Value, json};
use vmpool_e2e::world::PoolHandle;
use vmpool_e2e::world::condition::{
    live_machine_count, pool_condition, pool_event, pool_is_ready, ready_replicas,
};
use vmpool_invariants::platform::TestedPlatform;

use crate::on;

const EXCEEDED: &str = "ProgressDeadlineExceeded";

/// The deadline of the pools, in seconds. On a busy computer, a pool may be stalled before its first machines
/// run. The scenario checks only the end of each step.
const SECONDS: u64 = 5;

/// The message of the condition `Stalled` of the pool.
async fn stalled_message(pool: &PoolHandle<'_>) -> Result<String> {
    let pool = pool.get().await?;
    let found = pool.condition("Stalled").context("no condition Stalled")?;
    Ok(found["message"].as_str().unwrap_or_default().to_owned())
}

#[rstest]
#[case::dvp_with_the_field(TestedPlatform::Dvp, json!({ "spec": { "progressDeadlineSeconds": SECONDS } }))]
#[case::kubevirt_with_the_field(TestedPlatform::KubeVirt, json!({ "spec": { "progressDeadlineSeconds": SECONDS } }))]
#[case::kubevirt_with_the_annotation(
    TestedPlatform::KubeVirt,
    json!({ "metadata": { "annotations": { "vmpool.dev/progress-deadline-seconds": SECONDS.to_string() } } })
)]
fn a_machine_that_never_starts_stalls_the_pool_until_it_starts(
    #[case] platform: TestedPlatform,
    #[case] setting: Value,
) {
    on(platform, "a machine that never starts stalls the pool", async |world| {
        // Given a ready pool of two machines, and a platform that starts no more machines,
        let pool = world.pool("web").replicas(2).with(&setting).ready().await?;
        let ready = pool.machines().await?;
        world.knob("start-delay", "never").await?;
        // when a third machine is created,
        pool.scale(3).await?;
        pool.until(live_machine_count(3)).await?;
        let machines = pool.machines().await?;
        let late = machines.iter().find(|machine| ready.iter().all(|other| other.uid() != machine.uid()));
        let late = late.context("there is no third machine")?;
        // then the pool is stalled after the deadline,
        let stalled = pool_condition("Stalled", "True", EXCEEDED);
        let reconciles = pool_condition("Reconciling", "False", EXCEEDED);
        pool.until_within(stalled.and(reconciles).and(pool_event(EXCEEDED)), Duration::from_mins(1)).await?;
        // and the condition says what is missing, and names the machine.
        let message = stalled_message(&pool).await?;
        for part in ["no progress for 5 s", "2 of 3 machines are ready", late.name()] {
            ensure!(message.contains(part), "{part:?} is not in {message:?}");
        }
        ensure!(
            ready.iter().all(|machine| !message.contains(machine.name())),
            "a ready machine is named: {message:?}"
        );
        // When the machine starts after all, then the pool is ready, without an action of a user.
        world.reset_knob("start-delay").await?;
        pool.until(ready_replicas(3).and(pool_is_ready())).await?;
        let now = pool.machines().await?;
        ensure!(now.iter().any(|machine| machine.uid() == late.uid()), "the machine was replaced");
        Ok(())
    });
}
