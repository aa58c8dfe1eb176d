//! Rollouts: which machines are updated, when, and how many at a time.

use std::time::Duration;

use serde_json::{Value, json};
use vmpool_api::labels;
use vmpool_e2e::scenario::define_scenario;
use vmpool_e2e::world::condition::{
    PoolPredicate, in_phase, machines_labeled, pool_condition, pool_event, ready_replicas, status_number,
};
use vmpool_e2e::world::{
    DEADLINE, FRACTION_OF_MORE_CORES, FRACTION_OF_ONE_CORE, PoolHandle, SETTLE, ScenarioWorld,
};
use vmpool_invariants::object::{TestedKind, object_uids};
use vmpool_test_cluster::poll;

fn template(spec: &Value) -> Value {
    json!({ "spec": { "virtualMachineTemplate": { "spec": spec } } })
}

/// All machines that are not terminating have this number of cores in their spec.
fn cores(count: i64) -> PoolPredicate {
    PoolPredicate::new(format!("machines of {count} cores"), move |view| {
        view.live().all(|machine| machine.number("/spec/cpu/cores") == Some(count))
    })
}

fn synced() -> PoolPredicate {
    pool_condition("Synced", "True", "PoolSynced")
}

/// The maximum number of machines that did not run at the same time during the rollout to two cores.
fn worst_moment(pool: &PoolHandle<'_>, world: &ScenarioWorld) -> usize {
    let mut worst = 0;
    world.recorder().history().replay(|state, _| {
        let machines = state.machines_of_pool(pool.uid());
        let down =
            machines.iter().filter(|machine| !machine.phase().is_empty() && !machine.is_running()).count();
        let rolling = machines.iter().any(|machine| machine.number("/spec/cpu/cores") == Some(2));
        worst = worst.max(if rolling { down } else { 0 });
    });
    worst
}

#[test]
fn a_revision_that_a_user_deletes_is_stored_again_and_stays_the_merge_base() {
    define_scenario("a revision that a user deletes is stored again").run(async |world| {
        // Given a pool whose template has a label,
        let tier = |tier: Option<&'static str>| machines_labeled("tier", tier);
        let labels = |tier: Value| json!({ "spec": { "virtualMachineTemplate": { "metadata": { "labels": { "tier": tier } } } } });
        let pool = world.pool("web").replicas(1).with(&labels(json!("gold"))).ready().await?;
        pool.until(tier(Some("gold")).and(synced())).await?;
        // when a user deletes its stored revisions,
        let list = ["get", "controllerrevisions", "-o", "name"];
        let before = world.kubectl(&list).await?;
        world.kubectl(&["delete", "controllerrevisions", "--all"]).await?;
        // then the current one is stored again,
        let stored = async || {
            let now = world.kubectl(&list).await?;
            Ok(if now == before { Ok(()) } else { Err(now) })
        };
        poll::poll_until(|| "the current revision is stored again".to_owned(), DEADLINE, stored).await?;
        // and a label that the template then drops is removed from the machine.
        pool.edit(&labels(Value::Null)).await?;
        pool.until(tier(None).and(synced()).and(status_number("updatedReplicas", 1))).await?;
        Ok::<_, anyhow::Error>(())
    });
}

#[test]
fn with_manual_approval_the_user_restarts_machines() {
    define_scenario("with manual approval the user restarts machines").run(async |world| {
        let pool = world.pool("web").replicas(2).ready().await?;
        let hash = pool.machine(0).await?.label(labels::TEMPLATE_HASH).map(str::to_owned);
        pool.edit(&template(&json!({ "cpu": { "cores": 2 } }))).await?;
        pool.until(cores(2).and(pool_condition("Synced", "False", "RestartPendingApproval"))).await?;
        pool.until(status_number("restartPendingReplicas", 2).and(status_number("updatedReplicas", 0)))
            .await?;
        // No machine is restarted, and the label does not contain a revision that is not in effect.
        pool.holds(ready_replicas(2), SETTLE).await?;
        for machine in pool.machines().await? {
            assert_eq!(machine.label(labels::TEMPLATE_HASH).map(str::to_owned), hash);
            world.operate("Restart", &machine).await?;
        }
        pool.until(
            synced().and(status_number("updatedReplicas", 2)).and(status_number("restartPendingReplicas", 0)),
        )
        .await?;
        pool.until(ready_replicas(2)).await?;
        Ok::<_, anyhow::Error>(())
    });
}

#[test]
fn a_core_fraction_that_the_platform_filled_in_follows_the_template() {
    define_scenario("a core fraction that the platform filled in follows the template").run(async |world| {
        let fractions = world.fill_core_fractions().await?;
        let unset = template(&json!({ "cpu": { "coreFraction": null } }));
        let pool = world.pool("web").replicas(3).automatic_restarts().with(&unset).ready().await?;
        let fraction = |fraction: &'static str| {
            PoolPredicate::new(format!("machines with a core fraction of {fraction}"), move |view| {
                view.live().all(|machine| machine.text("/spec/cpu/coreFraction") == fraction)
            })
        };
        pool.until(fraction(FRACTION_OF_ONE_CORE)).await?;
        // One machine has a fraction that a user chose.
        let chosen = pool.machine(0).await?.name().to_owned();
        world
            .patch(TestedKind::Machine, &chosen, &json!({ "spec": { "cpu": { "coreFraction": "20%" } } }))
            .await?;
        pool.edit(&template(&json!({ "cpu": { "cores": 2 } }))).await?;
        pool.until_within(cores(2).and(synced()), Duration::from_secs(90)).await?;
        for machine in pool.machines().await? {
            let expected = if machine.name() == chosen { "20%" } else { FRACTION_OF_MORE_CORES };
            assert_eq!(machine.text("/spec/cpu/coreFraction"), expected, "{}", machine.name());
        }
        fractions.lift().await?;
        Ok::<_, anyhow::Error>(())
    });
}

/// Whether a machine had the new revision in its label, or the pool was synced, while a machine was stopping.
fn was_updated_while_stopping(pool: &PoolHandle<'_>, world: &ScenarioWorld) -> bool {
    let mut updated = false;
    world.recorder().history().replay(|state, _| {
        let Some(stored) = state.get(TestedKind::Pool, pool.uid()) else { return };
        // The status of an earlier generation is not about the change.
        if stored.number("/status/observedGeneration") != stored.number("/metadata/generation") {
            return;
        }
        let hash = stored.text("/status/desiredTemplateHash");
        let is_synced = stored.condition("Synced").is_some_and(|condition| condition["status"] == "True");
        let machines = state.machines_of_pool(pool.uid());
        let mut stopping = machines.iter().filter(|machine| machine.phase() == "Stopping");
        updated |= stopping.any(|machine| is_synced || machine.label(labels::TEMPLATE_HASH) == Some(hash));
    });
    updated
}

#[test]
fn a_machine_that_stops_for_its_restart_does_not_count_as_updated() {
    define_scenario("a machine that stops for its restart does not count as updated").run(async |world| {
        let grace = template(&json!({ "terminationGracePeriodSeconds": 5 }));
        let pool = world.pool("web").replicas(1).automatic_restarts().with(&grace).knob("stop-delay", "3s");
        let pool = pool.ready().await?;
        pool.edit(&template(&json!({ "cpu": { "cores": 2 } }))).await?;
        pool.sees(in_phase("Stopping", 1).and(status_number("updatedReplicas", 0))).await?;
        pool.until(cores(2).and(synced()).and(status_number("updatedReplicas", 1))).await?;
        assert!(!was_updated_while_stopping(&pool, world), "the machine still ran with the earlier template");
        Ok::<_, anyhow::Error>(())
    });
}

#[test]
fn a_rollout_is_paused_and_rolled_back_to_a_revision() {
    define_scenario("a rollout is paused, and rolled back to a revision").run(async |world| {
        let pool = world.pool("web").replicas(3).ready().await?;
        let good = pool.get().await?.text("/status/desiredTemplateHash").to_owned();
        let before = pool.machine(0).await?.number("/spec/terminationGracePeriodSeconds").unwrap_or_default();
        pool.edit(&json!({ "spec": { "rollout": { "paused": true } } })).await?;
        pool.edit(&template(&json!({ "terminationGracePeriodSeconds": 7 }))).await?;
        pool.until(pool_condition("Synced", "False", "RolloutInProgress")).await?;
        let grace = |seconds: i64| {
            PoolPredicate::new(format!("machines with a grace period of {seconds} s"), move |view| {
                view.live()
                    .all(|machine| machine.number("/spec/terminationGracePeriodSeconds") == Some(seconds))
            })
        };
        pool.holds(grace(before), SETTLE).await?;
        pool.edit(&json!({ "spec": { "rollout": { "paused": null } } })).await?;
        pool.until(grace(7)).await?;
        // Back to the former revision, although the spec still has the new template.
        pool.edit(&json!({ "spec": { "rollout": { "revision": good } } })).await?;
        pool.until(grace(before)).await?;
        // New machines also get this revision.
        pool.scale(4).await?;
        pool.until(ready_replicas(4).and(grace(before))).await?;
        Ok::<_, anyhow::Error>(())
    });
}

#[test]
fn a_template_that_the_platform_refuses_stops_the_rollout() {
    define_scenario("a template that the platform refuses stops the rollout").run(async |world| {
        let pool = world.pool("web").replicas(4).ready().await?;
        let machine = pool.machine(0).await?;
        let two = json!({ "spec": { "cpu": { "cores": 2 } } });
        let refusal = world.refuse_updates(&machine, two, "object.spec.cpu.cores != 2").await?;
        pool.edit(&template(&json!({ "cpu": { "cores": 2 } }))).await?;
        pool.until(
            pool_condition("ReplicaFailure", "True", "FailedTemplateUpdate")
                .and(pool_event("FailedTemplateUpdate")),
        )
        .await?;
        pool.holds(cores(1).and(ready_replicas(4)), SETTLE).await?;
        // Once the refusal is removed, the controller continues.
        refusal.lift().await?;
        pool.until_within(cores(2).and(status_number("restartPendingReplicas", 4)), Duration::from_secs(90))
            .await?;
        Ok::<_, anyhow::Error>(())
    });
}

/// Number of machines in the large rollout. `VMPOOL_ROLLOUT_MACHINES=300` sets a number that takes too long
/// for CI.
fn large() -> i64 {
    std::env::var("VMPOOL_ROLLOUT_MACHINES").ok().and_then(|count| count.parse().ok()).unwrap_or(24)
}

#[test]
fn a_large_rollout_stays_within_the_disruption_budget() {
    let count = large();
    // Two seconds per machine are enough even on a busy host.
    let patience = Duration::from_secs(60 + 2 * count.unsigned_abs());
    define_scenario("a large pool with three disks each rolls within its budget").run(async |world| {
        let pool = world
            .pool("web")
            .replicas(count)
            .disk("root")
            .disk("data")
            .retained("cache", 0, "10m")
            .automatic_restarts()
            .create()
            .await?;
        pool.until_within(ready_replicas(count), patience).await?;
        let before = object_uids(&pool.machines().await?);
        pool.edit(&template(&json!({ "cpu": { "cores": 2 } }))).await?;
        pool.until_within(cores(2).and(synced()).and(status_number("updatedReplicas", count)), patience)
            .await?;
        let (worst, budget) = (worst_moment(&pool, world), usize::try_from(count / 4)?);
        assert!(
            (1..=budget).contains(&worst),
            "{worst} machines were not running at the same time, but {budget} are allowed"
        );
        assert_eq!(object_uids(&pool.machines().await?), before, "no machine was recreated");
        assert_eq!(pool.disks().await?.len(), 3 * before.len(), "the number of disks has not changed");
        Ok::<_, anyhow::Error>(())
    });
}
