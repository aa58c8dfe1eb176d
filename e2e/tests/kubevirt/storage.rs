//! What the API server stores: defaults, pruning, versions and subresources.

use anyhow::{Context as _, Result, ensure};
use http::Method;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};
use vmpool_api::conditions::Conditions as _;
use vmpool_api::kubevirt::{Condition, VirtualMachine, VirtualMachinePool};

use crate::{TestNamespace, Unknown, minimal, sample, with_namespace};

/// Writes an object without strict validation and returns what is stored.
async fn stored(place: &TestNamespace<'_>, object: &Value) -> Result<Value> {
    let written = place.write(object, Unknown::Pruned).await?;
    written.map_err(|status| anyhow::anyhow!("{}", status.message))
}

#[test]
fn replicas_are_the_only_default() {
    with_namespace("kubevirt-defaults", async |place| {
        let pool = minimal("minimal");
        let mut expected = pool["spec"].clone();
        expected["replicas"] = json!(1);
        ensure!(stored(&place, &pool).await?["spec"] == expected);
        // A pool with every field is stored as it was written.
        let full = sample("pool-full.yaml")?;
        let found = stored(&place, &full).await?;
        ensure!(found["spec"] == full["spec"], "{found}");
        Ok(())
    });
}

#[test]
fn a_machine_template_of_a_newer_kubevirt_is_stored_unchanged() {
    with_namespace("kubevirt-template", async |place| {
        let pool = sample("pool-of-newer-kubevirt.yaml")?;
        let template = &pool["spec"]["virtualMachineTemplate"];
        let found = stored(&place, &pool).await?;
        ensure!(found["spec"]["virtualMachineTemplate"] == *template, "{found}");
        // A write through the type loses nothing either.
        let pools: Api<VirtualMachinePool> = Api::namespaced(place.cluster.admin(), place.namespace);
        let mut typed = pools.get("of-newer-kubevirt").await?;
        typed.spec.replicas = Some(2);
        pools.replace("of-newer-kubevirt", &PostParams::default(), &typed).await?;
        let found = place.ask(Method::GET, &place.pool("of-newer-kubevirt")?, &Value::Null).await?;
        ensure!(found["spec"]["replicas"] == 2, "{found}");
        ensure!(found["spec"]["virtualMachineTemplate"] == *template, "{found}");
        Ok(())
    });
}

#[test]
fn a_field_that_a_pool_does_not_have_is_pruned() {
    with_namespace("kubevirt-pruning", async |place| {
        let mut pool = minimal("pruned");
        pool["spec"]["scaleInStrategy"] =
            json!({ "proactive": { "selectionPolicy": { "basePolicy": "Random", "sortPolicy": "Oldest" } } });
        pool["spec"]["updateStrategy"] = json!({ "unmanaged": { "future": 1 } });
        pool["spec"]["future"] = json!(1);
        pool["spec"]["virtualMachineTemplate"]["future"] = json!(1);
        let found = stored(&place, &pool).await?;
        let expected = json!({ "proactive": { "selectionPolicy": { "sortPolicy": "Oldest" } } });
        ensure!(found["spec"]["scaleInStrategy"] == expected, "{found}");
        ensure!(found["spec"]["updateStrategy"] == json!({ "unmanaged": {} }), "{found}");
        ensure!(found["spec"].get("future").is_none(), "{found}");
        ensure!(found["spec"]["virtualMachineTemplate"].get("future").is_none(), "{found}");
        Ok(())
    });
}

#[test]
fn the_versions_of_a_pool_differ_only_in_api_version() {
    with_namespace("kubevirt-versions", async |place| {
        // Given a pool written in the older version,
        let mut pool = sample("pool-full.yaml")?;
        pool["apiVersion"] = json!("pool.kubevirt.io/v1alpha1");
        let old = stored(&place, &pool).await?;
        ensure!(old["apiVersion"] == "pool.kubevirt.io/v1alpha1", "{old}");
        // when it is read in the newer one, then nothing else has changed.
        let mut new = place.ask(Method::GET, &place.pool("full")?, &Value::Null).await?;
        ensure!(new["apiVersion"] == "pool.kubevirt.io/v1beta1", "{new}");
        ensure!(new["spec"] == pool["spec"] && old["spec"] == pool["spec"], "{new}");
        // When the newer version is written back, then the older one shows it.
        new["spec"]["paused"] = json!(false);
        stored(&place, &new).await?;
        let old = place.ask(Method::GET, &place.old_pool("full")?, &Value::Null).await?;
        ensure!(old["spec"] == new["spec"], "{old}");
        Ok(())
    });
}

#[test]
fn spec_and_status_are_written_apart() {
    with_namespace("kubevirt-status", async |place| {
        let mut pool = minimal("render");
        pool["status"] = json!({ "replicas": 9 });
        let created = stored(&place, &pool).await?;
        ensure!(created["status"] == json!({ "observedGeneration": -1 }), "{created}");

        let status = json!({
            "observedGeneration": 1, "replicas": 3, "readyReplicas": 2, "availableReplicas": 2, "updatedReplicas": 1,
            "restartPendingReplicas": 1, "healedReplicas": 4, "currentRevision": "render-1", "labelSelector": "farm=render",
            "conditions": [
                { "type": "ReplicaPaused", "status": "True", "reason": "SuccessfulPaused", "message": "",
                  "lastProbeTime": null, "lastTransitionTime": "2026-08-03T09:20:00Z" },
                { "type": "Ready", "status": "Unknown" },
            ],
        });
        let mut written = created.clone();
        written["status"] = status.clone();
        written["status"]["future"] = json!(1);
        written["spec"]["replicas"] = json!(7);
        let path = place.pool("render")?;
        let found = place.ask(Method::PUT, &format!("{path}/status"), &written).await?;
        ensure!(found["status"] == status, "the unknown field is pruned, the null of a time is not: {found}");
        ensure!(found["spec"]["replicas"] == 1, "{found}");
        ensure!(found["metadata"]["generation"] == created["metadata"]["generation"], "{found}");
        let pool: VirtualMachinePool = serde_json::from_value(found)?;
        ensure!(pool.condition("ReplicaPaused").is_some_and(Condition::is_true));
        Ok(())
    });
}

#[test]
fn machines_have_a_status_subresource_and_instances_have_none() {
    with_namespace("kubevirt-platform", async |place| {
        for (file, pointer, value) in
            [("vm.yaml", "/printableStatus", json!("Starting")), ("vmi.yaml", "/phase", json!("Pending"))]
        {
            let mut object = sample(file)?;
            object["status"] = json!({ pointer.trim_start_matches('/'): value, "future": { "a": [1] } });
            let found = stored(&place, &object).await?;
            let kept = found.pointer(&format!("/status{pointer}"));
            let has_subresource = file == "vm.yaml";
            ensure!(kept.is_none() == has_subresource, "{file}: {found}");
            if !has_subresource {
                ensure!(found["status"]["future"] == json!({ "a": [1] }), "{found}");
            }
        }
        // A typed status is accepted where the platform's controllers write it.
        let machines: Api<VirtualMachine> = Api::namespaced(place.cluster.admin(), place.namespace);
        let mut machine = machines.get("render-0").await?;
        let status = json!({ "printableStatus": "Running", "startFailure": null, "future": { "a": [1] },
            "conditions": [{ "type": "Ready", "status": "True", "lastProbeTime": null }] });
        machine.status = Some(serde_json::from_value(status)?);
        let machine = machines.replace_status("render-0", &PostParams::default(), &machine).await?;
        ensure!(machine.is_ready());
        let unknown = machine.status.context("the status is stored")?.unknown_fields;
        ensure!(unknown["future"] == json!({ "a": [1] }), "{unknown:?}");
        Ok(())
    });
}
