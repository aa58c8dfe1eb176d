//! Changed templates: who gets them, when, and how many machines are disturbed at a time.

use std::time::Duration;

use serde_json::{Value, json};
use vmpool_e2e::object::{Kind, Object, TEMPLATE_HASH_LABEL};
use vmpool_e2e::scenario::scenario;
use vmpool_e2e::world::condition::{Condition, condition, event, ready_replicas, status};
use vmpool_e2e::world::{Pool, SETTLE, World};

fn template(spec: &Value) -> Value {
    json!({ "spec": { "virtualMachineTemplate": { "spec": spec } } })
}

fn automatic() -> Value {
    template(&json!({ "disruptions": { "restartApprovalMode": "Automatic" } }))
}

/// All live members have so many cores in their spec.
fn cores(count: i64) -> Condition {
    Condition::new(format!("machines of {count} cores"), move |view| {
        view.live().all(|machine| machine.number("/spec/cpu/cores") == Some(count))
    })
}

/// At most so many members do not run.
fn at_most_down(most: usize) -> Condition {
    Condition::new(format!("at most {most} machines that do not run"), move |view| {
        view.live().filter(|machine| !machine.is_running()).count() <= most
    })
}

fn synced() -> Condition {
    condition("Synced", "True", "PoolSynced")
}

fn uids(machines: &[Object]) -> Vec<String> {
    machines.iter().map(|machine| machine.uid().to_owned()).collect()
}

/// The most machines that were there and did not run at one moment of the rollout to two cores.
fn worst_moment(pool: &Pool<'_>, world: &World) -> usize {
    let mut worst = 0;
    world.recorder().history().replay(|state, _| {
        let members = state.members(pool.uid());
        let down =
            members.iter().filter(|machine| !machine.phase().is_empty() && !machine.is_running()).count();
        let rolling = members.iter().any(|machine| machine.number("/spec/cpu/cores") == Some(2));
        worst = worst.max(if rolling { down } else { 0 });
    });
    worst
}

#[test]
fn labels_reach_running_machines_and_leave_what_others_set() {
    scenario("labels reach running machines and leave what others set").run(async |world| {
        let pool = world.pool("web").replicas(2).ready().await?;
        let before = uids(&pool.machines().await?);
        let name = pool.machine(0).await?.name().to_owned();
        world.patch(Kind::Machine, &name, &json!({ "metadata": { "labels": { "mine": "stays" } } })).await?;
        let labels = |labels: Value| json!({ "spec": { "virtualMachineTemplate": { "metadata": { "labels": labels } } } });
        pool.edit(&labels(json!({ "tier": "gold", "zone": "a" }))).await?;
        let tier = |tier: Option<&'static str>| {
            Condition::new(format!("machines of tier {tier:?}"), move |view| {
                view.live().all(|machine| machine.label("tier") == tier)
            })
        };
        pool.until(tier(Some("gold")).and(synced()).and(status("updatedReplicas", 2))).await?;
        // What an older template set, and the new one does not, goes; what somebody else set, stays.
        pool.edit(&labels(json!({ "tier": null }))).await?;
        pool.until(tier(None).and(synced()).and(status("updatedReplicas", 2))).await?;
        let machine = world.get(Kind::Machine, &name).await?;
        assert_eq!((machine.label("mine"), machine.label("zone")), (Some("stays"), Some("a")));
        assert_eq!(uids(&pool.machines().await?), before, "nobody was recreated");
        pool.until(ready_replicas(2)).await?;
        Ok::<_, anyhow::Error>(())
    });
}

#[test]
fn with_manual_approval_the_owner_restarts() {
    scenario("with manual approval the owner restarts").run(async |world| {
        let pool = world.pool("web").replicas(2).ready().await?;
        let hash = pool.machine(0).await?.label(TEMPLATE_HASH_LABEL).map(str::to_owned);
        pool.edit(&template(&json!({ "cpu": { "cores": 2 } }))).await?;
        pool.until(cores(2).and(condition("Synced", "False", "RestartPendingApproval"))).await?;
        pool.until(status("restartPendingReplicas", 2).and(status("updatedReplicas", 0))).await?;
        // Nobody restarts them, and the label does not claim what is not in effect.
        pool.holds(ready_replicas(2), SETTLE).await?;
        for machine in pool.machines().await? {
            assert_eq!(machine.label(TEMPLATE_HASH_LABEL).map(str::to_owned), hash);
            world.operate("Restart", &machine).await?;
        }
        pool.until(synced().and(status("updatedReplicas", 2)).and(status("restartPendingReplicas", 0)))
            .await?;
        pool.until(ready_replicas(2)).await?;
        Ok::<_, anyhow::Error>(())
    });
}

#[test]
fn with_automatic_approval_few_machines_are_down_at_a_time() {
    scenario("with automatic approval few machines are down at a time").run(async |world| {
        let pool = world.pool("web").replicas(5).with(&automatic()).ready().await?;
        let before = uids(&pool.machines().await?);
        pool.edit(&template(&json!({ "cpu": { "cores": 2 } }))).await?;
        // A quarter of five is one.
        let done = async {
            pool.until_within(
                cores(2).and(synced()).and(status("updatedReplicas", 5)),
                Duration::from_secs(90),
            )
            .await?;
            Ok::<_, anyhow::Error>(())
        };
        done.await?;
        let worst = worst_moment(&pool, world);
        assert_eq!(worst, 1, "machines that were down at the same time");
        // The last one may still be on its way up.
        pool.until(ready_replicas(5)).await?;
        pool.holds(at_most_down(0), SETTLE).await?;
        assert_eq!(uids(&pool.machines().await?), before, "nobody was recreated");
        pool.until(event("TemplateApplied")).await?;
        Ok::<_, anyhow::Error>(())
    });
}

#[test]
fn a_rollout_is_paused_and_taken_back_by_naming_a_revision() {
    scenario("a rollout is paused, and taken back by naming a revision").run(async |world| {
        let pool = world.pool("web").replicas(3).ready().await?;
        let good = pool.get().await?.text("/status/desiredTemplateHash").to_owned();
        let before = pool.machine(0).await?.number("/spec/terminationGracePeriodSeconds").unwrap_or_default();
        pool.edit(&json!({ "spec": { "rollout": { "paused": true } } })).await?;
        pool.edit(&template(&json!({ "terminationGracePeriodSeconds": 7 }))).await?;
        pool.until(condition("Synced", "False", "RolloutInProgress")).await?;
        let grace = |seconds: i64| {
            Condition::new(format!("machines with {seconds} s to end"), move |view| {
                view.live()
                    .all(|machine| machine.number("/spec/terminationGracePeriodSeconds") == Some(seconds))
            })
        };
        pool.holds(grace(before), SETTLE).await?;
        pool.edit(&json!({ "spec": { "rollout": { "paused": null } } })).await?;
        pool.until(grace(7)).await?;
        // Back to the revision before, although the template in the spec stays the new one.
        pool.edit(&json!({ "spec": { "rollout": { "revision": good } } })).await?;
        pool.until(grace(before)).await?;
        // New machines are made from it, too.
        pool.scale(4).await?;
        pool.until(ready_replicas(4).and(grace(before))).await?;
        Ok::<_, anyhow::Error>(())
    });
}

#[test]
fn a_template_that_machines_refuse_stops_the_rollout() {
    scenario("a template that machines refuse stops the rollout").run(async |world| {
        let pool = world.pool("web").replicas(4).ready().await?;
        let machine = pool.machine(0).await?;
        let two = json!({ "spec": { "cpu": { "cores": 2 } } });
        let refusal = world.refuse_updates(&machine, two, "object.spec.cpu.cores != 2").await?;
        pool.edit(&template(&json!({ "cpu": { "cores": 2 } }))).await?;
        pool.until(
            condition("ReplicaFailure", "True", "FailedTemplateUpdate").and(event("FailedTemplateUpdate")),
        )
        .await?;
        pool.holds(cores(1).and(ready_replicas(4)), SETTLE).await?;
        // Once the reason is gone, it goes on by itself.
        refusal.lift().await?;
        pool.until_within(cores(2).and(status("restartPendingReplicas", 4)), Duration::from_secs(90)).await?;
        Ok::<_, anyhow::Error>(())
    });
}

/// How many machines the large rollout has; `VMPOOL_ROLLOUT_MACHINES=300` for more than CI has time for.
fn large() -> i64 {
    std::env::var("VMPOOL_ROLLOUT_MACHINES").ok().and_then(|count| count.parse().ok()).unwrap_or(24)
}

#[test]
fn a_large_pool_with_three_disks_each_rolls_within_its_budget() {
    let count = large();
    // Two seconds for each machine are generous, whatever else the processors do.
    let patience = Duration::from_secs(60 + 2 * count.unsigned_abs());
    scenario("a large pool with three disks each rolls within its budget").run(async |world| {
        let pool = world
            .pool("web")
            .replicas(count)
            .disk("root")
            .disk("data")
            .retained("cache", 0, "10m")
            .with(&automatic())
            .create()
            .await?;
        pool.until_within(ready_replicas(count), patience).await?;
        let before = uids(&pool.machines().await?);
        pool.edit(&template(&json!({ "cpu": { "cores": 2 } }))).await?;
        pool.until_within(cores(2).and(synced()).and(status("updatedReplicas", count)), patience).await?;
        let (worst, budget) = (worst_moment(&pool, world), usize::try_from(count / 4)?);
        assert!(
            (1..=budget).contains(&worst),
            "{worst} machines were down at the same time, {budget} may be"
        );
        assert_eq!(uids(&pool.machines().await?), before, "nobody was recreated");
        assert_eq!(pool.disks().await?.len(), 3 * before.len(), "no disk more and none less");
        Ok::<_, anyhow::Error>(())
    });
}
