//! What others do between two requests of the controller.

use anyhow::{Result, ensure};
use http::Method;
use serde_json::json;
use vmpool_api::kubevirt::API_VERSION;
use vmpool_installation::fault_proxy::{FaultProxy, Held, RequestLine};
use vmpool_installation::programs::ControllerOptions;

use crate::pools::{bare, memory};
use crate::with_namespace;
use crate::world::{INSTALLED, KubeVirtWorld, accounts, behind_proxy, run_with_options, text};

/// As [`with_world`](crate::world::with_world), with a proxy in front of the API server.
fn with_proxy(namespace: &str, test: impl AsyncFnOnce(&KubeVirtWorld<'_>, &FaultProxy) -> Result<()>) {
    with_namespace(namespace, async |place| {
        let _others = INSTALLED.read().await;
        let accounts = accounts(place.cluster).await?;
        let options = ControllerOptions::new(namespace, "one");
        let (proxy, options) = behind_proxy(place.cluster, options).await?;
        run_with_options(accounts, place, options, async |world| test(&world, &proxy).await).await
    });
}

/// Holds the next request with this method and an object path that ends so.
fn hold(proxy: &FaultProxy, method: Method, end: &'static str) -> Held {
    let ends =
        move |request: &RequestLine| request.path.split('?').next().is_some_and(|path| path.ends_with(end));
    proxy.hold(move |request| request.method == method && ends(request))
}

#[test]
fn a_machine_that_a_user_deletes_before_its_update_is_not_updated() {
    with_proxy("kubevirt-race-delete", async |world, proxy| {
        world.create("p", &bare("p", 2)).await?;
        let machines = world.until_ordinals("p", &[0, 1]).await?;
        world.until_status("p", 2).await?;
        // Given a controller that has read a machine to update it,
        let mut update = hold(proxy, Method::PATCH, "/virtualmachines/p-0");
        world.patch("p", &memory("2Gi")).await?;
        update.arrived().await?;
        // when a user deletes the machine before the API server receives the update,
        world.delete_machine("p-0").await?;
        drop(update);
        // then the deleted machine keeps its spec, and another machine gets its name and the new template.
        let after = world.until_memory(&["p-0", "p-1"], "2Gi").await?;
        ensure!(after.len() == 2, "{after:#?}");
        let former = text(&machines["p-0"], "/metadata/uid");
        for state in world.states_of("p-0").await? {
            let guest = state.text("/spec/template/spec/domain/memory/guest");
            ensure!(state.uid() != former || guest == "1Gi", "the deleted machine was updated");
        }
        ensure!(world.requested("p", "create", "virtualmachines")?.len() == 3, "{:#?}", world.writes()?);
        ensure!(
            text(&world.machines().await?["p-1"], "/metadata/uid") == text(&machines["p-1"], "/metadata/uid")
        );
        world.is_settled().await
    });
}

#[test]
fn a_guest_that_restarts_by_itself_after_the_update_of_its_machine_is_not_restarted_again() {
    with_proxy("kubevirt-race-restart", async |world, proxy| {
        world.without_live_updates().await?;
        let mut spec = bare("p", 2);
        spec["maxUnavailable"] = json!(1);
        world.create("p", &spec).await?;
        world.until_ordinals("p", &[0, 1]).await?;
        let before = world.instances().await?;
        // Given a controller that has updated a machine and wants to restart its guest,
        let mut restart = hold(proxy, Method::DELETE, "/virtualmachineinstances/p-0");
        world.patch("p", &memory("2Gi")).await?;
        restart.arrived().await?;
        // when the guest ends and starts again before the API server receives the request,
        world.place.delete(API_VERSION, "VirtualMachineInstance", "p-0").await?;
        let restarted = world.until_memory(&["p-0"], "2Gi").await?;
        ensure!(text(&restarted["p-0"], "/metadata/uid") != text(&before["p-0"], "/metadata/uid"));
        drop(restart);
        // then the controller restarts only the other one.
        let after = world.until_memory(&["p-0", "p-1"], "2Gi").await?;
        ensure!(text(&after["p-0"], "/metadata/uid") == text(&restarted["p-0"], "/metadata/uid"));
        let deleted = world.requested("p", "delete", "virtualmachineinstances")?;
        ensure!(deleted == ["p-1"], "{deleted:?}");
        world.until_status("p", 2).await?;
        world.is_settled().await
    });
}
