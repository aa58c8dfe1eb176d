//! Requests of targeted removal: what they remove, and which of them are refused.

use std::collections::BTreeSet;

use anyhow::{Context, ensure};
use rstest::rstest;
use serde_json::{Value, json};
use vmpool_api::{annotations, kubevirt};
use vmpool_e2e::world::condition::{
    desired_replicas, live_machine_count, machine_count, ready_replicas, terminating_machine_count,
};
use vmpool_e2e::world::{AggregatedApiResponse, PoolDeletion, PoolScaleDownPolicy, SETTLE};
use vmpool_installation::programs::Component;
use vmpool_invariants::object::{JsonObject, TestedKind};
use vmpool_invariants::platform::TestedPlatform;
use vmpool_test_cluster::error::error_with_causes;

use crate::on;
use crate::protected::subresources;

fn uids<'a>(objects: impl IntoIterator<Item = &'a JsonObject>) -> BTreeSet<String> {
    objects.into_iter().map(|object| object.uid().to_owned()).collect()
}

fn expect(answer: &AggregatedApiResponse, code: u16, words: &[&str]) -> anyhow::Result<()> {
    ensure!(answer.code == code, "expected {code}, but the response is {answer}");
    ensure!(answer.body["kind"] == "Status" && answer.body["apiVersion"] == "v1", "not a Status: {answer}");
    for word in words {
        ensure!(answer.message().contains(word), "the message of {answer} does not contain {word}");
    }
    Ok(())
}

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn targeted_removal_removes_only_the_targets(#[case] platform: TestedPlatform) {
    on(platform, "targeted removal removes only the targets", async |world| {
        for policy in [PoolScaleDownPolicy::Explicit, PoolScaleDownPolicy::NewestFirst] {
            let name = if policy == PoolScaleDownPolicy::Explicit { "explicit" } else { "newest" };
            // Given a pool of four machines, one of which does not run,
            let pool = world.pool(name).policy(policy).replicas(4).ready().await?;
            let machines = pool.machines().await?;
            world.stop_guest(&machines[0]).await?;
            // when the stopped one and a running one are removed by name,
            pool.remove(&machines[..2]).await?;
            // then these two are removed, the others remain, and the two are not replaced.
            pool.until(ready_replicas(2).and(desired_replicas(2))).await?;
            ensure!(uids(&pool.machines().await?) == uids(&machines[2..]), "another machine was removed");
            pool.holds(ready_replicas(2), SETTLE).await?;
        }
        Ok(())
    });
}

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn a_terminating_machine_or_one_targeted_several_times_counts_once(#[case] platform: TestedPlatform) {
    /// The simulator's knob for the delay of a machine's stop.
    const STOP: &str = "stop-delay";
    on(platform, "a machine targeted several times counts once", async |world| {
        // Given machines that do not stop until the knob is reset, so that slow test hosts still observe
        // terminating machines,
        world.knob(STOP, "never").await?;
        let explicit = world.pool("explicit").policy(PoolScaleDownPolicy::Explicit).replicas(3);
        let newest = world.pool("newest").policy(PoolScaleDownPolicy::NewestFirst).replicas(3);
        let (explicit, newest) = tokio::try_join!(explicit.ready(), newest.ready())?;
        // when a machine is listed twice in one request,
        let machine = explicit.machine(1).await?;
        let twice = explicit.removal().target(&machine).target(&machine).send().await?;
        expect(&twice, 201, &[])?;
        ensure!(twice.body["status"] == "Success", "{twice}");
        explicit.until(desired_replicas(2).and(terminating_machine_count(1))).await?;
        // and in further requests while it is terminating, on DVP also through the other group,
        if platform == TestedPlatform::Dvp {
            let other = "subresources.virtualization.deckhouse.io/v1alpha2";
            expect(&explicit.removal().target(&machine).through(other).send().await?, 201, &[])?;
        }
        expect(&explicit.removal().target(&machine).send().await?, 201, &[])?;
        expect(&explicit.removal().target(&machine).pinned().send().await?, 201, &[])?;
        // and when a machine that a user has deleted is listed,
        let deleted = newest.machine(0).await?;
        world.delete(&deleted).await?;
        newest.until(terminating_machine_count(1)).await?;
        newest.remove(std::slice::from_ref(&deleted)).await?;
        newest.until(desired_replicas(2)).await?;
        // then each counts once, and is not replaced.
        world.reset_knob(STOP).await?;
        for pool in [&explicit, &newest] {
            pool.until(ready_replicas(2).and(desired_replicas(2)).and(machine_count(2))).await?;
        }
        // After a machine is deleted, its name is unknown. Ordinals return, so that KubeVirt pools remember
        // it.
        let repeated = explicit.removal().named(machine.name()).send().await?;
        let code = if platform == TestedPlatform::Dvp { 400 } else { 201 };
        expect(&repeated, code, &[machine.name()])?;
        ensure!(explicit.get().await?.at("/spec/replicas") == 2, "the repeated request counts");
        for pool in [&explicit, &newest] {
            pool.holds(live_machine_count(2).and(desired_replicas(2)), SETTLE).await?;
        }
        Ok(())
    });
}

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn a_request_with_an_invalid_target_and_a_dry_run_change_nothing(#[case] platform: TestedPlatform) {
    on(platform, "a request with an invalid target and a dry run change nothing", async |world| {
        let pool = world.pool("web").policy(PoolScaleDownPolicy::Explicit).replicas(2).ready().await?;
        let other = world.pool("other").replicas(1).ready().await?;
        let [good, foreign] = [pool.machine(0).await?, other.machine(0).await?];
        let stranger = world.foreign_machine("stranger", &json!({ "app": "web" })).await?;
        let before = pool.get().await?;
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
        // A dry run gets the response that the request would get.
        let mark = world.audit()?.len();
        expect(&removal().target(&good).dry_run_by_body().send().await?, 201, &[])?;
        expect(&removal().target(&good).dry_run_by_query().send().await?, 201, &[])?;
        expect(&removal().named("missing").dry_run_by_body().send().await?, 400, &["missing"])?;
        expect(&removal().named("missing").dry_run_by_query().send().await?, 400, &["missing"])?;
        let unknown = removal().target(&good).with("dryRun", json!(["Some"])).dry_run_by_query();
        expect(&unknown.send().await?, 400, &["dryRun"])?;
        pool.holds(ready_replicas(2).and(desired_replicas(2)), SETTLE).await?;
        ensure!(pool.get().await?.at("/metadata/generation") == before.at("/metadata/generation"));
        let (user, audit) = (Component::Apiserver.user(), world.audit()?);
        let wrote =
            audit[mark..].iter().find(|entry| entry.user == user && entry.is_write() && !entry.dry_run);
        ensure!(wrote.is_none(), "the aggregated API wrote {wrote:?}");

        // A pool that is being deleted, and a deleted one.
        let mut held = other.get().await?.at("/metadata/finalizers").as_array().cloned().unwrap_or_default();
        held.push(json!("e2e.vmpool.dev/hold"));
        let hold = async |finalizers: Value| {
            let patch = json!({ "metadata": { "finalizers": finalizers } });
            world.patch(TestedKind::Pool, other.name(), &patch).await
        };
        hold(json!(held)).await?;
        other.delete(PoolDeletion::Background).await?;
        let terminating = other.removal().named(foreign.name()).send().await?;
        expect(&terminating, 409, &["other"])?;
        hold(Value::Null).await?;
        other.leaves_nothing().await?;
        let deleted = other.removal().named(foreign.name()).send().await?;
        let group = world.platform().resource(TestedKind::Pool).group;
        expect(&deleted, 404, &[&format!("virtualmachinepools.{group} \"other\" not found")])?;
        Ok(())
    });
}

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn targeted_removal_requires_exactly_its_own_permission(#[case] platform: TestedPlatform) {
    on(platform, "targeted removal requires exactly its own permission", async |world| {
        let pool = world.pool("web").policy(PoolScaleDownPolicy::Explicit).replicas(3).ready().await?;
        let machines = pool.machines().await?;
        // A write of the removal record would remove machines, too. Only the removal handler writes it.
        let key = match platform {
            TestedPlatform::Dvp => annotations::SCALE_DOWN_TARGETS,
            TestedPlatform::KubeVirt => kubevirt::annotations::SCALE_IN_TARGETS,
        };
        let record = json!([{ "name": machines[0].name(), "uid": machines[0].uid() }]).to_string();
        let annotated = json!({ "metadata": { "annotations": { key: record } } });
        let edited = pool.edit(&annotated).await.err().context("the record was accepted in an edit")?;
        ensure!(error_with_causes(&edited).contains(key), "{}", error_with_causes(&edited));
        let created = world.pool("other").with(&annotated).create().await;
        ensure!(created.is_err(), "the record was accepted in a new pool");
        let all_on_machines = json!([{
            "apiGroups": platform.groups(),
            "resources": ["virtualmachinepools", "virtualmachinepools/scale", "virtualmachines"],
            "verbs": ["*"],
        }]);
        let removals = json!([{
            "apiGroups": [subresources(platform)],
            "resources": ["virtualmachinepools/scaledownwith"],
            "verbs": ["create"],
        }]);
        let owner_of_machines = world.user_with("ann", all_on_machines).await?;
        let viewer = world.user("vera", &["view"]).await?;
        let editor = world.user("ed", &["edit"]).await?;
        let only_that = world.user_with("bob", removals).await?;
        for unauthorized in [&owner_of_machines, &viewer] {
            let refused = pool.removal().target(&machines[0]).by(unauthorized).send().await?;
            expect(&refused, 403, &["scaledownwith"])?;
        }
        pool.holds(live_machine_count(3), SETTLE).await?;
        expect(&pool.removal().target(&machines[0]).by(&editor).send().await?, 201, &[])?;
        expect(&pool.removal().target(&machines[1]).by(&only_that).send().await?, 201, &[])?;
        pool.until(ready_replicas(1).and(desired_replicas(1))).await?;
        // The administrator impersonates other users.
        let impersonating = async |name: &str| {
            world.cluster().impersonating_client(&world.user_name(name), &["system:authenticated"]).await
        };
        let as_vera = impersonating("vera").await?;
        expect(&pool.removal().target(&machines[2]).by(&as_vera).send().await?, 403, &["vera"])?;
        let as_bob = impersonating("bob").await?;
        expect(&pool.removal().target(&machines[2]).by(&as_bob).send().await?, 201, &[])?;
        pool.until(ready_replicas(0)).await?;
        Ok(())
    });
}
