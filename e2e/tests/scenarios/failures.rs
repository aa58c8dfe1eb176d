//! Controllers and API servers that die, hang and come back.

use std::time::Duration;

use http::Method;
use vmpool_e2e::choke::{Asked, Choke, Moment, Sprung};
use vmpool_e2e::cluster::Restart;
use vmpool_e2e::programs::ControllerOptions;
use vmpool_e2e::scenario::scenario;
use vmpool_e2e::world::SETTLE;
use vmpool_e2e::world::condition::{disks, members, ready_replicas};

/// Requests that a controller may have in flight when it dies.
const IN_FLIGHT: usize = 64;

/// Machines that have been sent for when something happens: some of those that are wanted.
const SENT_FOR: usize = 20;

/// Does something in the middle of the next scale-up: one machine more has been made, and whoever made it is not told. A
/// watch could miss such a moment on a busy machine.
fn amid<T: Send + 'static>(choke: &Choke, action: impl FnOnce() -> T + Send + 'static) -> Sprung<T> {
    let makes_machine =
        |asked: &Asked| asked.method == Method::POST && asked.to_string().ends_with("/virtualmachines");
    choke.trap(makes_machine, SENT_FOR, Moment::After, action)
}

#[test]
fn a_controller_killed_in_the_middle_of_a_scale_up_ends_with_exactly_fifty() {
    scenario("a controller killed in the middle of a scale-up ends with exactly fifty").controllers(0).run(
        async |world| {
            let options = ControllerOptions::short_lease(world.namespace(), "a");
            let (controller, choke) = world.add_choked(options).await?;
            let pool = world.pool("web").create().await?;
            pool.until(ready_replicas(0)).await?;
            // When it is killed with some of fifty machines made,
            let mortal = controller.clone();
            let killed = amid(&choke, move || mortal.kill());
            pool.scale_by_api(50).await?;
            killed.done().await?;
            let made = pool.machines().await?.len();
            tracing::info!(made, "killed");
            // and comes back,
            controller.restart().await?;
            // then there are exactly fifty, at no time more, each with its disk.
            pool.until(members(50).and(disks(50))).await?;
            pool.until(ready_replicas(50)).await?;
            pool.holds(members(50), SETTLE).await?;
            Ok::<_, anyhow::Error>(())
        },
    );
}

#[test]
fn a_leader_paused_past_its_lease_does_nothing_when_it_wakes() {
    scenario("a leader paused past its lease does nothing when it wakes").controllers(0).run(async |world| {
        let first = world.add_short_leased("a").await?;
        let pool = world.pool("web").replicas(2).ready().await?;
        let _second = world.add_short_leased("b").await?;
        // Given a leader that is stopped where it stands while its pool grows,
        first.pause()?;
        pool.scale(6).await?;
        // when another one has taken over and done the work, and the pool has shrunk meanwhile,
        pool.until(ready_replicas(6)).await?;
        pool.scale(3).await?;
        pool.until(ready_replicas(3)).await?;
        // then the first one wakes and adds nothing but what it had in flight, which was nothing.
        first.resume()?;
        pool.holds(members(3), Duration::from_secs(6)).await?;
        // It is a standby again, not dead.
        anyhow::ensure!(first.exit_status().is_none(), "the old leader died: {}", first.log_tail(20));
        Ok::<_, anyhow::Error>(())
    });
}

#[test]
fn a_leader_paused_amid_a_scale_up_adds_at_most_what_it_had_in_flight() {
    scenario("a leader paused amid a scale-up").controllers(0).run(async |world| {
        let options = ControllerOptions::short_lease(world.namespace(), "a");
        let (first, choke) = world.add_choked(options).await?;
        let pool = world.pool("web").create().await?;
        pool.until(ready_replicas(0)).await?;
        pool.allow_in_flight(IN_FLIGHT);
        let _second = world.add_short_leased("b").await?;
        let sleeper = first.clone();
        let paused = amid(&choke, move || sleeper.pause());
        pool.scale_by_api(60).await?;
        paused.done().await??;
        pool.until_within(ready_replicas(60), Duration::from_mins(1)).await?;
        first.resume()?;
        pool.holds(members(60), Duration::from_secs(3)).await?;
        Ok::<_, anyhow::Error>(())
    });
}

#[test]
fn the_api_server_restarts_and_is_killed_amid_scale_ups() {
    scenario("the API server restarts amid scale-ups").on_its_own_cluster().controllers(0).run(
        async |world| {
            let mut options = ControllerOptions::new(world.namespace(), "a");
            // Nobody waits for long for the answer that never comes.
            options.extra.push("--request-deadline=2s".to_owned());
            let (_controller, choke) = world.add_choked(options).await?;
            let pool = world.pool("web").replicas(2).ready().await?;
            for how in [Restart::Graceful, Restart::Killed] {
                let under_way = amid(&choke, || {});
                pool.scale_by_api(30).await?;
                under_way.done().await?;
                world.cluster().restart_api_server(how).await?;
                pool.until(ready_replicas(30).and(disks(30))).await?;
                pool.holds(members(30), SETTLE).await?;
                pool.scale(2).await?;
                pool.until(ready_replicas(2).and(members(2))).await?;
            }
            Ok::<_, anyhow::Error>(())
        },
    );
}
