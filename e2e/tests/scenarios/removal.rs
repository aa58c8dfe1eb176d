//! Removing chosen machines through the aggregated API.

use std::collections::BTreeSet;

use anyhow::ensure;
use futures::future::join_all;
use serde_json::json;
use vmpool_e2e::scenario::scenario;
use vmpool_e2e::world::condition::{Condition, live_members, members, ready_replicas, terminating};
use vmpool_e2e::world::{Answer, Deletion, Policy, Pool, SETTLE, SUBRESOURCES, World};
use vmpool_installation::installation::GuardOptions;
use vmpool_installation::programs::Component;
use vmpool_invariants::object::{Kind, Object};

fn uids<'a>(objects: impl IntoIterator<Item = &'a Object>) -> BTreeSet<String> {
    objects.into_iter().map(|object| object.uid().to_owned()).collect()
}

/// `spec.replicas` as it is stored.
fn wants(replicas: i64) -> Condition {
    Condition::new(format!("spec.replicas of {replicas}"), move |view| {
        view.pool().is_some_and(|pool| pool.number("/spec/replicas") == Some(replicas))
    })
}

fn expect(answer: &Answer, code: u16, words: &[&str]) -> anyhow::Result<()> {
    ensure!(answer.code == code, "expected {code}, and the answer is {answer}");
    ensure!(answer.body["kind"] == "Status" && answer.body["apiVersion"] == "v1", "no Status: {answer}");
    for word in words {
        ensure!(answer.message().contains(word), "nothing about {word} in {answer}");
    }
    Ok(())
}

/// The knob of the simulator that decides when machines stop.
const STOP: &str = "stop-delay";

/// Machines that do not stop before the knob is taken back: whoever is slow still meets them.
async fn lingering(world: &World, policy: Policy, replicas: i64) -> anyhow::Result<Pool<'_>> {
    world.knob(STOP, "never").await?;
    Ok(world.pool("web").policy(policy).replicas(replicas).ready().await?)
}

#[test]
fn named_machines_leave_and_nobody_else() {
    scenario("named machines leave and nobody else").guarded().run(async |world| {
        for policy in [Policy::Explicit, Policy::NewestFirst] {
            let name = if policy == Policy::Explicit { "explicit" } else { "newest" };
            // Given a pool of four, one of which does not run,
            let pool = world.pool(name).policy(policy).replicas(4).ready().await?;
            let machines = pool.machines().await?;
            world.operate("Stop", &machines[0]).await?;
            // when the idle one and a busy one are removed by name,
            pool.remove(&machines[..2]).await?;
            // then these two go at once, the others stay, and nobody takes their places.
            pool.until(ready_replicas(2).and(wants(2))).await?;
            ensure!(uids(&pool.machines().await?) == uids(&machines[2..]), "somebody else left");
            pool.holds(ready_replicas(2), SETTLE).await?;
        }
        Ok::<_, anyhow::Error>(())
    });
}

#[test]
fn a_machine_that_is_named_again_and_again_counts_once() {
    scenario("a machine that is named again and again counts once").guarded().run(async |world| {
        let pool = lingering(world, Policy::Explicit, 3).await?;
        let machine = pool.machine(1).await?;
        // Named twice in one breath,
        let twice = pool.removal().target(&machine).target(&machine).send().await?;
        expect(&twice, 201, &[])?;
        ensure!(twice.body["status"] == "Success", "{twice}");
        pool.until(wants(2).and(terminating(1))).await?;
        // and again while it goes, through the other group, too.
        let platforms = "subresources.virtualization.deckhouse.io/v1alpha2";
        expect(&pool.removal().target(&machine).through(platforms).send().await?, 201, &[])?;
        expect(&pool.removal().target(&machine).pinned().send().await?, 201, &[])?;
        world.reset_knob(STOP).await?;
        pool.until(ready_replicas(2).and(wants(2)).and(members(2))).await?;
        // Once it is gone, nobody knows that name any more.
        expect(&pool.removal().named(machine.name()).send().await?, 400, &[machine.name()])?;
        pool.holds(live_members(2).and(wants(2)), SETTLE).await?;
        Ok::<_, anyhow::Error>(())
    });
}

#[test]
fn naming_a_machine_that_is_already_going_means_that_it_is_not_replaced() {
    scenario("naming a machine that is already going means that it is not replaced").guarded().run(
        async |world| {
            let pool = lingering(world, Policy::NewestFirst, 3).await?;
            let machine = pool.machine(0).await?;
            world.delete(&machine).await?;
            pool.until(terminating(1)).await?;
            pool.remove(std::slice::from_ref(&machine)).await?;
            pool.until(wants(2)).await?;
            world.reset_knob(STOP).await?;
            pool.until(ready_replicas(2).and(members(2))).await?;
            pool.holds(members(2), SETTLE).await?;
            Ok::<_, anyhow::Error>(())
        },
    );
}

#[test]
fn what_cannot_be_removed_is_refused_and_nothing_happens() {
    scenario("what cannot be removed is refused and nothing happens").guarded().run(async |world| {
        let pool = world.pool("web").policy(Policy::Explicit).replicas(2).ready().await?;
        let other = world.pool("other").replicas(1).ready().await?;
        let [good, foreign] = [pool.machine(0).await?, other.machine(0).await?];
        let stranger = world.foreign_machine("stranger", &json!({ "app": "web" })).await?;
        let removal = || pool.removal();
        // All or nothing: the good one stays with the bad one.
        let of_other = removal().target(&good).named(foreign.name()).send().await?;
        expect(&of_other, 400, &[foreign.name(), "web"])?;
        expect(&removal().named(stranger.name()).target(&good).send().await?, 400, &["stranger"])?;
        let absent = removal().target(&good).named("nobody").send().await?;
        expect(&absent, 400, &["nobody", world.namespace()])?;
        expect(&removal().send().await?, 400, &["target"])?;
        expect(&removal().with("targets", json!("all")).send().await?, 400, &[])?;
        expect(&removal().target(&good).with("kind", json!("Pod")).send().await?, 400, &[])?;
        let many: Vec<String> = (0..1001).map(|number| format!("m{number}")).collect();
        expect(&removal().with("targets", json!(many)).send().await?, 400, &["1000"])?;
        let pinned = removal().target(&good).with("targetUIDs", json!(["another"])).send().await?;
        expect(&pinned, 409, &[good.name()])?;
        let uneven = removal().target(&good).with("targetUIDs", json!([])).send().await?;
        expect(&uneven, 400, &["targetUIDs"])?;
        pool.holds(ready_replicas(2).and(wants(2)), SETTLE).await?;
        // A pool that goes, and one that is gone.
        world
            .patch(
                Kind::Pool,
                other.name(),
                &json!({ "metadata": { "finalizers": ["e2e.vmpool.dev/hold"] } }),
            )
            .await?;
        other.delete(Deletion::Background).await?;
        let going = other.removal().named(foreign.name()).send().await?;
        expect(&going, 409, &["other"])?;
        world.patch(Kind::Pool, other.name(), &json!({ "metadata": { "finalizers": null } })).await?;
        other.leaves_nothing().await?;
        let gone = other.removal().named(foreign.name()).send().await?;
        expect(&gone, 404, &["virtualmachinepools.virtualization.deckhouse.io \"other\" not found"])?;
        Ok::<_, anyhow::Error>(())
    });
}

#[test]
fn a_dry_run_changes_nothing_and_tells_the_truth() {
    scenario("a dry run of a removal changes nothing and tells the truth").guarded().run(async |world| {
        let pool = world.pool("web").policy(Policy::Explicit).replicas(2).ready().await?;
        let machine = pool.machine(0).await?;
        let (before, mark) = (pool.get().await?, world.audit()?.len());
        expect(&pool.removal().target(&machine).dry_run_by_body().send().await?, 201, &[])?;
        expect(&pool.removal().target(&machine).dry_run_by_query().send().await?, 201, &[])?;
        expect(&pool.removal().named("nobody").dry_run_by_body().send().await?, 400, &["nobody"])?;
        expect(&pool.removal().named("nobody").dry_run_by_query().send().await?, 400, &["nobody"])?;
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
fn only_who_may_remove_machines_does_and_no_other_right_is_needed() {
    scenario("only who may remove machines does").guarded().run(async |world| {
        let pool = world.pool("web").policy(Policy::Explicit).replicas(3).ready().await?;
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
        for somebody in [&owner_of_machines, &viewer] {
            let refused = pool.removal().target(&machines[0]).by(somebody).send().await?;
            expect(&refused, 403, &["scaledownwith"])?;
        }
        pool.holds(live_members(3), SETTLE).await?;
        expect(&pool.removal().target(&machines[0]).by(&editor).send().await?, 201, &[])?;
        expect(&pool.removal().target(&machines[1]).by(&only_that).send().await?, 201, &[])?;
        pool.until(ready_replicas(1).and(wants(1))).await?;
        // The administrator in the name of others.
        let in_the_name_of = async |name: &str| {
            world.cluster().impersonating_client(&world.user_name(name), &["system:authenticated"]).await
        };
        let as_vera = in_the_name_of("vera").await?;
        expect(&pool.removal().target(&machines[2]).by(&as_vera).send().await?, 403, &["vera"])?;
        let as_bob = in_the_name_of("bob").await?;
        expect(&pool.removal().target(&machines[2]).by(&as_bob).send().await?, 201, &[])?;
        pool.until(ready_replicas(0)).await?;
        Ok::<_, anyhow::Error>(())
    });
}

#[test]
fn fifty_callers_at_once_take_what_they_named_and_no_more() {
    /// Each of them is named by two callers, who ask two replicas of the aggregated API: the API server has another way
    /// to each of the groups.
    const NAMED: usize = 25;
    const GROUPS: [&str; 2] = [SUBRESOURCES, "subresources.virtualization.deckhouse.io/v1alpha2"];
    scenario("fifty callers at once take what they named and no more").guarded().run(async |world| {
        let pool = world.pool("web").policy(Policy::NewestFirst).replicas(28).ready().await?;
        let machines = pool.machines().await?;
        let named = machines[..NAMED].iter();
        let mut waiting: Vec<(&str, &Object)> =
            GROUPS.into_iter().flat_map(|group| named.clone().map(move |machine| (group, machine))).collect();
        let mut rounds = 0;
        while !waiting.is_empty() {
            rounds += 1;
            ensure!(rounds <= 5, "{} callers were still told to come back", waiting.len());
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
                    // Who came second and late finds nobody.
                    400 if answer.message().contains(machine.name()) => {}
                    409 | 429 => again.push((*group, *machine)),
                    _ => anyhow::bail!("{}: {answer}", machine.name()),
                }
            }
            tracing::info!(rounds, told_to_come_back = again.len(), "fifty callers");
            waiting = again;
        }
        pool.until(ready_replicas(3).and(wants(3))).await?;
        ensure!(uids(&pool.machines().await?) == uids(&machines[NAMED..]), "somebody else left");
        pool.holds(members(3), SETTLE).await?;
        // No replica was spared: each has a line for each removal that it was asked for.
        for replica in world.installation().guard()?.service(Component::Apiserver)?.replicas() {
            let log = std::fs::read_to_string(replica.log())?;
            let told = log.lines().filter(|line| line.contains(world.namespace())).count();
            ensure!(told >= NAMED, "{} tells of {told} removals only", replica.log().display());
        }
        Ok::<_, anyhow::Error>(())
    });
}

/// Requests of the aggregated API about the scenario's namespace since a mark, one line each.
fn requests(world: &World, since: usize) -> anyhow::Result<Vec<String>> {
    let user = Component::Apiserver.user();
    let audit = world.audit()?;
    Ok(audit[since..].iter().filter(|entry| entry.user == user).map(ToString::to_string).collect())
}

#[test]
fn a_removal_costs_few_round_trips() {
    /// The review of the caller's right, which has no namespace in the audit log.
    const REVIEW: usize = 1;
    const CALLERS: usize = 20;
    scenario("a removal costs few round trips").guarded().run(async |world| {
        let pool = world.pool("web").policy(Policy::Explicit).replicas(22).ready().await?;
        let machines = pool.machines().await?;
        world.settles().await?;
        let mark = world.audit()?.len();
        pool.remove(&machines[..1]).await?;
        let alone = requests(world, mark)?;
        ensure!(alone.len() + REVIEW <= 8, "{} requests:\n{}", alone.len(), alone.join("\n"));
        ensure!(alone.len() >= 4, "they are not in the audit log: {alone:?}");
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
        ensure!(refused.is_empty(), "of {CALLERS} callers were refused: {refused:?}");
        pool.until(ready_replicas(1)).await?;
        Ok::<_, anyhow::Error>(())
    });
}

#[test]
fn a_pool_with_a_name_of_sixty_kibibytes_is_not_found() {
    scenario("a pool with a name of 60 KiB is not found").guarded_by(GuardOptions::default()).run(
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
