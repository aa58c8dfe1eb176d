//! The finalizer of instance types and preferences, in a cluster without KubeVirt's own controller.

use anyhow::{Context as _, Result, ensure};
use http::Method;
use serde_json::{Value, json};
use vmpool_api::instancetype::API_VERSION as TYPES;
use vmpool_api::kubevirt::API_VERSION;
use vmpool_e2e::wait::throughout;
use vmpool_e2e::world::SETTLE;
use vmpool_installation::programs::ControllerOptions;

use crate::copies::{create, delete, machine, until_copied, with_copies};
use crate::pins::{small, spec, write};
use crate::with_namespace;
use crate::world::{INSTALLED, KubeVirtWorld, accounts, run_with_options, text};

const FINALIZER: &str = "vmpool.dev/instancetype-protection";

/// The path of instance type `small`.
fn path_of_small(world: &KubeVirtWorld<'_>) -> Result<String> {
    Ok(format!("{}/small", world.place.path(TYPES, "VirtualMachineInstancetype")?))
}

/// The stored instance type `small`.
async fn stored(world: &KubeVirtWorld<'_>) -> Result<Option<Value>> {
    let answer = world.place.send(Method::GET, &path_of_small(world)?, &Value::Null).await?;
    Ok(answer.ok())
}

async fn until_protected(world: &KubeVirtWorld<'_>) -> Result<()> {
    world
        .until("small has the finalizer", async || {
            let finalizers = stored(world).await?.map(|object| object["metadata"]["finalizers"].clone());
            Ok((finalizers == Some(json!([FINALIZER]))).then_some(()))
        })
        .await
}

async fn until_gone(world: &KubeVirtWorld<'_>) -> Result<()> {
    world.until("small is gone", async || Ok(stored(world).await?.is_none().then_some(()))).await
}

/// Waits for an event of instance type `small`, and returns its note.
async fn until_event(world: &KubeVirtWorld<'_>, reason: &str) -> Result<String> {
    world
        .until(&format!("event {reason} exists"), async || {
            let events = world.all("events.k8s.io/v1", "Event").await?;
            let is = |event: &&Value| event["reason"] == reason && event["regarding"]["name"] == "small";
            Ok(events.values().find(is).map(|event| text(event, "/note").to_owned()))
        })
        .await
}

#[test]
fn a_type_that_is_deleted_before_the_copy_stays_until_the_copy_is_made() {
    with_copies("protection", async |world| {
        small(&world, "2048Mi").await?;
        write(&world, "VirtualMachinePreference", "linux", json!({})).await?;
        until_protected(&world).await?;
        // Given a controller that does not run, and a machine that was never started, when a user deletes its
        // type,
        world.controller.pause()?;
        create(&world, &machine("db", "Halted")).await?;
        delete(&world, &path_of_small(&world)?).await?;
        ensure!(stored(&world).await?.is_some(), "the finalizer keeps it");
        // then the machine gets its copy, and then the type is gone.
        world.controller.resume()?;
        let copies = until_copied(&world, "db").await?;
        until_gone(&world).await?;
        world.patch_machine("db", &json!({ "spec": { "runStrategy": "Always" } })).await?;
        world.until_ready(&["db"]).await?;
        let instance = world.instances().await?.remove("db").context("the instance")?;
        ensure!(instance["spec"]["domain"]["memory"]["guest"] == "2048Mi", "{instance}");
        ensure!(until_copied(&world, "db").await? == copies);

        // A finalizer that a user removed comes back. The machine does not use the new type, so it does not
        // keep it.
        small(&world, "4Gi").await?;
        until_protected(&world).await?;
        world
            .place
            .ask(Method::PATCH, &path_of_small(&world)?, &json!({ "metadata": { "finalizers": null } }))
            .await?;
        until_protected(&world).await?;
        delete(&world, &path_of_small(&world)?).await?;
        until_gone(&world).await?;
        world.is_settled().await
    });
}

#[test]
fn what_keeps_a_type_is_reported_and_can_be_overridden() {
    with_copies("protection-blocked", async |world| {
        small(&world, "2048Mi").await?;
        until_protected(&world).await?;
        // Given a quota without copies, a machine and a pool without machines,
        let quota = json!({
            "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": "no-copies" },
            "spec": { "hard": { "count/controllerrevisions.apps": "0" } },
        });
        let quotas = format!("/api/v1/namespaces/{}/resourcequotas", world.place.namespace);
        world.place.ask(Method::POST, &quotas, &quota).await?;
        let quota = format!("{quotas}/no-copies");
        world
            .until("the quota is enforced", async || {
                let quota = world.place.ask(Method::GET, &quota, &Value::Null).await?;
                Ok(quota["status"]["hard"].is_object().then_some(()))
            })
            .await?;
        create(&world, &machine("db", "Halted")).await?;
        world.create("p", &spec(0)).await?;
        // when a user deletes their type, then an event says what keeps it.
        delete(&world, &path_of_small(&world)?).await?;
        let note = until_event(&world, "DeletionBlocked").await?;
        ensure!(note.contains("machine protection-blocked/db, pool protection-blocked/p;"), "{note}");
        let stays = async || Ok(stored(&world).await?.map(drop).ok_or_else(|| "it is gone".to_owned()));
        throughout("the type stays", SETTLE, stays).await?;
        // When a user wants so, then it goes anyway.
        let force = json!({ "metadata": { "annotations": { "vmpool.dev/force-release": "true" } } });
        world.place.ask(Method::PATCH, &path_of_small(&world)?, &force).await?;
        until_gone(&world).await?;
        until_event(&world, "ForcedRelease").await.map(drop)
    });
}

#[test]
fn pools_that_get_copies_and_a_machine_in_conflict_do_not_keep_a_type() {
    with_copies("protection-free", async |world| {
        small(&world, "2048Mi").await?;
        write(&world, "VirtualMachinePreference", "linux", json!({})).await?;
        until_protected(&world).await?;
        world.create("p", &spec(1)).await?;
        world.create("rest", &spec(0)).await?;
        world.until_ready(&["p-0"]).await?;
        let mut conflict = machine("odd", "Halted");
        conflict["spec"]["template"]["spec"]["domain"]["memory"] = json!({ "guest": "1Gi" });
        create(&world, &conflict).await?;
        delete(&world, &path_of_small(&world)?).await?;
        until_gone(&world).await?;
        world.delete_machine("odd").await?;
        // New machines of the pools use their copies, also those of the one that had none before the
        // deletion.
        for (pool, replicas) in [("p", 2), ("rest", 1)] {
            world.patch(pool, &json!({ "spec": { "replicas": replicas } })).await?;
        }
        world.until_ready(&["p-0", "p-1", "rest-0"]).await?;
        for machine in ["p-1", "rest-0"] {
            let instance = world.instances().await?.remove(machine).context("the instance")?;
            ensure!(instance["spec"]["domain"]["memory"]["guest"] == "2048Mi", "{instance}");
        }
        Ok(())
    });
}

#[test]
fn the_finalizer_does_not_block_the_deletion_of_a_namespace() {
    with_namespace("protection-gone", async |place| {
        let _others = INSTALLED.read().await;
        // The lease is in another namespace, as in an installation.
        let home = "protection-home";
        place.cluster.kubectl(&["create", "namespace", home]).await?;
        let accounts = accounts(place.cluster).await?;
        accounts.grant_in(place.cluster, home).await?;
        let mut options = ControllerOptions::new(home, "one");
        options.watch_namespace = Some(place.namespace.to_owned());
        options.extra.extend(["--platforms=kubevirt", "--instancetype-mode=Standalone"].map(str::to_owned));
        run_with_options(accounts, place, options, async |world| {
            small(&world, "2048Mi").await?;
            until_protected(&world).await?;
            // Given a machine that keeps its type, because it has no copy, when the namespace is deleted,
            create(&world, &machine("db", "Always")).await?;
            world.create("p", &spec(0)).await?;
            let namespace = format!("/api/v1/namespaces/{}", world.place.namespace);
            delete(&world, &namespace).await?;
            // then it is gone soon.
            world
                .until("the namespace is gone", async || {
                    let answer = world.place.send(Method::GET, &namespace, &Value::Null).await?;
                    Ok(answer.is_err().then_some(()))
                })
                .await?;
            let machines = world.place.path(API_VERSION, "VirtualMachine")?;
            let left = world.place.ask(Method::GET, &machines, &Value::Null).await?;
            ensure!(left["items"].as_array().is_none_or(Vec::is_empty), "{left}");
            Ok(())
        })
        .await
    });
}
