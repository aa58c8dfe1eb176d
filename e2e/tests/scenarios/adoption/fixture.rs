//! The state that another controller left: a pool of four machines, one of which waits for a restart and one
//! of which was just created, retained disks, and a foreign disk.

use anyhow::Context;
use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use vmpool_api::v1alpha2::API_VERSION;
use vmpool_e2e::world::condition::PoolPredicate;
use vmpool_e2e::world::{PoolHandle, ScenarioWorld};
use vmpool_invariants::object::{JsonObject, TestedKind};
use vmpool_test_cluster::control_plane::apply_manifests;

pub(super) const POOL: &str = "lab";
/// Settled machines and their retained disks.
pub(super) const SETTLED: [(&str, &str); 2] =
    [("lab-c5x2q", "lab-work-b2c3d4"), ("lab-k7w9z", "lab-work-f6g7h8")];
/// A machine to which the last change was not applied.
pub(super) const LATE: &str = "lab-m4n6p";
/// A machine that was just created, with the names of disk templates instead of disks.
pub(super) const YOUNG: &str = "lab-t8v2x";
/// A free disk.
pub(super) const FREE: &str = "lab-work-z9y8x7";
/// A foreign disk with the name of a template.
const STRANGER: &str = "work";

/// The objects of the fixture. UIDs are written as `uid of NAME`.
fn left_behind() -> anyhow::Result<Vec<Value>> {
    let text = include_str!("../../../../controller/src/pools/reconcile/tests/adoption.yaml");
    let mut documents: serde_yaml_ng::Value = serde_yaml_ng::from_str(text)?;
    documents.apply_merge()?;
    Ok(serde_yaml_ng::from_value(documents)?)
}

/// The class and the images that the fixture uses.
fn platform() -> [Value; 3] {
    let image = |name: &str| {
        json!({
            "apiVersion": API_VERSION, "kind": "ClusterVirtualImage", "metadata": { "name": name },
            "spec": { "dataSource": { "type": "HTTP", "http": { "url": "https://images.example/a.qcow2" } } },
        })
    };
    let class = json!({
        "apiVersion": API_VERSION, "kind": "VirtualMachineClass", "metadata": { "name": "medium" }, "spec": {} });
    [image("debian"), image("extras"), class]
}

/// Replaces names and UIDs in a document of the fixture by those of this cluster.
fn placed(document: &Value, world: &ScenarioWorld, known: &[(String, String)]) -> anyhow::Result<Value> {
    let mut text = document.to_string().replace("team-a", world.namespace());
    text = text.replace("\"NOW\"", &json!(Timestamp::now().to_string()).to_string());
    for (name, uid) in known {
        // Including the closing quote, because one name may be a prefix of another.
        text = text.replace(&format!("uid of {name}\""), &format!("{uid}\""));
    }
    let mut object: Value = serde_json::from_str(&text)?;
    object["apiVersion"] = json!(API_VERSION);
    Ok(object)
}

/// Creates the objects of the fixture while no controller runs. Waits until all machines except the young one
/// run.
pub(super) async fn inherit(world: &ScenarioWorld) -> anyhow::Result<PoolHandle<'_>> {
    apply_manifests(&world.client(), &platform(), None).await?;
    let mut known = Vec::new();
    let mut told = Value::Null;
    for document in left_behind()? {
        let mut object = placed(&document, world, &known)?;
        if let Some(status) = object.as_object_mut().and_then(|object| object.remove("status")) {
            told = status;
        }
        let kind = match object["kind"].as_str() {
            Some("VirtualMachinePool") => TestedKind::Pool,
            Some("VirtualMachine") => TestedKind::Machine,
            _ => TestedKind::Disk,
        };
        let created = world.post(kind, &object).await?;
        if created.name() == STRANGER {
            world.treat_as_foreign(&created);
        }
        known.push((created.name().to_owned(), created.uid().to_owned()));
    }
    let pool = world.existing(POOL).await?;
    tell(world, &placed(&json!({ "status": told }), world, &known)?["status"]).await?;
    let settled = [SETTLED[0].0, SETTLED[1].0, LATE];
    let runs = PoolPredicate::new("machines that run before the migration", move |view| {
        let running = view.live().filter(|machine| machine.is_running()).map(JsonObject::name);
        running.eq(settled)
    });
    pool.until(runs).await?;
    Ok(pool)
}

/// Writes the status of the pool as the other controller does.
pub(super) async fn tell(world: &ScenarioWorld, status: &Value) -> anyhow::Result<()> {
    let patch = json!({ "status": status });
    let params = PatchParams::default();
    world
        .api(TestedKind::Pool)
        .patch_status(POOL, &params, &Patch::Merge(&patch))
        .await
        .context("telling")?;
    Ok(())
}
