//! Migration of pools from another controller of the same API: the controller adopts them without a restart
//! or unnecessary writes, manages them like any other pool, and releases them again.

mod fixture;
mod traces;

use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::json;
use vmpool_api::{annotations, labels};
use vmpool_e2e::scenario::define_scenario;
use vmpool_e2e::world::condition::{
    PoolPredicate, machine_count, pool_condition, ready_replicas, status_number,
};
use vmpool_e2e::world::{SETTLE, ScenarioWorld};
use vmpool_installation::fault_proxy::{DropPoint, RequestLine};
use vmpool_installation::programs::ControllerOptions;
use vmpool_invariants::object::{JsonObject, TestedKind, object_uids};

use self::fixture::{FREE, LATE, SETTLED, YOUNG, inherit, tell};
use self::traces::{about, disturbed, machine_changes, markers, references, untouched, writes};

const PREFIX: &str = "vmpool.virtualization.deckhouse.io";

/// All machines of the pool run. All except the late one, which waits for a restart, have the current
/// template in effect.
fn migration_completed() -> PoolPredicate {
    ready_replicas(4)
        .and(status_number("updatedReplicas", 3))
        .and(status_number("restartPendingReplicas", 1))
        .and(pool_condition("Synced", "False", "RestartPendingApproval"))
}

fn synced(count: i64) -> PoolPredicate {
    ready_replicas(count).and(status_number("updatedReplicas", count)).and(pool_condition(
        "Synced",
        "True",
        "PoolSynced",
    ))
}

#[test]
fn a_pool_of_another_controller_is_migrated_with_one_write_per_machine() {
    define_scenario("a pool of another controller is migrated").guarded().controllers(0).run(async |world| {
        let pool = inherit(world).await?;
        let before = pool.machines().await?;
        let (mark, since) = (world.audit()?.len(), machine_changes(world));
        // When the controller starts,
        world.add_controller().await?;
        pool.until(migration_completed()).await?;
        world.settles().await?;
        // then no machine is disturbed,
        ensure!(disturbed(world, since).is_empty(), "{:?}", disturbed(world, since));
        untouched(world, &pool, &before).await?;
        // settled machines get their markers in one write, and their disks need no write,
        let writes = writes(world, mark)?;
        let revision = pool.get().await?.text("/status/desiredTemplateHash").to_owned();
        ensure!(revision.len() == 16, "a revision of {revision:?}");
        for (name, kept) in SETTLED {
            ensure!(about(&writes, name) == 1 && about(&writes, kept) == 0, "{name}: {writes:#?}");
            ensure!(about(&writes, &format!("{name}-system")) == 0, "{name}: {writes:#?}");
            let machine = world.get(TestedKind::Machine, name).await?;
            ensure!(markers(&machine) == (&revision, &revision), "{name}: {:?}", markers(&machine));
        }
        // the late machine gets the template, which is in effect after a restart, and the young one gets its
        // disks;
        ensure!(about(&writes, LATE) == 1 && about(&writes, YOUNG) <= 2, "{writes:#?}");
        let late = world.get(TestedKind::Machine, LATE).await?;
        ensure!(late.number("/spec/cpu/cores") == Some(2) && markers(&late).0 != revision, "{late:?}");
        let young = world.get(TestedKind::Machine, YOUNG).await?;
        let own = format!("{YOUNG}-system");
        ensure!(references(&young) == [own.as_str(), FREE], "{:?}", references(&young));
        // the remaining writes are the young machine's disk, the revision, and the status.
        let machines_made = writes.iter().filter(|write| write.starts_with("create virtualmachines")).count();
        let deleted = writes.iter().filter(|write| write.starts_with("delete")).count();
        let disks_made = writes.iter().filter(|write| write.starts_with("create virtualdisks")).count();
        ensure!((machines_made, deleted, disks_made) == (0, 0, 1), "{writes:#?}");
        ensure!(writes.len() <= 14, "{} writes: {writes:#?}", writes.len());
        tracing::info!(writes = writes.len(), "to migrate a pool of four machines");

        // The pool works like any other: a restart applies the change,
        world.operate("Restart", &late).await?;
        pool.until(synced(4)).await?;
        // a new template is applied to all machines,
        let size = |size: &str| {
            json!({ "spec": { "virtualMachineTemplate": {
                "metadata": { "labels": { "stage": "done" } },
                "spec": { "disruptions": { "restartApprovalMode": "Automatic" }, "memory": { "size": size } } } } })
        };
        pool.edit(&size("2Gi")).await?;
        let resized = PoolPredicate::new("machines with 2Gi and the label of another stage", |view| {
            view.live().all(|machine| {
                machine.text("/spec/memory/size") == "2Gi" && machine.label("stage") == Some("done")
            })
        });
        pool.until_within(resized.and(synced(4)), Duration::from_secs(90)).await?;
        ensure!(object_uids(&pool.machines().await?) == object_uids(&before), "machines were recreated");
        // it scales up, removes a target, and scales down in the order of its policy.
        pool.scale(6).await?;
        pool.until(synced(6)).await?;
        let named = world.get(TestedKind::Machine, SETTLED[0].0).await?;
        pool.remove(std::slice::from_ref(&named)).await?;
        pool.until(synced(5)).await?;
        pool.scale(2).await?;
        pool.until(synced(2)).await?;
        let left = pool.machines().await?;
        ensure!(left.iter().all(|machine| !object_uids(&before).contains(&machine.uid().to_owned())), "{left:?}");
        Ok::<_, anyhow::Error>(())
    });
}

/// What the other controller does to a machine with a foreign revision: it writes the template's spec with
/// the machine's devices, and its own markers.
async fn rewrite(
    world: &ScenarioWorld,
    pool: &JsonObject,
    machine: &JsonObject,
    hash: &str,
) -> anyhow::Result<JsonObject> {
    let mut spec = pool.at("/spec/virtualMachineTemplate/spec").clone();
    spec["blockDeviceRefs"] = machine.at("/spec/blockDeviceRefs").clone();
    let patch = json!({
        "metadata": {
            "labels": { labels::TEMPLATE_HASH: hash },
            "annotations": { format!("{PREFIX}/patched-template-hash"): hash },
        },
        "spec": spec,
    });
    Ok(world.patch(TestedKind::Machine, machine.name(), &patch).await?)
}

#[test]
fn a_pool_is_released_and_migrated_again_without_a_restart() {
    const HASH: &str = "5e1f00d5";
    define_scenario("a pool is released and migrated again").controllers(0).run(async |world| {
        let pool = inherit(world).await?;
        let ours = world.add_controller().await?;
        pool.until(migration_completed()).await?;
        // A manual change would be reverted by any controller that writes the whole spec, so none is made.
        pool.edit(
            &json!({ "spec": { "virtualMachineTemplate": { "spec": { "memory": { "size": "2Gi" } } } } }),
        )
        .await?;
        pool.until(status_number("restartPendingReplicas", 4)).await?;
        for machine in pool.machines().await? {
            world.operate("Restart", &machine).await?;
        }
        pool.until(synced(4)).await?;
        // Given a scale-down that leaves a free disk,
        pool.scale(3).await?;
        pool.until(synced(3)).await?;
        world.settles().await?;
        // when the controller has exited, then the markers that the other controller uses exist,
        ours.stop().await?;
        let stored = pool.get().await?;
        let before = pool.machines().await?;
        for machine in &before {
            let names = references(machine);
            ensure!(names[0] == format!("{}-system", machine.name()), "{names:?}");
            let kept = world.get(TestedKind::Disk, names[1]).await?;
            let label = kept.label(labels::DISK_TEMPLATE);
            ensure!(kept.owner_uid() == pool.uid() && label == Some("work"), "{kept:?}");
        }
        let used: Vec<&str> = before.iter().flat_map(references).collect();
        let free: Vec<JsonObject> =
            pool.disks().await?.into_iter().filter(|disk| !used.contains(&disk.name())).collect();
        ensure!(free.len() == 1, "{free:?}");
        ensure!(free[0].annotation(annotations::FREE_SINCE).is_some(), "{free:?}");
        ensure!(free[0].annotation(annotations::CLAIMED_BY).is_none(), "{free:?}");
        // and its writes do not change the machines.
        let since = machine_changes(world);
        for machine in &before {
            let after = rewrite(world, &stored, machine, HASH).await?;
            ensure!(after.at("/spec") == machine.at("/spec"), "{} has changed", machine.name());
            ensure!(after.at("/metadata/generation") == machine.at("/metadata/generation"));
        }
        let mut told = stored.at("/status").clone();
        told["desiredTemplateHash"] = json!(HASH);
        tell(world, &told).await?;
        pool.holds(machine_count(3), SETTLE).await?;
        ensure!(disturbed(world, since).is_empty(), "{:?}", disturbed(world, since));
        // When the controller starts again, it writes each machine once, without a restart.
        let mark = world.audit()?.len();
        ours.restart().await?;
        let current = stored.text("/status/desiredTemplateHash").to_owned();
        let marked = PoolPredicate::new("machines with the controller's markers", move |view| {
            view.live().all(|machine| markers(machine) == (&current, &current))
        });
        pool.until(marked.and(synced(3))).await?;
        world.settles().await?;
        let writes = writes(world, mark)?;
        for machine in &before {
            ensure!(about(&writes, machine.name()) == 1, "{writes:#?}");
        }
        ensure!(!writes.iter().any(|write| write.contains("virtualdisks")), "{writes:#?}");
        ensure!(disturbed(world, since).is_empty(), "{:?}", disturbed(world, since));
        ensure!(
            object_uids(&pool.machines().await?) == object_uids(&before),
            "machines were created or deleted"
        );
        Ok::<_, anyhow::Error>(())
    });
}

/// Whether a request is a write of the controller other than leases and events.
fn work(asked: &RequestLine) -> bool {
    asked.is_write() && !asked.path.contains("/leases") && !asked.path.contains("/events")
}

#[test]
fn a_migration_completes_after_a_crash_of_the_controller() {
    /// The crashes: the number of writes before, and whether the next write is still handled.
    const DEATHS: [(usize, DropPoint); 3] =
        [(0, DropPoint::After), (1, DropPoint::Before), (1, DropPoint::After)];
    define_scenario("a controller crashes during a migration").controllers(0).run(async |world| {
        let options = ControllerOptions {
            lease_duration: Duration::from_secs(3),
            renew_interval: Duration::from_millis(500),
            // One concurrent write, so that each crash is at a different write.
            extra: vec!["--request-deadline=1500ms".to_owned(), "--max-in-flight-writes=1".to_owned()],
            ..ControllerOptions::new(world.namespace(), "mortal")
        };
        let (controller, proxy) = world.add_controller_with_proxy(options).await?;
        controller.stop().await?;
        let pool = inherit(world).await?;
        let before = pool.machines().await?;
        let (mark, since) = (world.audit()?.len(), machine_changes(world));
        for (passing, moment) in DEATHS {
            let mortal = controller.clone();
            let death = proxy.trap(work, passing, moment, move || mortal.kill());
            controller.restart().await?;
            death
                .done()
                .await
                .with_context(|| format!("the controller is killed {moment:?} write {passing}"))?;
            tracing::info!(?moment, written = ?writes(world, mark)?, "the controller was killed");
        }
        controller.restart().await?;
        pool.until(migration_completed()).await?;
        world.settles().await?;
        // No write was repeated, and no machine was disturbed.
        let writes = writes(world, mark)?;
        for (name, kept) in SETTLED {
            ensure!(about(&writes, name) == 1 && about(&writes, kept) == 0, "{name}: {writes:#?}");
        }
        ensure!(!writes.iter().any(|write| write.starts_with("delete")), "{writes:#?}");
        untouched(world, &pool, &before).await?;
        ensure!(disturbed(world, since).is_empty(), "{:?}", disturbed(world, since));
        let young = world.get(TestedKind::Machine, YOUNG).await?;
        ensure!(young.is_running() && references(&young).len() == 2, "{young:?}");
        Ok::<_, anyhow::Error>(())
    });
}
