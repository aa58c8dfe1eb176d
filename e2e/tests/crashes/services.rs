//! Crashes of the webhook and the aggregated API at one of their requests. The client gets no response and
//! repeats its request. The request takes effect once or not at all, and never affects other machines.

use anyhow::{Context, ensure};
use rstest::rstest;
use serde_json::json;
use tokio::sync::{Mutex, RwLock};
use vmpool_api::annotations;
use vmpool_e2e::harness::{self, SHORT_RESERVATION};
use vmpool_e2e::scenario::define_scenario;
use vmpool_e2e::world::condition::{PoolPredicate, has_machine, negate_condition, ready_replicas};
use vmpool_e2e::world::{DEADLINE, PoolHandle, PoolScaleDownPolicy, ScenarioWorld};
use vmpool_installation::fault_proxy::{DropPoint, RequestLine};
use vmpool_installation::programs::{Component, ControllerOptions};
use vmpool_invariants::object::{JsonObject, TestedKind};
use vmpool_invariants::platform::TestedPlatform;
use vmpool_test_cluster::poll;

use crate::scenario::{remove_until_answered, unrecorded};

/// Scenarios that write pools without retries hold the read lock; scenarios that kill the webhook hold the
/// write lock.
///
/// A scenario takes the lock before it starts. With all crash points other scenarios hold it for a quarter of
/// an hour, which must not count as time of the waiting scenario.
pub(crate) static WEBHOOK: RwLock<()> = RwLock::const_new(());

/// Only one scenario at a time may kill the aggregated API.
static APISERVER: Mutex<()> = Mutex::const_new(());

/// Starts a controller with a short reservation timeout.
async fn controller_with_short_reservations(world: &ScenarioWorld) -> anyhow::Result<()> {
    let mut options = ControllerOptions::new(world.namespace(), "impatient");
    options.extra.push(SHORT_RESERVATION.to_owned());
    world.add_controller_with(options).await?;
    Ok(())
}

/// Selects requests that concern pools and machines of a namespace, reads included.
fn concerns(namespace: &str) -> impl Fn(&RequestLine) -> bool + Send + 'static + use<> {
    let part = format!("/namespaces/{namespace}/virtualmachine");
    move |request| request.path.contains(&part)
}

/// Kills the component at the next request that `filter` selects, after `skip` others.
fn kill_service_at(
    world: &ScenarioWorld,
    component: Component,
    filter: impl Fn(&RequestLine) -> bool + Send + 'static,
    (skip, drop_point): (usize, DropPoint),
) -> anyhow::Result<()> {
    let installation = world.shared_installation();
    world.installation().guard()?.fault_proxy(component)?.trap(filter, skip, drop_point, move || {
        if let Ok(service) = installation.guard().and_then(|guard| guard.service(component)) {
            service.kill(0);
        }
    });
    Ok(())
}

/// Waits until the API server proxies removals again. After a crash it takes a moment until it considers the
/// aggregated API available.
async fn until_reachable(pool: &PoolHandle<'_>, machine: &JsonObject) -> anyhow::Result<()> {
    poll::poll_until(
        || "the API server reaches the aggregated API".to_owned(),
        DEADLINE,
        async || {
            let answer = pool.removal().target(machine).dry_run_by_query().send().await?;
            Ok(if answer.is_success() { Ok(()) } else { Err(answer.to_string()) })
        },
    )
    .await?;
    Ok(())
}

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn a_removal_survives_the_death_of_the_aggregated_api_at_every_request(#[case] platform: TestedPlatform) {
    let (_stays, _alone) = harness::block_on(async { (WEBHOOK.read().await, APISERVER.lock().await) });
    let name = "a removal survives a crash of the aggregated API";
    define_scenario(name).on(platform).with_fault_proxy().controllers(0).run(async |world| {
        controller_with_short_reservations(world).await?;
        let service = world.installation().guard()?.service(Component::Apiserver)?;
        let proxy = world.installation().guard()?.fault_proxy(Component::Apiserver)?;
        // Given the requests of a removal without faults,
        let model = world.pool("model").policy(PoolScaleDownPolicy::Explicit).replicas(1).ready().await?;
        until_reachable(&model, &model.machine(0).await?).await?;
        proxy.clear_requests();
        model.remove(&model.machines().await?).await?;
        let requests: Vec<RequestLine> =
            proxy.requests().into_iter().filter(concerns(world.namespace())).collect();
        ensure!((4..=8).contains(&requests.len()), "{requests:#?}");
        // when the process is killed before or after any one of them, and the user repeats the request,
        let mut pools = Vec::new();
        for drop_point in DropPoint::BOTH {
            for request in 0..requests.len() {
                let policy = if request % 2 == 0 {
                    PoolScaleDownPolicy::Explicit
                } else {
                    PoolScaleDownPolicy::NewestFirst
                };
                let name = format!("{drop_point:?}-{request}").to_lowercase();
                pools.push((
                    drop_point,
                    request,
                    world.pool(&name).policy(policy).replicas(2).create().await?,
                ));
            }
        }
        for (drop_point, request, pool) in &pools {
            pool.until(ready_replicas(2)).await?;
            let machines = pool.machines().await?;
            kill_service_at(
                world,
                Component::Apiserver,
                concerns(world.namespace()),
                (*request, *drop_point),
            )?;
            let lost = pool.removal().target(&machines[0]).send().await?;
            ensure!(
                !proxy.disarm(),
                "{drop_point:?} request {request} never arrived, and the response was {lost}"
            );
            ensure!(
                !lost.is_success(),
                "{drop_point:?} {:?} the killed process responded with {lost}",
                requests[*request]
            );
            service.restart(0).await?;
            remove_until_answered(pool, &machines[0]).await?;
            // then the pool has exactly one machine less.
            pool.until(ready_replicas(1)).await?;
            let remaining = pool.get().await?.number("/spec/replicas");
            ensure!(
                remaining == Some(1),
                "{drop_point:?} {:?}: {remaining:?} replicas are desired",
                requests[*request]
            );
            ensure!(
                pool.machine(0).await?.uid() == machines[1].uid(),
                "{drop_point:?}: another machine was removed"
            );
        }
        println!("crashes of the aggregated API, {platform}: {} points", pools.len());
        Ok::<_, anyhow::Error>(())
    });
}

/// The revision at which the record of a pool was removed.
fn record_removed_at(world: &ScenarioWorld, pool: &PoolHandle<'_>) -> Option<u64> {
    let history = world.recorder().history();
    let of_pool = history.changes().iter().filter(|change| change.object.uid() == pool.uid());
    let since =
        of_pool.skip_while(|change| change.object.annotation(annotations::SCALE_DOWN_TARGETS).is_none());
    let mut gone = since.filter(|change| change.object.annotation(annotations::SCALE_DOWN_TARGETS).is_none());
    gone.next().map(|change| change.revision)
}

/// The revision at which the newest machine of a pool was created.
fn replaced_at(world: &ScenarioWorld, pool: &PoolHandle<'_>) -> Option<u64> {
    let history = world.recorder().history();
    let mut seen = std::collections::BTreeSet::new();
    let owned_changes = history.changes().iter().filter(|change| change.object.owner_uid() == pool.uid());
    let machines = owned_changes.filter(|change| change.kind == TestedKind::Machine);
    machines.filter(|change| seen.insert(change.object.uid())).map(|change| change.revision).last()
}

fn desired_replicas(replicas: i64) -> PoolPredicate {
    PoolPredicate::new(format!("spec.replicas of {replicas}"), move |view| {
        view.pool().is_some_and(|pool| pool.number("/spec/replicas") == Some(replicas))
    })
}

#[test]
fn the_controller_completes_removals_of_a_killed_process() {
    let (_stays, _alone) = harness::block_on(async { (WEBHOOK.read().await, APISERVER.lock().await) });
    define_scenario("the controller completes removals of a killed process")
        .with_fault_proxy()
        .controllers(0)
        .run(async |world| {
            controller_with_short_reservations(world).await?;
            let service = world.installation().guard()?.service(Component::Apiserver)?;
            let namespace = world.namespace().to_owned();
            let pool_write = move |request: &RequestLine| {
                let pools = format!("/namespaces/{namespace}/virtualmachinepools/");
                request.is_write() && request.path.contains(&pools)
            };
            // Given an accepted removal whose machines have not been deleted,
            let accepted =
                world.pool("accepted").policy(PoolScaleDownPolicy::NewestFirst).replicas(3).ready().await?;
            let named = accepted.machine(0).await?;
            until_reachable(&accepted, &named).await?;
            kill_service_at(world, Component::Apiserver, pool_write.clone(), (1, DropPoint::After))?;
            ensure!(!accepted.removal().target(&named).send().await?.is_success());
            // then the controller completes it, and removes no other machine in its place.
            accepted.until(desired_replicas(2)).await?;
            accepted.until(ready_replicas(2).and(negate_condition(has_machine(&named)))).await?;
            service.restart(0).await?;
            // Given a reserved removal that was never accepted,
            let reserved =
                world.pool("reserved").policy(PoolScaleDownPolicy::Explicit).replicas(2).ready().await?;
            let vanishing = reserved.machine(0).await?;
            until_reachable(&reserved, &vanishing).await?;
            kill_service_at(world, Component::Apiserver, pool_write, (0, DropPoint::After))?;
            ensure!(!reserved.removal().target(&vanishing).send().await?.is_success());
            reserved.until(desired_replicas(2)).await?;
            // when its machine is deleted by a user,
            world.delete(&vanishing).await?;
            // then the machine is replaced, but not while the removal could still be accepted.
            reserved
                .until(ready_replicas(2).and(unrecorded()).and(negate_condition(has_machine(&vanishing))))
                .await?;
            let (record_removed_at, replaced_at) =
                (record_removed_at(world, &reserved), replaced_at(world, &reserved));
            ensure!(
                record_removed_at.is_some() && replaced_at > record_removed_at,
                "dropped at revision {record_removed_at:?}, replaced at {replaced_at:?}"
            );
            service.restart(0).await?;
            Ok::<_, anyhow::Error>(())
        });
}

/// A write that the webhook validates.
#[derive(Debug, Clone, Copy)]
enum ValidatedWrite {
    /// A pool is created.
    Create,
    /// Its template changes.
    Edit,
    /// A NewestFirst pool is scaled down.
    Shrink,
    /// A targeted removal: the aggregated API writes first, then the controller.
    Removal,
}

impl ValidatedWrite {
    const ALL: [Self; 4] = [Self::Create, Self::Edit, Self::Shrink, Self::Removal];

    /// Sends the request once. `Err` is the error that the user sees.
    async fn send(
        self,
        world: &ScenarioWorld,
        name: &str,
        machine: Option<&JsonObject>,
    ) -> Result<(), String> {
        let text = |error: vmpool_test_cluster::Error| vmpool_test_cluster::error::error_with_causes(&error);
        if matches!(self, Self::Create) {
            let known = world.existing(name).await.is_ok();
            return if known {
                Ok(())
            } else {
                world.pool(name).replicas(1).create().await.map(drop).map_err(text)
            };
        }
        let pool = world.existing(name).await.map_err(text)?;
        match (self, machine) {
            (Self::Removal, Some(machine)) => {
                let answer = pool.removal().target(machine).send().await.map_err(text)?;
                let gone = answer.code == 400 && answer.message().contains(machine.name());
                if answer.is_success() || gone { Ok(()) } else { Err(answer.to_string()) }
            }
            (Self::Shrink, _) => pool.scale_by_api(1).await.map_err(text),
            _ => {
                let seconds = json!({ "terminationGracePeriodSeconds": 2 });
                let patch = json!({ "spec": { "virtualMachineTemplate": { "spec": seconds } } });
                pool.edit(&patch).await.map_err(text)
            }
        }
    }
}

/// Whether the webhook sends the request for a validation, not for its health check.
fn is_validation_read(request: &RequestLine) -> bool {
    ["virtualization.deckhouse.io", "controllerrevisions"].iter().any(|part| request.path.contains(part))
}

/// Sends the write while the webhook is killed at its `until_killed`-th request for it, if there are that
/// many.
async fn send_during_crash(
    world: &ScenarioWorld,
    write: ValidatedWrite,
    name: &str,
    until_killed: Option<(usize, DropPoint)>,
) -> anyhow::Result<bool> {
    let service = world.installation().guard()?.service(Component::Webhook)?;
    let proxy = world.installation().guard()?.fault_proxy(Component::Webhook)?;
    let machine = match write {
        ValidatedWrite::Create => None,
        _ => Some(world.pool(name).replicas(2).ready().await?.machine(0).await?),
    };
    proxy.clear_requests();
    if let Some(until_killed) = until_killed {
        kill_service_at(world, Component::Webhook, is_validation_read, until_killed)?;
    }
    let first = write.send(world, name, machine.as_ref()).await;
    let killed = until_killed.is_some() && !proxy.disarm();
    if killed {
        // No write may be admitted without validation.
        ensure!(
            first.is_err(),
            "{write:?} {until_killed:?}: it was accepted although the webhook was killed"
        );
        service.restart(0).await?;
    }
    poll::poll_until(
        || format!("{write:?} {until_killed:?} is accepted"),
        DEADLINE,
        async || Ok(write.send(world, name, machine.as_ref()).await),
    )
    .await?;
    let pool = world.existing(name).await?;
    let remaining = if matches!(write, ValidatedWrite::Edit) { 2 } else { 1 };
    pool.until(ready_replicas(remaining).and(unrecorded()))
        .await
        .context(format!("{write:?} {until_killed:?}"))?;
    Ok(killed)
}

#[test]
fn writes_survive_a_crash_of_the_webhook_at_every_request() {
    let _alone = harness::block_on(WEBHOOK.write());
    define_scenario("writes survive a crash of the webhook").with_fault_proxy().run(async |world| {
        let proxy = world.installation().guard()?.fault_proxy(Component::Webhook)?;
        let mut points = 0;
        for write in ValidatedWrite::ALL {
            let name = format!("{write:?}").to_lowercase();
            send_during_crash(world, write, &name, None).await?;
            let requests = proxy.requests().into_iter().filter(is_validation_read).count();
            ensure!(
                requests > 0 || !matches!(write, ValidatedWrite::Create),
                "the webhook reads other objects to validate a new pool"
            );
            for request in 0..requests {
                for drop_point in DropPoint::BOTH {
                    let name = format!("{name}-{drop_point:?}-{request}").to_lowercase();
                    points += usize::from(
                        send_during_crash(world, write, &name, Some((request, drop_point))).await?,
                    );
                }
            }
        }
        ensure!(points >= 4, "the webhook was killed only {points} times");
        println!("crashes of the webhook: {points} points");
        Ok::<_, anyhow::Error>(())
    });
}
