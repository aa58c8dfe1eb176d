//! What happens when the webhook is not there, and when it comes and goes.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::ensure;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use vmpool_e2e::scenario::scenario;
use vmpool_e2e::world::condition::{members, ready_replicas};
use vmpool_e2e::world::{Deletion, Policy};
use vmpool_installation::installation::GuardOptions;
use vmpool_installation::programs::Component;
use vmpool_invariants::object::Kind;
use vmpool_test_cluster::error::chain;

#[test]
fn without_the_webhook_nobody_changes_what_a_pool_wants_and_all_else_goes_on() {
    scenario("without the webhook nobody changes what a pool wants").guarded_by(GuardOptions::default()).run(
        async |world| {
            let guard = world.installation().guard()?;
            let webhook = guard.service(Component::Webhook)?;
            // Given pools that stand,
            let pool = world.pool("web").policy(Policy::Explicit).replicas(2).ready().await?;
            let doomed = world.pool("doomed").replicas(1).ready().await?;
            // when the webhook is gone,
            webhook.kill_all();
            // then nobody gets past it: not for more, not for less, not for a new pool, not by name,
            for (what, refused) in [
                ("growing", pool.edit(&json!({ "spec": { "replicas": 3 } })).await.map(drop)),
                ("shrinking through the scale", pool.scale_by_api(1).await),
                ("a new pool", world.pool("new").create().await.map(drop)),
            ] {
                let error = refused.err().map(|error| chain(&error)).unwrap_or_default();
                ensure!(error.contains("failed calling webhook"), "{what}: {error}");
            }
            let removal = pool.removal().target(&pool.machine(0).await?).send().await?;
            ensure!(removal.code == 503 && removal.message().contains("failed calling webhook"), "{removal}");
            // while labels and status can be written, machines are replaced, and pools can be deleted.
            pool.edit(&json!({ "metadata": { "labels": { "team": "blue" } } })).await?;
            let status = Patch::Merge(json!({ "status": { "replicas": 2 } }));
            world.api(Kind::Pool).patch_status("web", &PatchParams::default(), &status).await?;
            world.delete(&pool.machine(0).await?).await?;
            pool.until(members(2)).await?;
            pool.until(ready_replicas(2)).await?;
            doomed.delete(Deletion::Background).await?;
            doomed.leaves_nothing().await?;
            // When it is back, all is as before.
            webhook.start().await?;
            guard.until_webhook_answers(world.cluster()).await?;
            pool.scale(3).await?;
            pool.until(ready_replicas(3)).await?;
            pool.remove(&pool.machines().await?[..1]).await?;
            pool.until(ready_replicas(2)).await?;
            Ok::<_, anyhow::Error>(())
        },
    );
}

#[test]
fn a_targeted_removal_names_the_webhook_that_does_not_answer() {
    // The API server waits longer for the webhook than an aggregated API with a fixed deadline of 5 s would.
    let options = GuardOptions::default().value("webhook.timeoutSeconds=7");
    scenario("a targeted removal names the webhook that does not answer").guarded_by(options).run(
        async |world| {
            let webhook = world.installation().guard()?.service(Component::Webhook)?;
            let pool = world.pool("web").policy(Policy::Explicit).replicas(2).ready().await?;
            let machine = pool.machine(0).await?;
            // When the webhook accepts connections but does not answer,
            for replica in webhook.replicas() {
                replica.pause()?;
            }
            let answer = pool.removal().target(&machine).send().await;
            for replica in webhook.replicas() {
                replica.resume()?;
            }
            // then the response names it and says what happened, and no machine is removed.
            let answer = answer?;
            ensure!(answer.code == 503, "{answer}");
            ensure!(answer.message().contains("failed calling webhook"), "{answer}");
            ensure!(answer.message().contains("no machine was removed"), "{answer}");
            ensure!(answer.retry_after.is_some(), "{answer}");
            // When the webhook answers again, the same request succeeds.
            world.installation().guard()?.until_webhook_answers(world.cluster()).await?;
            pool.remove(std::slice::from_ref(&machine)).await?;
            pool.until(ready_replicas(1)).await?;
            Ok::<_, anyhow::Error>(())
        },
    );
}

#[test]
fn replicas_come_and_go_and_no_request_fails() {
    scenario("replicas come and go and no request fails").guarded_by(GuardOptions::default()).run(
        async |world| {
            let guard = world.installation().guard()?;
            let pool = world.pool("web").policy(Policy::Explicit).replicas(2).ready().await?;
            let machine = pool.machine(0).await?;
            let done = AtomicBool::new(false);
            // Given users that are always at it,
            let users = async {
                let mut served = 0_usize;
                while !done.load(Ordering::Relaxed) {
                    let judged =
                        json!({ "spec": { "replicas": if served.is_multiple_of(2) { 3 } else { 2 } } });
                    let params = PatchParams { dry_run: true, ..PatchParams::default() };
                    world
                        .api(Kind::Pool)
                        .patch("web", &params, &Patch::Merge(&judged))
                        .await
                        .map(drop)
                        .or_else(|error| {
                            // Shrinking is refused by the webhook's own word.
                            let refused = chain(&error).contains("Explicit");
                            if refused { Ok(()) } else { Err(error) }
                        })?;
                    let answer = pool.removal().target(&machine).dry_run_by_body().send_unchecked().await;
                    ensure!(answer.code == 201, "after {served} rounds: {answer}");
                    served += 1;
                }
                anyhow::Ok(served)
            };
            // when every replica is replaced in order, one after the other,
            let operator = async {
                for component in Component::ALL {
                    let service = guard.service(component)?;
                    for place in 0..service.replicas().len() {
                        let ended = service.stop(place).await?;
                        ensure!(
                            ended.is_some_and(|status| status.success()),
                            "{component:?} {place} ended with {ended:?}"
                        );
                        service.restart(place).await?;
                    }
                }
                done.store(true, Ordering::Relaxed);
                anyhow::Ok(())
            };
            // then nobody notices.
            let (served, ()) = tokio::try_join!(users, operator)?;
            ensure!(served > 10, "only {served} rounds");
            Ok::<_, anyhow::Error>(())
        },
    );
}
