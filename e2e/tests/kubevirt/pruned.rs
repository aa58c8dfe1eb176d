//! Pools whose definition is that of KubeVirt, which has none of the status fields of vmpool.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use http::Method;
use serde_json::{Value, json};
use vmpool_e2e::wait::let_time_pass;
use vmpool_installation::installation::{cluster_options, kubevirt_definitions};
use vmpool_installation::programs::{Accounts, Chart};
use vmpool_installation::workspace_root;
use vmpool_test_cluster::control_plane::ControlPlane;
use vmpool_test_cluster::deadline::Deadline;

use crate::pins::{small, spec, write};
use crate::world::{KubeVirtWorld, run_with};
use crate::{POOLS, TestNamespace, Unknown, minimal, run_to_end};

const NAMESPACE: &str = "team";
/// The fields that only vmpool has in the spec of a pool.
const OWN_SETTINGS: [&str; 10] = [
    "drain",
    "healing",
    "imageRefresh",
    "instancetypePolicy",
    "maxProtection",
    "maxProvisioning",
    "progressDeadlineSeconds",
    "recycle",
    "revisionHistoryLimit",
    "standby",
];
/// The fields that only vmpool has in `nameGeneration`.
const OWN_NAMES: [&str; 5] = [
    "appendIndexToSysprepRefs",
    "appendIndexToMetaDataSecretRefs",
    "appendIndexToResourceClaimRefs",
    "appendIndexToVMStateRefs",
    "setHostnameToVMName",
];
/// The fields that only vmpool has in its status.
const OWN: [&str; 11] = [
    "observedGeneration",
    "availableReplicas",
    "updatedReplicas",
    "restartPendingReplicas",
    "standbyReplicas",
    "readyStandbyReplicas",
    "healedReplicas",
    "currentRevision",
    "instancetypeRef",
    "preferenceRef",
    "activity",
];

/// What the definition of KubeVirt lacks.
const OF_KUBEVIRT: &[(&str, &[&str])] = &[("spec", &OWN_SETTINGS), ("status", &OWN)];

/// The fields of its status that vmpool had later than the others.
const LATEST: [&str; 2] = ["instancetypeRef", "preferenceRef"];

/// Removes all rules from a schema.
fn without_rules(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            fields.remove("x-kubernetes-validations");
            fields.values_mut().for_each(without_rules);
        }
        Value::Array(schemas) => schemas.iter_mut().for_each(without_rules),
        _ => {}
    }
}

/// Gives the schema of a pool what that of KubeVirt has and lacks, beside fields: it has no rules and no
/// defaults of `replicas` and the status, and it requires the domain.
fn as_of_kubevirt(schema: &mut Value) -> Result<()> {
    without_rules(schema);
    let replicas = schema.pointer_mut("/properties/spec/properties/replicas").and_then(Value::as_object_mut);
    replicas.and_then(|field| field.remove("default")).context("replicas has no default")?;
    let status = schema.pointer_mut("/properties/status").and_then(Value::as_object_mut);
    status.and_then(|status| status.remove("default")).context("the status has no default")?;
    let names = "/properties/spec/properties/nameGeneration/properties";
    let names = schema.pointer_mut(names).and_then(Value::as_object_mut).context("no names")?;
    names.retain(|name, _| !OWN_NAMES.contains(&&**name));
    let instance = "/properties/spec/properties/virtualMachineTemplate/properties/spec/properties/template/properties/spec";
    let instance = schema.pointer_mut(instance).context("no schema of instances")?;
    instance["required"] = json!(["domain"]);
    let domain = instance.pointer_mut("/properties/domain").context("no schema of the domain")?;
    domain["required"] = json!(["devices"]);
    Ok(())
}

/// Makes the definition of pools that of KubeVirt.
pub(crate) async fn to_kubevirt(world: &KubeVirtWorld<'_>) -> Result<()> {
    prune(&world.place, OF_KUBEVIRT).await?;
    world.checks.expect_without(OF_KUBEVIRT);
    Ok(())
}

/// Removes these fields of vmpool from the definition, and waits until the API server prunes them.
async fn prune(place: &TestNamespace<'_>, removed: &[(&str, &[&str])]) -> Result<()> {
    let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{POOLS}");
    let mut definition = place.ask(Method::GET, &path, &Value::Null).await?;
    for version in definition["spec"]["versions"].as_array_mut().context("it has versions")? {
        let schema = &mut version["schema"]["openAPIV3Schema"];
        // The rules of vmpool are about its own fields.
        schema.as_object_mut().context("it has a schema")?.remove("x-kubernetes-validations");
        if removed == OF_KUBEVIRT {
            as_of_kubevirt(schema)?;
        }
        for &(part, own) in removed {
            let fields =
                version["schema"]["openAPIV3Schema"]["properties"][part]["properties"].as_object_mut();
            let fields = fields.with_context(|| format!("it has no {part}"))?;
            let removed = own.iter().filter(|field| fields.remove(**field).is_some()).count();
            ensure!(removed == own.len(), "the definition has other fields: {fields:?}");
        }
    }
    place.ask(Method::PUT, &path, &definition).await?;
    let pool = place.pool("trial")?;
    let mut trial = minimal("trial");
    // The webhook, if there is one, requires it.
    trial["spec"]["virtualMachineTemplate"]["spec"]["runStrategy"] = json!("Halted");
    let deadline = Deadline::after(Duration::from_secs(30));
    let mut replicas = 0;
    loop {
        replicas += 1;
        let status = json!({ "status": { "replicas": replicas, "instancetypeRef": { "name": "small" } } });
        // While the API server replaces the storage of a changed definition, it answers requests with
        // 503, as if it were shutting down.
        let found = match place.write(&trial, Unknown::Refused).await? {
            Ok(_created) => place.send(Method::PATCH, &format!("{pool}/status"), &status).await?,
            Err(refused) => Err(refused),
        };
        match found {
            Ok(found) if found["status"].get("instancetypeRef").is_none() => break,
            Ok(_not_yet_pruned) => {}
            Err(refused) => ensure!(refused.code == 503, "{refused:?}"),
        }
        ensure!(!deadline.is_over(), "the API server does not prune the fields");
        let_time_pass(Duration::from_millis(100)).await;
    }
    place.ask(Method::DELETE, &pool, &Value::Null).await.map(drop)
}

/// Runs a test with a controller on a control plane whose definition of pools lacks these fields.
async fn with_pruned(
    name: &str,
    removed: &[(&str, &[&str])],
    test: impl AsyncFnOnce(KubeVirtWorld<'_>) -> Result<()>,
) -> Result<()> {
    let mut options = cluster_options(name);
    options.manifests.extend(kubevirt_definitions());
    options.manifests.push(workspace_root().join("api/crds/instancetype"));
    let cluster = ControlPlane::start(options).await?;
    let chart = Chart::render(&["platforms.kubevirt.enabled=true".to_owned()]).await?;
    let accounts = Accounts::of(&chart, &cluster).await?;
    cluster.kubectl(&["create", "namespace", NAMESPACE]).await?;
    prune(&TestNamespace { cluster: &cluster, namespace: NAMESPACE }, removed).await?;
    run_with(
        &accounts,
        TestNamespace { cluster: &cluster, namespace: NAMESPACE },
        "kubevirt",
        async |world| {
            world.checks.expect_without(removed);
            test(world).await
        },
    )
    .await
}

/// Creates a pool with an instance type, scales it, and checks that the controller writes nothing afterwards.
/// Returns the pool.
async fn settles(world: &KubeVirtWorld<'_>) -> Result<Value> {
    small(world, "2Gi").await?;
    write(world, "VirtualMachinePreference", "linux", json!({})).await?;
    let mut spec = spec(2);
    spec["virtualMachineTemplate"]["spec"]["template"]["spec"] = json!({ "domain": { "devices": {} } });
    world.create("p", &spec).await?;
    world.until_ready(&["p-0", "p-1"]).await?;
    world.until_status("p", 2).await?;
    world.is_settled().await?;
    world.patch("p", &json!({ "spec": { "replicas": 3 } })).await?;
    world.until_ready(&["p-0", "p-1", "p-2"]).await?;
    let pool = world.until_status("p", 3).await?;
    world.is_settled().await?;
    Ok(pool)
}

#[test]
fn with_the_definition_of_kubevirt_the_status_has_its_fields_and_is_not_written_again() {
    run_to_end(async {
        with_pruned("kubevirt-pruned", OF_KUBEVIRT, async |world| {
            let pool = settles(&world).await?;
            ensure!(OWN.iter().all(|field| pool["status"].get(*field).is_none()), "{pool}");
            // Clients of KubeVirt know no other conditions than its own, and the pool is not paused.
            let conditions = pool["status"]["conditions"].as_array();
            ensure!(conditions.is_none_or(Vec::is_empty), "{pool}");
            Ok(())
        })
        .await
    });
}

#[test]
fn with_an_earlier_definition_of_vmpool_the_status_has_the_fields_that_exist() {
    run_to_end(async {
        with_pruned("kubevirt-earlier", &[("status", &LATEST)], async |world| {
            let pool = settles(&world).await?;
            ensure!(LATEST.iter().all(|field| pool["status"].get(*field).is_none()), "{pool}");
            ensure!(pool["status"]["updatedReplicas"] == 3, "{pool}");
            Ok(())
        })
        .await
    });
}
