//! Volumes with the names that machines of a pool would use.

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use crate::Unknown;
use crate::pools::spec;
use crate::world::{condition, text, with_world};

const DATA_VOLUME: &str = "cdi.kubevirt.io/v1beta1";

/// The patch of a pool that adds a second DataVolume template with this name.
fn with_second_template(name: &str) -> Value {
    let mut template = spec(1)["virtualMachineTemplate"]["spec"].clone();
    let mut second = template["dataVolumeTemplates"][0].clone();
    second["metadata"]["name"] = json!(name);
    let lists = [
        ("/dataVolumeTemplates", second),
        ("/template/spec/domain/devices/disks", json!({ "name": name, "disk": { "bus": "virtio" } })),
        ("/template/spec/volumes", json!({ "name": name, "dataVolume": { "name": name } })),
    ];
    for (pointer, item) in lists {
        if let Some(list) = template.pointer_mut(pointer).and_then(Value::as_array_mut) {
            list.push(item);
        }
    }
    json!({ "spec": { "virtualMachineTemplate": { "spec": template } } })
}

#[test]
fn a_new_template_adopts_no_existing_data_volume() {
    with_world("kubevirt-adopt", async |world| {
        // Given a pool, and data of a user with the name that a second DataVolume of its first machine would
        // have,
        world.create("p", &spec(2)).await?;
        let machines = world.until_ready(&["p-0", "p-1"]).await?;
        let data = json!({
            "apiVersion": DATA_VOLUME, "kind": "DataVolume", "metadata": { "name": "data-0" },
            "spec": spec(1)["virtualMachineTemplate"]["spec"]["dataVolumeTemplates"][0]["spec"],
        });
        let stored = world.place.write(&data, Unknown::Pruned).await?;
        let data = stored.map_err(|status| anyhow::anyhow!("{}", status.message))?;

        // when the template gets this DataVolume, then the machine is not updated, and the pool says why.
        world.patch("p", &with_second_template("data")).await?;
        let failure = world
            .until("the condition names the DataVolume", async || {
                let pool = world.pool("p").await?;
                Ok(condition(&pool, "ReplicaFailure")
                    .filter(|failure| text(failure, "/message").contains("DataVolume data-0 exists"))
                    .cloned())
            })
            .await?;
        ensure!(failure["reason"] == "FailedUpdate", "{failure}");
        // The other machine gets its new storage.
        world
            .until("p-1 is recreated", async || {
                let found = world.machines().await?.remove("p-1");
                Ok(found.filter(|found| {
                    found["metadata"]["uid"] != machines["p-1"]["metadata"]["uid"]
                        && found["status"]["ready"] == true
                }))
            })
            .await?;
        let volumes = world.all(DATA_VOLUME, "DataVolume").await?;
        ensure!(volumes["data-0"]["metadata"]["uid"] == data["metadata"]["uid"], "{volumes:#?}");
        ensure!(volumes["data-0"]["metadata"].get("ownerReferences").is_none(), "{volumes:#?}");
        ensure!(volumes.contains_key("data-1"), "{volumes:#?}");
        let kept = &world.machines().await?["p-0"]["metadata"]["uid"];
        ensure!(*kept == machines["p-0"]["metadata"]["uid"]);

        // When the user has moved the data, then the rollout continues.
        world.place.delete(DATA_VOLUME, "DataVolume", "data-0").await?;
        world
            .until("p-0 is recreated and the pool is ready", async || {
                let pool = world.pool("p").await?;
                let found = world.machines().await?.remove("p-0");
                let done = found.is_some_and(|found| {
                    found["metadata"]["uid"] != machines["p-0"]["metadata"]["uid"]
                        && found["status"]["ready"] == true
                });
                Ok((done && condition(&pool, "ReplicaFailure").is_none()).then_some(()))
            })
            .await?;
        let owner =
            world.all(DATA_VOLUME, "DataVolume").await?.remove("data-0").context("data-0 is created")?;
        ensure!(text(&owner, "/metadata/ownerReferences/0/name") == "p-0", "{owner}");
        Ok(())
    });
}

#[test]
fn of_two_pools_that_would_share_storage_only_one_gets_machines() {
    with_world("kubevirt-shared", async |world| {
        // When two pools with DataVolume templates of the same name are created together,
        let spec = spec(3);
        let (p, q) = (world.create("p", &spec), world.create("q", &spec));
        let (p, q) = tokio::join!(p, q);
        p.and(q)?;
        // then one of them gets its machines, and the other one says why it has none.
        let loser = world
            .until("one pool is ready, and the other one names it", async || {
                let pools = [world.pool("p").await?, world.pool("q").await?];
                let failed = |pool: &Value| {
                    condition(pool, "ReplicaFailure")
                        .is_some_and(|failure| failure["reason"] == "FailedScaleOut")
                };
                let winner = pools.iter().find(|pool| pool["status"]["readyReplicas"] == 3);
                let loser = pools.iter().find(|pool| failed(pool));
                Ok(winner.and(loser).cloned())
            })
            .await?;
        let loser = text(&loser, "/metadata/name");
        world.is_settled().await?;
        let machines = world.machines().await?;
        ensure!(machines.len() == 3, "{:?}", machines.keys());
        ensure!(!machines.keys().any(|name| name.starts_with(loser)), "{:?}", machines.keys());
        // When the other pool gets names of its own, then it gets its machines.
        let mut renamed = spec["virtualMachineTemplate"]["spec"].clone();
        renamed["dataVolumeTemplates"][0]["metadata"]["name"] = json!("own");
        renamed["template"]["spec"]["volumes"][0]["dataVolume"]["name"] = json!("own");
        world.patch(loser, &json!({ "spec": { "virtualMachineTemplate": { "spec": renamed } } })).await?;
        world.until_status(loser, 3).await?;
        Ok(())
    });
}

#[test]
fn a_volume_that_a_user_removed_is_reported_and_its_data_survives() {
    with_world("kubevirt-detached", async |world| {
        // Given a pool that preserves the storage of its machines, with two volumes each,
        let mut spec = spec(2);
        spec["scaleInStrategy"]["proactive"]["statePreservation"] = json!("Offline");
        let two = &with_second_template("data")["spec"]["virtualMachineTemplate"]["spec"];
        spec["virtualMachineTemplate"]["spec"] = two.clone();
        world.create("p", &spec).await?;
        world.until_ready(&["p-0", "p-1"]).await?;
        let volumes = world.all(DATA_VOLUME, "DataVolume").await?;
        let uid = &volumes["data-1"]["metadata"]["uid"];

        // when a user removes a volume from a machine,
        let one = &self::spec(1)["virtualMachineTemplate"]["spec"];
        let mut templates = one["dataVolumeTemplates"].clone();
        templates[0]["metadata"]["name"] = json!("scratch-1");
        let without = json!({ "spec": { "dataVolumeTemplates": templates, "template": { "spec": {
            "domain": one["template"]["spec"]["domain"],
            "volumes": [{ "name": "scratch", "dataVolume": { "name": "scratch-1" } }],
        } } } });
        world.patch_machine("p-1", &without).await?;

        // then the pool says so, in a condition and in one event,
        let found = world
            .until("the condition names the volume", async || {
                Ok(condition(&world.pool("p").await?, "DiskDetached").cloned())
            })
            .await?;
        ensure!(found["status"] == "True" && found["reason"] == "DiskDetachedByHand", "{found}");
        ensure!(
            text(&found, "/message").starts_with("volume data was removed from machine p-1 by hand"),
            "{found}"
        );
        world.until_event("DiskDetachedByHand", "volume data was removed from machine p-1").await?;
        // and neither the volume returns with a change of the template, nor is its storage deleted.
        let label =
            json!({ "spec": { "virtualMachineTemplate": { "metadata": { "labels": { "tier": "one" } } } } });
        world.patch("p", &label).await?;
        let machines = world
            .until("the machines have the new label", async || {
                let machines = world.machines().await?;
                let labeled =
                    machines.values().all(|machine| text(machine, "/metadata/labels/tier") == "one");
                Ok(labeled.then_some(machines))
            })
            .await?;
        let left = machines["p-1"]["spec"]["template"]["spec"]["volumes"].as_array().context("volumes")?;
        ensure!(left.len() == 1, "{left:#?}");
        world.is_settled().await?;
        ensure!(condition(&world.pool("p").await?, "DiskDetached").is_some());

        // When the machine is removed, then the storage is preserved for the next one with its name,
        world.patch("p", &json!({ "spec": { "replicas": 1 } })).await?;
        world.until_ready(&["p-0"]).await?;
        world
            .until("the condition is gone", async || {
                Ok(condition(&world.pool("p").await?, "DiskDetached").is_none().then_some(()))
            })
            .await?;
        let volumes = world.all(DATA_VOLUME, "DataVolume").await?;
        ensure!(volumes["data-1"]["metadata"]["uid"] == *uid, "{volumes:#?}");
        // which has all volumes of the template.
        world.patch("p", &json!({ "spec": { "replicas": 2 } })).await?;
        let machines = world.until_ready(&["p-0", "p-1"]).await?;
        let volumes = world.all(DATA_VOLUME, "DataVolume").await?;
        ensure!(volumes["data-1"]["metadata"]["uid"] == *uid, "{volumes:#?}");
        let owner = &volumes["data-1"]["metadata"]["ownerReferences"][0]["uid"];
        ensure!(*owner == machines["p-1"]["metadata"]["uid"], "{volumes:#?}");
        Ok(())
    });
}

#[test]
fn the_storage_that_an_update_took_out_of_a_machine_is_preserved_with_it() {
    with_world("kubevirt-former-storage", async |world| {
        // Given machines with two volumes each, in a pool whose machines wait for their users to restart,
        let mut two = spec(2);
        two["scaleInStrategy"]["proactive"]["statePreservation"] = json!("Offline");
        two["updateStrategy"] = json!({ "opportunistic": {} });
        let one = two["virtualMachineTemplate"]["spec"].clone();
        two["virtualMachineTemplate"]["spec"] =
            with_second_template("data")["spec"]["virtualMachineTemplate"]["spec"].clone();
        world.create("p", &two).await?;
        world.until_ready(&["p-0", "p-1"]).await?;
        let volumes = world.all(DATA_VOLUME, "DataVolume").await?;
        let uid = &volumes["data-1"]["metadata"]["uid"];

        // when the template drops a volume, and the pool shrinks before a machine has restarted,
        world.patch("p", &json!({ "spec": { "virtualMachineTemplate": { "spec": one } } })).await?;
        world
            .until("the template is written", async || {
                let machine = world.machines().await?.remove("p-1").context("p-1")?;
                let templates = machine["spec"]["dataVolumeTemplates"].as_array().map(Vec::len);
                Ok((templates == Some(1)).then_some(()))
            })
            .await?;
        world.patch("p", &json!({ "spec": { "replicas": 1 } })).await?;
        world.until_no_machine("p-1").await?;
        world.is_settled().await?;

        // then the data of both volumes is preserved.
        let volumes = world.all(DATA_VOLUME, "DataVolume").await?;
        for name in ["scratch-1", "data-1"] {
            let metadata = &volumes.get(name).with_context(|| format!("{name} was deleted"))?["metadata"];
            ensure!(metadata["labels"]["vmpool.dev/preserved-pool"] == "p", "{metadata}");
            ensure!(metadata.get("ownerReferences").is_none(), "{metadata}");
        }
        ensure!(volumes["data-1"]["metadata"]["uid"] == *uid, "{volumes:#?}");
        Ok(())
    });
}

/// The volume of a machine was migrated to another claim. The old claim has the data of the time before.
#[test]
fn the_next_machine_uses_the_storage_to_which_a_volume_was_moved() {
    with_world("kubevirt-moved", async |world| {
        let mut pool = spec(2);
        pool["scaleInStrategy"]["proactive"]["statePreservation"] = json!("Offline");
        pool["scaleInStrategy"]["proactive"]["selectionPolicy"] = json!({ "sortPolicy": "DescendingOrder" });
        pool["updateStrategy"] = json!({ "opportunistic": {} });
        let template = pool["virtualMachineTemplate"]["spec"]["dataVolumeTemplates"][0]["spec"].clone();
        world.create("p", &pool).await?;
        world.until_ready(&["p-0", "p-1"]).await?;
        let fast = json!({
            "apiVersion": DATA_VOLUME, "kind": "DataVolume", "metadata": { "name": "fast-1" }, "spec": template,
        });
        let stored = world.place.write(&fast, Unknown::Pruned).await?;
        stored.map_err(|status| anyhow::anyhow!("{}", status.message))?;
        let machine = world.machines().await?.remove("p-1").context("p-1")?;
        let volume = &machine["spec"]["template"]["spec"]["volumes"][0];
        let moved = json!({ "spec": {
            "dataVolumeTemplates": null,
            "template": { "spec": { "volumes": [{ "name": volume["name"], "dataVolume": { "name": "fast-1" } }] } },
        }});
        world.place.patch("kubevirt.io/v1", "VirtualMachine", "p-1", &moved).await?;

        world.patch("p", &json!({ "spec": { "replicas": 1 } })).await?;
        world.until_no_machine("p-1").await?;
        world.patch("p", &json!({ "spec": { "replicas": 2 } })).await?;
        let next = world.until("p-1 is back", async || Ok(world.machines().await?.remove("p-1"))).await?;
        ensure!(next["metadata"]["uid"] != machine["metadata"]["uid"]);
        let volumes = &next["spec"]["template"]["spec"]["volumes"];
        ensure!(volumes[0]["dataVolume"]["name"] == "fast-1", "{next}");
        ensure!(next["spec"]["dataVolumeTemplates"].as_array().is_none_or(Vec::is_empty), "{next}");
        let recorded = &world.pool("p").await?["metadata"]["annotations"]["vmpool.dev/moved-storage-1"];
        ensure!(*recorded == "scratch-1=DataVolume/fast-1", "{recorded}");
        Ok(())
    });
}
