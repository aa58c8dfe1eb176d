//! Processes that die around a removal by name: it takes effect once or not at all, and never hurts anybody else.

use std::time::Duration;

use anyhow::{Context, ensure};
use vmpool_e2e::choke::{Asked, Choke, Moment};
use vmpool_e2e::installation::GuardOptions;
use vmpool_e2e::object::{Kind, Object, REMOVAL_ANNOTATION};
use vmpool_e2e::poll;
use vmpool_e2e::programs::{CONTROLLER_ACCOUNT, Component, ControllerOptions, SYSTEM_NAMESPACE};
use vmpool_e2e::scenario::scenario;
use vmpool_e2e::world::condition::{Condition, has_machine, not, ready_replicas};
use vmpool_e2e::world::{DEADLINE, Policy, Pool, World};

/// How long reservations last in scenarios that wait for their end.
const RESERVATION: &str = "--reservation-timeout=5s";

/// A choked aggregated API that knows of that.
fn impatient_guard() -> GuardOptions {
    GuardOptions::default().choked().value(&format!("apiserver.extraArgs={{{RESERVATION}}}"))
}

/// Starts a controller that does, too.
async fn impatient_controller(world: &World) -> anyhow::Result<()> {
    let mut options = ControllerOptions::new(world.namespace(), "impatient");
    options.extra.push(RESERVATION.to_owned());
    world.add_controller_with(options).await?;
    Ok(())
}

/// Requests about pools and machines of a namespace, reads included.
fn about(namespace: &str) -> impl Fn(&Asked) -> bool + Send + 'static + use<> {
    let part = format!("/namespaces/{namespace}/virtualmachine");
    move |asked| asked.path.contains(&part)
}

/// The next request of the aggregated API that `which` selects, after `passing` others, is its last one.
fn deadly(
    world: &World,
    which: impl Fn(&Asked) -> bool + Send + 'static,
    passing: usize,
    moment: Moment,
) -> anyhow::Result<()> {
    let installation = world.shared_installation();
    world.installation().guard()?.choke(Component::Apiserver)?.trap(which, passing, moment, move || {
        if let Ok(service) = installation.guard().and_then(|guard| guard.service(Component::Apiserver)) {
            service.kill(0);
        }
    });
    Ok(())
}

/// What a user does who got no answer: ask again, until there is one.
async fn insist(pool: &Pool<'_>, machine: &Object) -> anyhow::Result<()> {
    poll::until(
        || format!("the removal of {} is answered", machine.name()),
        DEADLINE,
        async || {
            let answer = pool.removal().target(machine).send().await?;
            let gone = answer.code == 400 && answer.message().contains(machine.name());
            Ok(if answer.is_success() || gone { Ok(()) } else { Err(answer.to_string()) })
        },
    )
    .await
    .with_context(|| format!("repeating the removal in pool {}", pool.name()))
}

#[test]
fn a_removal_survives_the_death_of_the_aggregated_api_at_every_request() {
    let guard = impatient_guard();
    scenario("a removal survives the death of the aggregated API").guarded_by(guard).controllers(0).run(
        async |world| {
            impatient_controller(world).await?;
            let service = world.installation().guard()?.service(Component::Apiserver)?;
            let choke = world.installation().guard()?.choke(Component::Apiserver)?;
            // Given the requests that an undisturbed removal makes,
            let model = world.pool("model").policy(Policy::Explicit).replicas(1).ready().await?;
            choke.forget();
            model.remove(&model.machines().await?).await?;
            let requests: Vec<Asked> = choke.seen().into_iter().filter(about(world.namespace())).collect();
            ensure!((4..=8).contains(&requests.len()), "{requests:#?}");
            // when the process dies before or after any one of them, and the user asks again,
            let mut pools = Vec::new();
            for moment in Moment::BOTH {
                for request in 0..requests.len() {
                    let policy = if request % 2 == 0 { Policy::Explicit } else { Policy::NewestFirst };
                    let name = format!("{moment:?}-{request}").to_lowercase();
                    pools.push((
                        moment,
                        request,
                        world.pool(&name).policy(policy).replicas(2).create().await?,
                    ));
                }
            }
            for (moment, request, pool) in &pools {
                pool.until(ready_replicas(2)).await?;
                let machines = pool.machines().await?;
                deadly(world, about(world.namespace()), *request, *moment)?;
                let lost = pool.removal().target(&machines[0]).send().await?;
                ensure!(
                    !choke.disarm(),
                    "{moment:?} request {request} never came, and the answer was {lost}"
                );
                ensure!(
                    !lost.is_success(),
                    "{moment:?} {:?} it was dead, and answered {lost}",
                    requests[*request]
                );
                service.restart(0).await?;
                insist(pool, &machines[0]).await?;
                // then the pool is smaller by that one machine.
                pool.until(ready_replicas(1)).await?;
                let left = pool.get().await?.number("/spec/replicas");
                ensure!(left == Some(1), "{moment:?} {:?}: {left:?} are wanted", requests[*request]);
                ensure!(pool.machine(0).await?.uid() == machines[1].uid(), "{moment:?}: somebody else left");
            }
            Ok::<_, anyhow::Error>(())
        },
    );
}

/// When the record of a pool was gone again.
fn dropped(world: &World, pool: &Pool<'_>) -> Option<u64> {
    let history = world.recorder().history();
    let of_pool = history.changes().iter().filter(|change| change.object.uid() == pool.uid());
    let since = of_pool.skip_while(|change| change.object.annotation(REMOVAL_ANNOTATION).is_none());
    let mut gone = since.filter(|change| change.object.annotation(REMOVAL_ANNOTATION).is_none());
    gone.next().map(|change| change.revision)
}

/// When the youngest machine of a pool was made.
fn replaced(world: &World, pool: &Pool<'_>) -> Option<u64> {
    let history = world.recorder().history();
    let mut seen = std::collections::BTreeSet::new();
    let members = history.changes().iter().filter(|change| change.object.owner_uid() == pool.uid());
    let machines = members.filter(|change| change.kind == Kind::Machine);
    machines.filter(|change| seen.insert(change.object.uid())).map(|change| change.revision).last()
}

/// The record names somebody.
fn recorded() -> Condition {
    Condition::new("a record of removals", |view| {
        view.pool().is_some_and(|pool| pool.annotation(REMOVAL_ANNOTATION).is_some())
    })
}

fn wants(replicas: i64) -> Condition {
    Condition::new(format!("spec.replicas of {replicas}"), move |view| {
        view.pool().is_some_and(|pool| pool.number("/spec/replicas") == Some(replicas))
    })
}

#[test]
fn what_was_begun_by_a_dead_process_ends_without_help() {
    let guard = impatient_guard();
    scenario("what was begun by a dead process ends without help").guarded_by(guard).controllers(0).run(
        async |world| {
            impatient_controller(world).await?;
            let service = world.installation().guard()?.service(Component::Apiserver)?;
            let write = |nth: usize| {
                (nth, |asked: &Asked| asked.is_write() && asked.path.contains("/virtualmachinepools/"))
            };
            // Given a removal that was accepted, whose machines nobody deleted,
            let accepted = world.pool("accepted").policy(Policy::NewestFirst).replicas(3).ready().await?;
            let named = accepted.machine(0).await?;
            let (second, pool_writes) = write(1);
            deadly(world, pool_writes, second, Moment::After)?;
            ensure!(!accepted.removal().target(&named).send().await?.is_success());
            // then the controller finishes it by itself, with nobody else in its place.
            accepted.until(wants(2)).await?;
            accepted.until(ready_replicas(2).and(not(has_machine(&named)))).await?;
            service.restart(0).await?;
            // Given one that was reserved and never accepted,
            let reserved = world.pool("reserved").policy(Policy::Explicit).replicas(2).ready().await?;
            let vanishing = reserved.machine(0).await?;
            let (first, pool_writes) = write(0);
            deadly(world, pool_writes, first, Moment::After)?;
            ensure!(!reserved.removal().target(&vanishing).send().await?.is_success());
            reserved.until(wants(2)).await?;
            // when its machine goes by itself,
            world.delete(&vanishing).await?;
            // then it is replaced in the end, though not while the removal might still have been accepted.
            reserved.until(ready_replicas(2).and(not(recorded())).and(not(has_machine(&vanishing)))).await?;
            let (dropped, replaced) = (dropped(world, &reserved), replaced(world, &reserved));
            ensure!(
                dropped.is_some() && replaced > dropped,
                "dropped at revision {dropped:?}, replaced at {replaced:?}"
            );
            Ok::<_, anyhow::Error>(())
        },
    );
}

/// Writes of the controller that are about the work, not about its lease or the news.
fn work(asked: &Asked) -> bool {
    asked.is_write() && asked.path.contains("virtualization.deckhouse.io")
}

#[test]
fn a_removal_survives_the_death_of_the_controller_at_every_write() {
    /// About as many as it has for one removal.
    const WRITES: usize = 3;
    scenario("a removal survives the death of the controller").guarded().controllers(0).run(async |world| {
        let choke = Choke::open(world.cluster(), SYSTEM_NAMESPACE, CONTROLLER_ACCOUNT).await?;
        let options = ControllerOptions {
            lease_duration: Duration::from_secs(3),
            renew_interval: Duration::from_millis(500),
            kubeconfig: Some(choke.kubeconfig(world.cluster())?),
            extra: vec!["--request-deadline=1500ms".to_owned()],
            ..ControllerOptions::new(world.namespace(), "mortal")
        };
        let controller = world.add_controller_with(options).await?;
        let pool = world.pool("web").policy(Policy::NewestFirst).replicas(7).ready().await?;
        let oldest = pool.machines().await?;
        let (mut deaths, mut left) = (0, 7);
        for (round, machine) in oldest[..2 * WRITES].iter().enumerate() {
            let moment = Moment::BOTH[round % 2];
            let mortal = controller.clone();
            choke.trap(work, round / 2, moment, move || mortal.kill());
            // When the controller dies somewhere in the removal of its oldest machine,
            pool.remove(std::slice::from_ref(machine)).await?;
            left -= 1;
            poll::until(
                || "the controller dies or is done".to_owned(),
                DEADLINE,
                async || {
                    let now = pool.get().await?;
                    let done = now.number("/status/replicas") == Some(left)
                        && now.annotation(REMOVAL_ANNOTATION).is_none();
                    Ok(if !choke.is_set() || done { Ok(()) } else { Err(now.to_yaml()) })
                },
            )
            .await?;
            deaths += usize::from(!choke.disarm());
            controller.restart().await?;
            // then the next one finishes it, and takes nobody else.
            pool.until(ready_replicas(left).and(not(recorded()))).await?;
        }
        tracing::info!(deaths, rounds = 2 * WRITES, "of the controller");
        ensure!(deaths >= 3, "it died only {deaths} times");
        ensure!(pool.machine(0).await?.uid() == oldest[6].uid(), "somebody else left");
        Ok::<_, anyhow::Error>(())
    });
}
