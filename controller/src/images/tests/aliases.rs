//! Images that pools name through other DataSources.

use rstest::rstest;
use serde_json::{Value, json};

use super::*;

const BINDINGS: &str = "rolebindings.rbac.authorization.k8s.io";
const SOURCES: &str = "datasources.cdi.kubevirt.io";

/// A source in the namespace of the tests.
fn named(kind: &str, name: &str) -> Value {
    json!({ kind: { "name": name, "namespace": NAMESPACE } })
}

impl LeaderWorld {
    fn create_alias(&self, name: &str, source: &Value) {
        let metadata = json!({ "name": name, "namespace": NAMESPACE });
        self.server.create(SOURCES, json!({ "metadata": metadata, "spec": { "source": source } }));
    }

    fn pool_references(&self, image: &str) -> Value {
        self.server.get(IMAGES, image).unwrap()["status"]["poolReferenceCount"].clone()
    }
}

#[rstest]
#[case::to_its_data_source(named("dataSource", "debian"))]
#[case::to_its_snapshot(named("snapshot", "debian"))]
#[case::to_its_claim(named("pvc", "debian"))]
#[tokio::test]
async fn an_image_that_a_pool_uses_through_an_alias_does_not_expire(#[case] source: Value) {
    let mut world = with_images();
    let mut spec = imported();
    spec["ttlAfterUnreferenced"] = json!("10m");
    world.create_image_of("debian", &spec);
    world.create_alias("latest", &source);
    let mut farm = pool("farm", "latest");
    farm["spec"]["replicas"] = json!(0);
    world.server.create(POOLS, farm);
    world.lead_all(&[PlatformName::Kubevirt]);
    world.calm().await;
    world.finish_import("debian").await;
    assert_eq!(world.pool_references("debian"), 1);
    world.advance(Duration::from_mins(30)).await;
    assert!(world.server.get(IMAGES, "debian").is_some());
    // When the alias leads to another image, the time begins.
    world.server.edit(SOURCES, "latest", |alias| alias["spec"]["source"] = named("snapshot", "fedora"));
    world.advance(SECOND).await;
    assert_eq!(world.pool_references("debian"), 0);
    world.advance(Duration::from_mins(30)).await;
    assert_eq!(world.server.get(IMAGES, "debian"), None);
}

/// The list before a deletion does not rely on the watches.
#[tokio::test]
async fn an_alias_that_only_a_list_shows_keeps_an_image() {
    let mut world = with_images();
    let mut farm = pool("farm", "latest");
    farm["spec"]["replicas"] = json!(0);
    world.server.create(POOLS, farm);
    world.lead_with_image("debian").await;
    world.server.hold("datasources");
    world.create_alias("latest", &named("dataSource", "debian"));
    world.server.delete(IMAGES, "debian");
    world.advance(10 * SECOND).await;
    world.server.collect_garbage();
    assert!(world.server.get(IMAGES, "debian").is_some(), "the pool refers to it");
    assert!(world.server.get(SNAPSHOTS, "debian").is_some());
}

#[rstest]
#[case::to_its_data_source(named("dataSource", "debian"))]
#[case::to_its_snapshot(named("snapshot", "debian"))]
#[tokio::test]
async fn a_pool_waits_for_the_image_behind_an_alias(#[case] source: Value) {
    let mut world = with_images();
    world.create_image("debian");
    world.create_alias("stable", &source);
    world.create_alias("latest", &named("dataSource", "stable"));
    let over_an_alias = source["snapshot"].is_object();
    world.server.create(POOLS, pool("web", if over_an_alias { "latest" } else { "stable" }));
    world.lead_all(&[PlatformName::Kubevirt]);
    world.calm().await;
    let waits = world.images_ready("web").unwrap();
    assert_eq!(waits["reason"], "ImageSyncing", "{waits}");
    let message = waits["message"].as_str().unwrap();
    assert!(
        message.contains("image team-a/debian is not ready") && message.contains("DataSource team-a/"),
        "{message}"
    );
    assert_eq!(world.server.all(MACHINES).len(), 0);
    world.finish_import("debian").await;
    assert_eq!(world.server.all(MACHINES).len(), 2);
    assert_eq!(world.images_ready("web"), None);
}

#[tokio::test]
async fn an_alias_in_the_namespace_of_a_pool_needs_the_grant_of_the_image() {
    let mut world = with_images();
    world.lead_with_image("debian").await;
    let metadata = json!({ "name": "latest", "namespace": "team-b" });
    let source = named("snapshot", "debian");
    world.server.create(SOURCES, json!({ "metadata": metadata, "spec": { "source": source } }));
    let mut farm = pool("farm", "latest");
    farm["metadata"]["namespace"] = json!("team-b");
    world.server.create(POOLS, farm);
    world.calm().await;
    let conditions = || world.server.all(POOLS).pop().unwrap()["status"]["conditions"].to_string();
    assert!(conditions().contains("RefNotPermitted"), "{}", conditions());
    assert_eq!(world.pool_references("debian"), 0);
    assert_eq!(world.server.all(BINDINGS).len(), 0);
    let metadata = json!({ "name": "team-b", "namespace": NAMESPACE });
    let grant = json!({ "metadata": metadata, "spec": { "from": [{ "namespace": "team-b" }] } });
    world.server.create(GRANTS, grant);
    world.advance(SECOND).await;
    assert_eq!(world.server.all(MACHINES).len(), 2);
    assert_eq!(world.pool_references("debian"), 1);
    let bindings = world.server.all(BINDINGS);
    assert!(bindings[0]["subjects"].to_string().contains("team-b"), "{bindings:?}");
}

/// CDI would follow it, and machines would clone other data.
#[rstest]
#[case::alone(json!({ "dataSource": { "name": "fedora", "namespace": NAMESPACE }, "snapshot": null }))]
#[case::beside_the_snapshot(json!({ "dataSource": { "name": "fedora", "namespace": NAMESPACE } }))]
#[tokio::test]
async fn the_data_source_of_an_image_that_a_user_made_an_alias_is_corrected(#[case] edit: Value) {
    let mut world = with_images();
    world.lead_with_image("debian").await;
    let before = world.server.get(SOURCES, "debian").unwrap()["spec"].clone();
    world.server.edit(SOURCES, "debian", |source| json_patch::merge(&mut source["spec"]["source"], &edit));
    world.advance(SECOND).await;
    assert_eq!(world.server.get(SOURCES, "debian").unwrap()["spec"], before);
}

/// An alias beside a snapshot that is of no image is what an operator made for clones.
#[tokio::test]
async fn an_alias_of_a_snapshot_without_an_image_blocks_nothing() {
    let mut world = with_images();
    world.lead_with_image("debian").await;
    let metadata = json!({ "name": "golden", "namespace": NAMESPACE });
    world.server.create(SNAPSHOTS, json!({ "metadata": metadata, "spec": {} }));
    world.create_alias("latest", &named("snapshot", "golden"));
    let mut farm = pool("farm", "latest");
    farm["metadata"]["namespace"] = json!("team-b");
    let source = "/spec/virtualMachineTemplate/spec/dataVolumeTemplates/0/spec/sourceRef";
    farm.pointer_mut(source).unwrap()["namespace"] = json!(NAMESPACE);
    world.server.create(POOLS, farm);
    world.calm().await;
    assert_eq!(world.server.all(MACHINES).len(), 2);
}
