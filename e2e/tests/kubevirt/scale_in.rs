//! Scale-in: which machines may leave, and who removes them.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::pools::{bare, memory};
use crate::world::{KubeVirtWorld, all_of, text, with_world};

fn replicas(count: usize) -> Value {
    json!({ "spec": { "replicas": count } })
}

/// A label that the instances of a machine get.
fn inner_label(key: &str, value: &str) -> Value {
    json!({ "spec": { "template": { "metadata": { "labels": { key: value } } } } })
}

/// With a strategy that leaves the removal to users.
fn left_to_users(pool: &str, strategy: &str) -> Value {
    let mut spec = bare(pool, 3);
    spec["scaleInStrategy"] = json!({ strategy: {} });
    spec
}

/// The selection of a scale-in includes fewer machines than are surplus.
async fn only_selected_machines_leave(world: &KubeVirtWorld<'_>) -> Result<()> {
    let mut spec = bare("few", 3);
    spec["scaleInStrategy"]["proactive"]["selectionPolicy"]["selectors"] =
        json!({ "labelSelector": { "matchLabels": { "tier": "spare" } } });
    world.create("few", &spec).await?;
    world.until_ordinals("few", &[0, 1, 2]).await?;
    world.patch_machine("few-1", &inner_label("tier", "spare")).await?;
    world.patch("few", &replicas(1)).await?;
    world.until_ordinals("few", &[0, 2]).await?;
    let failure = world.until_condition("few", "ReplicaFailure", "are surplus").await?;
    ensure!(failure["reason"] == "FailedScaleIn", "{failure}");
    world.keeps_ordinals("few", &[0, 2]).await?;
    // When a user adds a machine to the selection, then it leaves, and the condition, too.
    world.patch_machine("few-2", &inner_label("tier", "spare")).await?;
    world.until_ordinals("few", &[0]).await?;
    world.until_no_condition("few", "ReplicaFailure").await?;
    ensure!(world.requested("few", "delete", "virtualmachines")? == ["few-1", "few-2"]);
    Ok(())
}

/// More machines are being deleted than are surplus.
async fn terminating_machines_are_enough(world: &KubeVirtWorld<'_>) -> Result<()> {
    let mut spec = bare("more", 5);
    spec["virtualMachineTemplate"]["metadata"]["annotations"] =
        json!({ "simulator.vmpool.dev/stop-delay": "4s" });
    world.create("more", &spec).await?;
    let before = world.until_ordinals("more", &[0, 1, 2, 3, 4]).await?;
    world.patch("more", &json!({ "spec": { "paused": true } })).await?;
    world.until_condition("more", "ReplicaPaused", "").await?;
    for name in ["more-0", "more-1", "more-2"] {
        world.delete_machine(name).await?;
    }
    world.patch("more", &json!({ "spec": { "paused": false, "replicas": 4 } })).await?;
    // Then the controller deletes none, and fills up to four.
    let after = world.until_ordinals("more", &[0, 1, 3, 4]).await?;
    for name in ["more-3", "more-4"] {
        ensure!(after[name]["metadata"]["uid"] == before[name]["metadata"]["uid"], "{name} was replaced");
    }
    ensure!(world.requested("more", "delete", "virtualmachines")?.is_empty(), "{:#?}", world.writes()?);
    Ok(())
}

/// A user deletes a machine while the controller scales in.
async fn a_deletion_by_a_user_counts(world: &KubeVirtWorld<'_>) -> Result<()> {
    let mut spec = bare("both", 4);
    spec["virtualMachineTemplate"]["metadata"]["annotations"] =
        json!({ "simulator.vmpool.dev/stop-delay": "2s" });
    world.create("both", &spec).await?;
    world.until_ordinals("both", &[0, 1, 2, 3]).await?;
    world.delete_machine("both-0").await?;
    world.patch("both", &replicas(2)).await?;
    // Then the highest of the others leaves, and no third one.
    world.until_ordinals("both", &[1, 2]).await?;
    ensure!(world.requested("both", "delete", "virtualmachines")? == ["both-3"], "{:#?}", world.writes()?);
    Ok(())
}

/// The controller deletes none, updates all of them, and lets those go that users delete.
async fn users_remove_the_surplus(world: &KubeVirtWorld<'_>, strategy: &str) -> Result<()> {
    let name = |ordinal: usize| format!("{strategy}-{ordinal}");
    world.create(strategy, &left_to_users(strategy, strategy)).await?;
    let before = world.until_ordinals(strategy, &[0, 1, 2]).await?;
    world.patch(strategy, &replicas(1)).await?;
    world.keeps_ordinals(strategy, &[0, 1, 2]).await?;
    // A tolerated surplus blocks no update.
    world.patch(strategy, &memory("2Gi")).await?;
    let names = [name(0), name(1), name(2)];
    world.until_memory(&names.each_ref().map(String::as_str), "2Gi").await?;
    // When users delete the surplus, then it goes and is not replaced.
    world.delete_machine(&name(0)).await?;
    world.until_ordinals(strategy, &[1, 2]).await?;
    world.delete_machine(&name(2)).await?;
    let left = world.until_ordinals(strategy, &[1]).await?;
    ensure!(text(&left[&name(1)], "/metadata/uid") == text(&before[&name(1)], "/metadata/uid"));
    world.keeps_ordinals(strategy, &[1]).await?;
    // When a user deletes one more, then it is replaced.
    world.delete_machine(&name(1)).await?;
    world.until_ordinals(strategy, &[0]).await?;
    ensure!(world.requested(strategy, "delete", "virtualmachines")?.is_empty(), "{:#?}", world.writes()?);
    Ok(())
}

#[test]
fn a_scale_in_removes_only_the_machines_that_its_strategy_allows() {
    with_world("kubevirt-scale-in", async |world| {
        let results = tokio::join!(
            only_selected_machines_leave(&world),
            terminating_machines_are_enough(&world),
            a_deletion_by_a_user_counts(&world),
            users_remove_the_surplus(&world, "opportunistic"),
            users_remove_the_surplus(&world, "unmanaged"),
        );
        all_of(<[_; 5]>::from(results))?;
        world.is_settled().await
    });
}
