//! Single machines that are deleted at once, crash, are stuck, or lose their labels.

use serde_json::json;
use vmpool_api::labels;
use vmpool_e2e::scenario::define_scenario;
use vmpool_e2e::world::SETTLE;
use vmpool_e2e::world::condition::{
    PoolPredicate, has_machine, live_machine_count, machine_count, machine_phase, negate_condition,
    ready_replicas, status_number, terminating_machine_count,
};
use vmpool_invariants::object::TestedKind;

#[test]
fn a_machine_that_is_deleted_at_once_is_replaced() {
    define_scenario("a machine that is deleted at once is replaced").run(async |world| {
        let pool = world.pool("web").replicas(2).knob("skip-finalizers", "true").ready().await?;
        let victim = pool.machine(0).await?;
        world.delete(&victim).await?;
        pool.until(negate_condition(has_machine(&victim)).and(ready_replicas(2))).await?;
        pool.holds(machine_count(2), SETTLE).await?;
        Ok::<_, anyhow::Error>(())
    });
}

#[test]
fn a_crashed_machine_is_kept() {
    define_scenario("a crashed machine is kept").run(async |world| {
        let pool = world.pool("web").replicas(2).ready().await?;
        let machine = pool.machine(0).await?;
        world.knob_of(TestedKind::Machine, machine.name(), "crash", Some("true")).await?;
        pool.until(machine_phase(&machine, "Degraded").and(status_number("readyReplicas", 1))).await?;
        pool.holds(live_machine_count(2).and(has_machine(&machine)), SETTLE).await?;
        Ok::<_, anyhow::Error>(())
    });
}

#[test]
fn a_stuck_terminating_machine_counts_and_does_not_block_a_scale_up() {
    define_scenario("a stuck terminating machine counts and does not block a scale-up").run(async |world| {
        // Given a pool with a machine that never stops,
        let pool = world.pool("web").replicas(2).ready().await?;
        let stuck = pool.machine(0).await?;
        world.knob_of(TestedKind::Machine, stuck.name(), "stop-delay", Some("never")).await?;
        world.delete(&stuck).await?;
        pool.until(
            terminating_machine_count(1)
                .and(status_number("replicas", 2))
                .and(status_number("readyReplicas", 1)),
        )
        .await?;
        pool.holds(machine_count(2), SETTLE).await?;
        // when the pool is scaled up,
        pool.scale(4).await?;
        // then the missing machines are created; the stuck one counts,
        pool.until(machine_count(4).and(live_machine_count(3)).and(status_number("readyReplicas", 3)))
            .await?;
        pool.holds(machine_count(4), SETTLE).await?;
        // when it is scaled down, the terminating machine counts as removed,
        pool.scale(3).await?;
        pool.holds(live_machine_count(3), SETTLE).await?;
        pool.scale(4).await?;
        // and when it is finally deleted, it is replaced.
        world.knob_of(TestedKind::Machine, stuck.name(), "stop-delay", None).await?;
        pool.until(negate_condition(has_machine(&stuck)).and(ready_replicas(4))).await?;
        Ok::<_, anyhow::Error>(())
    });
}

/// Every machine that is not terminating has the labels that autoscalers select by.
fn all_labelled() -> PoolPredicate {
    PoolPredicate::new("every machine to have the managed labels", |view| {
        let pool = view.pool().map(|pool| (pool.uid().to_owned(), pool.name().to_owned()));
        pool.is_some_and(|(uid, name)| {
            view.live().all(|machine| {
                machine.label(labels::POOL_UID) == Some(uid.as_str())
                    && machine.label(labels::POOL) == Some(name.as_str())
            })
        })
    })
}

#[test]
fn a_machine_that_loses_its_labels_gets_them_back() {
    define_scenario("a machine that loses its labels gets them back").run(async |world| {
        let pool = world.pool("web").replicas(2).ready().await?;
        let machine = pool.machine(0).await?;
        let nothing = json!({ "metadata": { "labels": { labels::POOL_UID: null, labels::POOL: null } } });
        world.patch(TestedKind::Machine, machine.name(), &nothing).await?;
        pool.until(all_labelled().and(ready_replicas(2)).and(has_machine(&machine))).await?;
        pool.holds(machine_count(2), SETTLE).await?;
        Ok::<_, anyhow::Error>(())
    });
}
