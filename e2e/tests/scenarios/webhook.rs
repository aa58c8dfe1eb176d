//! Requests while the webhook does not run, does not respond, or restarts.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::ensure;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use vmpool_e2e::scenario::define_scenario;
use vmpool_e2e::world::condition::{machine_count, ready_replicas};
use vmpool_e2e::world::{PoolDeletion, PoolScaleDownPolicy};
use vmpool_installation::installation::GuardOptions;
use vmpool_installation::programs::Component;
use vmpool_invariants::object::TestedKind;
use vmpool_test_cluster::error::error_with_causes;

#[test]
fn without_the_webhook_changes_of_a_pool_are_refused_and_other_work_continues() {
    define_scenario("without the webhook changes of a pool are refused")
        .guarded_by(GuardOptions::default())
        .run(async |world| {
            let guard = world.installation().guard()?;
            let webhook = guard.service(Component::Webhook)?;
            // Given pools that are ready,
            let pool = world.pool("web").policy(PoolScaleDownPolicy::Explicit).replicas(2).ready().await?;
            let doomed = world.pool("doomed").replicas(1).ready().await?;
            // when the webhook is killed,
            webhook.kill_all();
            // then scale-up, scale-down, the creation of a pool, and targeted removal are refused,
            for (what, refused) in [
                ("scale-up", pool.edit(&json!({ "spec": { "replicas": 3 } })).await.map(drop)),
                ("scale-down through the scale", pool.scale_by_api(1).await),
                ("a new pool", world.pool("new").create().await.map(drop)),
            ] {
                let error = refused.err().map(|error| error_with_causes(&error)).unwrap_or_default();
                ensure!(error.contains("failed calling webhook"), "{what}: {error}");
            }
            let removal = pool.removal().target(&pool.machine(0).await?).send().await?;
            ensure!(removal.code == 503 && removal.message().contains("failed calling webhook"), "{removal}");
            // while labels and status can be written, machines are replaced, and pools can be deleted.
            pool.edit(&json!({ "metadata": { "labels": { "team": "blue" } } })).await?;
            let status = Patch::Merge(json!({ "status": { "replicas": 2 } }));
            world.api(TestedKind::Pool).patch_status("web", &PatchParams::default(), &status).await?;
            world.delete(&pool.machine(0).await?).await?;
            pool.until(machine_count(2)).await?;
            pool.until(ready_replicas(2)).await?;
            doomed.delete(PoolDeletion::Background).await?;
            doomed.leaves_nothing().await?;
            // When the webhook runs again, these requests succeed.
            webhook.start().await?;
            guard.until_webhook_answers(world.cluster()).await?;
            pool.scale(3).await?;
            pool.until(ready_replicas(3)).await?;
            pool.remove(&pool.machines().await?[..1]).await?;
            pool.until(ready_replicas(2)).await?;
            Ok::<_, anyhow::Error>(())
        });
}

#[test]
fn the_response_of_a_removal_names_the_unresponsive_webhook() {
    // The API server waits longer for the webhook than an aggregated API with a fixed deadline of 5 s would.
    let options = GuardOptions::default().value("webhook.timeoutSeconds=7");
    define_scenario("a removal names the unresponsive webhook").guarded_by(options).run(async |world| {
        let webhook = world.installation().guard()?.service(Component::Webhook)?;
        let pool = world.pool("web").policy(PoolScaleDownPolicy::Explicit).replicas(2).ready().await?;
        let machine = pool.machine(0).await?;
        // When the webhook accepts connections but does not respond,
        for replica in webhook.replicas() {
            replica.pause()?;
        }
        let answer = pool.removal().target(&machine).send().await;
        for replica in webhook.replicas() {
            replica.resume()?;
        }
        // then the response contains its name and the reason, and no machine is removed.
        let answer = answer?;
        ensure!(answer.code == 503, "{answer}");
        ensure!(answer.message().contains("failed calling webhook"), "{answer}");
        ensure!(answer.message().contains("no machine was removed"), "{answer}");
        ensure!(answer.retry_after.is_some(), "{answer}");
        // When the webhook responds again, the same request succeeds.
        world.installation().guard()?.until_webhook_answers(world.cluster()).await?;
        pool.remove(std::slice::from_ref(&machine)).await?;
        pool.until(ready_replicas(1)).await?;
        Ok::<_, anyhow::Error>(())
    });
}

#[test]
fn no_request_fails_while_replicas_restart() {
    define_scenario("no request fails while replicas restart").guarded_by(GuardOptions::default()).run(
        async |world| {
            let guard = world.installation().guard()?;
            let pool = world.pool("web").policy(PoolScaleDownPolicy::Explicit).replicas(2).ready().await?;
            let machine = pool.machine(0).await?;
            let done = AtomicBool::new(false);
            // Given users that send requests continuously,
            let users = async {
                let mut served = 0_usize;
                while !done.load(Ordering::Relaxed) {
                    let judged =
                        json!({ "spec": { "replicas": if served.is_multiple_of(2) { 3 } else { 2 } } });
                    let params = PatchParams { dry_run: true, ..PatchParams::default() };
                    world
                        .api(TestedKind::Pool)
                        .patch("web", &params, &Patch::Merge(&judged))
                        .await
                        .map(drop)
                        .or_else(|error| {
                            // The webhook refuses the scale-down of an Explicit pool.
                            let refused = error_with_causes(&error).contains("Explicit");
                            if refused { Ok(()) } else { Err(error) }
                        })?;
                    let answer = pool.removal().target(&machine).dry_run_by_body().send_unchecked().await;
                    ensure!(answer.code == 201, "after {served} rounds: {answer}");
                    served += 1;
                }
                anyhow::Ok(served)
            };
            // when the replicas restart one after another,
            let operator = async {
                for component in Component::ALL {
                    let service = guard.service(component)?;
                    for place in 0..service.replicas().len() {
                        let ended = service.stop(place).await?;
                        ensure!(
                            ended.is_some_and(|status| status.success()),
                            "replica {place} of {component:?} exited with {ended:?}"
                        );
                        service.restart(place).await?;
                    }
                }
                done.store(true, Ordering::Relaxed);
                anyhow::Ok(())
            };
            // then no request fails.
            let (served, ()) = tokio::try_join!(users, operator)?;
            ensure!(served > 10, "only {served} rounds");
            Ok::<_, anyhow::Error>(())
        },
    );
}
