//! What happens to single members: deleted, stopped, stuck, robbed of their markers.

use serde_json::json;
use vmpool_api::labels;
use vmpool_e2e::deadline::Deadline;
use vmpool_e2e::object::Kind;
use vmpool_e2e::scenario::scenario;
use vmpool_e2e::world::condition::{
    Condition, condition, has_machine, live_members, machine_phase, members, not, ready_replicas, status,
    terminating,
};
use vmpool_e2e::world::{DEADLINE, SETTLE};

#[test]
fn a_machine_deleted_by_hand_is_replaced_once_after_it_is_gone() {
    scenario("a machine deleted by hand is replaced once, after it is gone").run(async |world| {
        // Given a pool of three machines that take a while to stop,
        let pool = world.pool("web").replicas(3).knob("stop-delay", "1500ms").ready().await?;
        // when somebody deletes one of them,
        let victim = pool.machine(1).await?;
        world.delete(&victim).await?;
        // then nobody takes its place while it is there,
        pool.until(terminating(1)).await?;
        pool.until(not(has_machine(&victim))).await?;
        let joined = pool.machines().await?.len();
        assert!(joined <= 3, "{joined} members");
        // and three are ready again, of whom one is new.
        pool.until(ready_replicas(3)).await?;
        pool.holds(ready_replicas(3), SETTLE).await?;
        Ok::<_, anyhow::Error>(())
    });
}

#[test]
fn a_machine_that_vanishes_at_once_is_replaced() {
    scenario("a machine that vanishes at once is replaced").run(async |world| {
        let pool = world.pool("web").replicas(2).knob("skip-finalizers", "true").ready().await?;
        let victim = pool.machine(0).await?;
        world.delete(&victim).await?;
        pool.until(not(has_machine(&victim)).and(ready_replicas(2))).await?;
        pool.holds(members(2), SETTLE).await?;
        Ok::<_, anyhow::Error>(())
    });
}

#[test]
fn a_stopped_machine_is_kept() {
    scenario("a stopped machine is kept").run(async |world| {
        let pool = world.pool("web").replicas(2).ready().await?;
        let machine = pool.machine(0).await?;
        world.operate("Stop", &machine).await?;
        // It counts as a replica, not as a ready one, and nobody takes its place.
        pool.until(
            machine_phase(&machine, "Stopped").and(status("readyReplicas", 1)).and(status("replicas", 2)),
        )
        .await?;
        pool.until(condition("Available", "False", "InsufficientReadyReplicas")).await?;
        pool.holds(live_members(2).and(has_machine(&machine)), SETTLE).await?;
        world.operate("Start", &machine).await?;
        pool.until(ready_replicas(2)).await?;
        Ok::<_, anyhow::Error>(())
    });
}

#[test]
fn a_crashed_machine_is_kept() {
    scenario("a crashed machine is kept").run(async |world| {
        let pool = world.pool("web").replicas(2).ready().await?;
        let machine = pool.machine(0).await?;
        world.knob_of(Kind::Machine, machine.name(), "crash", Some("true")).await?;
        pool.until(machine_phase(&machine, "Degraded").and(status("readyReplicas", 1))).await?;
        pool.holds(live_members(2).and(has_machine(&machine)), SETTLE).await?;
        Ok::<_, anyhow::Error>(())
    });
}

#[test]
fn a_stuck_terminating_machine_counts_and_does_not_block_growth() {
    scenario("a stuck terminating machine counts and does not block growth").run(async |world| {
        // Given a pool with a machine that never stops,
        let pool = world.pool("web").replicas(2).ready().await?;
        let stuck = pool.machine(0).await?;
        world.knob_of(Kind::Machine, stuck.name(), "stop-delay", Some("never")).await?;
        world.delete(&stuck).await?;
        pool.until(terminating(1).and(status("replicas", 2)).and(status("readyReplicas", 1))).await?;
        pool.holds(members(2), SETTLE).await?;
        // when the pool grows,
        pool.scale(4).await?;
        // then it grows by what is missing, the stuck one included in the count,
        pool.until(members(4).and(live_members(3)).and(status("readyReplicas", 3))).await?;
        pool.holds(members(4), SETTLE).await?;
        // when it shrinks, the leaving one is credited,
        pool.scale(3).await?;
        pool.holds(live_members(3), SETTLE).await?;
        pool.scale(4).await?;
        // and when it is gone at last, it is replaced.
        world.knob_of(Kind::Machine, stuck.name(), "stop-delay", None).await?;
        pool.until(not(has_machine(&stuck)).and(ready_replicas(4))).await?;
        Ok::<_, anyhow::Error>(())
    });
}

/// Every live member carries the label that autoscalers select by.
fn all_labelled() -> Condition {
    Condition::new("every live member to carry the managed labels", |view| {
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
fn a_member_that_loses_its_labels_stays_and_gets_them_back() {
    scenario("a member that loses its labels stays and gets them back").run(async |world| {
        let pool = world.pool("web").replicas(2).ready().await?;
        let machine = pool.machine(0).await?;
        let nothing = json!({ "metadata": { "labels": { labels::POOL_UID: null, labels::POOL: null } } });
        world.patch(Kind::Machine, machine.name(), &nothing).await?;
        pool.until(all_labelled().and(ready_replicas(2)).and(has_machine(&machine))).await?;
        pool.holds(members(2), SETTLE).await?;
        Ok::<_, anyhow::Error>(())
    });
}

#[test]
fn a_member_that_loses_its_owner_is_released_and_replaced() {
    scenario("a member that loses its owner is released and replaced").run(async |world| {
        let pool = world.pool("web").replicas(2).ready().await?;
        let machine = pool.machine(0).await?;
        // When somebody takes a machine out of the pool by its owner reference,
        world.grounds().named.insert(machine.uid().to_owned());
        let freed = json!({ "metadata": { "ownerReferences": null } });
        world.patch(Kind::Machine, machine.name(), &freed).await?;
        // then the pool makes another one,
        pool.until(ready_replicas(2).and(members(2))).await?;
        // and the free one lives on, without the labels that autoscalers would count it by.
        let deadline = Deadline::after(DEADLINE);
        loop {
            let now = world.get(Kind::Machine, machine.name()).await?;
            assert_eq!(now.uid(), machine.uid());
            assert!(!now.is_terminating());
            if now.label(labels::POOL_UID).is_none() && now.label(labels::POOL).is_none() {
                assert_eq!(now.label("app"), Some("web"), "labels of the owner's template stay");
                break;
            }
            anyhow::ensure!(
                !deadline.is_over(),
                "the labels are still there after {}: {}",
                deadline.elapsed(),
                now.to_yaml()
            );
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        pool.holds(members(2), SETTLE).await?;
        // It is the user's now, and so is taking it away.
        world.delete(&world.get(Kind::Machine, machine.name()).await?).await?;
        Ok::<_, anyhow::Error>(())
    });
}
