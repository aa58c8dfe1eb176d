//! Single machines that are deleted, stopped, released, or foreign.

use anyhow::ensure;
use rstest::rstest;
use serde_json::json;
use vmpool_api::labels;
use vmpool_e2e::world::SETTLE;
use vmpool_e2e::world::condition::{
    PoolPredicate, guest_is_stopped, has_machine, live_machine_count, machine_count, negate_condition,
    pool_condition, ready_replicas, status_number, terminating_machine_count,
};
use vmpool_engine::protection::UNTIL;
use vmpool_invariants::object::{JsonObject, TestedKind};
use vmpool_invariants::platform::TestedPlatform;

use crate::on;
use crate::protected::{from_now, not_blocked, protect, running};

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn a_deleted_machine_is_replaced_once_after_it_is_gone(#[case] platform: TestedPlatform) {
    on(platform, "a deleted machine is replaced once, after it is gone", async |world| {
        // Given a pool of three machines that stop slowly,
        let pool = world.pool("web").replicas(3).knob("stop-delay", "1500ms").ready().await?;
        // when a user deletes one of them,
        let victim = pool.machine(1).await?;
        world.delete(&victim).await?;
        // then it is not replaced while it still exists,
        pool.until(terminating_machine_count(1)).await?;
        pool.until(negate_condition(has_machine(&victim))).await?;
        let joined = pool.machines().await?.len();
        ensure!(joined <= 3, "{joined} machines");
        // and then three machines are ready again, one of them new: on KubeVirt with the same name.
        pool.until(ready_replicas(3)).await?;
        pool.holds(ready_replicas(3), SETTLE).await?;
        let is_same = pool.machines().await?.iter().any(|machine| machine.name() == victim.name());
        ensure!(is_same == (platform == TestedPlatform::KubeVirt), "the name of {}", victim.name());
        Ok(())
    });
}

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn a_stopped_machine_is_kept(#[case] platform: TestedPlatform) {
    on(platform, "a stopped machine is kept", async |world| {
        let pool = world.pool("web").replicas(2).ready().await?;
        let machine = pool.machine(0).await?;
        world.stop_guest(&machine).await?;
        // It counts as a replica but not as a ready one, and it is not replaced.
        let counted = status_number("readyReplicas", 1).and(status_number("replicas", 2));
        pool.until(guest_is_stopped(&machine).and(counted)).await?;
        if platform == TestedPlatform::Dvp {
            pool.until(pool_condition("Available", "False", "InsufficientReadyReplicas")).await?;
        }
        pool.holds(live_machine_count(2).and(guest_is_stopped(&machine)), SETTLE).await?;
        world.start_guest(&machine).await?;
        pool.until(ready_replicas(2)).await?;
        Ok(())
    });
}

/// The machine exists without owner and without what marks the machines of pools.
fn is_released(machine: &JsonObject) -> PoolPredicate {
    let (uid, name) = (machine.uid().to_owned(), machine.name().to_owned());
    let of_pool = |machine: &JsonObject| {
        !machine.owner_uid().is_empty()
            || machine.label(labels::POOL_UID).is_some()
            || machine.label(labels::POOL).is_some()
            || machine.has_pool_finalizer()
    };
    PoolPredicate::new(format!("a released machine {name}"), move |view| {
        let found = view.state.get(TestedKind::Machine, &uid);
        found.is_some_and(|machine| !machine.is_terminating() && !of_pool(machine))
    })
}

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn a_released_machine_stays_with_its_protection_and_is_replaced(#[case] platform: TestedPlatform) {
    on(platform, "a released machine stays with its protection and is replaced", async |world| {
        let pool = world.pool("web").replicas(2).ready().await?;
        let (leaving, until) = (pool.machine(0).await?, from_now(3600));
        protect(world, &leaving, &until).await?;
        // When a user removes the owner reference of a machine, then the pool gets another one,
        let release = async |machine: &JsonObject, metadata: serde_json::Value| {
            world.user_actions().deleted.insert(machine.uid().to_owned());
            world.patch(TestedKind::Machine, machine.name(), &json!({ "metadata": metadata })).await
        };
        release(&leaving, json!({ "ownerReferences": null })).await?;
        pool.until(running(2).and(ready_replicas(2)).and(not_blocked()).and(is_released(&leaving))).await?;
        pool.holds(running(2).and(machine_count(2)).and(is_released(&leaving)), SETTLE).await?;
        // and the released one keeps its protection, and the labels of the template.
        let left = world.get(TestedKind::Machine, leaving.name()).await?;
        ensure!(left.uid() == leaving.uid() && left.annotation(UNTIL) == Some(&*until), "{left:?}");
        ensure!(left.label("app") == Some("web"), "{left:?}");
        // It belongs to the user now, who deletes it.
        world.delete(&left).await?;
        pool.until(negate_condition(has_machine(&left))).await?;
        if platform == TestedPlatform::KubeVirt {
            // A machine whose labels the pool does not select is released, too.
            let other = pool.machine(0).await?;
            release(&other, json!({ "labels": { "app": "taken" } })).await?;
            pool.until(ready_replicas(2).and(is_released(&other))).await?;
            world.delete(&other).await?;
            pool.until(negate_condition(has_machine(&other))).await?;
        }
        pool.holds(ready_replicas(2).and(machine_count(2)), SETTLE).await?;
        Ok(())
    });
}

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn a_foreign_machine_with_copied_labels_is_not_changed(#[case] platform: TestedPlatform) {
    on(platform, "a foreign machine with copied labels is left alone", async |world| {
        let pool = world.pool("web").replicas(2).ready().await?;
        let copied = json!({ labels::POOL_UID: pool.uid(), labels::POOL: pool.name(), "app": "web" });
        world.foreign_machine("web-stray", &copied).await?;
        pool.holds(ready_replicas(2).and(machine_count(2)), SETTLE).await?;
        pool.scale(0).await?;
        pool.until(ready_replicas(0)).await?;
        // Each step checks I4: the machine was not changed. Now the user deletes it.
        let stray = world.get(TestedKind::Machine, "web-stray").await?;
        ensure!(stray.label(labels::POOL_UID) == Some(pool.uid()), "{stray:?}");
        world.user_actions().foreign.clear();
        world.delete(&stray).await?;
        Ok(())
    });
}
