//! Targeted removal through the aggregated API.

use std::collections::BTreeSet;

use anyhow::ensure;
use futures::future::join_all;
use vmpool_e2e::scenario::define_scenario;
use vmpool_e2e::world::condition::{desired_replicas, machine_count, ready_replicas};
use vmpool_e2e::world::{PoolScaleDownPolicy, SETTLE, SUBRESOURCES, ScenarioWorld};
use vmpool_installation::installation::GuardOptions;
use vmpool_installation::programs::Component;
use vmpool_invariants::object::JsonObject;

fn uids<'a>(objects: impl IntoIterator<Item = &'a JsonObject>) -> BTreeSet<String> {
    objects.into_iter().map(|object| object.uid().to_owned()).collect()
}

#[test]
fn fifty_concurrent_removals_remove_each_target_once() {
    /// Each of them is the target of two requests to different replicas of the aggregated API: the API server
    /// routes the two groups to different replicas.
    const TARGETS: usize = 25;
    const GROUPS: [&str; 2] = [SUBRESOURCES, "subresources.virtualization.deckhouse.io/v1alpha2"];
    define_scenario("fifty concurrent removals remove each target once").guarded().run(async |world| {
        let pool = world.pool("web").policy(PoolScaleDownPolicy::NewestFirst).replicas(28).ready().await?;
        let machines = pool.machines().await?;
        let named = machines[..TARGETS].iter();
        let mut waiting: Vec<(&str, &JsonObject)> =
            GROUPS.into_iter().flat_map(|group| named.clone().map(move |machine| (group, machine))).collect();
        let mut rounds = 0;
        while !waiting.is_empty() {
            rounds += 1;
            ensure!(rounds <= 5, "{} callers were still asked to retry", waiting.len());
            let answers = join_all(
                waiting
                    .iter()
                    .map(|(group, machine)| pool.removal().target(machine).through(group).send_unchecked()),
            );
            let answers = answers.await;
            world.check().await?;
            let mut again = Vec::new();
            for ((group, machine), answer) in waiting.iter().zip(&answers) {
                match answer.code {
                    201 => {}
                    // The machine was already deleted by the other request.
                    400 if answer.message().contains(machine.name()) => {}
                    409 | 429 => again.push((*group, *machine)),
                    _ => anyhow::bail!("{}: {answer}", machine.name()),
                }
            }
            tracing::info!(rounds, retries = again.len(), "fifty callers");
            waiting = again;
        }
        pool.until(ready_replicas(3).and(desired_replicas(3))).await?;
        ensure!(uids(&pool.machines().await?) == uids(&machines[TARGETS..]), "another machine was removed");
        pool.holds(machine_count(3), SETTLE).await?;
        // Both replicas were used: each logs a line for each of its removals.
        for replica in world.installation().guard()?.service(Component::Apiserver)?.replicas() {
            let log = std::fs::read_to_string(replica.log())?;
            let logged = log.lines().filter(|line| line.contains(world.namespace())).count();
            ensure!(logged >= TARGETS, "{} contains only {logged} removals", replica.log().display());
        }
        Ok::<_, anyhow::Error>(())
    });
}

/// Requests of the aggregated API about the scenario's namespace since a mark, one line each.
fn requests(world: &ScenarioWorld, since: usize) -> anyhow::Result<Vec<String>> {
    let user = Component::Apiserver.user();
    let audit = world.audit()?;
    Ok(audit[since..].iter().filter(|entry| entry.user == user).map(ToString::to_string).collect())
}

#[test]
fn a_removal_needs_few_requests() {
    /// The review of the caller's permission, which has no namespace in the audit log.
    const REVIEW: usize = 1;
    const CALLERS: usize = 20;
    define_scenario("a removal needs few requests").guarded().run(async |world| {
        let pool = world.pool("web").policy(PoolScaleDownPolicy::Explicit).replicas(22).ready().await?;
        let machines = pool.machines().await?;
        world.settles().await?;
        let mark = world.audit()?.len();
        pool.remove(&machines[..1]).await?;
        let alone = requests(world, mark)?;
        ensure!(alone.len() + REVIEW <= 8, "{} requests:\n{}", alone.len(), alone.join("\n"));
        ensure!(alone.len() >= 4, "too few requests in the audit log: {alone:?}");
        pool.until(ready_replicas(21)).await?;
        world.settles().await?;

        let mark = world.audit()?.len();
        let begun = std::time::Instant::now();
        let callers = machines[1..=CALLERS].iter().map(|machine| pool.removal().target(machine).send_unchecked());
        let answers = join_all(callers).await;
        let seconds = begun.elapsed().as_secs_f32();
        world.check().await?;
        let refused: Vec<String> =
            answers.iter().filter(|answer| !answer.is_success()).map(ToString::to_string).collect();
        let contended = requests(world, mark)?;
        let conflicts = contended.iter().filter(|line| line.ends_with(" 409")).count();
        println!(
            "a removal alone: {} requests and {REVIEW} review; {CALLERS} callers on one pool: {} requests, {conflicts} \
             conflicts, {} refused, {seconds:.2} s",
            alone.len(),
            contended.len(),
            refused.len()
        );
        ensure!(refused.is_empty(), "refused callers, of {CALLERS}: {refused:?}");
        pool.until(ready_replicas(1)).await?;
        Ok::<_, anyhow::Error>(())
    });
}

#[test]
fn a_pool_with_a_name_of_sixty_kibibytes_is_not_found() {
    define_scenario("a pool with a name of 60 KiB is not found").guarded_by(GuardOptions::default()).run(
        async |world| {
            let name = "x".repeat(60 << 10);
            let (namespace, group) = (world.namespace(), "subresources.vmpool.dev/v1alpha1");
            let path = format!("/apis/{group}/namespaces/{namespace}/virtualmachinepools/{name}");
            for (path, method) in [(path.clone(), "GET"), (format!("{path}/scaledownwith"), "POST")] {
                let request = http::Request::builder().method(method).uri(path);
                let request = request.header("content-type", "application/json").body(b"{}".to_vec())?;
                let answer = world.client().request_text(request).await;
                let code = match &answer {
                    Err(kube::Error::Api(status)) => status.code,
                    other => anyhow::bail!("{method}: {other:?}"),
                };
                ensure!(code == 404, "{method}: {answer:?}");
            }
            Ok::<_, anyhow::Error>(())
        },
    );
}
