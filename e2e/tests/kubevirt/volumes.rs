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
fn a_new_template_takes_over_no_existing_data_volume() {
    with_world("kubevirt-takeover", async |world| {
        // Given a pool, and data of a user with the name that a second DataVolume of its first machine would have,
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
        let path = format!("{}/data-0", world.place.path(DATA_VOLUME, "DataVolume")?);
        world.place.ask(http::Method::DELETE, &path, &Value::Null).await?;
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
