//! The scale subresource, which autoscalers and `kubectl scale` use.

use anyhow::ensure;
use http::Method;
use serde_json::{Value, json};

use crate::{POOLS, with_namespace};

#[test]
fn a_pool_without_replicas_can_be_scaled() {
    with_namespace("kubevirt-scale-default", async |place| {
        place.create_pool("render").await?;
        for path in [place.pool("render")?, place.old_pool("render")?] {
            let scale = place.ask(Method::GET, &format!("{path}/scale"), &Value::Null).await?;
            ensure!(scale["kind"] == "Scale" && scale["apiVersion"] == "autoscaling/v1", "{scale}");
            ensure!(scale["spec"]["replicas"] == 1, "{scale}");
        }
        Ok(())
    });
}

#[test]
fn scaling_in_either_version_changes_replicas_in_both() {
    with_namespace("kubevirt-scale", async |place| {
        place.create_pool("render").await?;
        let paths = [place.pool("render")?, place.old_pool("render")?];
        for (path, replicas) in [(&paths[0], 5), (&paths[1], 2)] {
            let patch = json!({ "spec": { "replicas": replicas } });
            place.ask(Method::PATCH, &format!("{path}/scale"), &patch).await?;
            for path in &paths {
                let pool = place.ask(Method::GET, path, &Value::Null).await?;
                ensure!(pool["spec"]["replicas"] == replicas, "{pool}");
            }
        }
        place.cluster.kubectl(&["scale", POOLS, "render", "--replicas=0", "-n", place.namespace]).await?;
        let pool = place.ask(Method::GET, &paths[0], &Value::Null).await?;
        ensure!(pool["spec"]["replicas"] == 0, "{pool}");
        Ok(())
    });
}

#[test]
fn the_scale_shows_the_replicas_and_the_selector_of_the_status() {
    with_namespace("kubevirt-scale-status", async |place| {
        place.create_pool("render").await?;
        let path = place.pool("render")?;
        let status = json!({ "status": { "replicas": 3, "labelSelector": "farm=render" } });
        place.ask(Method::PATCH, &format!("{path}/status"), &status).await?;
        let scale = place.ask(Method::GET, &format!("{path}/scale"), &Value::Null).await?;
        ensure!(scale["status"] == json!({ "replicas": 3, "selector": "farm=render" }), "{scale}");
        Ok(())
    });
}
