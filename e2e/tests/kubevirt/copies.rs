//! Copies of instance types and preferences for single machines, in a cluster without KubeVirt's own controller.

use anyhow::{Context as _, Result, ensure};
use http::Method;
use serde_json::{Value, json};
use vmpool_api::kubevirt::API_VERSION;
use vmpool_installation::programs::ControllerOptions;
use vmpool_test_cluster::control_plane::AuditEntry;

use crate::pins::{small, write};
use crate::world::{INSTALLED, World, accounts, run_with_options, text};
use crate::{Place, with_namespace};

/// Runs a test with a controller that makes copies.
pub(crate) fn with_copies(name: &str, test: impl AsyncFnOnce(World<'_>) -> Result<()>) {
    with_namespace(name, async |place| {
        let _others = INSTALLED.read().await;
        run(place, test).await
    });
}

async fn run(place: Place<'_>, test: impl AsyncFnOnce(World<'_>) -> Result<()>) -> Result<()> {
    run_by("reference", place, test).await
}

/// As [`run`], with this reference policy.
async fn run_by(
    policy: &str,
    place: Place<'_>,
    test: impl AsyncFnOnce(World<'_>) -> Result<()>,
) -> Result<()> {
    let mut options = ControllerOptions::new(place.namespace, "one");
    options.extra.push(format!("--instancetype-reference-policy={policy}"));
    options.extra.extend(["--platforms=kubevirt", "--instancetype-mode=Standalone"].map(str::to_owned));
    run_with_options(accounts(place.cluster).await?, place, options, test).await
}

/// A machine that names instance type `small` and preference `linux` of its namespace.
pub(crate) fn machine(name: &str, run_strategy: &str) -> Value {
    json!({
        "apiVersion": API_VERSION,
        "kind": "VirtualMachine",
        "metadata": { "name": name },
        "spec": {
            "runStrategy": run_strategy,
            "instancetype": { "name": "small", "kind": "VirtualMachineInstancetype" },
            "preference": { "name": "linux", "kind": "virtualmachinepreference" },
            "template": { "spec": { "domain": { "devices": {} } } },
        },
    })
}

pub(crate) async fn create(world: &World<'_>, machine: &Value) -> Result<()> {
    let path = world.place.path(API_VERSION, "VirtualMachine")?;
    world.place.ask(Method::POST, &path, machine).await.map(drop)
}

/// Waits until the status of a machine names copies of its instance type and its preference, and returns their names.
pub(crate) async fn until_copied(world: &World<'_>, name: &str) -> Result<[String; 2]> {
    world
        .until(&format!("{name} has its copies"), async || {
            let machine = world.machines().await?.remove(name).context("the machine is gone")?;
            let copy = |family: &str| {
                text(&machine, &format!("/status/{family}/controllerRevisionRef/name")).to_owned()
            };
            let copies = ["instancetypeRef", "preferenceRef"].map(copy);
            Ok(copies.iter().all(|copy| !copy.is_empty()).then_some(copies))
        })
        .await
}

fn revisions(world: &World<'_>) -> String {
    format!("/apis/apps/v1/namespaces/{}/controllerrevisions", world.place.namespace)
}

async fn revision(world: &World<'_>, name: &str) -> Result<Option<Value>> {
    let answer = world.place.send(Method::GET, &format!("{}/{name}", revisions(world)), &Value::Null).await?;
    Ok(answer.ok())
}

pub(crate) async fn delete(world: &World<'_>, path: &str) -> Result<()> {
    world.place.ask(Method::DELETE, path, &Value::Null).await.map(drop)
}

#[test]
fn a_machine_keeps_the_type_that_it_was_created_with() {
    with_copies("copies", async |world| {
        small(&world, "2048Mi").await?;
        write(&world, "VirtualMachinePreference", "linux", json!({})).await?;
        // Given a machine that was never started, then it has copies, which it owns.
        create(&world, &machine("db", "Halted")).await?;
        let copies = until_copied(&world, "db").await?;
        let stored = revision(&world, &copies[0]).await?.context("the copy is missing")?;
        ensure!(text(&stored, "/data/spec/memory/guest") == "2048Mi", "the spelling stays: {stored}");
        let db = world.machines().await?.remove("db").context("db")?;
        let owner = &stored["metadata"]["ownerReferences"][0];
        ensure!(owner["uid"] == db["metadata"]["uid"] && owner["controller"] == true, "{stored}");
        world.is_settled().await?;
        // Two copies and one write of the status are all that they cost. The simulator's writes cause conflicts.
        let writes = world.writes()?;
        let accepted = |verb: &str, resource: &str| {
            let is =
                |write: &&AuditEntry| write.verb == verb && write.resource == resource && write.code < 300;
            writes.iter().filter(is).count()
        };
        ensure!(accepted("create", "controllerrevisions") == 2, "{writes:#?}");
        ensure!(accepted("patch", "virtualmachines") == 1, "{writes:#?}");

        // When the type is edited and then deleted, then a started machine uses its copy.
        small(&world, "8Gi").await?;
        let collection =
            world.place.path("instancetype.kubevirt.io/v1beta1", "VirtualMachineInstancetype")?;
        delete(&world, &format!("{collection}/small")).await?;
        world.patch_machine("db", &json!({ "spec": { "runStrategy": "Always" } })).await?;
        world.until_ready(&["db"]).await?;
        ensure!(until_copied(&world, "db").await? == copies);
        let instance = world.instances().await?.remove("db").context("the instance")?;
        let domain = &instance["spec"]["domain"];
        ensure!(domain["memory"]["guest"] == "2048Mi" && domain["cpu"]["sockets"] == 2, "{instance}");
        ensure!(
            instance["metadata"]["annotations"]["kubevirt.io/instancetype-name"] == "small",
            "{instance}"
        );

        // A machine without its type reports that, and gets a copy as soon as the type appears.
        create(&world, &machine("late", "Halted")).await?;
        world
            .until("late reports its missing type", async || {
                let late = world.machines().await?.remove("late").context("late")?;
                let conditions = late["status"]["conditions"].as_array().cloned().unwrap_or_default();
                let is = |condition: &Value| condition["reason"] == "FailedFindInstancetype";
                Ok(conditions.iter().any(is).then_some(()))
            })
            .await?;
        small(&world, "4Gi").await?;
        let late = until_copied(&world, "late").await?;
        ensure!(late[0] != copies[0]);

        // When a user deletes a copy whose type has not changed, then it is restored.
        delete(&world, &format!("{}/{}", revisions(&world), late[0])).await?;
        world.until("the copy is restored", async || revision(&world, &late[0]).await).await?;
        ensure!(until_copied(&world, "late").await? == late);

        // When the machine names another type, then its old copy is deleted.
        write(
            &world,
            "VirtualMachineInstancetype",
            "large",
            json!({ "cpu": { "guest": 8 }, "memory": { "guest": "8Gi" } }),
        )
        .await?;
        world.patch_machine("late", &json!({ "spec": { "instancetype": { "name": "large" } } })).await?;
        world
            .until("the old copy is gone", async || {
                Ok(revision(&world, &late[0]).await?.is_none().then_some(()))
            })
            .await?;
        ensure!(until_copied(&world, "late").await?[0].contains("large"));

        // When a machine is deleted, then its copies are, too.
        delete(&world, &format!("{}/late", world.place.path(API_VERSION, "VirtualMachine")?)).await?;
        world
            .until("the copies of late are gone", async || {
                let list = world.place.ask(Method::GET, &revisions(&world), &Value::Null).await?;
                Ok((list["items"].as_array().map(Vec::len) == Some(2)).then_some(()))
            })
            .await?;
        Ok(())
    });
}

#[test]
fn beside_an_installation_of_kubevirt_no_copies_are_made() {
    with_namespace("copies-refused", async |place| {
        let _alone = INSTALLED.write().await;
        run(place, async |world| {
            small(&world, "2Gi").await?;
            write(&world, "VirtualMachinePreference", "linux", json!({})).await?;
            create(&world, &machine("first", "Halted")).await?;
            until_copied(&world, "first").await?;
            // When a KubeVirt object appears, then the controller stops,
            let collection = world.place.path(API_VERSION, "KubeVirt")?;
            let installation = json!({ "apiVersion": API_VERSION, "kind": "KubeVirt",
                "metadata": { "name": "kubevirt" }, "spec": {} });
            world.place.ask(Method::POST, &collection, &installation).await?;
            world
                .until("the controller logs why it makes no copies", async || {
                    let log = world.controller.log_tail(200);
                    Ok(log.contains("this controller makes none").then_some(()))
                })
                .await?;
            create(&world, &machine("second", "Halted")).await?;
            world.is_settled().await?;
            let second = world.machines().await?.remove("second").context("second")?;
            ensure!(second["status"].get("instancetypeRef").is_none(), "{second}");
            // and when it is gone, the controller continues.
            delete(&world, &format!("{collection}/kubevirt")).await?;
            until_copied(&world, "second").await?;
            Ok(())
        })
        .await
    });
}

#[test]
fn with_the_policy_expand_machines_contain_their_types_and_a_restart_changes_nothing() {
    with_namespace("copies-expand", async |place| {
        let _others = INSTALLED.read().await;
        let namespace = place.namespace;
        run_by("expand", place, async |world| {
            small(&world, "2048Mi").await?;
            write(&world, "VirtualMachinePreference", "linux", json!({ "devices": { "preferredDiskBus": "virtio" } })).await?;
            create(&world, &machine("db", "Always")).await?;
            let db = world
                .until("db contains its type", async || {
                    let db = world.machines().await?.remove("db").context("db")?;
                    Ok(db["spec"].get("instancetype").is_none().then_some(db))
                })
                .await?;
            ensure!(db["spec"].get("preference").is_none() && db["status"].get("instancetypeRef").is_none(), "{db}");
            world.until_ready(&["db"]).await?;
            let instance = world.instances().await?.remove("db").context("the instance")?;
            ensure!(instance["spec"]["domain"]["memory"]["guest"] == "2048Mi", "{instance}");
            ensure!(instance["spec"]["domain"]["cpu"]["sockets"] == 2, "{instance}");
            // The machines of a pool name the copies of their pool.
            world.create("p", &crate::pins::spec(1)).await?;
            world
                .until("p-0 is ready", async || {
                    Ok(world.machines().await?.remove("p-0").filter(|machine| machine["status"]["ready"] == true))
                })
                .await?;
            world.is_settled().await?;
            let pooled = world.machines().await?.remove("p-0").context("p-0")?;
            ensure!(text(&pooled, "/spec/instancetype/revisionName").starts_with("p-small-"), "{pooled}");
            // Nothing keeps the type.
            let path = format!("/apis/instancetype.kubevirt.io/v1beta1/namespaces/{namespace}/virtualmachineinstancetypes/small");
            delete(&world, &path).await?;
            world
                .until("small is gone", async || {
                    Ok(world.place.send(Method::GET, &path, &Value::Null).await?.is_err().then_some(()))
                })
                .await
        })
        .await
    });
}
