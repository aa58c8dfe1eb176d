//! Runs the commands about instance types in the docs as they are written; only namespaces and paths of files
//! are replaced.

use anyhow::{Context as _, Result, ensure};
use http::Method;
use serde_json::{Value, json};
use vmpool_api::kubevirt::API_VERSION;
use vmpool_e2e::documentation::{find_documented_commands, read_docs_page};

use crate::guide::shell;
use crate::world::{KubeVirtWorld, condition, text};
use crate::{TestNamespace, workspace_root};

/// The namespace in the docs.
const NAMESPACE: &str = "studio";

/// Runs commands in one shell, in a directory that they may write to. Returns the output.
async fn run(place: &TestNamespace<'_>, commands: &[String]) -> Result<String> {
    let directory = place.cluster.directory().join("docs");
    std::fs::create_dir_all(&directory)?;
    let here = commands
        .join("\n")
        .replace(&format!("/namespaces/{NAMESPACE}"), &format!("/namespaces/{}", place.namespace));
    let here = here.replace("docs/examples", &workspace_root().join("docs/examples").display().to_string());
    // Where jq is not installed, the output is not filtered.
    let here = format!("command -v jq >/dev/null || jq() {{ cat; }}\n{here}");
    let (well, said) = shell(place, &directory, &here).await?;
    ensure!(well, "{here}\n{said}");
    Ok(said)
}

/// The only command that contains this text.
fn only<'c>(commands: &'c [String], part: &str) -> Result<&'c [String]> {
    let found = commands.iter().position(|command| command.contains(part));
    let found = found.with_context(|| format!("no command contains {part:?}"))?;
    Ok(&commands[found..=found])
}

/// The example, the copies in its status, the adoption of an edit, and expansion.
pub(crate) async fn pools(world: &KubeVirtWorld<'_>) -> Result<()> {
    let place = &world.place;
    let commands = find_documented_commands(
        &read_docs_page("kubevirt.md")?,
        "## Instance types and preferences",
        "console",
    )?;
    run(place, only(&commands, "apply")?).await?;
    let ready = async || {
        let machines = world.machines().await?;
        let is_ready =
            |name: &str| machines.get(name).is_some_and(|machine| machine["status"]["ready"] == true);
        Ok((is_ready("render-0") && is_ready("render-1")).then_some(()))
    };
    world.until("the machines of the example are ready", ready).await?;
    let copy = async || run(place, only(&commands, "instancetypeRef")?).await;
    let first = world
        .until(
            "the status shows the copy",
            async || Ok(Some(copy().await?).filter(|shown| !shown.is_empty())),
        )
        .await?;
    ensure!(first.contains("\"name\":\"small\"") && first.contains("render-small-v1beta1-"), "{first}");

    // The machines keep the copy until the documented command adopts the edit.
    crate::pins::small(world, "4Gi").await?;
    world
        .until("the condition shows the edit", async || {
            Ok(condition(&world.pool("render").await?, "InstancetypeOutdated").map(drop))
        })
        .await?;
    ensure!(copy().await? == first, "an edit changes nothing");
    run(place, only(&commands, "refresh-instancetype")?).await?;
    world
        .until("the pool uses a new copy", async || {
            let shown = copy().await?;
            Ok((!shown.is_empty() && shown != first).then_some(()))
        })
        .await?;
    world.until("the machines are ready again", ready).await?;

    let start = commands.iter().position(|command| command.starts_with("BASE=")).context("BASE is set")?;
    let shown = run(place, &commands[start..]).await?;
    ensure!(shown.contains("4Gi"), "{shown}");
    let machine = std::fs::read_to_string(place.cluster.directory().join("docs/render-0.json"))?;
    let machine: Value = serde_json::from_str(&machine)?;
    let spec = &machine["spec"];
    ensure!(
        text(&machine, "/metadata/name") == "render-0" && spec.get("instancetype").is_none(),
        "{machine}"
    );
    let domain = &spec["template"]["spec"]["domain"];
    ensure!(domain["memory"]["guest"] == "4Gi", "{machine}");
    ensure!(domain["devices"]["disks"][0]["disk"]["bus"] == "virtio", "{machine}");
    Ok(())
}

/// An instance type that a machine needs is released by the documented command.
pub(crate) async fn forced_release(world: &KubeVirtWorld<'_>) -> Result<()> {
    let place = &world.place;
    let machine = json!({
        "apiVersion": API_VERSION, "kind": "VirtualMachine", "metadata": { "name": "without-copy" },
        "spec": {
            "runStrategy": "Halted",
            "instancetype": { "name": "small", "kind": "VirtualMachineInstancetype" },
            "template": { "spec": { "domain": { "devices": {} } } },
        },
    });
    place.ask(Method::POST, &place.path(API_VERSION, "VirtualMachine")?, &machine).await?;
    let kubectl = async |arguments: &[&str]| {
        place.cluster.kubectl(&[arguments, &["-n", place.namespace]].concat()).await
    };
    kubectl(&["delete", "virtualmachineinstancetype", "small", "--wait=false"]).await?;
    let has_event = async |reason: &str| {
        let reason = format!("--field-selector=reason={reason}");
        let events = kubectl(&["get", "events", &reason, "-o", "name"]).await?;
        Ok((!events.trim().is_empty()).then_some(()))
    };
    world.until("the deletion is blocked", async || has_event("DeletionBlocked").await).await?;
    let commands =
        find_documented_commands(&read_docs_page("instance-types.md")?, "## Deleting an object", "shell")?;
    run(place, only(&commands, "force-release")?).await?;
    world.until("the release is an event", async || has_event("ForcedRelease").await).await?;
    world
        .until("the instance type is gone", async || {
            let left = kubectl(&["get", "virtualmachineinstancetypes", "-o", "name"]).await?;
            Ok((!left.contains("/small")).then_some(()))
        })
        .await?;
    place
        .ask(
            Method::DELETE,
            &format!("{}/without-copy", place.path(API_VERSION, "VirtualMachine")?),
            &Value::Null,
        )
        .await
        .map(drop)
}

/// Expansion in the group of KubeVirt, for machine `db`.
pub(crate) async fn expansion(place: &TestNamespace<'_>) -> Result<()> {
    let commands =
        find_documented_commands(&read_docs_page("instance-types.md")?, "## Expanding machines", "console")?;
    let said = run(place, &commands).await?;
    ensure!(said.matches("\"2Gi\"").count() == 2, "{said}");
    Ok(())
}
