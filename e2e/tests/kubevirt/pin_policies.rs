//! How machines get their instance type and their preference: policies, what the pool reports, and what it
//! costs.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use http::Method;
use serde_json::{Value, json};
use vmpool_api::instancetype::API_VERSION;
use vmpool_test_cluster::control_plane::AuditEntry;

use crate::pins::{small, spec, write};
use crate::world::{KubeVirtWorld, alone, condition, text, with_world};

/// Creates the objects that the template names.
async fn types(world: &KubeVirtWorld<'_>) -> Result<()> {
    small(world, "2048Mi").await?;
    linux(world, "virtio").await
}

/// A preference with this model of interfaces. Machines get a default interface, because their template lists
/// none.
async fn linux(world: &KubeVirtWorld<'_>, model: &str) -> Result<()> {
    let devices = json!({
        "preferredInputBus": "virtio", "preferredAutoattachInputDevice": true, "preferredInterfaceModel": model,
    });
    write(world, "VirtualMachinePreference", "linux", json!({ "devices": devices })).await.map(drop)
}

async fn until_condition(world: &KubeVirtWorld<'_>, kind: &str, reason: Option<&str>) -> Result<Value> {
    world
        .until(&format!("{kind} has the reason {reason:?}"), async || {
            let pool = world.pool("p").await?;
            let found = condition(&pool, kind).map(|condition| text(condition, "/reason").to_owned());
            Ok((found.as_deref() == reason).then_some(pool))
        })
        .await
}

/// The names of the copies in the namespace.
async fn copies(world: &KubeVirtWorld<'_>) -> Result<BTreeSet<String>> {
    let path = format!(
        "/apis/apps/v1/namespaces/{}/controllerrevisions?labelSelector=vmpool.dev/pool-uid",
        world.place.namespace
    );
    let list = world.place.ask(Method::GET, &path, &Value::Null).await?;
    let items = list["items"].as_array().cloned().unwrap_or_default();
    Ok(items.iter().map(|item| text(item, "/metadata/name").to_owned()).collect())
}

/// Whether the write is the finalizer of an instance type or a preference.
fn is_of_type(write: &AuditEntry) -> bool {
    ["virtualmachineinstancetypes", "virtualmachinepreferences"].contains(&write.resource.as_str())
}

fn refresh(value: &str) -> Value {
    json!({ "spec": { "virtualMachineTemplate": { "metadata": {
        "annotations": { "vmpool.dev/refresh-instancetype": value },
    } } } })
}

/// A pool of two machines that keeps no earlier revision, because earlier revisions use their copies.
fn spec_without_history() -> Value {
    let mut spec = spec(2);
    spec["revisionHistoryLimit"] = json!(0);
    spec
}

#[test]
fn with_the_policy_expand_machines_contain_their_instance_type() {
    with_world("kubevirt-expand", async |world| {
        types(&world).await?;
        let mut spec = spec(2);
        spec["instancetypePolicy"] = json!("Expand");
        world.create("p", &spec).await?;
        let machines = world.until_ready(&["p-0", "p-1"]).await?;
        for machine in machines.values() {
            ensure!(machine["spec"].get("instancetype").is_none(), "{machine}");
            ensure!(machine["spec"].get("preference").is_none(), "{machine}");
            let domain = &machine["spec"]["template"]["spec"]["domain"];
            ensure!(domain["memory"]["guest"] == "2048Mi" && domain["cpu"]["sockets"] == 2, "{machine}");
            ensure!(domain["devices"]["inputs"][0]["bus"] == "virtio", "{machine}");
        }
        ensure!(world.count("create controllerrevisions")? == 1, "only the revision: {:#?}", world.writes()?);
        let pool = world.until_status("p", 2).await?;
        ensure!(pool["status"].get("instancetypeRef").is_none(), "there is no copy: {pool}");
        world.is_settled().await?;

        // When the type changes, then the pool says so, and new machines are like the others.
        small(&world, "8Gi").await?;
        until_condition(&world, "InstancetypeOutdated", Some("SpecChanged")).await?;
        world.patch("p", &json!({ "spec": { "replicas": 3 } })).await?;
        let machines = world.until_ready(&["p-0", "p-1", "p-2"]).await?;
        let spec = |name: &str| machines[name]["spec"]["template"]["spec"]["domain"].clone();
        ensure!(spec("p-2")["memory"]["guest"] == "2048Mi", "{}", spec("p-2"));

        // While there are machines, the policy cannot change.
        let policy = json!({ "spec": { "instancetypePolicy": "Pin" } });
        let refused = world.place.send(Method::PATCH, &world.place.pool("p")?, &policy).await?.err();
        let refused = refused.map(|status| status.message).unwrap_or_default();
        ensure!(refused.contains("cannot change while the pool has machines"), "{refused:?}");
        world.patch("p", &json!({ "spec": { "replicas": 0 } })).await?;
        world.until_status("p", 0).await?;
        world.patch("p", &policy).await?;
        // Then new machines name copies of the type as it is now.
        world.patch("p", &json!({ "spec": { "replicas": 1 } })).await?;
        let machines = world.until_ready(&["p-0"]).await?;
        let machine = &machines["p-0"];
        ensure!(text(machine, "/spec/instancetype/revisionName").starts_with("p-small-"), "{machine}");
        until_condition(&world, "InstancetypeOutdated", None).await?;
        world.is_settled().await
    });
}

#[test]
fn a_pool_reports_outdated_copies_and_changed_machines_and_deletes_unused_copies() {
    with_world("kubevirt-outdated", async |world| {
        types(&world).await?;
        world.create("p", &spec_without_history()).await?;
        let machines = world.until_ready(&["p-0", "p-1"]).await?;
        let pinned = machines["p-0"]["spec"]["instancetype"].clone();
        let before = copies(&world).await?;
        ensure!(before.len() == 2, "{before:?}");

        // When the type changes, is deleted, and is created again, then the condition follows.
        let written = world.writes()?.len();
        small(&world, "8Gi").await?;
        until_condition(&world, "InstancetypeOutdated", Some("SpecChanged")).await?;
        world.place.delete(API_VERSION, "VirtualMachineInstancetype", "small").await?;
        until_condition(&world, "InstancetypeOutdated", Some("Deleted")).await?;
        small(&world, "2Gi").await?;
        until_condition(&world, "InstancetypeOutdated", None).await?;
        small(&world, "4Gi").await?;
        until_condition(&world, "InstancetypeOutdated", Some("Recreated")).await?;
        let writes = world.writes()?.split_off(written);
        let is_expected = |write: &AuditEntry| write.subresource == "status" || is_of_type(write);
        ensure!(writes.iter().all(is_expected), "{writes:#?}");

        // When a user changes a machine, then the condition names it.
        let by_hand = json!({ "spec": { "instancetype": { "revisionName": "by-hand" } } });
        world.patch_machine("p-1", &by_hand).await?;
        let pool = until_condition(&world, "MembersDrifted", Some("ReferencesChanged")).await?;
        let drifted = condition(&pool, "MembersDrifted").map(|found| text(found, "/message").to_owned());
        ensure!(drifted.is_some_and(|message| message.contains(": p-1;")), "{pool}");
        world.is_settled().await?;

        // When the template changes, then all machines use one new copy, and the old one, which nothing uses,
        // is deleted.
        world.patch("p", &refresh("1")).await?;
        let wanted = world
            .until("both machines use one new copy", async || {
                let machines = world.machines().await?;
                let of =
                    |name: &str| machines.get(name).map(|machine| machine["spec"]["instancetype"].clone());
                let new = of("p-0").filter(|new| *new != pinned);
                Ok(new.filter(|new| of("p-1").as_ref() == Some(new)))
            })
            .await?;
        until_condition(&world, "MembersDrifted", None).await?;
        until_condition(&world, "InstancetypeOutdated", None).await?;
        world.until_ready(&["p-0", "p-1"]).await?;
        world
            .until("the unused copy is deleted", async || {
                let now = copies(&world).await?;
                let has = |matcher: &Value| now.contains(text(matcher, "/revisionName"));
                Ok((has(&wanted) && !has(&pinned) && now.len() == 2).then_some(()))
            })
            .await?;
        world.is_settled().await?;

        // When only the preferred model of interfaces changes, then a new revision restarts both machines,
        // although their template lists no interface.
        linux(&world, "e1000").await?;
        until_condition(&world, "InstancetypeOutdated", Some("SpecChanged")).await?;
        world.patch("p", &refresh("2")).await?;
        world
            .until("both instances have the preferred model", async || {
                let instances = world.instances().await?;
                let has = |instance: &Value| {
                    instance["spec"]["domain"]["devices"]["interfaces"][0]["model"] == "e1000"
                };
                Ok((instances.len() == 2 && instances.values().all(has)).then_some(()))
            })
            .await?;
        until_condition(&world, "InstancetypeOutdated", None).await?;
        world.until_ready(&["p-0", "p-1"]).await?;
        world.is_settled().await
    });
}

/// The writes of the controller for pools, without those of statuses, whose number depends on time.
fn writes(world: &KubeVirtWorld<'_>) -> Result<usize> {
    Ok(world.writes()?.iter().filter(|write| write.subresource != "status" && !is_of_type(write)).count())
}

#[test]
fn pins_cost_two_writes_for_each_revision_and_none_for_a_machine() {
    with_world("kubevirt-cost", async |world| {
        types(&world).await?;
        let names = ["p-0", "p-1", "p-2", "p-3", "p-4", "p-5"];
        let cost = async |spec: &Value, refresh: &Value| -> Result<[usize; 2]> {
            let begun = writes(&world)?;
            world.create("p", spec).await?;
            world.until_ready(&names).await?;
            world.is_settled().await?;
            let created = writes(&world)?;
            let pool = world.patch("p", refresh).await?;
            let revision = format!("p-{}", pool["metadata"]["generation"]);
            world
                .until("all machines have the new revision", async || {
                    let has = |machine: &Value| {
                        machine["metadata"]["labels"]["kubevirt.io/vm-pool-revision-name"] == *revision
                    };
                    Ok(world.machines().await?.values().all(has).then_some(()))
                })
                .await?;
            world.until_ready(&names).await?;
            world.is_settled().await?;
            let updated = writes(&world)?;
            world.delete_pool("p", "Background").await?;
            world
                .until("the machines are gone", async || Ok(world.machines().await?.is_empty().then_some(())))
                .await?;
            // The writes of the deletion belong to none of both.
            world.is_settled().await?;
            Ok([created - begun, updated - created])
        };
        let mut plain = spec(names.len());
        for field in ["instancetype", "preference"] {
            plain["virtualMachineTemplate"]["spec"][field] = Value::Null;
        }
        let without = cost(&plain, &refresh("1")).await?;
        let with = cost(&spec(names.len()), &refresh("1")).await?;
        // The annotation is a new revision, whose copies are those of the unchanged objects, so none is
        // written.
        ensure!(with == [without[0] + 2, without[1]], "{with:?} with types, {without:?} without");
        Ok(())
    });
}

#[test]
fn where_kubevirt_expands_references_the_controller_does_it_once_for_each_revision() {
    alone("kubevirt-expands", async |world| {
        types(&world).await?;
        world.create("p", &spec_without_history()).await?;
        world.until_ready(&["p-0", "p-1"]).await?;
        let before = world.instances().await?;
        // When a KubeVirt with the reference policy expandAll is installed, and its pool loop is off,
        let collection = "/apis/kubevirt.io/v1/namespaces/kubevirt-expands/kubevirts";
        let kubevirt = json!({
            "apiVersion": "kubevirt.io/v1", "kind": "KubeVirt", "metadata": { "name": "kubevirt" },
            "spec": {
                "customizeComponents": { "flags": { "controller": { "pool-controller-threads": "0" } } },
                "configuration": { "instancetype": { "referencePolicy": "expandAll" } },
            },
        });
        let created = world.place.ask(Method::POST, collection, &kubevirt).await?;
        let generation = &created["metadata"]["generation"];
        let deployed = json!({ "status": {
            "phase": "Deployed", "observedGeneration": generation, "observedKubeVirtVersion": "v1.9.0",
        } });
        let path = format!("{collection}/kubevirt");
        world.place.ask(Method::PATCH, &format!("{path}/status"), &deployed).await?;
        // then the machines contain their types, without a restart, and the pool says why.
        until_condition(&world, "PinningUnavailable", Some("ClusterPolicyExpands")).await?;
        let is_expanded = |machine: &Value| {
            machine["spec"].get("instancetype").is_none()
                && machine["spec"]["template"]["spec"]["domain"]["memory"]["guest"] == "2048Mi"
        };
        world
            .until("the machines are expanded", async || {
                Ok(world.machines().await?.values().all(is_expanded).then_some(()))
            })
            .await?;
        world
            .until("nothing uses the copies", async || Ok(copies(&world).await?.is_empty().then_some(())))
            .await?;
        world.is_settled().await?;
        let after = world.instances().await?;
        for (name, instance) in &before {
            ensure!(after[name]["metadata"]["uid"] == instance["metadata"]["uid"], "{name} was restarted");
        }
        ensure!(condition(&world.pool("p").await?, "MembersDrifted").is_none(), "{}", world.pool("p").await?);
        world.place.ask(Method::DELETE, &path, &Value::Null).await.map(drop)
    });
}
