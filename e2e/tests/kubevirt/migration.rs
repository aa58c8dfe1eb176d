//! The two migration guides of `docs/kubevirt.md`, as printed, on a real API server.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use http::Method;
use serde_json::{Value, json};
use vmpool_e2e::documentation::{find_code_block, read_docs_page};
use vmpool_test_cluster::control_plane::parse_yaml_documents;

use crate::Unknown;
use crate::guide::shell;
use crate::world::{KubeVirtWorld, alone, condition, has_finalizer, text};

const REVISION: &str = "/metadata/labels/kubevirt.io~1vm-pool-revision-name";
const INNER_REVISION: &str = "/spec/template/metadata/labels/kubevirt.io~1vm-pool-revision-name";
const COLLECTION: &str = "/apis/kubevirt.io/v1/namespaces/kubevirt/kubevirts";

/// The UID of the pool in the recorded objects.
const RECORDED_UID: &str = "2cf25f91-ce59-4cf6-9969-10c0ef837397";

/// What KubeVirt's operator does: it applies the present generation.
async fn apply_generation(world: &KubeVirtWorld<'_>) -> Result<()> {
    let path = format!("{COLLECTION}/kubevirt");
    let stored = world.place.ask(Method::GET, &path, &Value::Null).await?;
    let status = json!({ "status": {
        "phase": "Deployed", "observedGeneration": stored["metadata"]["generation"],
        "observedKubeVirtVersion": "v1.9.0",
    } });
    world.place.ask(Method::PATCH, &format!("{path}/status"), &status).await.map(drop)
}

/// Runs the command that a guide prints.
async fn run_printed(world: &KubeVirtWorld<'_>, heading: &str) -> Result<()> {
    let command = find_code_block(&read_docs_page("kubevirt.md")?, heading, "console")?;
    let (well, said) = shell(&world.place, world.place.cluster.directory(), &command).await?;
    ensure!(well && said.contains("patched"), "{command}\n{said}");
    apply_generation(world).await
}

/// Waits until a page of the controller has this text.
async fn until_shows(world: &KubeVirtWorld<'_>, path: &str, part: &str) -> Result<()> {
    let shows = async || Ok(world.controller.probe(path).await.1.contains(part).then_some(()));
    world.until(&format!("{path} contains {part:?}"), shows).await
}

/// The machine as its other controllers complete it.
fn completed(mut machine: Value) -> Value {
    let spec = &mut machine["spec"]["template"]["spec"];
    spec["architecture"] = json!("amd64");
    spec["networks"] = json!([{ "name": "default", "pod": {} }]);
    spec["domain"]["machine"] = json!({ "type": "q35" });
    spec["domain"]["devices"]["interfaces"] =
        json!([{ "name": "default", "masquerade": {}, "macAddress": "02:00:00:00:00:07" }]);
    machine
}

/// Stores the recorded objects, and what the original made of them when a user scaled the pool to three:
/// another revision and its machine.
async fn leave_behind(world: &KubeVirtWorld<'_>) -> Result<()> {
    let write = async |object: &Value| -> Result<()> {
        let stored = world.place.write(object, Unknown::Refused).await?;
        stored.map(drop).map_err(|status| anyhow::anyhow!("{}", status.message))
    };
    let recorded = include_str!("recorded.yaml");
    let mut pool = parse_yaml_documents("recorded.yaml", recorded)?.into_iter().next().context("no pool")?;
    pool["metadata"].as_object_mut().map(|metadata| metadata.remove("uid"));
    write(&pool).await?;
    let uid = text(&world.pool("herd").await?, "/metadata/uid").to_owned();
    let objects = parse_yaml_documents("recorded.yaml", &recorded.replace(RECORDED_UID, &uid))?;
    world.patch("herd", &json!({ "spec": { "replicas": 3 } })).await?;
    for object in objects.iter().skip(1) {
        let mut object = object.clone();
        match text(&object, "/kind") {
            "ControllerRevision" => {
                let mut next: Value = serde_json::from_str(&object.to_string().replace("herd-1", "herd-2"))?;
                next["revision"] = json!(2);
                next["data"]["replicas"] = json!(3);
                write(&next).await?;
                // A release before v1beta1 stored this revision.
                object["data"]["scaleInStrategy"] =
                    json!({ "proactive": { "selectionPolicy": { "basePolicy": "DescendingOrder" } } });
                write(&object).await?;
            }
            _ => write(&completed(object)).await?,
        }
    }
    let first = objects.iter().find(|object| text(object, "/metadata/name") == "herd-0");
    let third = first.context("no machine herd-0")?.to_string().replace("herd-1", "herd-2");
    let third = ["herd", "root", "conf", "cred"]
        .iter()
        .fold(third, |text, name| text.replace(&format!("{name}-0"), &format!("{name}-2")));
    write(&completed(serde_json::from_str(&third)?)).await?;
    world.until_ordinals("herd", &[0, 1, 2]).await?;
    // The original has written the status, and a backup tool has labeled a machine.
    let status = json!({ "status": { "labelSelector": "app=herd", "replicas": 3, "readyReplicas": 3 } });
    world.place.ask(Method::PATCH, &format!("{}/status", world.place.pool("herd")?), &status).await?;
    let labelled = json!({ "metadata": { "labels": { "backup": "nightly" } } });
    world.patch_machine("herd-1", &labelled).await
}

/// What virt-controller finds when it serves the pool again: machines that it need not update. Deletes the
/// revisions that it deletes.
async fn hand_over(world: &KubeVirtWorld<'_>) -> Result<()> {
    let (pool, machines) = (world.pool("herd").await?, world.machines_of("herd").await?);
    let revisions = world.all("apps/v1", "ControllerRevision").await?;
    for (name, machine) in &machines {
        let revision = text(machine, REVISION);
        ensure!(text(machine, INNER_REVISION) == revision, "{name} has another inner label");
        let stored = revisions.get(revision).with_context(|| format!("{name}: no revision {revision}"))?;
        ensure!(
            stored["data"]["virtualMachineTemplate"] == pool["spec"]["virtualMachineTemplate"],
            "virt-controller would update {name}"
        );
        ensure!(revision == format!("herd-{}", stored["revision"]), "{revision}");
        for object in [machine, stored] {
            ensure!(
                text(object, "/metadata/ownerReferences/0/uid") == text(&pool, "/metadata/uid"),
                "{object:#}"
            );
        }
        ensure!(has_finalizer(machine), "{name} has no finalizer of the pool");
    }
    for name in revisions.keys() {
        if !machines.values().any(|machine| text(machine, REVISION) == name) {
            world.place.delete("apps/v1", "ControllerRevision", name).await?;
        }
    }
    Ok(())
}

async fn migrate(world: &KubeVirtWorld<'_>) -> Result<()> {
    // While the pool loop of KubeVirt may run, the controller changes nothing,
    apply_generation(world).await?;
    until_shows(world, "/readyz?verbose", "kubevirt is blocked").await?;
    leave_behind(world).await?;
    world.is_settled().await?;
    ensure!(world.writes()?.is_empty(), "{:#?}", world.writes()?);
    let (machines, instances) = (world.machines().await?, world.instances().await?);

    // and when a user switches it off, then it reconciles the pool, restarts nothing, and writes each object
    // at most once.
    run_printed(world, "Enable it").await?;
    until_shows(world, "/metrics", r#"vmpool_platform_state{platform="kubevirt",state="reconciling"} 1"#)
        .await?;
    world.until_status("herd", 3).await?;
    world.is_settled().await?;
    let mut counts = BTreeMap::new();
    for entry in world.writes()? {
        ensure!(!["create", "delete"].contains(&entry.verb.as_str()), "{entry:#?}");
        *counts.entry((entry.resource, entry.name)).or_insert(0) += 1;
    }
    ensure!(counts.values().all(|&count| count == 1), "{counts:#?}");
    let after = world.instances().await?;
    ensure!(instances.len() == 3 && after.len() == 3);
    for (name, instance) in &instances {
        ensure!(after[name]["metadata"]["uid"] == instance["metadata"]["uid"], "{name} was restarted");
    }
    for (name, machine) in world.machines().await? {
        ensure!(machine["spec"] == machines[&name]["spec"], "the spec of {name} was changed");
        ensure!(machine["metadata"]["labels"] == machines[&name]["metadata"]["labels"], "{name}");
    }
    // The pool works: it gets a machine, and another template.
    world.patch("herd", &json!({ "spec": { "replicas": 4 } })).await?;
    world.until_ordinals("herd", &[0, 1, 2, 3]).await?;
    let requests = json!({ "resources": { "requests": { "memory": "1Gi" } } });
    let larger = json!({ "spec": { "virtualMachineTemplate": { "spec": { "template": { "spec": {
        "domain": requests,
    } } } } } });
    world.patch("herd", &larger).await?;
    world
        .until("all guests have the new template", async || {
            let instances = world.instances().await?;
            let new =
                |instance: &Value| instance["spec"]["domain"]["resources"]["requests"]["memory"] == "1Gi";
            Ok((instances.len() == 4 && instances.values().all(new)).then_some(()))
        })
        .await?;
    world.until_ordinals("herd", &[0, 1, 2, 3]).await?;
    world.until_status("herd", 4).await?;
    world.is_settled().await?;

    // When the user switches the loop on again, then the controller removes the conditions that
    // virt-controller does not know, and changes nothing anymore, and virt-controller has nothing to do.
    let before = world.instances().await?;
    run_printed(world, "Migrate pools back to virt-controller").await?;
    until_shows(world, "/readyz?verbose", "kubevirt is blocked").await?;
    let are_removed = async || {
        let pool = world.pool("herd").await?;
        let has = |kind: &&str| condition(&pool, kind).is_some();
        Ok((!["Ready", "Reconciling", "Stalled"].iter().any(has)).then_some(()))
    };
    world.until("the conditions of vmpool are removed", are_removed).await?;
    let writes = world.writes()?.len();
    hand_over(world).await?;
    world.patch("herd", &json!({ "spec": { "replicas": 1 } })).await?;
    world.is_settled().await?;
    ensure!(world.writes()?.len() == writes, "{:#?}", world.writes()?);
    let after = world.instances().await?;
    ensure!(after.len() == 4);
    for (name, instance) in &before {
        ensure!(after[name]["metadata"]["uid"] == instance["metadata"]["uid"], "{name} was restarted");
    }

    // The way there is open again.
    run_printed(world, "Enable it").await?;
    world.until_status("herd", 1).await.map(drop)
}

#[test]
fn the_migration_guides_work_as_printed_on_objects_of_virt_controller() {
    alone("kubevirt-migration", async |world| {
        let namespace =
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "kubevirt" } });
        world.place.ask(Method::POST, "/api/v1/namespaces", &namespace).await?;
        let kubevirt = json!({
            "apiVersion": "kubevirt.io/v1", "kind": "KubeVirt", "metadata": { "name": "kubevirt" }, "spec": {},
        });
        world.place.ask(Method::POST, COLLECTION, &kubevirt).await?;
        let migrated = migrate(&world).await;
        // It would stop the controllers of other tests.
        world.place.ask(Method::DELETE, &format!("{COLLECTION}/kubevirt"), &Value::Null).await?;
        migrated
    });
}
