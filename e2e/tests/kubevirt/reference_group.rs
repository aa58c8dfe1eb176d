//! Expansion in KubeVirt's own API group, in a cluster without KubeVirt: discovery, kubectl, roles, and what
//! happens when a KubeVirt appears.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use http::Method;
use serde_json::{Value, json};
use vmpool_api::instancetype::API_VERSION as TYPES;
use vmpool_api::kubevirt::API_VERSION;
use vmpool_e2e::wait::eventually;

use crate::{TestNamespace, documented, guarded, run_to_end};

const NAMESPACE: &str = "studio";
/// A user with the built-in role `view`.
const VIEWER: &str = "bob";
/// A user whose only right is the expansion of stored machines in KubeVirt's group.
const CLIENT: &str = "eve";
/// A user without a role.
const STRANGER: &str = "mallory";

/// The groups and versions with the same expansions, that of vmpool first.
const APIS: [&str; 3] = [
    "kubevirt.subresources.vmpool.dev/v1alpha1",
    "subresources.kubevirt.io/v1",
    "subresources.kubevirt.io/v1alpha3",
];
const GROUP: &str = "--api-group=subresources.kubevirt.io";
const EXPANSION: &str = "virtualmachines/db/expand-spec";

fn path(api: &str, path: &str) -> String {
    format!("/apis/{api}/namespaces/{NAMESPACE}/{path}")
}

fn machine() -> Value {
    json!({
        "apiVersion": API_VERSION,
        "kind": "VirtualMachine",
        "metadata": { "name": "db" },
        "spec": {
            "runStrategy": "Halted",
            "instancetype": { "name": "small", "kind": "VirtualMachineInstancetype" },
            "template": { "spec": { "domain": { "devices": {} } } },
        },
    })
}

async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Result<Option<T>>) -> Result<T> {
    eventually(what, Duration::from_mins(1), async || {
        Ok(match look().await {
            Ok(found) => found.ok_or_else(|| "not yet".to_owned()),
            Err(error) => Err(format!("{error:#}")),
        })
    })
    .await
}

/// The code of a response.
async fn code(place: &TestNamespace<'_>, user: &str, api: &str) -> Result<u16> {
    let answer = place.send_as(user, Method::GET, &path(api, EXPANSION), &Value::Null).await?;
    Ok(answer.map_or_else(|status| status.code, |_| 200))
}

async fn prepare(place: &TestNamespace<'_>) -> Result<()> {
    let small = json!({
        "apiVersion": TYPES, "kind": "VirtualMachineInstancetype", "metadata": { "name": "small" },
        "spec": { "cpu": { "guest": 2 }, "memory": { "guest": "2048Mi" } },
    });
    let types = place.path(TYPES, "VirtualMachineInstancetype")?;
    place.ask(Method::POST, &types, &small).await?;
    place.ask(Method::POST, &place.path(API_VERSION, "VirtualMachine")?, &machine()).await?;
    let kubectl = async |arguments: &[&str]| place.cluster.kubectl(arguments).await;
    let view = ["create", "rolebinding", VIEWER, "--clusterrole=view", "--user=bob", "-n", NAMESPACE];
    kubectl(&view).await?;
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": { "name": CLIENT },
        "rules": [{
            "apiGroups": ["subresources.kubevirt.io"], "resources": ["virtualmachines/expand-spec"], "verbs": ["get"],
        }],
    });
    let roles = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/roles");
    place.ask(Method::POST, &roles, &role).await?;
    kubectl(&["create", "rolebinding", CLIENT, "--role=eve", "--user=eve", "-n", NAMESPACE])
        .await
        .map(drop)?;
    until("the roles of users are aggregated", async || {
        Ok((code(place, VIEWER, APIS[1]).await? == 200).then_some(()))
    })
    .await
}

/// The group and version decide only about the right: the responses are the same bytes.
async fn responses(place: &TestNamespace<'_>) -> Result<()> {
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), serde_json::to_vec(&machine())?)?;
    let file = file.path().to_str().context("the file has a path")?;
    let mut stored = Vec::new();
    let mut supplied = Vec::new();
    for api in APIS {
        stored.push(place.cluster.kubectl(&["get", "--raw", &path(api, EXPANSION)]).await?);
        let put = path(api, "expand-vm-spec");
        supplied.push(place.cluster.kubectl(&["replace", "--raw", &put, "-f", file]).await?);
        for (method, path, body) in [
            (Method::GET, path(api, EXPANSION), Value::Null),
            (Method::PUT, path(api, "expand-vm-spec"), machine()),
        ] {
            let answer = place.send_as(VIEWER, method.clone(), &path, &body).await?;
            let expanded = answer.map_err(|status| anyhow::anyhow!("{path}: {}", status.message))?;
            ensure!(expanded["spec"]["template"]["spec"]["domain"]["memory"]["guest"] == "2Gi", "{expanded}");
            ensure!(expanded["apiVersion"] == API_VERSION && expanded["spec"].get("instancetype").is_none());
            let refused = place.send_as(STRANGER, method, &path, &body).await?;
            let refused = refused.err().with_context(|| format!("{path} needs no right"))?;
            let group = api.split('/').next().unwrap_or_default();
            ensure!(
                refused.code == 403 && refused.message.contains(&format!("API group \"{group}\"")),
                "{refused:?}"
            );
        }
    }
    ensure!(stored.iter().all(|answer| *answer == stored[0] && answer.contains("2Gi")), "{stored:#?}");
    ensure!(supplied.iter().all(|answer| *answer == supplied[0] && answer.contains("2Gi")), "{supplied:#?}");
    documented::expansion(place).await?;
    // The right in one group is no right in another.
    for (api, wanted) in APIS.into_iter().zip([403, 200, 200]) {
        let found = code(place, CLIENT, api).await?;
        ensure!(found == wanted, "{CLIENT} gets {found} from {api}");
    }
    // Nothing was stored.
    let stored = place
        .ask(Method::GET, &format!("{}/db", place.path(API_VERSION, "VirtualMachine")?), &Value::Null)
        .await?;
    ensure!(stored["spec"]["instancetype"]["name"] == "small", "{stored}");
    Ok(())
}

/// kubectl and generators of clients read discovery and OpenAPI. A `PUT` without a name is unusual there.
async fn discovery(place: &TestNamespace<'_>) -> Result<()> {
    let kubectl = async |arguments: &[&str]| place.cluster.kubectl(arguments).await;
    let resources = kubectl(&["api-resources", GROUP, "--no-headers"]).await?;
    let names: Vec<&str> = resources.lines().filter_map(|line| line.split_whitespace().next()).collect();
    ensure!(names == ["expand-vm-spec"], "{resources}");
    let versions = kubectl(&["api-versions"]).await?;
    for version in &APIS[1..] {
        ensure!(versions.lines().any(|line| line == *version), "{versions}");
        let list = place.ask(Method::GET, &format!("/apis/{version}"), &Value::Null).await?;
        let names: Vec<_> =
            list["resources"].as_array().into_iter().flatten().map(|resource| &resource["name"]).collect();
        ensure!(names == ["virtualmachines/expand-spec", "expand-vm-spec"], "{list}");
        let document = place.ask(Method::GET, &format!("/openapi/v3/apis/{version}"), &Value::Null).await?;
        let put = format!("/apis/{version}/namespaces/{{namespace}}/expand-vm-spec");
        ensure!(document["paths"][&put]["put"].is_object(), "{document}");
        until(&format!("/openapi/v2 has {put}"), async || {
            let merged = place.ask(Method::GET, "/openapi/v2", &Value::Null).await?;
            Ok(merged["paths"][&put]["put"].is_object().then_some(()))
        })
        .await?;
    }
    // The short name and the plural name of machines still mean those of KubeVirt.
    for name in ["virtualmachines", "vm"] {
        let found = kubectl(&["get", name, "db", "-n", NAMESPACE, "-o", "jsonpath={.apiVersion}"]).await?;
        ensure!(found == API_VERSION, "kubectl get {name}: {found}");
    }
    kubectl(&["explain", "virtualmachines.spec.runStrategy"]).await?;
    // All groups can be discovered, which the deletion of namespaces needs.
    let all = kubectl(&["api-resources", "--verbs=list", "-o", "name"]).await?;
    ensure!(all.contains("virtualmachines.kubevirt.io"), "{all}");
    Ok(())
}

/// KubeVirt's own API server owns the group as soon as there is a KubeVirt.
async fn kubevirt_appears(place: &TestNamespace<'_>) -> Result<()> {
    let object = json!({ "apiVersion": "kubevirt.io/v1", "kind": "KubeVirt", "metadata": { "name": "kubevirt" }, "spec": {} });
    let collection = place.path("kubevirt.io/v1", "KubeVirt")?;
    place.ask(Method::POST, &collection, &object).await?;
    until("the group is not served beside KubeVirt", async || {
        Ok((code(place, "", APIS[1]).await? == 404).then_some(()))
    })
    .await?;
    ensure!(code(place, "", APIS[0]).await? == 200, "the group of vmpool is always served");
    let list = place.ask(Method::GET, "/apis/subresources.kubevirt.io/v1", &Value::Null).await?;
    ensure!(list["resources"] == json!([]), "{list}");
    // The registration stays available, so that namespaces can be deleted.
    let available =
        ["wait", "--for=condition=Available", "--timeout=30s", "apiservice/v1.subresources.kubevirt.io"];
    place.cluster.kubectl(&available).await?;
    place.ask(Method::DELETE, &format!("{collection}/kubevirt"), &Value::Null).await?;
    until("the group is served again", async || Ok((code(place, "", APIS[1]).await? == 200).then_some(())))
        .await
}

#[test]
fn the_group_of_kubevirt_is_served_without_kubevirt() {
    run_to_end(async {
        let (cluster, installation) = guarded::standalone("reference-group", &[]).await?;
        cluster.kubectl(&["create", "namespace", NAMESPACE]).await?;
        let place = TestNamespace { cluster: &cluster, namespace: NAMESPACE };
        prepare(&place).await?;
        responses(&place).await?;
        discovery(&place).await?;
        kubevirt_appears(&place).await?;
        installation.stop().await?;
        drop(cluster);
        Ok(())
    });
}
