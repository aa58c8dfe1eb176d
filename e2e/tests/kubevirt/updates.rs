//! Updates: which machines get a changed template, which guests restart, and in which order.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use vmpool_api::kubevirt::API_VERSION;
use vmpool_e2e::wait::throughout;
use vmpool_e2e::world::SETTLE;

use crate::Unknown;
use crate::pools::{add_data_volume, bare, memory};
use crate::world::{KubeVirtWorld, all_of, text, with_world};

fn uid(object: &Value) -> &str {
    text(object, "/metadata/uid")
}

fn guest(machine: &Value) -> &str {
    text(machine, "/spec/template/spec/domain/memory/guest")
}

/// Machines keep their spec, and new ones get the new template.
async fn unmanaged(world: &KubeVirtWorld<'_>) -> Result<()> {
    let mut spec = bare("kept", 1);
    spec["updateStrategy"] = json!({ "unmanaged": {} });
    world.create("kept", &spec).await?;
    world.until_ordinals("kept", &[0]).await?;
    let before = world.instances().await?;
    world.patch("kept", &memory("2Gi")).await?;
    world.patch("kept", &json!({ "spec": { "replicas": 2 } })).await?;
    let machines = world.until_ordinals("kept", &[0, 1]).await?;
    ensure!(guest(&machines["kept-1"]) == "2Gi", "{machines:#?}");
    throughout("kept-0 keeps its spec and its guest", SETTLE, async || {
        let (machines, instances) = (world.machines().await?, world.instances().await?);
        let keeps =
            guest(&machines["kept-0"]) == "1Gi" && uid(&instances["kept-0"]) == uid(&before["kept-0"]);
        Ok(if keeps { Ok(()) } else { Err(format!("{machines:#?}")) })
    })
    .await?;
    ensure!(world.requested("kept", "patch", "virtualmachines")?.is_empty(), "{:#?}", world.writes()?);
    Ok(())
}

/// Guests restart one after the other in the order of the policy, those outside the selection not at all.
async fn in_order(world: &KubeVirtWorld<'_>) -> Result<()> {
    let mut spec = bare("order", 4);
    spec["maxUnavailable"] = json!(1);
    spec["virtualMachineTemplate"]["spec"]["template"]["metadata"]["labels"]["tier"] = json!("one");
    spec["updateStrategy"] = json!({ "proactive": { "selectionPolicy": {
        "sortPolicy": "DescendingOrder",
        "selectors": { "labelSelector": { "matchLabels": { "tier": "one" } } },
    } } });
    world.create("order", &spec).await?;
    world.until_ordinals("order", &[0, 1, 2, 3]).await?;
    let other = json!({ "spec": { "template": { "metadata": { "labels": { "tier": "two" } } } } });
    world.patch_machine("order-2", &other).await?;
    world.patch("order", &memory("2Gi")).await?;
    world.until_memory(&["order-0", "order-1", "order-3"], "2Gi").await?;
    throughout("order-2 keeps its spec", SETTLE, async || {
        let machines = world.machines().await?;
        Ok(if guest(&machines["order-2"]) == "1Gi" { Ok(()) } else { Err(format!("{machines:#?}")) })
    })
    .await?;
    let restarted = world.requested("order", "delete", "virtualmachineinstances")?;
    ensure!(restarted == ["order-3", "order-1", "order-0"], "{restarted:?}");
    // When it is selected again, then it follows.
    let again = json!({ "spec": { "template": { "metadata": { "labels": { "tier": "one" } } } } });
    world.patch_machine("order-2", &again).await?;
    world.until_memory(&["order-2"], "2Gi").await.map(drop)
}

/// Starts a machine with the run strategy `Manual` as soon as it exists.
pub(crate) async fn start(world: &KubeVirtWorld<'_>, machine: &str) -> Result<()> {
    world
        .until(&format!("{machine} exists"), async || {
            Ok(world.machines().await?.contains_key(machine).then_some(()))
        })
        .await?;
    let start = json!({ "status": { "stateChangeRequests": [{ "action": "Start" }] } });
    world.place.patch(API_VERSION, "VirtualMachine", &format!("{machine}/status"), &start).await.map(drop)
}

/// A guest with this run strategy restarts through requests in the status of its machine.
async fn by_request(world: &KubeVirtWorld<'_>, pool: &str, strategy: &str) -> Result<()> {
    let mut spec = bare(pool, 1);
    spec["virtualMachineTemplate"]["spec"]["runStrategy"] = json!(strategy);
    world.create(pool, &spec).await?;
    let machine = format!("{pool}-0");
    if strategy == "Manual" {
        start(world, &machine).await?;
    }
    world.until_ordinals(pool, &[0]).await?;
    let before = world.instances().await?;
    world.patch(pool, &memory("2Gi")).await?;
    let after = world.until_memory(&[&machine], "2Gi").await?;
    ensure!(uid(&after[&machine]) != uid(&before[&machine]));
    ensure!(world.requested(pool, "delete", "virtualmachineinstances")?.is_empty(), "{:#?}", world.writes()?);
    world.until_status(pool, 1).await.map(drop)
}

/// A machine that a user stopped uses no budget, gets the template, and stays stopped.
async fn with_a_stopped_machine(world: &KubeVirtWorld<'_>) -> Result<()> {
    let mut spec = bare("stopped", 3);
    spec["maxUnavailable"] = json!(1);
    world.create("stopped", &spec).await?;
    world.until_ordinals("stopped", &[0, 1, 2]).await?;
    world.patch_machine("stopped-0", &json!({ "spec": { "runStrategy": "Halted" } })).await?;
    world
        .until("stopped-0 has no instance", async || {
            Ok((!world.instances().await?.contains_key("stopped-0")).then_some(()))
        })
        .await?;
    world.patch("stopped", &memory("2Gi")).await?;
    world.until_memory(&["stopped-1", "stopped-2"], "2Gi").await?;
    let machine = world.machines().await?.remove("stopped-0").unwrap_or_default();
    ensure!(machine["spec"]["runStrategy"] == "Halted" && guest(&machine) == "2Gi", "{machine:#}");
    ensure!(!world.instances().await?.contains_key("stopped-0"), "the stopped machine was started");
    Ok(())
}

/// A machine that does not become ready with a template stops the rollout at the budget. A corrected template
/// replaces it beyond the budget.
async fn with_a_broken_template(world: &KubeVirtWorld<'_>) -> Result<()> {
    const ALL: [&str; 3] = ["broken-0", "broken-1", "broken-2"];
    let never_ready =
        |knob: Value| json!({ "metadata": { "annotations": { "simulator.vmpool.dev/never-ready": knob } } });
    // Others would be restarted beyond the budget.
    let others_are_old = async || -> Result<Result<(), String>> {
        let instances = world.instances().await?;
        let is_old = |name: &str| instances[name]["spec"]["domain"]["memory"]["guest"] == "1Gi";
        let are_old = is_old("broken-1") && is_old("broken-2");
        Ok(if are_old { Ok(()) } else { Err(format!("{instances:#?}")) })
    };
    let until_has = async |guest: &str| {
        world
            .until(&format!("broken-0 has {guest}"), async || {
                let instances = world.instances().await?;
                let has = instances
                    .get("broken-0")
                    .is_some_and(|found| found["spec"]["domain"]["memory"]["guest"] == guest);
                Ok(has.then_some(()))
            })
            .await
    };
    let mut spec = bare("broken", 3);
    spec["maxUnavailable"] = json!(1);
    world.create("broken", &spec).await?;
    world.until_ordinals("broken", &[0, 1, 2]).await?;
    world.patch_machine("broken-0", &never_ready(json!("true"))).await?;
    world
        .until("broken-0 is not ready", async || {
            Ok((world.machines().await?["broken-0"]["status"]["ready"] != true).then_some(()))
        })
        .await?;
    world.patch("broken", &memory("2Gi")).await?;
    until_has("2Gi").await?;
    throughout("the others keep their guests", SETTLE, async || others_are_old().await).await?;
    world.patch("broken", &memory("3Gi")).await?;
    until_has("3Gi").await?;
    others_are_old().await?.map_err(anyhow::Error::msg)?;
    world.patch_machine("broken-0", &never_ready(Value::Null)).await?;
    world.until_memory(&ALL, "3Gi").await.map(drop)
}

/// Machines whose data cannot be imported get new storage when the template is corrected, also beyond the
/// budget, and the pool says what the importer reports until then.
async fn with_a_corrected_source(world: &KubeVirtWorld<'_>) -> Result<()> {
    const URL: &str = "https://images.example.com/debian-13.qcow2";
    let mut spec = bare("typo", 2);
    spec["maxUnavailable"] = json!(1);
    add_data_volume(&mut spec, "typo");
    let template = spec["virtualMachineTemplate"]["spec"]["dataVolumeTemplates"][0].clone();
    let data = |url: &str, knobs: Value| {
        let mut data = template.clone();
        data["metadata"]["annotations"] = knobs;
        data["spec"]["source"] = json!({ "http": { "url": url } });
        data
    };
    let knobs = json!({
        "simulator.vmpool.dev/import-error": "Error",
        "simulator.vmpool.dev/import-message": "expected status code 200, got 404",
    });
    spec["virtualMachineTemplate"]["spec"]["dataVolumeTemplates"] =
        json!([data("https://images.example.com/debain-13.qcow2", knobs)]);
    world.create("typo", &spec).await?;
    world
        .until_condition("typo", "Ready", "DataVolume typo-0: Error: expected status code 200, got 404")
        .await?;
    let correct = json!([data(URL, json!({}))]);
    world
        .patch(
            "typo",
            &json!({ "spec": { "virtualMachineTemplate": { "spec": { "dataVolumeTemplates": correct } } } }),
        )
        .await?;
    world.until_ordinals("typo", &[0, 1]).await?;
    let volumes = world.all("cdi.kubevirt.io/v1beta1", "DataVolume").await?;
    for name in ["typo-0", "typo-1"] {
        let url = text(&volumes[name], "/spec/source/http/url");
        ensure!(url == URL, "{name} is imported from {url}");
    }
    Ok(())
}

/// A guest that a user restarts while the rollout waits for budget starts with its former storage. The
/// rollout replaces that storage nevertheless.
async fn with_a_restart_by_a_user(world: &KubeVirtWorld<'_>) -> Result<()> {
    const UNTIL: &str = "vmpool.dev/protected-until";
    let mut spec = bare("hasty", 1);
    add_data_volume(&mut spec, "hasty");
    world.create("hasty", &spec).await?;
    world.until_ordinals("hasty", &[0]).await?;
    let volume = async || -> Result<Value> {
        let volumes = world.all("cdi.kubevirt.io/v1beta1", "DataVolume").await?;
        Ok(volumes["hasty-0"].clone())
    };
    let before = volume().await?;
    // The machine is written and restarted by a user before the rollout may delete it.
    let protected = |until: Value| json!({ "metadata": { "annotations": { UNTIL: until } } });
    world.patch_machine("hasty-0", &protected(json!("2999-01-01T00:00:00Z"))).await?;
    let larger = json!({ "spec": { "virtualMachineTemplate": { "spec": { "dataVolumeTemplates": [{
        "metadata": { "name": "hasty" },
        "spec": { "source": { "blank": {} }, "storage": { "resources": { "requests": { "storage": "2Gi" } } } },
    }] } } } });
    world.patch("hasty", &larger).await?;
    world
        .until("hasty-0 is written", async || {
            let machine = world.machines().await?["hasty-0"].clone();
            let size = machine.pointer("/spec/dataVolumeTemplates/0/spec/storage/resources/requests/storage");
            Ok((size == Some(&json!("2Gi"))).then_some(()))
        })
        .await?;
    let first = uid(&world.instances().await?["hasty-0"]).to_owned();
    world.place.delete(API_VERSION, "VirtualMachineInstance", "hasty-0").await?;
    world
        .until("hasty-0 runs again", async || {
            let instances = world.instances().await?;
            let again = instances.get("hasty-0").filter(|found| uid(found) != first);
            Ok(again.filter(|found| found["status"]["phase"] == "Running").map(drop))
        })
        .await?;
    ensure!(uid(&volume().await?) == uid(&before), "its storage was replaced too early");
    world.patch_machine("hasty-0", &protected(Value::Null)).await?;
    world
        .until("hasty-0 has new storage", async || {
            let volumes = world.all("cdi.kubevirt.io/v1beta1", "DataVolume").await?;
            Ok(volumes.get("hasty-0").filter(|found| uid(found) != uid(&before)).map(drop))
        })
        .await?;
    world.until_ordinals("hasty", &[0]).await.map(drop)
}

/// What others wrote to a machine stays when the template changes.
async fn what_others_wrote_stays(world: &KubeVirtWorld<'_>) -> Result<()> {
    let mut spec = bare("shared", 1);
    let inner = &mut spec["virtualMachineTemplate"]["spec"]["template"]["spec"];
    inner["domain"]["devices"]["interfaces"] = json!([{ "name": "default", "masquerade": {} }]);
    inner["networks"] = json!([{ "name": "default", "pod": {} }]);
    inner["volumes"] = json!([{ "name": "empty", "emptyDisk": { "capacity": "1Gi" } }]);
    inner["domain"]["devices"]["disks"] = json!([{ "name": "empty", "disk": { "bus": "virtio" } }]);
    let data = json!({
        "apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataVolume", "metadata": { "name": "extra" },
        "spec": { "source": { "blank": {} }, "storage": { "resources": { "requests": { "storage": "1Gi" } } } },
    });
    let stored = world.place.write(&data, Unknown::Refused).await?;
    stored.map_err(|status| anyhow::anyhow!("{}", status.message))?;
    world.create("shared", &spec).await?;
    let created = world.until_ordinals("shared", &[0]).await?;
    let firmware = &created["shared-0"]["spec"]["template"]["spec"]["domain"]["firmware"];
    ensure!(firmware["uuid"].is_string() && firmware["serial"].is_string(), "{firmware}");
    // A backup tool labels the machine, a network controller assigns an address, and a user plugs in a
    // volume.
    let hot = json!({ "name": "extra", "dataVolume": { "name": "extra", "hotpluggable": true } });
    let mut finalizers =
        created["shared-0"]["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    finalizers.push(json!("example.com/backup"));
    let others = json!({
        "metadata": {
            "labels": { "backup": "nightly" },
            "annotations": { "backup.example.com/last": "monday" },
            "finalizers": finalizers,
        },
        "spec": { "template": {
            "metadata": { "annotations": { "example.com/webhook": "set" } },
            "spec": {
                "domain": { "devices": {
                    "interfaces": [{ "name": "default", "masquerade": {}, "macAddress": "02:00:00:00:00:07" }],
                    "disks": [
                        { "name": "empty", "disk": { "bus": "virtio" } },
                        { "name": "extra", "disk": { "bus": "scsi" } },
                    ],
                } },
                "volumes": [{ "name": "empty", "emptyDisk": { "capacity": "1Gi" } }, hot],
            },
        } },
    });
    world.patch_machine("shared-0", &others).await?;
    let before = world.machines().await?.remove("shared-0").unwrap_or_default();
    let mut change = memory("2Gi");
    change["spec"]["virtualMachineTemplate"]["metadata"] = json!({ "labels": { "tier": "gold" } });
    world.patch("shared", &change).await?;
    world.until_memory(&["shared-0"], "2Gi").await?;
    let after = world.machines().await?.remove("shared-0").unwrap_or_default();
    ensure!(after["metadata"]["labels"]["tier"] == "gold" && guest(&after) == "2Gi", "{after:#}");
    for pointer in [
        "/metadata/uid",
        "/metadata/labels/backup",
        "/metadata/annotations/backup.example.com~1last",
        "/metadata/finalizers",
        "/metadata/ownerReferences",
        "/spec/template/metadata/annotations/example.com~1webhook",
        "/spec/template/spec/domain/devices",
        "/spec/template/spec/domain/firmware",
        "/spec/template/spec/volumes",
    ] {
        let (was, is) = (before.pointer(pointer), after.pointer(pointer));
        ensure!(was.is_some() && was == is, "{pointer} was {was:?} and is {is:?}");
    }
    let free = json!({ "metadata": { "finalizers": created["shared-0"]["metadata"]["finalizers"] } });
    world.patch_machine("shared-0", &free).await
}

#[test]
fn a_changed_template_reaches_machines_and_guests_as_the_strategy_says() {
    with_world("kubevirt-updates", async |world| {
        world.without_live_updates().await?;
        let results = tokio::join!(
            unmanaged(&world),
            in_order(&world),
            by_request(&world, "manual", "Manual"),
            by_request(&world, "rerun", "RerunOnFailure"),
            with_a_stopped_machine(&world),
            with_a_broken_template(&world),
            with_a_corrected_source(&world),
            with_a_restart_by_a_user(&world),
            what_others_wrote_stays(&world),
        );
        all_of(<[_; 9]>::from(results))?;
        world.is_settled().await
    });
}
