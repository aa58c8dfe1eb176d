//! Scale-downs of pools with protected machines, and the metrics that autoscalers use.

use anyhow::{Context, Result, ensure};
use rstest::rstest;
use serde_json::json;
use vmpool_e2e::world::condition::{live_machine_count, pool_event, ready_replicas};
use vmpool_e2e::world::{DEADLINE, PoolHandle, SETTLE, ScenarioWorld};
use vmpool_engine::protection::UNTIL;
use vmpool_invariants::object::TestedKind;
use vmpool_invariants::platform::TestedPlatform;
use vmpool_test_cluster::poll;

use crate::on;
use crate::protected::{
    annotate, blocked, ends_in, exactly, from_now, machine, not_blocked, protect, uid_in, unprotect,
};

/// Waits until the controller counts this number of machines of the pool in a state.
async fn until_counted(
    world: &ScenarioWorld,
    pool: &PoolHandle<'_>,
    state: &str,
    expected: usize,
) -> Result<()> {
    let controller = world.controller()?;
    let series = format!(
        "vmpool_pool_machines{{namespace=\"{}\",pool=\"{}\",platform=\"{}\",state=\"{state}\"}} ",
        world.namespace(),
        pool.name(),
        world.platform()
    );
    let counted = poll::poll_until(
        || format!("{expected} {state} machines"),
        DEADLINE,
        async || {
            let (_, page) = controller.probe("/metrics").await;
            let value = page.lines().find_map(|line| line.strip_prefix(&series).map(str::to_owned));
            let value = value.unwrap_or_else(|| format!("no {series}"));
            Ok::<_, vmpool_test_cluster::Error>(if value == expected.to_string() {
                Ok(())
            } else {
                Err(value)
            })
        },
    );
    Ok(counted.await?)
}

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn a_scale_down_passes_over_protected_machines(#[case] platform: TestedPlatform) {
    on(platform, "a scale-down passes over protected machines", async |world| {
        let pool = world
            .pool("web")
            .policy(vmpool_e2e::world::PoolScaleDownPolicy::NewestFirst)
            .replicas(4)
            .ready()
            .await?;
        let machines = pool.machines().await?;
        let (long, short) = (&machines[3], &machines[2]);
        until_counted(world, &pool, "free", 4).await?;
        protect(world, long, &from_now(3600)).await?;
        let until = ends_in(15);
        protect(world, short, &until).await?;
        until_counted(world, &pool, "protected", 2).await?;

        // Others are removed instead, although these are the newest ones.
        pool.scale(2).await?;
        pool.until(exactly(&[long, short]).and(ready_replicas(2)).and(not_blocked())).await?;
        // If only protected machines remain, the pool stays above its number, and says why and until when.
        pool.scale(0).await?;
        pool.until(blocked(&["the scale-down to 0", long.name(), short.name(), &until])).await?;
        ensure!(pool.get().await?.number("/spec/replicas") == Some(0));
        ensure!(pool.get().await?.number("/status/replicas") == Some(2));
        // It continues by itself when a protection ends, and when one is taken off.
        pool.until(exactly(&[long]).and(blocked(&["the scale-down to 0", long.name()]))).await?;
        pool.holds(exactly(&[long]), SETTLE).await?;
        unprotect(world, long).await?;
        pool.until(live_machine_count(0).and(ready_replicas(0)).and(not_blocked())).await?;
        Ok(())
    });
}

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn the_metrics_count_free_claimed_and_protected_machines(#[case] platform: TestedPlatform) {
    on(platform, "the metrics count free, claimed and protected machines", async |world| {
        let pool = world.pool("web").replicas(3).ready().await?;
        let claimed = pool.claim("a").send().await?;
        let claimed = machine(&pool, &uid_in(&claimed)?).await?;
        let machines = pool.machines().await?;
        let other =
            machines.iter().find(|machine| machine.uid() != claimed.uid()).context("no other machine")?;
        protect(world, other, &from_now(3600)).await?;
        for (state, count) in [("claimed", 1), ("protected", 2), ("free", 1)] {
            until_counted(world, &pool, state, count).await?;
        }
        ensure!(pool.release("a", claimed.uid(), "Keep").send().await?.is_success());
        unprotect(world, other).await?;
        for (state, count) in [("claimed", 0), ("protected", 0), ("free", 3)] {
            until_counted(world, &pool, state, count).await?;
        }
        Ok(())
    });
}

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn the_controller_corrects_protection_that_is_unreadable_or_too_long(#[case] platform: TestedPlatform) {
    on(platform, "the controller corrects protection", async |world| {
        let maximum = json!({ "metadata": { "annotations": { "vmpool.dev/max-protection": "2h" } } });
        let pool = world.pool("web").replicas(3).with(&maximum).ready().await?;
        let machines = pool.machines().await?;
        let before = (from_now(3600), from_now(7200));
        annotate(world, &machines[0], UNTIL, json!("tomorrow")).await?;
        protect(world, &machines[1], &from_now(3 * 3600)).await?;
        let allowed = from_now(7200);
        protect(world, &machines[2], &allowed).await?;
        let until = async |place: usize| {
            let machine = world.get(TestedKind::Machine, machines[place].name()).await?;
            Ok::<_, vmpool_test_cluster::Error>(machine.annotation(UNTIL).unwrap_or_default().to_owned())
        };
        pool.until(pool_event("ProtectionShortened")).await?;
        let corrected = async || {
            let (unreadable, long) = (until(0).await?, until(1).await?);
            let after = (from_now(3600), from_now(7200));
            let is_corrected =
                (&before.0..=&after.0).contains(&&unreadable) && (&before.1..=&after.1).contains(&&long);
            Ok(if is_corrected { Ok(()) } else { Err(format!("{unreadable} {long}")) })
        };
        poll::poll_until(|| "now plus 1h, and now plus the maximum".to_owned(), DEADLINE, corrected).await?;
        ensure!(until(2).await? == allowed, "a valid time stays as it is");
        pool.holds(ready_replicas(3), SETTLE).await?;
        let notes: Vec<String> = world
            .recorder()
            .state()
            .all(TestedKind::Event)
            .filter(|event| event.text("/reason") == "ProtectionShortened")
            .map(|event| event.text("/message").to_owned())
            .collect();
        let named = |place: usize| notes.iter().any(|note| note.contains(machines[place].name()));
        ensure!(named(0) && named(1) && !named(2), "{notes:?}");
        Ok(())
    });
}
