//! Single machines that are deleted, stopped, stuck, or lose their labels.

use serde_json::json;
use vmpool_api::labels;
use vmpool_e2e::scenario::define_scenario;
use vmpool_e2e::world::condition::{
    PoolPredicate, has_machine, live_machine_count, machine_count, machine_phase, negate_condition,
    pool_condition, ready_replicas, status_number, terminating_machine_count,
};
use vmpool_e2e::world::{DEADLINE, SETTLE};
use vmpool_invariants::object::TestedKind;
use vmpool_test_cluster::deadline::Deadline;

#[test]
fn a_deleted_machine_is_replaced_once_after_it_is_gone() {
    define_scenario("a deleted machine is replaced once, after it is gone").run(async |world| {
        // Given a pool of three machines that stop slowly,
        let pool = world.pool("web").replicas(3).knob("stop-delay", "1500ms").ready().await?;
        // when a user deletes one of them,
        let victim = pool.machine(1).await?;
        world.delete(&victim).await?;
        // then it is not replaced while it still exists,
        pool.until(terminating_machine_count(1)).await?;
        pool.until(negate_condition(has_machine(&victim))).await?;
        let joined = pool.machines().await?.len();
        assert!(joined <= 3, "{joined} machines");
        // and then three machines are ready again, one of them new.
        pool.until(ready_replicas(3)).await?;
        pool.holds(ready_replicas(3), SETTLE).await?;
        Ok::<_, anyhow::Error>(())
    });
}

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
fn a_stopped_machine_is_kept() {
    define_scenario("a stopped machine is kept").run(async |world| {
        let pool = world.pool("web").replicas(2).ready().await?;
        let machine = pool.machine(0).await?;
        world.operate("Stop", &machine).await?;
        // It counts as a replica but not as a ready one, and it is not replaced.
        pool.until(
            machine_phase(&machine, "Stopped")
                .and(status_number("readyReplicas", 1))
                .and(status_number("replicas", 2)),
        )
        .await?;
        pool.until(pool_condition("Available", "False", "InsufficientReadyReplicas")).await?;
        pool.holds(live_machine_count(2).and(has_machine(&machine)), SETTLE).await?;
        world.operate("Start", &machine).await?;
        pool.until(ready_replicas(2)).await?;
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

#[test]
fn a_machine_that_loses_its_owner_reference_is_released_and_replaced() {
    define_scenario("a machine that loses its owner reference is released and replaced").run(async |world| {
        let pool = world.pool("web").replicas(2).ready().await?;
        let machine = pool.machine(0).await?;
        // When a user removes the owner reference of a machine,
        world.user_actions().deleted.insert(machine.uid().to_owned());
        let freed = json!({ "metadata": { "ownerReferences": null } });
        world.patch(TestedKind::Machine, machine.name(), &freed).await?;
        // then the controller creates another machine,
        pool.until(ready_replicas(2).and(machine_count(2))).await?;
        // and the released one remains, without the labels that autoscalers select by.
        let deadline = Deadline::after(DEADLINE);
        loop {
            let now = world.get(TestedKind::Machine, machine.name()).await?;
            assert_eq!(now.uid(), machine.uid());
            assert!(!now.is_terminating());
            if now.label(labels::POOL_UID).is_none() && now.label(labels::POOL).is_none() {
                assert_eq!(now.label("app"), Some("web"), "labels of the template remain");
                break;
            }
            anyhow::ensure!(
                !deadline.is_over(),
                "the labels still exist after {}: {}",
                deadline.elapsed(),
                now.to_yaml()
            );
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        pool.holds(machine_count(2), SETTLE).await?;
        // The machine now belongs to the user, who deletes it.
        world.delete(&world.get(TestedKind::Machine, machine.name()).await?).await?;
        Ok::<_, anyhow::Error>(())
    });
}
