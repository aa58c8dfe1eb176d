//! The platform interface: engine and shell run an unmodified second platform with different kinds.

mod platform;
mod world;

use std::time::Duration;

use anyhow::Result;
use rstest::rstest;
use serde_json::{Value, json};
use vmpool_engine::model::{Draft, ScaleDownPolicy};
use vmpool_platforms::{Platform, contract};

use crate::platform::{Toy, ToyPool};
use crate::world::World;

fn pool(name: &str, replicas: usize) -> Value {
    json!({
        "apiVersion": "toy.vmpool.dev/v1",
        "kind": "ToyPool",
        "metadata": { "name": name },
        "spec": {
            "replicas": replicas,
            "scaleInStrategy": { "proactive": { "sortPolicy": "DescendingOrder" } },
            "template": {
                "metadata": { "labels": { "farm": "render" } },
                "spec": {
                    "runStrategy": "Always",
                    "dataVolumeTemplates": [{ "metadata": { "name": "scratch" }, "spec": { "size": "20Gi" } }],
                    "volumes": [
                        { "name": "data", "dataVolume": { "name": "scratch" } },
                        { "name": "shared", "dataVolume": { "name": "library" } },
                    ],
                },
            },
        },
    })
}

/// The stored form of the pool.
fn stored() -> Value {
    let mut pool = pool("p", 3);
    pool["metadata"] = json!({ "name": "p", "namespace": "default", "uid": "9b1c", "generation": 1 });
    pool
}

#[test]
fn the_contract_is_kept() {
    contract::all::<Toy>(&stored());
}

#[test]
fn disk_templates_in_a_machine_contain_its_number() {
    let pool: ToyPool = serde_json::from_value(stored()).unwrap();
    let draft = Draft { name: "p-2".into(), number: 2, revision: "r".into(), disks: Vec::new() };
    let spec = &Toy::machine(&pool, &Toy::template(&pool), &draft)["spec"];
    assert_eq!(spec["dataVolumeTemplates"][0]["metadata"]["name"], "scratch-2");
    assert_eq!(spec["volumes"][0], json!({ "name": "data", "dataVolume": { "name": "scratch-2" } }));
    assert_eq!(spec["volumes"][1]["dataVolume"]["name"], "library", "it is not a disk template of the pool");
}

#[rstest]
#[case::the_default(json!({}), ScaleDownPolicy::HighestOrdinalFirst)]
#[case::descending(json!({ "proactive": { "sortPolicy": "DescendingOrder" } }), ScaleDownPolicy::HighestOrdinalFirst)]
#[case::ascending(json!({ "proactive": { "sortPolicy": "AscendingOrder" } }), ScaleDownPolicy::LowestOrdinalFirst)]
#[case::newest(json!({ "proactive": { "sortPolicy": "Newest" } }), ScaleDownPolicy::NewestFirst)]
#[case::oldest(json!({ "proactive": { "sortPolicy": "Oldest" } }), ScaleDownPolicy::OldestFirst)]
#[case::unmanaged(json!({ "unmanaged": {} }), ScaleDownPolicy::Explicit)]
#[case::unknown(json!({ "proactive": { "sortPolicy": "Fancy" } }), ScaleDownPolicy::Explicit)]
fn the_strategy_determines_the_removal_order(#[case] strategy: Value, #[case] policy: ScaleDownPolicy) {
    let mut pool = stored();
    pool["spec"]["scaleInStrategy"] = strategy;
    assert_eq!(Toy::read_pool(&serde_json::from_value(pool).unwrap()).scale_down_policy, policy);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_of_numbered_machines_is_created_scaled_updated_and_deleted() -> Result<()> {
    let world = World::start().await?;

    // Given a pool of three machines, numbered from zero,
    world.create_pool(&pool("p", 3)).await?;
    world.until_machines(&["p-0", "p-1", "p-2"]).await?;
    world.until_settled("p", 3).await?;
    let machine = world.machine("p-2").await?;
    assert_eq!(machine.data["spec"]["volumes"][0]["dataVolume"]["name"], "scratch-2");
    let status = world.status("p").await?;
    assert_eq!(
        (&status["revision"]["current"], &status["revision"]["awaitingRestart"]),
        (&json!(3), &json!(0))
    );
    assert!(status["conditions"].as_array().is_some_and(|conditions| {
        conditions.iter().any(|condition| condition["type"] == "Available" && condition["status"] == "True")
    }));

    // each created with one write,
    assert_eq!(world.asked("create")?, 3);

    // when nothing changes, then there are no requests.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let requests = world.requests_during(Duration::from_secs(5)).await?;
    assert_eq!(requests, Vec::<String>::new(), "a settled pool causes no requests");

    // When the template changes, then each machine is updated in place and keeps its own fields,
    world.patch_pool("p", json!({ "spec": { "template": { "spec": { "runStrategy": "Manual" } } } })).await?;
    world
        .until_status("p", "a new revision in all", |new| {
            new["revision"]["name"] != status["revision"]["name"] && new["revision"]["current"] == 3
        })
        .await?;
    let changed = world.machine("p-2").await?;
    assert_eq!(
        (&changed.metadata.uid, &changed.data["spec"]["runStrategy"]),
        (&machine.metadata.uid, &json!("Manual"))
    );
    assert_eq!(changed.data["spec"]["volumes"], machine.data["spec"]["volumes"]);
    // and returns to the former revision when the template does.
    world.patch_pool("p", json!({ "spec": { "template": { "spec": { "runStrategy": "Always" } } } })).await?;
    world
        .until_status("p", "the old revision in all", |new| {
            new["revision"]["name"] == status["revision"]["name"] && new["revision"]["current"] == 3
        })
        .await?;

    // When a user deletes a machine, then it is recreated with the same number.
    let before = world.machine("p-1").await?.metadata.uid;
    world.delete_machine("p-1").await?;
    world.until_machines(&["p-0", "p-1", "p-2"]).await?;
    assert_ne!(world.machine("p-1").await?.metadata.uid, before);
    world.until_settled("p", 3).await?;

    // When another object uses a number, then the number is skipped,
    world.create_machine("p-3").await?;
    world.scale("p", 4).await?;
    world.until_machines(&["p-0", "p-1", "p-2", "p-3", "p-4"]).await?;
    world.until_settled("p", 4).await?;

    // and a scale-down removes the highest number first, except the foreign machine,
    world.scale("p", 2).await?;
    world.until_machines(&["p-0", "p-1", "p-3"]).await?;
    world.until_settled("p", 2).await?;

    // or the lowest number first, if the pool says so.
    let ascending = json!({ "spec": { "replicas": 1, "scaleInStrategy": { "proactive": { "sortPolicy": "AscendingOrder" } } } });
    world.patch_pool("p", ascending).await?;
    world.until_machines(&["p-1", "p-3"]).await?;
    world.until_settled("p", 1).await?;

    // Deleting the pool deletes all its objects, and no others.
    world.delete_pool("p").await?;
    world.until_machines(&["p-3"]).await?;
    world.end().await
}
