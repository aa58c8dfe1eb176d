//! Targeted removal through the aggregated API.

use std::collections::BTreeSet;

use anyhow::ensure;
use futures::future::join_all;
use serde_json::json;
use vmpool_e2e::scenario::define_scenario;
use vmpool_e2e::world::condition::{
    PoolPredicate, live_machine_count, machine_count, ready_replicas, terminating_machine_count,
};
use vmpool_e2e::world::{
    AggregatedApiResponse, PoolDeletion, PoolHandle, PoolScaleDownPolicy, SETTLE, SUBRESOURCES, ScenarioWorld,
};
use vmpool_installation::installation::GuardOptions;
use vmpool_installation::programs::Component;
use vmpool_invariants::object::{JsonObject, TestedKind};

fn uids<'a>(objects: impl IntoIterator<Item = &'a JsonObject>) -> BTreeSet<String> {
    objects.into_iter().map(|object| object.uid().to_owned()).collect()
}

/// `spec.replicas` as it is stored.
fn desired(replicas: i64) -> PoolPredicate {
    PoolPredicate::new(format!("spec.replicas of {replicas}"), move |view| {
        view.pool().is_some_and(|pool| pool.number("/spec/replicas") == Some(replicas))
    })
}

fn expect(answer: &AggregatedApiResponse, code: u16, words: &[&str]) -> anyhow::Result<()> {
    ensure!(answer.code == code, "expected {code}, but the response is {answer}");
    ensure!(answer.body["kind"] == "Status" && answer.body["apiVersion"] == "v1", "not a Status: {answer}");
    for word in words {
        ensure!(answer.message().contains(word), "the message of {answer} does not contain {word}");
    }
    Ok(())
}

/// The simulator's knob for the delay of a machine's stop.
const STOP: &str = "stop-delay";

/// A pool whose machines do not stop until the knob is reset, so that slow test hosts still observe
/// terminating machines.
async fn pool_with_blocked_stops(
    world: &ScenarioWorld,
    policy: PoolScaleDownPolicy,
    replicas: i64,
) -> anyhow::Result<PoolHandle<'_>> {
    world.knob(STOP, "never").await?;
    Ok(world.pool("web").policy(policy).replicas(replicas).ready().await?)
}

#[test]
fn targeted_removal_removes_only_the_targets() {
    define_scenario("targeted removal removes only the targets").guarded().run(async |world| {
        for policy in [PoolScaleDownPolicy::Explicit, PoolScaleDownPolicy::NewestFirst] {
            let name = if policy == PoolScaleDownPolicy::Explicit { "explicit" } else { "newest" };
            // Given a pool of four machines, one of which does not run,
            let pool = world.pool(name).policy(policy).replicas(4).ready().await?;
            let machines = pool.machines().await?;
            world.operate("Stop", &machines[0]).await?;
            // when the stopped one and a running one are removed by name,
            pool.remove(&machines[..2]).await?;
            // then these two are removed, the others remain, and the two are not replaced.
            pool.until(ready_replicas(2).and(desired(2))).await?;
            ensure!(uids(&pool.machines().await?) == uids(&machines[2..]), "another machine was removed");
            pool.holds(ready_replicas(2), SETTLE).await?;
        }
        Ok::<_, anyhow::Error>(())
    });
}

#[test]
fn a_machine_targeted_several_times_counts_once() {
    define_scenario("a machine targeted several times counts once").guarded().run(async |world| {
        let pool = pool_with_blocked_stops(world, PoolScaleDownPolicy::Explicit, 3).await?;
        let machine = pool.machine(1).await?;
        // The machine is listed twice in one request,
        let twice = pool.removal().target(&machine).target(&machine).send().await?;
        expect(&twice, 201, &[])?;
        ensure!(twice.body["status"] == "Success", "{twice}");
        pool.until(desired(2).and(terminating_machine_count(1))).await?;
        // and in further requests while it is terminating, also through the other group.
        let platforms = "subresources.virtualization.deckhouse.io/v1alpha2";
        expect(&pool.removal().target(&machine).through(platforms).send().await?, 201, &[])?;
        expect(&pool.removal().target(&machine).pinned().send().await?, 201, &[])?;
        world.reset_knob(STOP).await?;
        pool.until(ready_replicas(2).and(desired(2)).and(machine_count(2))).await?;
        // After it is deleted, the name is unknown.
        expect(&pool.removal().named(machine.name()).send().await?, 400, &[machine.name()])?;
        pool.holds(live_machine_count(2).and(desired(2)), SETTLE).await?;
        Ok::<_, anyhow::Error>(())
    });
}

#[test]
fn a_terminating_machine_that_is_targeted_is_not_replaced() {
    define_scenario("a terminating machine that is targeted is not replaced").guarded().run(async |world| {
        let pool = pool_with_blocked_stops(world, PoolScaleDownPolicy::NewestFirst, 3).await?;
        let machine = pool.machine(0).await?;
        world.delete(&machine).await?;
        pool.until(terminating_machine_count(1)).await?;
        pool.remove(std::slice::from_ref(&machine)).await?;
        pool.until(desired(2)).await?;
        world.reset_knob(STOP).await?;
        pool.until(ready_replicas(2).and(machine_count(2))).await?;
        pool.holds(machine_count(2), SETTLE).await?;
        Ok::<_, anyhow::Error>(())
    });
}

#[test]
fn a_request_with_an_invalid_target_is_refused_completely() {
    define_scenario("a request with an invalid target is refused completely").guarded().run(async |world| {
        let pool = world.pool("web").policy(PoolScaleDownPolicy::Explicit).replicas(2).ready().await?;
        let other = world.pool("other").replicas(1).ready().await?;
        let [good, foreign] = [pool.machine(0).await?, other.machine(0).await?];
        let stranger = world.foreign_machine("stranger", &json!({ "app": "web" })).await?;
        let removal = || pool.removal();
        // All or nothing: the valid target is not removed either.
        let of_other = removal().target(&good).named(foreign.name()).send().await?;
        expect(&of_other, 400, &[foreign.name(), "web"])?;
        expect(&removal().named(stranger.name()).target(&good).send().await?, 400, &["stranger"])?;
        let absent = removal().target(&good).named("missing").send().await?;
        expect(&absent, 400, &["missing", world.namespace()])?;
        expect(&removal().send().await?, 400, &["target"])?;
        expect(&removal().with("targets", json!("all")).send().await?, 400, &[])?;
        expect(&removal().target(&good).with("kind", json!("Pod")).send().await?, 400, &[])?;
        let many: Vec<String> = (0..1001).map(|number| format!("m{number}")).collect();
        expect(&removal().with("targets", json!(many)).send().await?, 400, &["1000"])?;
        let pinned = removal().target(&good).with("targetUIDs", json!(["another"])).send().await?;
        expect(&pinned, 409, &[good.name()])?;
        let uneven = removal().target(&good).with("targetUIDs", json!([])).send().await?;
        expect(&uneven, 400, &["targetUIDs"])?;
        pool.holds(ready_replicas(2).and(desired(2)), SETTLE).await?;
        // A pool that is being deleted, and a deleted one.
        world
            .patch(
                TestedKind::Pool,
                other.name(),
                &json!({ "metadata": { "finalizers": ["e2e.vmpool.dev/hold"] } }),
            )
            .await?;
        other.delete(PoolDeletion::Background).await?;
        let terminating = other.removal().named(foreign.name()).send().await?;
        expect(&terminating, 409, &["other"])?;
        world.patch(TestedKind::Pool, other.name(), &json!({ "metadata": { "finalizers": null } })).await?;
        other.leaves_nothing().await?;
        let deleted = other.removal().named(foreign.name()).send().await?;
        expect(&deleted, 404, &["virtualmachinepools.virtualization.deckhouse.io \"other\" not found"])?;
        Ok::<_, anyhow::Error>(())
    });
}

#[test]
fn a_dry_run_changes_nothing_and_returns_the_real_response() {
    define_scenario("a dry run of a removal changes nothing").guarded().run(async |world| {
        let pool = world.pool("web").policy(PoolScaleDownPolicy::Explicit).replicas(2).ready().await?;
        let machine = pool.machine(0).await?;
        let (before, mark) = (pool.get().await?, world.audit()?.len());
        expect(&pool.removal().target(&machine).dry_run_by_body().send().await?, 201, &[])?;
        expect(&pool.removal().target(&machine).dry_run_by_query().send().await?, 201, &[])?;
        expect(&pool.removal().named("missing").dry_run_by_body().send().await?, 400, &["missing"])?;
        expect(&pool.removal().named("missing").dry_run_by_query().send().await?, 400, &["missing"])?;
        let unknown = pool.removal().target(&machine).with("dryRun", json!(["Some"])).dry_run_by_query();
        expect(&unknown.send().await?, 400, &["dryRun"])?;
        pool.holds(ready_replicas(2), SETTLE).await?;
        ensure!(pool.get().await?.at("/metadata/generation") == before.at("/metadata/generation"));
        let user = Component::Apiserver.user();
        let audit = world.audit()?;
        let written: Vec<String> = audit[mark..]
            .iter()
            .filter(|entry| entry.user == user && entry.is_write() && !entry.dry_run)
            .map(ToString::to_string)
            .collect();
        ensure!(written.is_empty(), "a dry run wrote {written:?}");
        Ok::<_, anyhow::Error>(())
    });
}

#[test]
fn targeted_removal_requires_exactly_its_own_permission() {
    define_scenario("targeted removal requires exactly its own permission").guarded().run(async |world| {
        let pool = world.pool("web").policy(PoolScaleDownPolicy::Explicit).replicas(3).ready().await?;
        let machines = pool.machines().await?;
        let owner_of_machines = world
            .user_with(
                "ann",
                json!([{
                    "apiGroups": ["virtualization.deckhouse.io"],
                    "resources": ["virtualmachinepools", "virtualmachinepools/scale", "virtualmachines"],
                    "verbs": ["*"],
                }]),
            )
            .await?;
        let viewer = world.user("vera", &["view"]).await?;
        let editor = world.user("ed", &["edit"]).await?;
        let only_that = world
            .user_with(
                "bob",
                json!([{
                    "apiGroups": ["subresources.vmpool.dev"],
                    "resources": ["virtualmachinepools/scaledownwith"],
                    "verbs": ["create"],
                }]),
            )
            .await?;
        for unauthorized in [&owner_of_machines, &viewer] {
            let refused = pool.removal().target(&machines[0]).by(unauthorized).send().await?;
            expect(&refused, 403, &["scaledownwith"])?;
        }
        pool.holds(live_machine_count(3), SETTLE).await?;
        expect(&pool.removal().target(&machines[0]).by(&editor).send().await?, 201, &[])?;
        expect(&pool.removal().target(&machines[1]).by(&only_that).send().await?, 201, &[])?;
        pool.until(ready_replicas(1).and(desired(1))).await?;
        // The administrator impersonates other users.
        let impersonating = async |name: &str| {
            world.cluster().impersonating_client(&world.user_name(name), &["system:authenticated"]).await
        };
        let as_vera = impersonating("vera").await?;
        expect(&pool.removal().target(&machines[2]).by(&as_vera).send().await?, 403, &["vera"])?;
        let as_bob = impersonating("bob").await?;
        expect(&pool.removal().target(&machines[2]).by(&as_bob).send().await?, 201, &[])?;
        pool.until(ready_replicas(0)).await?;
        Ok::<_, anyhow::Error>(())
    });
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
        pool.until(ready_replicas(3).and(desired(3))).await?;
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
