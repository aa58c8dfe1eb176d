//! Controllers and API servers that crash, hang and restart.

use std::time::Duration;

use http::Method;
use vmpool_e2e::scenario::define_scenario;
use vmpool_e2e::world::SETTLE;
use vmpool_e2e::world::condition::{disk_count, machine_count, ready_replicas};
use vmpool_installation::fault_proxy::{DropPoint, FaultProxy, RequestLine, Triggered};
use vmpool_installation::programs::ControllerOptions;
use vmpool_test_cluster::control_plane::RestartMethod;

/// Maximum number of open requests of a controller when it is killed.
const IN_FLIGHT: usize = 64;

/// Number of requested machines at the moment of a fault.
const SENT_FOR: usize = 20;

/// Runs an action in the middle of the next scale-up: at a create whose response is dropped. A watch could
/// miss such a moment on a busy host.
fn amid<T: Send + 'static>(proxy: &FaultProxy, action: impl FnOnce() -> T + Send + 'static) -> Triggered<T> {
    let makes_machine =
        |asked: &RequestLine| asked.method == Method::POST && asked.to_string().ends_with("/virtualmachines");
    proxy.trap(makes_machine, SENT_FOR, DropPoint::After, action)
}

#[test]
fn a_scale_up_creates_exactly_the_desired_machines_despite_a_crash() {
    define_scenario("a scale-up completes exactly after a crash").controllers(0).run(async |world| {
        let options = ControllerOptions::short_lease(world.namespace(), "a");
        let (controller, proxy) = world.add_controller_with_proxy(options).await?;
        let pool = world.pool("web").create().await?;
        pool.until(ready_replicas(0)).await?;
        // When it is killed after it has created some of fifty machines,
        let mortal = controller.clone();
        let killed = amid(&proxy, move || mortal.kill());
        pool.scale_by_api(50).await?;
        killed.done().await?;
        let made = pool.machines().await?.len();
        tracing::info!(made, "killed");
        // and restarts,
        controller.restart().await?;
        // then there are exactly fifty machines, never more, each with its disk.
        pool.until(machine_count(50).and(disk_count(50))).await?;
        pool.until(ready_replicas(50)).await?;
        pool.holds(machine_count(50), SETTLE).await?;
        Ok::<_, anyhow::Error>(())
    });
}

#[test]
fn a_paused_leader_does_nothing_after_it_was_replaced() {
    define_scenario("a paused leader does nothing after it was replaced").controllers(0).run(async |world| {
        let first = world.add_short_leased("a").await?;
        let pool = world.pool("web").replicas(2).ready().await?;
        let _second = world.add_short_leased("b").await?;
        // Given a leader that is paused while its pool is scaled up,
        first.pause()?;
        pool.scale(6).await?;
        // when another controller has become leader and completed the scale-up, and the pool was scaled down
        // meanwhile,
        pool.until(ready_replicas(6)).await?;
        pool.scale(3).await?;
        pool.until(ready_replicas(3)).await?;
        // then the first leader resumes and adds no machine, because it had no open requests.
        first.resume()?;
        pool.holds(machine_count(3), Duration::from_secs(6)).await?;
        // It is a standby again and has not exited.
        anyhow::ensure!(first.exit_status().is_none(), "the old leader exited: {}", first.log_tail(20));
        Ok::<_, anyhow::Error>(())
    });
}

#[test]
fn a_leader_paused_during_a_scale_up_adds_at_most_its_open_requests() {
    define_scenario("a leader paused during a scale-up").controllers(0).run(async |world| {
        let options = ControllerOptions::short_lease(world.namespace(), "a");
        let (first, proxy) = world.add_controller_with_proxy(options).await?;
        let pool = world.pool("web").create().await?;
        pool.until(ready_replicas(0)).await?;
        pool.allow_in_flight(IN_FLIGHT);
        let _second = world.add_short_leased("b").await?;
        let sleeper = first.clone();
        let paused = amid(&proxy, move || sleeper.pause());
        pool.scale_by_api(60).await?;
        paused.done().await??;
        pool.until_within(ready_replicas(60), Duration::from_mins(1)).await?;
        first.resume()?;
        pool.holds(machine_count(60), Duration::from_secs(3)).await?;
        Ok::<_, anyhow::Error>(())
    });
}

#[test]
fn scale_ups_complete_despite_restarts_and_crashes_of_the_api_server() {
    define_scenario("the API server restarts during scale-ups").on_its_own_cluster().controllers(0).run(
        async |world| {
            let mut options = ControllerOptions::new(world.namespace(), "a");
            // Short, so that the controller does not wait long for the lost response.
            options.extra.push("--request-deadline=2s".to_owned());
            let (_controller, proxy) = world.add_controller_with_proxy(options).await?;
            let pool = world.pool("web").replicas(2).ready().await?;
            for how in [RestartMethod::Graceful, RestartMethod::Killed] {
                let under_way = amid(&proxy, || {});
                pool.scale_by_api(30).await?;
                under_way.done().await?;
                world.cluster().restart_api_server(how).await?;
                pool.until(ready_replicas(30).and(disk_count(30))).await?;
                pool.holds(machine_count(30), SETTLE).await?;
                pool.scale(2).await?;
                pool.until(ready_replicas(2).and(machine_count(2))).await?;
            }
            Ok::<_, anyhow::Error>(())
        },
    );
}
