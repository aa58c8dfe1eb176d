//! What clients find out about the kinds: conditions of the CRDs, discovery, columns, descriptions.

use anyhow::{Context as _, Result, ensure};
use http::Method;
use serde_json::{Value, json};
use vmpool_api::diskimage;
use vmpool_api::kubevirt::crds::{PLATFORM_CRDS, POOL_CRD};
use vmpool_e2e::scenario::LIMIT;
use vmpool_e2e::wait::eventually;

use crate::{POOLS, TestNamespace, with_namespace};

#[test]
fn every_crd_is_accepted_without_reservation() {
    with_namespace("kubevirt-crds", async |place| {
        for crd in [POOL_CRD].iter().chain(PLATFORM_CRDS).chain(diskimage::crds::ALL_CRDS) {
            let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{}", crd.name);
            let stored = place.ask(Method::GET, &path, &Value::Null).await?;
            let conditions = stored["status"]["conditions"].as_array().context("no conditions")?;
            let holds = |name: &str, status: &str| {
                conditions.iter().any(|condition| condition["type"] == name && condition["status"] == status)
            };
            for name in ["NamesAccepted", "Established"] {
                ensure!(holds(name, "True"), "{}: {name} is not True: {conditions:?}", crd.name);
            }
            // This condition lists what is wrong with a schema, and is absent otherwise.
            ensure!(!holds("NonStructuralSchema", "True"), "{}: {conditions:?}", crd.name);
        }
        let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{}", POOL_CRD.name);
        let pool = place.ask(Method::GET, &path, &Value::Null).await?;
        ensure!(pool["status"]["storedVersions"] == json!(["v1beta1"]), "{pool}");
        Ok(())
    });
}

#[test]
fn both_versions_of_a_pool_are_discovered() {
    with_namespace("kubevirt-discovery", async |place| {
        let group = place.ask(Method::GET, "/apis/pool.kubevirt.io", &Value::Null).await?;
        ensure!(group["preferredVersion"]["version"] == "v1beta1", "{group}");
        for version in ["v1beta1", "v1alpha1"] {
            let found =
                place.ask(Method::GET, &format!("/apis/pool.kubevirt.io/{version}"), &Value::Null).await?;
            let resources = found["resources"].as_array().context("no resources")?;
            let names: Vec<&str> =
                resources.iter().filter_map(|resource| resource["name"].as_str()).collect();
            for name in ["virtualmachinepools", "virtualmachinepools/status", "virtualmachinepools/scale"] {
                ensure!(names.contains(&name), "{version}: {names:?}");
            }
            let pools = resources.iter().find(|resource| resource["name"] == "virtualmachinepools");
            let pools = pools.context("no pools")?;
            ensure!(pools["shortNames"] == json!(["vmpool", "vmpools"]), "{pools}");
            ensure!(pools["categories"] == json!(["all"]), "{pools}");
        }
        Ok(())
    });
}

/// The header and the first row of `kubectl get`, as words.
async fn table(place: &TestNamespace<'_>, resource: &str, further: &[&str]) -> Result<Vec<Vec<String>>> {
    let mut arguments = vec!["get", resource, "-n", place.namespace];
    arguments.extend(further);
    let text = place.cluster.kubectl(&arguments).await?;
    Ok(text.lines().map(|line| line.split_ascii_whitespace().map(str::to_owned).collect()).collect())
}

#[test]
fn kubectl_shows_the_columns_in_both_versions() {
    with_namespace("kubevirt-columns", async |place| {
        place.create_pool("render").await?;
        let ready = json!({
            "type": "Ready", "status": "False", "reason": "Scaling", "message": "2 of 3 machines are ready",
            "lastTransitionTime": "2026-11-24T18:00:00Z", "lastProbeTime": null,
        });
        let status = json!({ "status": { "replicas": 3, "readyReplicas": 2, "updatedReplicas": 1,
            "restartPendingReplicas": 4, "readyStandbyReplicas": 3, "drainingReplicas": 2,
            "imageOutdatedReplicas": 1, "currentRevision": "render-7", "conditions": [ready] } });
        place.ask(Method::PATCH, &format!("{}/status", place.pool("render")?), &status).await?;
        for resource in [POOLS, "virtualmachinepools.v1alpha1.pool.kubevirt.io"] {
            let rows = table(&place, resource, &[]).await?;
            ensure!(rows[0] == ["NAME", "DESIRED", "CURRENT", "READY", "AGE", "STATUS"], "{rows:?}");
            ensure!(rows[1][..4] == ["render", "1", "3", "2"] && rows[1][5] == "Scaling", "{rows:?}");
            let wide = table(&place, resource, &["-o", "wide"]).await?;
            let more = ["UPDATED", "RESTART", "STANDBY", "DRAINING", "IMAGE-OUTDATED", "REVISION"];
            ensure!(wide[0][..6] == rows[0] && wide[0][6..] == more, "{wide:?}");
            ensure!(wide[1][6..] == ["1", "4", "3", "2", "1", "render-7"], "{wide:?}");
        }
        let all = place.cluster.kubectl(&["get", "all", "-n", place.namespace]).await?;
        ensure!(all.contains("virtualmachinepool.pool.kubevirt.io/render"), "{all}");
        Ok(())
    });
}

#[test]
fn kubectl_explains_the_fields_of_a_pool() {
    with_namespace("kubevirt-explain", async |place| {
        // The API server publishes the OpenAPI document a while after it serves a CRD.
        eventually("pools are explained", LIMIT, async || {
            let explained = place.cluster.kubectl(&["explain", POOLS]).await;
            Ok(explained.map(drop).map_err(|error| error.to_string()))
        })
        .await?;
        for (field, words) in [
            ("spec.maxUnavailable", "Disruption budget"),
            ("spec.scaleInStrategy.proactive.selectionPolicy.sortPolicy", "AscendingOrder"),
            ("spec.virtualMachineTemplate.spec.template.spec.volumes.cloudInitNoCloud", "NoCloud"),
            ("status.updatedReplicas", "current template"),
        ] {
            let shown = place.cluster.kubectl(&["explain", &format!("{POOLS}.{field}")]).await?;
            let flat = shown.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
            ensure!(flat.contains(words), "{field}: {shown}");
        }
        Ok(())
    });
}
