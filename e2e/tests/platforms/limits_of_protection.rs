//! What protection does not cover, and how it holds from the first pass of a controller and during a restart.

use anyhow::{Context, ensure};
use rstest::rstest;
use serde_json::json;
use vmpool_e2e::world::condition::{PoolPredicate, has_machine, negate_condition, ready_replicas};
use vmpool_e2e::world::{PoolDeletion, PoolScaleDownPolicy, SETTLE};
use vmpool_engine::protection::RESTARTING;
use vmpool_installation::programs::Accounts;
use vmpool_invariants::object::{JsonObject, TestedKind};
use vmpool_invariants::platform::TestedPlatform;

use crate::on;
use crate::protected::{annotate, blocked, exactly, from_now, machine, protect, uid_in, unprotect};

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn protection_does_not_cover_what_a_user_deletes(#[case] platform: TestedPlatform) {
    on(platform, "protection does not cover what a user deletes", async |world| {
        let pool = world.pool("web").replicas(2).ready().await?;
        let machines = pool.machines().await?;
        for machine in &machines {
            protect(world, machine, &from_now(3600)).await?;
        }
        // When a user deletes a protected machine, then it is replaced by one that is not protected.
        world.delete(&machines[0]).await?;
        pool.until(negate_condition(has_machine(&machines[0])).and(ready_replicas(2))).await?;
        let found = pool.machines().await?;
        let fresh = found.iter().find(|machine| machine.uid() != machines[1].uid()).context("a new one")?;
        ensure!(fresh.annotation("vmpool.dev/protected-until").is_none(), "{fresh:?}");
        // When the pool is deleted, then all its machines are.
        pool.delete(PoolDeletion::Background).await?;
        pool.leaves_nothing().await?;
        Ok(())
    });
}

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn a_new_leader_honors_protection_in_its_first_pass(#[case] platform: TestedPlatform) {
    on(platform, "a new leader honors protection in its first pass", async |world| {
        let pool = world.pool("web").policy(PoolScaleDownPolicy::NewestFirst).replicas(3).ready().await?;
        let machines = pool.machines().await?;
        let (first, second, newest) = (&machines[0], &machines[1], &machines[2]);
        // When no controller runs while a machine is protected and the pool shrinks,
        world.controller()?.kill();
        protect(world, newest, &from_now(3600)).await?;
        protect(world, second, &from_now(3600)).await?;
        pool.scale(1).await?;
        // then the next controller removes the machine that is not protected, and reports the others.
        world.controller()?.restart().await?;
        pool.until(
            negate_condition(has_machine(first)).and(blocked(&["the scale-down to 1", second.name()])),
        )
        .await?;
        pool.holds(exactly(&[second, newest]), SETTLE).await?;
        Ok(())
    });
}

#[test]
fn deletes_by_count_and_by_autohealing_carry_the_version_of_the_machine() {
    on(TestedPlatform::KubeVirt, "deletes carry the version of the machine", async |world| {
        let healing = json!({ "spec": { "autohealing": { "startUpFailureThreshold": 1 } } });
        let pool = world.pool("web").replicas(2).with(&healing).ready().await?;
        let machines = pool.machines().await?;
        let failing = &machines[1];
        annotate(world, failing, "simulator.vmpool.dev/fail-start", json!("1")).await?;
        world.kubectl(&["delete", "virtualmachineinstances.kubevirt.io", failing.name()]).await?;
        pool.until(negate_condition(has_machine(failing)).and(ready_replicas(2))).await?;
        pool.scale(1).await?;
        pool.until(ready_replicas(1)).await?;
        let audit = world.audit()?;
        let deletes: Vec<_> = audit
            .iter()
            .filter(|entry| {
                entry.verb == "delete"
                    && entry.resource == "virtualmachines"
                    && entry.user == Accounts::controller_user()
            })
            .collect();
        // One of the failing machine, and one of a surplus machine.
        ensure!(
            deletes.len() >= 2 && deletes.iter().any(|entry| entry.name == failing.name()),
            "{deletes:#?}"
        );
        for entry in deletes {
            ensure!(entry.body.pointer("/preconditions/resourceVersion").is_some(), "{entry:#?}");
        }
        Ok(())
    });
}

/// The machine with this UID has the mark of a restart, or none.
fn marked(uid: &str, marked: bool) -> PoolPredicate {
    let uid = uid.to_owned();
    PoolPredicate::new(format!("restarting: {marked}"), move |view| {
        view.live().any(|machine| machine.uid() == uid && machine.annotation(RESTARTING).is_some() == marked)
    })
}

#[test]
fn a_machine_cannot_be_claimed_while_it_restarts() {
    on(TestedPlatform::KubeVirt, "a machine cannot be claimed while it restarts", async |world| {
        let pool = world.pool("web").replicas(1).ready().await?;
        let only = pool.machine(0).await?;
        // Given a machine whose guest takes its time to stop for a rollout,
        world.knob("stop-delay", "8s").await?;
        pool.change_memory("1Gi").await?;
        pool.until(marked(only.uid(), true)).await?;
        // when a client claims one, then there is none.
        let refused = pool.claim("a").send().await?;
        ensure!(refused.code == 409 && refused.body["reason"] == "NoMachineAvailable", "{refused}");
        // A user may protect it meanwhile. The restart is completed, and the protection applies afterwards.
        let before = world.guest_of(only.name()).await?;
        protect(world, &only, &from_now(3600)).await?;
        world.reset_knob("stop-delay").await?;
        pool.until(marked(only.uid(), false).and(ready_replicas(1))).await?;
        ensure!(world.guest_of(only.name()).await? != before, "the guest was not restarted");
        let refused = pool.claim("a").send().await?;
        ensure!(refused.code == 409, "{refused}");
        // Without the protection, it can be claimed.
        unprotect(world, &only).await?;
        let claimed = pool.claim("a").with("waitSeconds", json!(20)).send().await?;
        ensure!(claimed.code == 201, "{claimed}");
        ensure!(machine(&pool, &uid_in(&claimed)?).await?.uid() == only.uid(), "{claimed}");
        ensure!(pool.release("a", only.uid(), "Keep").send().await?.is_success());
        // A controller that has marked the machine and is killed before the restart leaves a machine that is
        // ready. It cannot be claimed either, until the next leader has completed the restart.
        world.controller()?.kill();
        let revision = only_revision(&world.get(TestedKind::Machine, only.name()).await?)?;
        annotate(world, &only, RESTARTING, json!(revision)).await?;
        pool.until(ready_replicas(1)).await?;
        let refused = pool.claim("b").send().await?;
        ensure!(refused.code == 409 && refused.body["reason"] == "NoMachineAvailable", "{refused}");
        world.controller()?.restart().await?;
        pool.until(marked(only.uid(), false)).await?;
        let claimed = pool.claim("b").with("waitSeconds", json!(20)).send().await?;
        ensure!(claimed.code == 201, "{claimed}");
        Ok(())
    });
}

fn only_revision(machine: &JsonObject) -> anyhow::Result<String> {
    let revision = machine.label("kubevirt.io/vm-pool-revision-name").context("no revision")?;
    Ok(revision.to_owned())
}
