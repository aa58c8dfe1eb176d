//! Pools whose template names objects that do not exist.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;
use vmpool_api::labels;
use vmpool_e2e::scenario::define_scenario;
use vmpool_e2e::world::ScenarioWorld;
use vmpool_e2e::world::condition::{PoolPredicate, pool_event, ready_replicas};
use vmpool_invariants::object::JsonObject;
use vmpool_test_cluster::control_plane::apply_manifests;

/// `Available` is False, and its message contains `part`.
fn unavailable_because(part: &str) -> PoolPredicate {
    let part = part.to_owned();
    PoolPredicate::new(format!("Available=False because {part:?}"), move |view| {
        let available = view.pool().and_then(|pool| pool.condition("Available"));
        available.is_some_and(|available| {
            let message = available["message"].as_str().unwrap_or_default();
            available["status"] == "False" && message.contains(&part)
        })
    })
}

/// A disk template with this spec.
fn disk(spec: &serde_json::Value) -> serde_json::Value {
    json!({ "spec": { "virtualDiskTemplates": [{ "name": "root", "spec": spec }] } })
}

async fn create_image(world: &ScenarioWorld, name: &str) -> anyhow::Result<()> {
    let image = json!({
        "apiVersion": "virtualization.deckhouse.io/v1alpha2",
        "kind": "VirtualImage",
        "metadata": { "name": name, "namespace": world.namespace() },
        "spec": { "dataSource": { "type": "HTTP", "http": { "url": "https://images.example/late.qcow2" } } },
    });
    apply_manifests(&world.client(), &[image], Some(world.namespace())).await?;
    Ok(())
}

#[test]
fn a_missing_image_is_named_in_condition_and_event_until_it_exists() {
    define_scenario("a missing image is named in condition and event").run(async |world| {
        // Given a pool whose disks are copied from an image that does not exist,
        let source = json!({ "type": "ObjectRef", "objectRef": { "kind": "VirtualImage", "name": "late" } });
        let root = disk(&json!({ "persistentVolumeClaim": { "size": "64Mi" }, "dataSource": source }));
        let pool = world.pool("web").replicas(2).disk("root").with(&root).create().await?;
        // then the condition and an event name the image.
        pool.until(
            unavailable_because("VirtualImage late does not exist")
                .and(unavailable_because("1 more machine is not ready"))
                .and(pool_event("MachineNotStarted")),
        )
        .await?;
        // When the image exists, the machines start.
        create_image(world, "late").await?;
        pool.until(ready_replicas(2)).await?;
        Ok::<_, anyhow::Error>(())
    });
}

/// An ephemeral and a retained disk are copied from an image whose name has a typing error.
#[test]
fn a_corrected_image_reaches_machines_that_have_not_started() {
    define_scenario("a corrected image reaches machines that have not started").run(async |world| {
        // Given an image, and a pool whose disks name another one,
        create_image(world, "alpine").await?;
        let templates = |image: &str| {
            let source =
                json!({ "type": "ObjectRef", "objectRef": { "kind": "VirtualImage", "name": image } });
            let spec = json!({ "persistentVolumeClaim": { "size": "64Mi" }, "dataSource": source });
            json!({ "spec": { "virtualDiskTemplates": [
                { "name": "root", "spec": spec },
                { "name": "cache", "spec": spec, "reclaim": { "onScaleDown": "Retain", "ttl": "10m" } },
            ] } })
        };
        let pool = world.pool("web").replicas(3).disk("root").retained("cache", 0, "10m");
        let pool = pool.with(&templates("alpin")).create().await?;
        pool.until(unavailable_because("VirtualImage alpin does not exist")).await?;
        let before = pool.machines().await?;
        // when the name is corrected, then the same machines start with disks from the image,
        pool.edit(&templates("alpine")).await?;
        pool.until(ready_replicas(3)).await?;
        let uids = |machines: &[JsonObject]| {
            machines.iter().map(|machine| machine.uid().to_owned()).collect::<BTreeSet<_>>()
        };
        assert_eq!(uids(&pool.machines().await?), uids(&before), "no machine was replaced");
        // and the disks of the other image are deleted, the retained ones when they have been free for their
        // time.
        let of_typo = |disk: &&JsonObject| disk.at("/spec/dataSource/objectRef/name") == "alpin";
        let ephemeral = |disk: &&JsonObject| disk.label(labels::DISK_TEMPLATE) == Some("root");
        let deleted = PoolPredicate::new("no ephemeral disk of the wrong image", move |view| {
            view.disks().into_iter().filter(of_typo).filter(ephemeral).count() == 0
        });
        pool.until_within(deleted, Duration::from_secs(90)).await?;
        Ok::<_, anyhow::Error>(())
    });
}

#[test]
fn a_missing_storage_class_is_named_in_condition_and_event() {
    define_scenario("a missing storage class is named in condition and event").run(async |world| {
        let claim = json!({ "size": "64Mi", "storageClassName": "absent" });
        let root = disk(&json!({ "persistentVolumeClaim": claim }));
        let pool = world.pool("web").replicas(1).disk("root").with(&root).create().await?;
        let named = unavailable_because("StorageClass absent does not exist");
        pool.until(named.and(pool_event("MachineNotStarted"))).await?;
        Ok::<_, anyhow::Error>(())
    });
}
