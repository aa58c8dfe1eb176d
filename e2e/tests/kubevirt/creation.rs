//! What a pool finds when it is created, and what it leaves when it is deleted.

use anyhow::{Result, ensure};
use http::Method;
use serde_json::{Value, json};
use vmpool_api::kubevirt::POOL_API_VERSION;

use crate::Unknown;
use crate::pools::bare;
use crate::world::{KubeVirtWorld, all_of, condition, has_finalizer, text, with_world};

/// The label with the name of the revision.
const REVISION: &str = "/metadata/labels/kubevirt.io~1vm-pool-revision-name";

const FOREIGN: &str = "gitops.example.com/keep";

async fn until_gone(world: &KubeVirtWorld<'_>, pool: &str) -> Result<()> {
    world
        .until(&format!("{pool} is gone"), async || {
            let pools = world.all(POOL_API_VERSION, "VirtualMachinePool").await?;
            Ok((!pools.contains_key(pool)).then_some(()))
        })
        .await
}

/// A pool that another client created with a finalizer keeps it.
async fn with_a_foreign_finalizer(world: &KubeVirtWorld<'_>) -> Result<()> {
    let pool = json!({
        "apiVersion": POOL_API_VERSION, "kind": "VirtualMachinePool",
        "metadata": { "name": "theirs", "finalizers": [FOREIGN] },
        "spec": bare("theirs", 1),
    });
    let created = world.place.write(&pool, Unknown::Refused).await?;
    created.map_err(|status| anyhow::anyhow!("{}", status.message))?;
    world.until_ordinals("theirs", &[0]).await?;
    let pool = world.pool("theirs").await?;
    ensure!(pool["metadata"]["finalizers"] == json!([FOREIGN, "pool.kubevirt.io/finalizer"]), "{pool}");
    world.delete_pool("theirs", "Background").await?;
    world
        .until("only the foreign finalizer is left", async || {
            let pool = world.pool("theirs").await?;
            ensure!(text(&pool, "/metadata/finalizers/0") == FOREIGN, "{pool}");
            Ok((!has_finalizer(&pool)).then_some(()))
        })
        .await?;
    world.patch("theirs", &json!({ "metadata": { "finalizers": null } })).await?;
    until_gone(world, "theirs").await
}

/// The names that the revisions of a pool would have are taken by objects of other owners.
async fn with_taken_revision_names(world: &KubeVirtWorld<'_>) -> Result<()> {
    let foreign = json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": { "name": "taken-1" },
        "revision": 1, "data": { "replicas": 7 },
    });
    let collection = format!("/apis/apps/v1/namespaces/{}/controllerrevisions", world.place.namespace);
    let foreign = world.place.ask(Method::POST, &collection, &foreign).await?;
    world.create("taken", &bare("taken", 2)).await?;
    let machines = world.until_ordinals("taken", &[0, 1]).await?;
    let name = text(&machines["taken-0"], REVISION).to_owned();
    ensure!(name != "taken-1" && name.starts_with("taken-"), "{name}");
    ensure!(text(&machines["taken-1"], REVISION) == name);
    let revision = world.place.ask(Method::GET, &format!("{collection}/{name}"), &Value::Null).await?;
    let owner = text(&revision, "/metadata/ownerReferences/0/uid");
    ensure!(owner == text(&world.pool("taken").await?, "/metadata/uid"), "{revision}");
    let after = world.place.ask(Method::GET, &format!("{collection}/taken-1"), &Value::Null).await?;
    ensure!(after == foreign, "the foreign revision was changed: {after}");
    // An update finds the name of its generation free.
    world.patch("taken", &crate::pools::memory("2Gi")).await?;
    world.until_memory(&["taken-0", "taken-1"], "2Gi").await?;
    ensure!(text(&world.machines().await?["taken-0"], REVISION) == "taken-2");
    Ok(())
}

/// Count and template change in one edit.
async fn with_one_edit(world: &KubeVirtWorld<'_>) -> Result<()> {
    world.create("edit", &bare("edit", 2)).await?;
    let before = world.until_ordinals("edit", &[0, 1]).await?;
    let mut edit = crate::pools::memory("2Gi");
    edit["spec"]["replicas"] = json!(4);
    world.patch("edit", &edit).await?;
    world.until_ordinals("edit", &[0, 1, 2, 3]).await?;
    world.until_memory(&["edit-0", "edit-1", "edit-2", "edit-3"], "2Gi").await?;
    // No new machine ever had the old template, and the others were updated in place.
    for name in ["edit-2", "edit-3"] {
        for state in world.states_of(name).await? {
            let guest = state.text("/spec/template/spec/domain/memory/guest");
            ensure!(guest == "2Gi" && state.text(REVISION) == "edit-2", "{name} was created with {guest}");
        }
    }
    let after = world.machines_of("edit").await?;
    for name in ["edit-0", "edit-1"] {
        ensure!(after[name]["metadata"]["uid"] == before[name]["metadata"]["uid"], "{name} was replaced");
    }
    Ok(())
}

/// Deletions of a paused pool, and beside a pool whose machines have the same labels.
async fn deleted(world: &KubeVirtWorld<'_>) -> Result<()> {
    for name in ["paused", "twin"] {
        let mut spec = bare("same", 2);
        spec["paused"] = json!(false);
        world.create(name, &spec).await?;
    }
    for name in ["paused", "twin"] {
        world.until_ordinals(name, &[0, 1]).await?;
    }
    world.patch("paused", &json!({ "spec": { "paused": true } })).await?;
    world.until_condition("paused", "ReplicaPaused", "").await?;
    world.delete_pool("paused", "Background").await?;
    until_gone(world, "paused").await?;
    world.until_ordinals("paused", &[]).await?;
    for name in ["twin-0", "twin-1"] {
        let mut had = false;
        for state in world.states_of(name).await? {
            let has = has_finalizer(state.value());
            ensure!(has || !had, "{name} lost the finalizer of its pool");
            had |= has;
        }
        ensure!(had, "{name} has no finalizer");
    }
    let pool = world.pool("twin").await?;
    ensure!(condition(&pool, "ReplicaFailure").is_none(), "{pool}");
    Ok(())
}

#[test]
fn pools_respect_what_they_find_and_leave_only_what_is_not_theirs() {
    with_world("kubevirt-creation", async |world| {
        let results = tokio::join!(
            with_a_foreign_finalizer(&world),
            with_taken_revision_names(&world),
            with_one_edit(&world),
            deleted(&world),
        );
        all_of(<[_; 4]>::from(results))?;
        world.is_settled().await
    });
}
