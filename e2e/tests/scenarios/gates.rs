//! The feature gate, and the probes.

use serde_json::{Value, json};
use vmpool_e2e::scenario::define_scenario;
use vmpool_e2e::world::condition::{PoolPredicate, has_machine, live_machine_count, ready_replicas};
use vmpool_e2e::world::{PoolScaleDownPolicy, SETTLE, SUBRESOURCES};
use vmpool_installation::installation::GuardOptions;
use vmpool_installation::programs::{Accounts, Component, ControllerOptions, SYSTEM_NAMESPACE};
use vmpool_test_cluster::control_plane::apply_manifests;

#[test]
fn switching_the_gate_off_and_on_keeps_all_machines() {
    define_scenario("switching the gate off and on keeps all machines").controllers(0).run(async |world| {
        let options = |identity: &str| ControllerOptions::new(world.namespace(), identity);
        let on = world.add_controller_with(options("on")).await?;
        let pool = world.pool("web").replicas(2).ready().await?;
        let machine = pool.machine(0).await?;
        on.stop().await?;
        // With the gate off the controller ignores all changes of the pool.
        let mut off = options("off");
        off.extra.push("--feature-gates=VirtualMachinePool=false".to_owned());
        let off = world.add_controller_with(off).await?;
        anyhow::ensure!(
            off.probe("/livez").await.0 == 200,
            "the controller is live although the gate is off"
        );
        pool.scale(3).await?;
        pool.holds(live_machine_count(2).and(not_observed()), SETTLE).await?;
        off.stop().await?;
        // With the gate on again it continues.
        world.add_controller_with(options("on-again")).await?;
        pool.until(ready_replicas(3).and(has_machine(&machine))).await?;
        Ok::<_, anyhow::Error>(())
    });
}

fn not_observed() -> PoolPredicate {
    PoolPredicate::new("a pool whose newest generation was not observed", |view| {
        view.pool().is_some_and(|pool| {
            pool.number("/status/observedGeneration") < pool.number("/metadata/generation")
        })
    })
}

#[test]
fn with_the_gate_off_there_is_no_webhook_and_no_removal_endpoint() {
    let guard = GuardOptions::default().value("featureGates.VirtualMachinePool=false");
    define_scenario("with the gate off there is no webhook and no removal endpoint")
        .guarded_by(guard)
        .controllers(0)
        .run(async |world| {
            // Pools can be created and changed, because no webhook is registered,
            let pool = world.pool("web").policy(PoolScaleDownPolicy::Explicit).replicas(3).create().await?;
            pool.edit(&json!({ "spec": { "replicas": 1 } })).await?;
            pool.scale_by_api(0).await?;
            // the removal endpoint does not exist,
            let listed = world.cluster().kubectl(&["api-resources", "--verbs=create", "-o", "name"]).await?;
            anyhow::ensure!(!listed.contains("scaledownwith"), "{listed}");
            for group in [SUBRESOURCES, "subresources.virtualization.deckhouse.io/v1alpha2"] {
                let answer = pool.removal().named("missing").through(group).send().await?;
                anyhow::ensure!(answer.code == 404, "{group}: {answer}");
            }
            // not even if an APIService remains: the program has no permission for access reviews, and needs
            // none,
            let left_behind = "v1alpha1.subresources.vmpool.dev";
            let port = world.installation().guard()?.service(Component::Apiserver)?.ports()[0];
            apply_manifests(&world.client(), &[registration(left_behind, port)], None).await?;
            let available = ["wait", "--for=condition=Available", "--timeout=60s", "apiservice", left_behind];
            world.cluster().kubectl(&available).await?;
            let answer = pool.removal().named("missing").send().await?;
            anyhow::ensure!(answer.code == 404 && answer.reason() == "NotFound", "{answer}");
            world.cluster().kubectl(&["delete", "apiservice", left_behind]).await?;
            // and running programs are live and ready.
            let off = world.add_controller_with({
                let mut options = ControllerOptions::new(world.namespace(), "off");
                options.extra.push("--feature-gates=VirtualMachinePool=false".to_owned());
                options
            });
            let off = off.await?;
            pool.scale_by_api(2).await?;
            pool.holds(live_machine_count(0).and(no_status()), SETTLE).await?;
            off.stop().await?;
            // With the gate on, a pool from that time works like any other.
            Accounts::install(world.cluster()).await?.grant_in(world.cluster(), world.namespace()).await?;
            let on = world.add_controller_with(ControllerOptions::new(world.namespace(), "on")).await?;
            pool.until(ready_replicas(2)).await?;
            drop(on);
            Ok::<_, anyhow::Error>(())
        });
}

/// An APIService of an earlier installation with the gate on.
fn registration(name: &str, port: u16) -> Value {
    json!({
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": { "name": name },
        "spec": {
            "group": "subresources.vmpool.dev",
            "version": "v1alpha1",
            "groupPriorityMinimum": 998,
            "versionPriority": 15,
            "insecureSkipTLSVerify": true,
            "service": { "name": Component::Apiserver.name(), "namespace": SYSTEM_NAMESPACE, "port": port },
        },
    })
}

fn no_status() -> PoolPredicate {
    PoolPredicate::new("a pool with no status but the default of its definition", |view| {
        view.pool().is_some_and(|pool| *pool.at("/status") == json!({ "observedGeneration": -1 }))
    })
}

#[test]
fn a_controller_without_rights_for_a_platform_serves_the_others_and_says_so() {
    define_scenario("a controller without rights for a platform serves the others").controllers(0).run(
        async |world| {
            // The accounts of this cluster have the rights for DVP only.
            let mut options = ControllerOptions::new(world.namespace(), "auto");
            options.extra.push("--platforms=auto".to_owned());
            let controller = world.add_controller_with(options).await?;
            world.pool("web").replicas(1).ready().await?;
            let (code, body) = controller.probe("/readyz?verbose").await;
            for part in ["dvp is reconciling", "kubevirt is forbidden", "platforms.kubevirt.enabled"] {
                anyhow::ensure!(code == 200 && body.contains(part), "{code} {body}");
            }
            Ok::<_, anyhow::Error>(())
        },
    );
}

#[test]
fn leader_and_standby_are_ready_and_report_their_role() {
    define_scenario("leader and standby are ready and report their role").controllers(2).run(async |world| {
        world.pool("web").replicas(1).ready().await?;
        for controller in world.controllers() {
            for path in ["/livez", "/readyz"] {
                let (code, body) = controller.probe(path).await;
                anyhow::ensure!(code == 200, "{} {path}: {code} {body}", controller.identity());
            }
            let (_, body) = controller.probe("/readyz?verbose").await;
            for check in ["caches", "lease"] {
                anyhow::ensure!(body.contains(check), "{body}");
            }
        }
        Ok::<_, anyhow::Error>(())
    });
}
