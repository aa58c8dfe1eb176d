//! Pools of KubeVirt with the controller, on a real API server and a simulated KubeVirt.

use anyhow::ensure;
use http::Method;
use serde_json::{Value, json};

use crate::Unknown;
use crate::world::{alone, condition, has_finalizer, text, with_world};

/// The label with the name of the revision.
const REVISION: &str = "/metadata/labels/kubevirt.io~1vm-pool-revision-name";

/// The spec of a pool of always running machines with a DataVolume each.
pub(crate) fn spec(replicas: usize) -> Value {
    json!({
        "replicas": replicas,
        "selector": { "matchLabels": { "farm": "render" } },
        "scaleInStrategy": { "proactive": { "selectionPolicy": { "sortPolicy": "DescendingOrder" } } },
        "virtualMachineTemplate": {
            "metadata": { "labels": { "farm": "render" } },
            "spec": {
                "runStrategy": "Always",
                "dataVolumeTemplates": [{
                    "metadata": { "name": "scratch" },
                    "spec": {
                        "source": { "blank": {} },
                        "storage": { "resources": { "requests": { "storage": "1Gi" } } },
                    },
                }],
                "template": {
                    "metadata": { "labels": { "farm": "render" } },
                    "spec": {
                        "domain": {
                            "memory": { "guest": "1Gi" },
                            "devices": { "disks": [{ "name": "scratch", "disk": { "bus": "virtio" } }] },
                        },
                        "volumes": [{ "name": "scratch", "dataVolume": { "name": "scratch" } }],
                    },
                },
            },
        },
    })
}

/// As [`spec`], without storage and with labels of its own, so that several pools can be in one namespace.
pub(crate) fn bare(pool: &str, replicas: usize) -> Value {
    let mut spec = spec(replicas);
    let labels = json!({ "farm": pool });
    spec["selector"]["matchLabels"] = labels.clone();
    let template = &mut spec["virtualMachineTemplate"];
    template["metadata"]["labels"] = labels.clone();
    template["spec"]["dataVolumeTemplates"] = json!([]);
    template["spec"]["template"]["metadata"]["labels"] = labels;
    template["spec"]["template"]["spec"] =
        json!({ "domain": { "memory": { "guest": "1Gi" }, "devices": {} }, "volumes": [] });
    spec
}

/// Gives the machines of a pool a DataVolume whose name begins with that of the pool.
pub(crate) fn add_data_volume(spec: &mut Value, pool: &str) {
    let storage = self::spec(1)["virtualMachineTemplate"]["spec"].take();
    let template = &mut spec["virtualMachineTemplate"]["spec"];
    template["dataVolumeTemplates"] = storage["dataVolumeTemplates"].clone();
    template["dataVolumeTemplates"][0]["metadata"]["name"] = json!(pool);
    template["template"]["spec"] = storage["template"]["spec"].clone();
    template["template"]["spec"]["volumes"][0]["dataVolume"]["name"] = json!(pool);
}

/// Whether the pool shows that it is ready, and no condition about failures or a pause.
fn is_ready(pool: &Value) -> bool {
    let status = |kind: &str| condition(pool, kind).and_then(|condition| condition["status"].as_str());
    status("Ready") == Some("True")
        && status("Reconciling") == Some("False")
        && status("Stalled") == Some("False")
        && ["ReplicaFailure", "ReplicaPaused"].iter().all(|kind| condition(pool, kind).is_none())
}

pub(crate) fn memory(guest: &str) -> Value {
    json!({ "spec": { "virtualMachineTemplate": { "spec": { "template": { "spec": {
        "domain": { "memory": { "guest": guest } },
    } } } } } })
}

#[test]
fn machines_have_the_ordinals_the_revision_and_the_finalizer_of_their_pool() {
    with_world("kubevirt-life", async |world| {
        // Given a pool of three machines, numbered from zero,
        world.create("p", &spec(3)).await?;
        let machines = world.until_ready(&["p-0", "p-1", "p-2"]).await?;
        let pool = world.until_status("p", 3).await?;
        ensure!(pool["status"]["labelSelector"] == "farm=render", "{pool}");
        ensure!(has_finalizer(&pool), "{pool}");
        let machine = &machines["p-2"];
        ensure!(text(machine, REVISION) == "p-1", "{machine}");
        ensure!(has_finalizer(machine), "{machine}");
        ensure!(machine["spec"]["dataVolumeTemplates"][0]["metadata"]["name"] == "scratch-2", "{machine}");
        // of one revision,
        ensure!(world.count("create controllerrevisions")? == 1);
        world.is_settled().await?;

        // when it is scaled out, then the new machines have the revision of the new generation, and the
        // others stay.
        world.patch("p", &json!({ "spec": { "replicas": 5 } })).await?;
        let scaled = world.until_ready(&["p-0", "p-1", "p-2", "p-3", "p-4"]).await?;
        ensure!(text(&scaled["p-4"], REVISION) == "p-2", "{}", scaled["p-4"]);
        ensure!(text(&scaled["p-0"], REVISION) == "p-1", "{}", scaled["p-0"]);
        world.until_status("p", 5).await?;
        world.is_settled().await?;
        ensure!(world.count("patch virtualmachines")? == 0, "{:#?}", world.writes()?);

        // When it is scaled in, then the highest ordinals leave, and their finalizers do not hold them.
        world.patch("p", &json!({ "spec": { "replicas": 2 } })).await?;
        world.until_ready(&["p-0", "p-1"]).await?;
        world.until_status("p", 2).await?;

        // When the pool is deleted, then all its machines are.
        let mut late = world.machines().await?["p-1"].clone();
        world.delete_pool("p", "Background").await?;
        world.until_ready(&[]).await?;

        // When a late create of one of them arrives, then the finalizer does not keep it.
        late["metadata"] = json!({
            "name": "p-7",
            "finalizers": ["pool.kubevirt.io/finalizer"],
            "labels": late["metadata"]["labels"],
            "ownerReferences": late["metadata"]["ownerReferences"],
        });
        let created = world.place.write(&late, Unknown::Refused).await?;
        ensure!(created.is_ok(), "{created:?}");
        world.delete_machine("p-7").await?;
        world.until_ready(&[]).await?;
        Ok(())
    });
}

#[test]
fn preserved_storage_is_used_by_the_next_machine_with_its_name() {
    with_world("kubevirt-storage", async |world| {
        let mut spec = spec(2);
        spec["scaleInStrategy"]["proactive"]["statePreservation"] = json!("Offline");
        world.create("p", &spec).await?;
        world.until_ready(&["p-0", "p-1"]).await?;
        let volumes = world.all("cdi.kubevirt.io/v1beta1", "DataVolume").await?;
        let uid = volumes["scratch-1"]["metadata"]["uid"].clone();
        world.patch("p", &json!({ "spec": { "replicas": 1 } })).await?;
        world.until_ready(&["p-0"]).await?;
        let volumes = world.all("cdi.kubevirt.io/v1beta1", "DataVolume").await?;
        ensure!(volumes["scratch-1"]["metadata"]["uid"] == uid, "{volumes:#?}");
        world.patch("p", &json!({ "spec": { "replicas": 2 } })).await?;
        let machines = world.until_ready(&["p-0", "p-1"]).await?;
        let volumes = world.all("cdi.kubevirt.io/v1beta1", "DataVolume").await?;
        let owner = &volumes["scratch-1"]["metadata"]["ownerReferences"][0]["uid"];
        ensure!(volumes["scratch-1"]["metadata"]["uid"] == uid, "{volumes:#?}");
        ensure!(*owner == machines["p-1"]["metadata"]["uid"], "{volumes:#?}");

        // When another pool has a DataVolume template of the same name, then it gets no machine with that
        // storage,
        world.create("q", &spec).await?;
        let failed =
            "machine q-0 is not created, because DataVolume scratch-0 is controlled by VirtualMachine p-0";
        world
            .until("the condition names the DataVolume", async || {
                let conditions = world.pool("q").await?["status"]["conditions"].clone();
                let failure = conditions.as_array().into_iter().flatten().find(|condition| {
                    condition["type"] == "ReplicaFailure" && condition["reason"] == "FailedScaleOut"
                });
                Ok(failure.filter(|failure| failure["message"] == failed).map(|_| ()))
            })
            .await?;
        world.is_settled().await?;
        ensure!(world.machines().await?.len() == 2);
        // and the events have the words of KubeVirt.
        for expected in [
            format!("p SuccessfulCreate Created VM {}/p-0", world.place.namespace),
            format!("p SuccessfulDelete Deleted VM {}/p-1 with uid ", world.place.namespace),
            format!("q FailedCreate {failed}"),
            format!("q FailedScaleOut {failed}"),
        ] {
            world
                .until(&format!("event {expected}"), async || {
                    let events = world.all("events.k8s.io/v1", "Event").await?;
                    let line = |event: &Value| {
                        let pool = text(event, "/regarding/name");
                        format!("{pool} {} {}", text(event, "/reason"), text(event, "/note"))
                    };
                    let is = |event: &&Value| {
                        line(event).starts_with(&expected)
                            && event["reportingController"] == "virtualmachinepool-controller"
                    };
                    Ok(events.values().find(is).map(|_| ()))
                })
                .await?;
        }
        Ok(())
    });
}

#[test]
fn no_pool_is_reconciled_while_the_pool_loop_of_kubevirt_may_run() {
    alone("kubevirt-loop", async |world| {
        let collection = "/apis/kubevirt.io/v1/namespaces/kubevirt-loop/kubevirts";
        let path = &format!("{collection}/kubevirt");
        let flags = |threads: &str| {
            json!({ "spec": { "customizeComponents": { "flags": { "controller": {
                "pool-controller-threads": threads,
            } } } } })
        };
        world.create("p", &spec(1)).await?;
        world.until_ready(&["p-0"]).await?;

        // When KubeVirt is installed, then the controller changes nothing.
        let kubevirt = json!({
            "apiVersion": "kubevirt.io/v1", "kind": "KubeVirt", "metadata": { "name": "kubevirt" }, "spec": {},
        });
        world.place.ask(Method::POST, collection, &kubevirt).await?;
        world.until_event("OtherControllerActive", "").await?;
        world.patch("p", &json!({ "spec": { "replicas": 2 } })).await?;
        world.is_settled().await?;
        ensure!(world.machines().await?.len() == 1);

        // When the flag is set, then it waits until the operator has applied it.
        let changed = world.place.ask(Method::PATCH, path, &flags("0")).await?;
        world.is_settled().await?;
        ensure!(world.machines().await?.len() == 1);
        let generation = &changed["metadata"]["generation"];
        let deployed = json!({ "status": {
            "phase": "Deployed", "observedGeneration": generation, "observedKubeVirtVersion": "v1.9.0",
        } });
        world.place.ask(Method::PATCH, &format!("{path}/status"), &deployed).await?;
        world.until_ready(&["p-0", "p-1"]).await?;

        // This version of KubeVirt updates running guests by default, so that more memory restarts none, and
        // the instances get the new revision.
        world.is_settled().await?;
        let before = world.instances().await?;
        let pool = world.patch("p", &memory("2Gi")).await?;
        let revision = format!("p-{}", pool["metadata"]["generation"]);
        world
            .until("the instances have the revision", async || {
                let has = |instance: &Value| text(instance, REVISION) == revision;
                Ok(world.instances().await?.values().all(has).then_some(()))
            })
            .await?;
        let after = world.instances().await?;
        for (name, instance) in &before {
            ensure!(after[name]["metadata"]["uid"] == instance["metadata"]["uid"], "{name} was restarted");
            ensure!(after[name]["spec"]["domain"]["memory"]["guest"] == "2Gi", "{name} has the old memory");
        }
        world.is_settled().await?;

        // When KubeVirt cannot update one of them, because a user changed another part, then only that guest
        // is restarted.
        let hostname = json!({ "spec": { "template": { "spec": { "hostname": "changed" } } } });
        world.patch_machine("p-1", &hostname).await?;
        world
            .until("p-1 requires a restart", async || {
                Ok(condition(&world.machines().await?["p-1"], "RestartRequired").map(drop))
            })
            .await?;
        let before = world.instances().await?;
        world.patch("p", &memory("3Gi")).await?;
        let after = world.until_memory(&["p-0", "p-1"], "3Gi").await?;
        let is_same = |name: &str| after[name]["metadata"]["uid"] == before[name]["metadata"]["uid"];
        ensure!(is_same("p-0") && !is_same("p-1"), "p-0: {}, p-1: {}", is_same("p-0"), is_same("p-1"));
        ensure!(after["p-1"]["spec"]["hostname"] == "changed", "{:#}", after["p-1"]);
        world.is_settled().await?;
        world.place.ask(Method::DELETE, path, &Value::Null).await.map(drop)
    });
}

#[test]
fn a_machine_that_does_not_start_is_replaced_with_new_storage() {
    with_world("kubevirt-heal", async |world| {
        let mut spec = spec(2);
        spec["autohealing"] = json!({ "startUpFailureThreshold": 1 });
        spec["scaleInStrategy"]["proactive"]["statePreservation"] = json!("Offline");
        world.create("p", &spec).await?;
        let machines = world.until_ready(&["p-0", "p-1"]).await?;
        let volumes = world.all("cdi.kubevirt.io/v1beta1", "DataVolume").await?;
        // The guest of one machine ends, and the next start fails.
        let fails = json!({ "metadata": { "annotations": { "simulator.vmpool.dev/fail-start": "1" } } });
        world.patch_machine("p-1", &fails).await?;
        world.place.delete("kubevirt.io/v1", "VirtualMachineInstance", "p-1").await?;
        world.until_another("p-1", text(&machines["p-1"], "/metadata/uid")).await?;
        let after = world.until_ready(&["p-0", "p-1"]).await?;
        ensure!(after["p-0"]["metadata"]["uid"] == machines["p-0"]["metadata"]["uid"], "p-0 was replaced");
        let now = world.all("cdi.kubevirt.io/v1beta1", "DataVolume").await?;
        let is_same = |name: &str| now[name]["metadata"]["uid"] == volumes[name]["metadata"]["uid"];
        ensure!(is_same("scratch-0") && !is_same("scratch-1"), "the broken disk is not used again");
        ensure!(world.count("delete virtualmachines")? == 1, "{:#?}", world.writes()?);
        world.is_settled().await
    });
}

#[test]
fn a_pool_says_why_a_machine_does_not_start() {
    with_world("kubevirt-not-started", async |world| {
        // Given a pool whose machines need a label that no node has,
        let mut spec = spec(1);
        let knob = json!({ "simulator.vmpool.dev/unschedulable": "true" });
        spec["virtualMachineTemplate"]["metadata"]["annotations"] = knob;
        world.create("p", &spec).await?;
        // then condition `Ready` and an event contain the state of the machine,
        let expected = "machine p-0 is not ready: ErrorUnschedulable";
        world
            .until("the condition says why", async || {
                let pool = world.pool("p").await?;
                let message = condition(&pool, "Ready").map(|ready| text(ready, "/message").to_owned());
                Ok(message.filter(|message| message.contains(expected)))
            })
            .await?;
        world.until_event("MachineNotStarted", expected).await?;
        world.is_settled().await?;
        // and no longer when the machine can start.
        let knob = json!({ "metadata": { "annotations": { "simulator.vmpool.dev/unschedulable": null } } });
        world.patch_machine("p-0", &knob).await?;
        world.until_ready(&["p-0"]).await?;
        world
            .until("the pool is ready", async || Ok(is_ready(&world.pool("p").await?).then_some(())))
            .await?;
        Ok(())
    });
}
