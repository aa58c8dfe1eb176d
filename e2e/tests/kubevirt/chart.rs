//! Admission, targeted removal and expansion of KubeVirt pools, with the webhook, the aggregated API and the
//! roles of the chart.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use http::Method;
use serde_json::{Value, json};
use vmpool_e2e::wait::eventually;
use vmpool_installation::installation::{
    ClusterInstallation, GuardOptions, cluster_options, kubevirt_definitions,
};
use vmpool_installation::release::helm_program;
use vmpool_installation::workspace_root;
use vmpool_test_cluster::control_plane::ControlPlane;
use vmpool_test_cluster::process;

use crate::documented;
use crate::pins::{self, small, write};
use crate::pools::spec;
use crate::pruned::to_kubevirt;
use crate::world::{KubeVirtWorld, run_with, text};
use crate::{TestNamespace, run_to_end};

const NAMESPACE: &str = "team";
/// A user with the built-in role `edit`.
const EDITOR: &str = "alice";
/// A user with the built-in role `view`.
const VIEWER: &str = "bob";

/// A user with the built-in role `admin`.
const ADMIN: &str = "carol";

/// The pools of this version.
fn pools(version: &str) -> String {
    format!("/apis/pool.kubevirt.io/{version}/namespaces/{NAMESPACE}/virtualmachinepools")
}

/// The endpoint of targeted removal of pool `p`.
fn removal(query: &str) -> String {
    format!(
        "/apis/kubevirt.subresources.vmpool.dev/v1alpha1/namespaces/{NAMESPACE}/virtualmachinepools/p/scaledownwith{query}"
    )
}

fn pool(version: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": format!("pool.kubevirt.io/{version}"),
        "kind": "VirtualMachinePool",
        "metadata": { "name": "p" },
        "spec": spec,
    })
}

/// The response to a request that must be refused.
async fn refused(
    place: &TestNamespace<'_>,
    user: &str,
    method: Method,
    path: &str,
    body: &Value,
) -> Result<String> {
    let answer = place.send_as(user, method, path, body).await?;
    let status = answer.err().with_context(|| format!("{user} may send {body} to {path}"))?;
    let causes = status.details.map(|details| details.causes).unwrap_or_default();
    let causes: Vec<String> =
        causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
    Ok(format!("{} {} {}", status.code, status.message, causes.join("; ")))
}

/// The response to a request that must be accepted.
async fn accepted(
    place: &TestNamespace<'_>,
    user: &str,
    method: Method,
    path: &str,
    body: &Value,
) -> Result<Value> {
    let answer = place.send_as(user, method, path, body).await?;
    answer.map_err(|status| anyhow::anyhow!("{}", status.message)).with_context(|| path.to_owned())
}

async fn admission(place: &TestNamespace<'_>) -> Result<()> {
    let mut other_labels = spec(1);
    other_labels["selector"]["matchLabels"]["farm"] = json!("mine");
    let mut no_percentage = spec(1);
    no_percentage["maxUnavailable"] = json!("10");
    for (spec, field, part) in [
        (&other_labels, "spec.selector", "selector does not match labels"),
        (&no_percentage, "spec.maxUnavailable", "must end with %"),
    ] {
        let mut texts = Vec::new();
        for version in ["v1beta1", "v1alpha1"] {
            let text = refused(place, EDITOR, Method::POST, &pools(version), &pool(version, spec)).await?;
            ensure!(text.starts_with("422") && text.contains(field) && text.contains(part), "{text}");
            texts.push(text);
        }
        ensure!(texts[0] == texts[1], "the versions have different rules: {texts:#?}");
    }
    accepted(place, EDITOR, Method::POST, &pools("v1alpha1"), &pool("v1alpha1", &spec(3))).await?;
    for version in ["v1beta1", "v1alpha1"] {
        let path = format!("{}/p", pools(version));
        let patch = json!({ "spec": {
            "selector": { "matchLabels": { "farm": "mine" } },
            "virtualMachineTemplate": { "metadata": { "labels": { "farm": "mine" } } },
        } });
        let text = refused(place, EDITOR, Method::PATCH, &path, &patch).await?;
        ensure!(text.contains("spec.selector") && text.contains("selector is immutable"), "{text}");
        // Only the API server for removals writes the record.
        let patch =
            json!({ "metadata": { "annotations": { "vmpool.pool.kubevirt.io/scale-in-targets": "[]" } } });
        let text = refused(place, EDITOR, Method::PATCH, &path, &patch).await?;
        ensure!(text.starts_with("403"), "{text}");
        // The webhook judges settings in annotations also if the spec stays.
        for annotation in [
            "vmpool.dev/instancetype-policy",
            "vmpool.dev/max-protection",
            "vmpool.dev/max-provisioning",
            "vmpool.dev/drain",
            "vmpool.dev/standby",
            "vmpool.dev/healing",
            "vmpool.dev/image-refresh",
            "vmpool.dev/progress-deadline-seconds",
            "vmpool.dev/revision-history-limit",
            "vmpool.dev/name-generation",
        ] {
            let patch = json!({ "metadata": { "annotations": { annotation: "sometimes" } } });
            let text = refused(place, EDITOR, Method::PATCH, &path, &patch).await?;
            ensure!(text.contains(annotation), "{text}");
        }
    }
    Ok(())
}

async fn targeted_removal(world: &KubeVirtWorld<'_>) -> Result<()> {
    let place = &world.place;
    let machines = world.until_ready(&["p-0", "p-1", "p-2"]).await?;
    let target = text(&machines["p-0"], "/metadata/uid").to_owned();
    let first = json!({ "targets": ["p-0"] });
    let text = refused(place, VIEWER, Method::POST, &removal(""), &first).await?;
    ensure!(text.starts_with("403"), "{text}");
    let stranger = json!({ "targets": ["p-0", "p-7"] });
    refused(place, EDITOR, Method::POST, &removal(""), &stranger).await?;
    accepted(place, EDITOR, Method::POST, &removal("?dryRun=All"), &first).await?;
    ensure!(
        world.pool("p").await?["spec"]["replicas"] == 3,
        "a dry run or a refused removal scales the pool"
    );

    world.user_actions().request_removal(std::slice::from_ref(&target));
    accepted(place, EDITOR, Method::POST, &removal(""), &first).await?;
    world.user_actions().completed_removals.insert(target, "p-0".to_owned());
    ensure!(world.pool("p").await?["spec"]["replicas"] == 2);
    world.until_ready(&["p-1", "p-2"]).await?;
    world.is_settled().await?;
    ensure!(world.machines().await?.keys().eq(["p-1", "p-2"]), "the target was replaced");

    // An editor may scale the pool, which KubeVirt's own role does not allow. The lowest free ordinal is used
    // again.
    let scale = format!("{}/p/scale", pools("v1beta1"));
    accepted(place, EDITOR, Method::PATCH, &scale, &json!({ "spec": { "replicas": 3 } })).await?;
    world.until_ready(&["p-0", "p-1", "p-2"]).await?;
    let text = refused(place, VIEWER, Method::PATCH, &scale, &json!({ "spec": { "replicas": 1 } })).await?;
    ensure!(text.starts_with("403"), "{text}");
    Ok(())
}

/// A path of the API that expands machines and pools.
fn expansion_path(path: &str) -> String {
    format!("/apis/kubevirt.subresources.vmpool.dev/v1alpha1/namespaces/{NAMESPACE}/{path}")
}

/// helm refuses mode `Standalone` beside a KubeVirt object, and only there. Without it, helm refuses the
/// installation only because the cluster has objects of the chart already.
async fn standalone(place: &TestNamespace<'_>, is_refused: bool) -> Result<()> {
    let chart = workspace_root().join("charts/vmpool").display().to_string();
    let values = "image.registry=vmpool.local,platforms.kubevirt.enabled=true,instancetype.mode=Standalone";
    let mut command = Command::new(helm_program()?);
    command.args([
        "install",
        "second",
        &chart,
        "--dry-run=server",
        "--namespace",
        NAMESPACE,
        "--set",
        values,
    ]);
    command.env("HOME", place.cluster.directory()).env("KUBECONFIG", place.cluster.kubeconfig());
    let output = process::command_output("helm", command, Duration::from_mins(2)).await?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(said.contains("the cluster has a KubeVirt object") == is_refused, "{said}");
    ensure!(is_refused || output.status.success() || said.contains("invalid ownership metadata"), "{said}");
    Ok(())
}

/// Machines and pools with instance type and preference written out, for a viewer.
async fn expansion(world: &KubeVirtWorld<'_>) -> Result<()> {
    let place = &world.place;
    small(world, "2048Mi").await?;
    write(world, "VirtualMachinePreference", "linux", json!({})).await?;
    let mut spec = pins::spec(1);
    // The machines of the other pool have other labels.
    spec["selector"]["matchLabels"] = json!({ "farm": "typed" });
    spec["virtualMachineTemplate"]["metadata"]["labels"] = json!({ "farm": "typed" });
    world.create("q", &spec).await?;
    world
        .until("q-0 is ready", async || {
            let machine = world.machines().await?.remove("q-0");
            Ok(machine.filter(|machine| machine["status"]["ready"] == true))
        })
        .await?;
    // The live type is larger now, and the pool still uses its copy.
    small(world, "8Gi").await?;
    let get =
        async |path: &str| accepted(place, VIEWER, Method::GET, &expansion_path(path), &Value::Null).await;
    let memory = |machine: &Value| text(machine, "/spec/template/spec/domain/memory/guest").to_owned();
    let pool = get("virtualmachinepools/q/expand-spec").await?;
    ensure!(memory(&pool["spec"]["virtualMachineTemplate"]) == "2048Mi", "{pool}");
    let machine = get("virtualmachinepools/q/expand-spec?index=3").await?;
    ensure!(machine["metadata"]["name"] == "q-3" && memory(&machine) == "2048Mi", "{machine}");
    let revision = text(&world.pool("q").await?, "/status/currentRevision").to_owned();
    let named = get(&format!("virtualmachinepools/q/expand-spec?revision={revision}")).await?;
    ensure!(named["spec"] == pool["spec"], "{named}");
    let stored = get("virtualmachines/q-0/expand-spec").await?;
    ensure!(memory(&stored) == "2Gi" && stored["spec"].get("instancetype").is_none(), "{stored}");

    // A machine and a pool in the request, whose template names the live type.
    let put = async |path: &str, body: &Value| {
        place.send_as(VIEWER, Method::PUT, &expansion_path(path), body).await
    };
    let machine = json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": { "name": "new" },
        "spec": spec["virtualMachineTemplate"]["spec"],
    });
    let expanded = put("expand-vm-spec", &machine).await?.map_err(|status| anyhow::anyhow!("{status:?}"))?;
    ensure!(memory(&expanded) == "8Gi", "{expanded}");
    let again = put("expand-vm-spec", &expanded).await?.map_err(|status| anyhow::anyhow!("{status:?}"))?;
    ensure!(again == expanded, "the expansion of an expansion is the same: {again}");
    // With a KubeVirt object, a machine gets the interface that KubeVirt would add.
    let installations = format!("/apis/kubevirt.io/v1/namespaces/{NAMESPACE}/kubevirts");
    let installation = json!({
        "apiVersion": "kubevirt.io/v1", "kind": "KubeVirt", "metadata": { "name": "kubevirt" },
        "spec": {
            "customizeComponents": { "flags": { "controller": { "pool-controller-threads": "0" } } },
            "configuration": { "network": { "defaultNetworkInterface": "masquerade" } },
        },
    });
    let interfaces =
        |machine: &Value| machine["spec"]["template"]["spec"]["domain"]["devices"]["interfaces"].clone();
    ensure!(interfaces(&expanded) == json!([{ "name": "default", "bridge": {} }]), "{expanded}");
    place.ask(Method::POST, &installations, &installation).await?;
    let masqueraded =
        put("expand-vm-spec", &machine).await?.map_err(|status| anyhow::anyhow!("{status:?}"))?;
    ensure!(interfaces(&masqueraded) == json!([{ "name": "default", "masquerade": {} }]), "{masqueraded}");
    standalone(place, true).await?;
    place.ask(Method::DELETE, &format!("{installations}/kubevirt"), &Value::Null).await?;
    standalone(place, false).await?;
    let supplied = self::pool("v1beta1", &spec);
    let expanded =
        put("expand-pool-spec", &supplied).await?.map_err(|status| anyhow::anyhow!("{status:?}"))?;
    ensure!(memory(&expanded["spec"]["virtualMachineTemplate"]) == "8Gi", "{expanded}");
    let mut conflicting = machine.clone();
    conflicting["spec"]["template"]["spec"]["domain"]["memory"] = json!({ "guest": "1Gi" });
    let refusal =
        refused(place, VIEWER, Method::PUT, &expansion_path("expand-vm-spec"), &conflicting).await?;
    ensure!(
        refusal.starts_with("400") && refusal.contains("spec.template.spec.domain.memory.guest"),
        "{refusal}"
    );

    // kubectl finds the resources, and reads them.
    let cluster = place.cluster;
    let resources =
        cluster.kubectl(&["api-resources", "--api-group=kubevirt.subresources.vmpool.dev"]).await?;
    ensure!(resources.contains("expand-vm-spec") && resources.contains("expand-pool-spec"), "{resources}");
    let path = expansion_path("virtualmachinepools/q/expand-spec");
    let raw = cluster.kubectl(&["get", "--raw", &path]).await?;
    ensure!(raw.contains("2048Mi"), "{raw}");
    // KubeVirt's own group belongs to KubeVirt.
    let reference = "/apis/subresources.kubevirt.io/v1";
    let refusal = refused(place, VIEWER, Method::GET, reference, &Value::Null).await?;
    ensure!(refusal.starts_with("404"), "{refusal}");

    // A user without a role reads nothing.
    let refusal = refused(place, "mallory", Method::GET, &path, &Value::Null).await?;
    ensure!(refusal.starts_with("403"), "{refusal}");
    Ok(())
}

/// A pool whose template conflicts with its instance type is refused, and one whose instance type is missing
/// is not.
async fn templates_are_compared_with_types(world: &KubeVirtWorld<'_>) -> Result<()> {
    let place = &world.place;
    small(world, "2Gi").await?;
    let named = |kind: &str, memory: &str| {
        let mut spec = pins::spec(0);
        spec["virtualMachineTemplate"]["spec"]["instancetype"]["name"] = json!(kind);
        spec["virtualMachineTemplate"]["spec"]["preference"] = Value::Null;
        if !memory.is_empty() {
            spec["virtualMachineTemplate"]["spec"]["template"]["spec"]["domain"]["memory"] =
                json!({ "guest": memory });
        }
        let mut pool = pool("v1beta1", &spec);
        pool["metadata"]["name"] = json!("typed");
        pool
    };
    let text = refused(place, EDITOR, Method::POST, &pools("v1beta1"), &named("small", "1Gi")).await?;
    let field = "spec.virtualMachineTemplate.spec.template.spec.domain.memory.guest";
    let source = "VirtualMachineInstancetype \"small\"";
    ensure!(text.starts_with("422") && text.contains(field) && text.contains(source), "{text}");
    let dry_run = format!("{}?dryRun=All", pools("v1beta1"));
    accepted(place, EDITOR, Method::POST, &dry_run, &named("missing", "")).await?;
    accepted(place, EDITOR, Method::POST, &pools("v1beta1"), &named("small", "")).await?;
    // An update is compared as well, and the pool can be scaled although its type has changed.
    let path = format!("{}/typed", pools("v1beta1"));
    let memory = json!({ "domain": { "memory": { "guest": "1Gi" } } });
    let patch =
        json!({ "spec": { "virtualMachineTemplate": { "spec": { "template": { "spec": memory } } } } });
    let text = refused(place, EDITOR, Method::PATCH, &path, &patch).await?;
    ensure!(text.contains(source), "{text}");
    accepted(place, EDITOR, Method::PATCH, &path, &json!({ "spec": { "replicas": 1 } })).await?;
    accepted(place, EDITOR, Method::DELETE, &path, &Value::Null).await.map(drop)
}

/// When the platform rejects a machine, then the webhook rejects the pool, with the error of the platform.
async fn machines_are_validated(place: &TestNamespace<'_>) -> Result<()> {
    let name = "no-thirteen-gigabytes";
    let kind = |kind: &str| json!({ "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": { "name": name } });
    let mut policy = kind("ValidatingAdmissionPolicy");
    policy["spec"] = json!({
        "matchConstraints": { "resourceRules": [{
            "apiGroups": ["kubevirt.io"], "apiVersions": ["v1"], "operations": ["CREATE"],
            "resources": ["virtualmachines"],
        }] },
        "validations": [{
            "expression": "object.spec.template.spec.domain.?memory.?guest.orValue('') != '13Gi'",
            "message": "thirteen gigabytes are unlucky",
        }],
    });
    let mut binding = kind("ValidatingAdmissionPolicyBinding");
    binding["spec"] = json!({ "policyName": name, "validationActions": ["Deny"] });
    let policies = "/apis/admissionregistration.k8s.io/v1";
    place.ask(Method::POST, &format!("{policies}/validatingadmissionpolicies"), &policy).await?;
    place.ask(Method::POST, &format!("{policies}/validatingadmissionpolicybindings"), &binding).await?;
    let mut unlucky = spec(1);
    unlucky["virtualMachineTemplate"]["spec"]["template"]["spec"]["domain"]["memory"]["guest"] =
        json!("13Gi");
    let mut unlucky = pool("v1beta1", &unlucky);
    unlucky["metadata"]["name"] = json!("unlucky");
    // The API server needs a moment until a policy is in effect.
    let all = format!("{}?dryRun=All", pools("v1beta1"));
    let text = eventually("the pool is refused", Duration::from_secs(30), async || {
        let answer = place.send_as(EDITOR, Method::POST, &all, &unlucky).await?;
        Ok(answer.map_or_else(|status| Ok(status.message), |_| Err("it is accepted".to_owned())))
    })
    .await?;
    ensure!(text.contains("thirteen gigabytes are unlucky") && text.contains("K27"), "{text}");
    // The account of the webhook creates no machine except as a dry run.
    let machine = json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": { "name": "other" },
        "spec": { "runStrategy": "Halted", "template": { "spec": { "domain": { "devices": {}, "memory": { "guest": "1Gi" } } } } },
    });
    let machines = format!("/apis/kubevirt.io/v1/namespaces/{NAMESPACE}/virtualmachines");
    let webhook = "system:serviceaccount:vmpool-system:vmpool-webhook";
    let text = refused(place, webhook, Method::POST, &machines, &machine).await?;
    ensure!(text.contains("only as a dry run"), "{text}");
    accepted(place, webhook, Method::POST, &format!("{machines}?dryRun=All"), &machine).await.map(drop)
}

/// Only the role `admin` may delete all pools with one request.
async fn delete_of_all_pools(place: &TestNamespace<'_>) -> Result<()> {
    let all = format!("{}?dryRun=All", pools("v1beta1"));
    refused(place, EDITOR, Method::DELETE, &all, &Value::Null).await?;
    accepted(place, ADMIN, Method::DELETE, &all, &Value::Null).await.map(drop)
}

/// The definition of KubeVirt has no default of `replicas`. The webhook sets it, so that the pool has a
/// scale.
async fn replicas_have_a_default(world: &KubeVirtWorld<'_>) -> Result<()> {
    to_kubevirt(world).await?;
    let mut spec = spec(1);
    spec.as_object_mut().context("no spec")?.remove("replicas");
    for (version, name) in [("v1beta1", "new"), ("v1alpha1", "old")] {
        let mut pool = pool(version, &spec);
        pool["metadata"]["name"] = json!(name);
        let created = world.place.send_as(EDITOR, Method::POST, &pools(version), &pool).await?;
        let created = created.map_err(|status| anyhow::anyhow!("{}", status.message))?;
        ensure!(created["spec"]["replicas"] == 1, "{created}");
        let path = format!("{}/{name}", pools("v1beta1"));
        let scale = world.place.ask(Method::GET, &format!("{path}/scale"), &Value::Null).await?;
        ensure!(scale["spec"]["replicas"] == 1, "{scale}");
        let removed = json!({ "spec": { "replicas": null } });
        let updated = world.place.ask(Method::PATCH, &path, &removed).await?;
        ensure!(updated["spec"]["replicas"] == 1, "{updated}");
        world.place.ask(Method::DELETE, &path, &Value::Null).await?;
    }
    Ok(())
}

#[test]
fn the_chart_serves_admission_removal_and_expansion_of_kubevirt_pools() {
    run_to_end(async {
        let mut options = cluster_options("kubevirt-chart");
        options.manifests.extend(kubevirt_definitions());
        options.manifests.push(workspace_root().join("api/crds/instancetype"));
        let cluster = Arc::new(ControlPlane::start(options).await?);
        let options = GuardOptions::default().value("platforms.kubevirt.enabled=true");
        let installation = ClusterInstallation::guarded(cluster.clone(), options).await?;
        cluster.kubectl(&["create", "namespace", NAMESPACE]).await?;
        for (user, role) in [(ADMIN, "admin"), (EDITOR, "edit"), (VIEWER, "view")] {
            let (role, user) = (format!("--clusterrole={role}"), format!("--user={user}"));
            let name = user.trim_start_matches("--user=");
            let binding = ["create", "rolebinding", name, role.as_str(), user.as_str(), "-n", NAMESPACE];
            cluster.kubectl(&binding).await?;
        }
        let place = TestNamespace { cluster: &cluster, namespace: NAMESPACE };
        run_with(installation.accounts(), place, "kubevirt", async |world| {
            world
                .until("the roles of users are aggregated", async || {
                    let answer =
                        world.place.send_as(EDITOR, Method::GET, &pools("v1beta1"), &Value::Null).await?;
                    Ok(answer.ok().map(drop))
                })
                .await?;
            admission(&world.place).await?;
            machines_are_validated(&world.place).await?;
            delete_of_all_pools(&world.place).await?;
            targeted_removal(&world).await?;
            expansion(&world).await?;
            templates_are_compared_with_types(&world).await?;
            documented::pools(&world).await?;
            documented::forced_release(&world).await?;
            replicas_have_a_default(&world).await
        })
        .await?;
        installation.stop().await?;
        drop(cluster);
        Ok(())
    });
}
