//! Images and pools with one leader, on a model of the API server.

mod aliases;
mod clone_permissions;
mod imports;
mod labels;
mod terminating;
mod wrappers;

use std::time::Duration;

use rstest::rstest;
use serde_json::{Value, json};

use super::ImageSettings;
use crate::process::options::PlatformName;
use crate::testing::{Call, Fate, LeaderWorld, NAMESPACE, Refusal, Verb};

const IMAGES: &str = "vmdiskimages.vmpool.dev";
const GRANTS: &str = "vmdiskimagegrants.vmpool.dev";
const POOLS: &str = "virtualmachinepools.pool.kubevirt.io";
const MACHINES: &str = "virtualmachines.kubevirt.io";
const VOLUMES: &str = "datavolumes.cdi.kubevirt.io";
const SNAPSHOTS: &str = "volumesnapshots.snapshot.storage.k8s.io";
const CONTENTS: &str = "volumesnapshotcontents.snapshot.storage.k8s.io";
/// The objects that permit to clone an image.
const PERMISSION: [&str; 2] = ["rolebindings.rbac.authorization.k8s.io", "roles.rbac.authorization.k8s.io"];

const SECOND: Duration = Duration::from_secs(1);

/// A pool whose machines are clones of this image.
fn pool(name: &str, image: &str) -> Value {
    json!({
        "metadata": { "name": name, "namespace": NAMESPACE },
        "spec": {
            "replicas": 2,
            "selector": { "matchLabels": { "farm": name } },
            "virtualMachineTemplate": {
                "metadata": { "labels": { "farm": name } },
                "spec": {
                    "runStrategy": "Always",
                    "dataVolumeTemplates": [{
                        "metadata": { "name": "root" },
                        "spec": { "storage": {}, "sourceRef": { "kind": "DataSource", "name": image } },
                    }],
                    "template": { "spec": { "domain": { "devices": {} } } },
                },
            },
        },
    })
}

fn with_images() -> LeaderWorld {
    let mut world = LeaderWorld::new();
    world.images = Some(ImageSettings::default());
    world
}

/// The spec of an image whose data is imported.
fn imported() -> Value {
    let url = "https://images.example.com/disk.qcow2";
    json!({ "sourceType": "http", "url": url, "diskSize": "1Gi" })
}

impl LeaderWorld {
    fn create_image(&self, name: &str) {
        self.create_image_of(name, &imported());
    }

    fn create_image_of(&self, name: &str, spec: &Value) {
        let metadata = json!({ "name": name, "namespace": NAMESPACE });
        self.server.create(IMAGES, json!({ "metadata": metadata, "spec": spec }));
    }

    /// Leads with a new image, until it is ready.
    async fn lead_with_image(&mut self, image: &str) {
        self.create_image(image);
        self.lead_all(&[PlatformName::Kubevirt]);
        self.calm().await;
        self.finish_import(image).await;
    }

    /// The importer finishes its work on an image. Then the controller takes the snapshot.
    async fn finish_transfer(&self, name: &str) {
        let volume = self.server.get(VOLUMES, name).unwrap();
        let owner = json!({ "apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataVolume", "name": name,
            "uid": volume["metadata"]["uid"], "controller": true });
        let metadata = json!({ "name": name, "namespace": NAMESPACE, "ownerReferences": [owner] });
        self.server.create(
            "persistentvolumeclaims",
            json!({ "metadata": metadata, "spec": {}, "status": { "phase": "Bound" } }),
        );
        self.server.edit(VOLUMES, name, |volume| volume["status"] = json!({ "phase": "Succeeded" }));
        self.advance(SECOND).await;
    }

    /// The importer and the snapshot controller finish their work on an image.
    async fn finish_import(&self, name: &str) {
        self.finish_transfer(name).await;
        let content = format!("content-{name}");
        let reference = json!({ "namespace": NAMESPACE, "name": name });
        let object = json!({ "metadata": { "name": content }, "spec": { "volumeSnapshotRef": reference } });
        self.server.create(CONTENTS, object);
        self.server.edit(SNAPSHOTS, name, |snapshot| {
            snapshot["status"] = json!({ "readyToUse": true, "boundVolumeSnapshotContentName": content });
        });
        self.advance(SECOND).await;
    }

    fn images_ready(&self, pool: &str) -> Option<Value> {
        let stored = self.server.get(POOLS, pool).unwrap();
        let conditions = stored["status"]["conditions"].as_array()?;
        conditions.iter().find(|condition| condition["type"] == "ImagesReady").cloned()
    }

    /// The value of a series, given by its name and labels as printed.
    fn series(&self, series: &str) -> u64 {
        let page = self.metrics.page();
        let value = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("no {series} in\n{page}")).parse().unwrap()
    }

    /// The passes over pools so far.
    fn passes(&self) -> u64 {
        let page = self.metrics.page();
        let series = page.lines().filter(|line| line.starts_with("vmpool_passes_total{"));
        series.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum()
    }
}

#[tokio::test]
async fn a_pool_that_waits_for_an_image_is_woken_by_its_change_and_sends_nothing_meanwhile() {
    let mut world = with_images();
    world.create_image("debian");
    world.server.create(POOLS, pool("web", "debian"));
    world.lead_all(&[PlatformName::Kubevirt]);
    world.calm().await;
    let waits = world.images_ready("web").unwrap();
    assert_eq!((&waits["status"], &waits["reason"]), (&json!("False"), &json!("ImageSyncing")));
    let series = format!(
        r#"vmpool_pool_template_condition{{namespace="{NAMESPACE}",pool="web",platform="kubevirt",condition="ImagesReady"}} 1"#
    );
    assert!(world.metrics.page().contains(&series), "{}", world.metrics.page());
    // For almost the whole safety interval nothing is sent, and no pass runs.
    world.advance(10 * SECOND).await;
    world.server.take_log();
    let passes = world.passes();
    world.advance(Duration::from_mins(9)).await;
    let log = world.server.take_log();
    assert!(log.is_empty(), "{log:?}");
    assert_eq!(world.passes(), passes, "the pool polls");
    assert_eq!(world.server.all(MACHINES).len(), 0);
    // The image becomes ready, and within a second the machines exist.
    world.finish_import("debian").await;
    assert_eq!(world.server.get(IMAGES, "debian").unwrap()["status"]["phase"], "Ready");
    assert_eq!(world.server.all(MACHINES).len(), 2);
    assert_eq!(world.images_ready("web"), None);
    assert!(!world.metrics.page().contains(&series));
}

#[tokio::test]
async fn a_grant_wakes_the_pools_that_wait_for_it() {
    let mut world = with_images();
    world.lead_with_image("debian").await;
    let mut farm = pool("farm", "debian");
    farm["metadata"]["namespace"] = json!("team-b");
    let source = "/spec/virtualMachineTemplate/spec/dataVolumeTemplates/0/spec/sourceRef/namespace";
    let (parent, _) = source.rsplit_once('/').unwrap();
    farm.pointer_mut(parent).unwrap()["namespace"] = json!(NAMESPACE);
    world.server.create(POOLS, farm);
    world.calm().await;
    let stored = world.server.all(POOLS).pop().unwrap();
    assert!(stored["status"]["conditions"].to_string().contains("RefNotPermitted"), "{stored}");
    assert_eq!(world.server.all(MACHINES).len(), 0);
    let grant = json!({ "metadata": { "name": "team-b", "namespace": NAMESPACE },
        "spec": { "from": [{ "namespace": "team-b" }] } });
    world.server.create("vmdiskimagegrants.vmpool.dev", grant);
    world.advance(SECOND).await;
    assert_eq!(world.server.all(MACHINES).len(), 2);
}

/// A stopped machine whose disk is a clone of this image.
fn machine(name: &str, image: &str) -> Value {
    let template = json!({ "metadata": { "name": format!("{name}-root") },
        "spec": { "storage": {}, "sourceRef": { "kind": "DataSource", "name": image } } });
    json!({
        "metadata": { "name": name, "namespace": NAMESPACE },
        "spec": { "runStrategy": "Halted", "dataVolumeTemplates": [template],
            "template": { "spec": { "domain": { "devices": {} } } } },
    })
}

/// The kinds that can refer to an image, and those that permit references. DataSources can change while the
/// others are listed.
const LISTED: [&str; 8] = [
    "datasources",
    "wrappedvirtualmachines",
    "virtualmachines",
    "virtualmachinepools",
    "controllerrevisions",
    "datavolumes",
    "datasources",
    "vmdiskimagegrants",
];

#[tokio::test]
async fn references_are_counted_without_requests_and_listed_once_before_a_deletion() {
    const COUNT: usize = 30;
    let mut world = with_images();
    let limits = &mut world.images.as_mut().unwrap().limits;
    (limits.max_concurrent_syncs, limits.max_concurrent_syncs_per_namespace) = (COUNT, COUNT);
    let names: Vec<String> = (0..COUNT).map(|number| format!("image-{number:02}")).collect();
    for name in &names {
        world.create_image(name);
    }
    world.lead_all(&[PlatformName::Kubevirt]);
    world.calm().await;
    for name in &names {
        world.finish_import(name).await;
    }
    world.advance(10 * SECOND).await;
    // Counting reads nothing: it writes the status of the images whose counts have changed.
    world.server.take_log();
    for name in &names {
        for number in 0..10 {
            world.server.create(MACHINES, machine(&format!("{name}-{number}"), name));
        }
    }
    world.advance(10 * SECOND).await;
    let log = world.server.take_log();
    let requests: Vec<String> = log.iter().map(ToString::to_string).collect();
    assert!(
        log.iter().all(|call| call.resource == "vmdiskimages" && call.subresource == "status"),
        "{requests:?}"
    );
    assert!(log.len() <= 2 * COUNT, "{} writes for {COUNT} images", log.len());
    for name in &names {
        assert_eq!(world.server.get(IMAGES, name).unwrap()["status"]["referenceCount"], 10);
    }
    world.advance(Duration::from_mins(4)).await;
    assert_eq!(world.server.take_log().len(), 0, "a settled world causes requests");
    // While the caches show a reference, a deletion lists nothing.
    world.server.delete(IMAGES, &names[0]);
    world.advance(10 * SECOND).await;
    let log = world.server.take_log();
    assert!(log.iter().all(|call| call.verb != Verb::List));
    // When they show none, the kinds are listed once, although the image gets several passes until its
    // objects are gone.
    for number in 0..10 {
        world.server.delete(MACHINES, &format!("{}-{number}", names[0]));
    }
    for _ in 0..5 {
        world.advance(SECOND).await;
        world.server.collect_garbage();
    }
    assert_eq!(world.server.get(IMAGES, &names[0]), None);
    let log = world.server.take_log();
    let lists: Vec<&str> =
        log.iter().filter(|call| call.verb == Verb::List).map(|call| &*call.resource).collect();
    assert_eq!(lists, LISTED);
}

/// The pool may go back to the revision, and its machines would be clones of the image.
#[tokio::test]
async fn a_stored_revision_that_only_a_list_shows_keeps_an_image() {
    let mut world = with_images();
    world.lead_with_image("debian").await;
    world.server.hold("controllerrevisions");
    let owner = json!({ "apiVersion": "pool.kubevirt.io/v1beta1", "kind": "VirtualMachinePool", "name": "web",
        "uid": "web", "controller": true });
    let metadata = json!({ "name": "web-1", "namespace": NAMESPACE, "ownerReferences": [owner] });
    let data = pool("web", "debian")["spec"].clone();
    world.server.create("controllerrevisions", json!({ "metadata": metadata, "revision": 1, "data": data }));
    world.server.delete(IMAGES, "debian");
    world.advance(10 * SECOND).await;
    world.server.collect_garbage();
    assert!(world.server.get(IMAGES, "debian").is_some(), "the revision is a reference");
    assert!(world.server.get(SNAPSHOTS, "debian").is_some());
}

/// The objects with the data of an image.
const DATA: [&str; 4] = [VOLUMES, "persistentvolumeclaims", SNAPSHOTS, "datasources.cdi.kubevirt.io"];

#[rstest]
#[case::in_the_background("Background")]
#[case::in_the_foreground("Foreground")]
#[case::that_orphans("Orphan")]
#[tokio::test]
async fn a_deletion_with_any_propagation_policy_keeps_the_data_while_it_is_used(#[case] policy: &str) {
    let mut world = with_images();
    world.create_image("debian");
    world.server.create(MACHINES, machine("web", "debian"));
    world.lead_all(&[PlatformName::Kubevirt]);
    world.calm().await;
    world.finish_import("debian").await;
    let data = || DATA.map(|resource| world.server.get(resource, "debian"));
    let before = data();
    assert!(before.iter().all(Option::is_some));
    world.server.delete_with(IMAGES, "debian", &json!({ "propagationPolicy": policy }));
    for _ in 0..5 {
        world.server.collect_garbage();
        world.advance(Duration::from_mins(2)).await;
    }
    assert_eq!(data(), before);
    let image = world.server.get(IMAGES, "debian").unwrap();
    assert!(image["status"]["message"].to_string().contains("VirtualMachine team-a/web"), "{image}");
    world.server.take_log();
    world.advance(Duration::from_mins(4)).await;
    assert_eq!(world.server.take_log().len(), 0, "a deletion that waits causes requests");
    // When the last reference is gone, all of it is deleted.
    world.server.delete(MACHINES, "web");
    for _ in 0..5 {
        world.advance(10 * SECOND).await;
        world.server.collect_garbage();
    }
    assert_eq!((data(), world.server.get(IMAGES, "debian")), ([const { None }; 4], None));
}

#[rstest]
#[case::a_ready_image(None)]
#[case::an_image_that_is_deleted(Some("Background"))]
#[case::an_image_whose_objects_were_orphaned(Some("Orphan"))]
#[tokio::test]
async fn owner_references_of_an_earlier_version_are_removed_once(#[case] policy: Option<&str>) {
    let mut world = with_images();
    world.create_image("debian");
    world.server.create(MACHINES, machine("web", "debian"));
    world.lead_all(&[PlatformName::Kubevirt]);
    world.calm().await;
    world.finish_import("debian").await;
    if let Some(policy) = policy {
        world.server.delete_with(IMAGES, "debian", &json!({ "propagationPolicy": policy }));
    }
    world.advance(10 * SECOND).await;
    world.server.take_log();
    let image = world.server.get(IMAGES, "debian").unwrap();
    let owner = json!({ "apiVersion": "vmpool.dev/v1alpha1", "kind": "VMDiskImage", "name": "debian",
        "uid": image["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true });
    for resource in [DATA[0], DATA[2], DATA[3]] {
        let owners = json!([owner]);
        world.server.edit(resource, "debian", |object| object["metadata"]["ownerReferences"] = owners);
    }
    if policy == Some("Orphan") {
        world.server.collect_garbage();
    }
    world.advance(10 * SECOND).await;
    let log = world.server.take_log();
    let patches = log.iter().filter(|call| matches!(call.verb, Verb::Patch(_))).count();
    assert_eq!(patches, if policy == Some("Orphan") { 0 } else { 3 }, "{log:?}");
    for resource in [DATA[0], DATA[2], DATA[3]] {
        let object = world.server.get(resource, "debian").unwrap();
        assert_eq!(object["metadata"]["ownerReferences"].as_array().map_or(0, Vec::len), 0, "{object}");
    }
    world.advance(Duration::from_mins(4)).await;
    assert_eq!(world.server.take_log().len(), 0, "a settled world causes requests");
    assert_eq!(world.server.get(IMAGES, "debian").unwrap()["status"]["phase"], "Ready");
}

/// An uninstallation deletes the definitions one by one: the next one is deleted although objects of the
/// others wait for their finalizers.
#[rstest]
#[case::of_an_image(IMAGES)]
#[case::of_a_grant(GRANTS)]
#[tokio::test]
async fn the_objects_of_the_last_definition_lose_their_finalizers(#[case] last: &str) {
    let mut world = with_images();
    let spec = json!({ "from": [{ "namespace": "team-b" }] });
    world
        .server
        .create(GRANTS, json!({ "metadata": { "name": "debian", "namespace": NAMESPACE }, "spec": spec }));
    world.lead_with_image("debian").await;
    let finalizers = |world: &LeaderWorld| {
        let object = world.server.get(last, "debian");
        object.map(|object| object["metadata"]["finalizers"].as_array().map_or(0, Vec::len))
    };
    assert_eq!(finalizers(&world), Some(1));
    for definition in [IMAGES, GRANTS, "wrappedvirtualmachines.vmpool.dev"] {
        if definition != last {
            world.server.delete_of_cluster("customresourcedefinitions", definition);
            world.calm().await;
        }
    }
    world.server.delete(last, "debian");
    for _ in 0..5 {
        world.advance(10 * SECOND).await;
        world.server.collect_garbage();
    }
    assert_eq!(finalizers(&world), None, "the definition of its kind is still there");
    assert!(!world.leader_ended());
}

#[tokio::test]
async fn a_pool_waits_for_no_image_in_a_cluster_without_the_definitions_of_images() {
    let mut world = with_images();
    for definition in [IMAGES, GRANTS, "wrappedvirtualmachines.vmpool.dev"] {
        world.server.delete_of_cluster("customresourcedefinitions", definition);
    }
    world.server.create(POOLS, pool("web", "debian"));
    world.lead_all(&[PlatformName::Kubevirt]);
    world.calm().await;
    assert_eq!(world.images_ready("web"), None);
    assert_eq!(world.server.all(MACHINES).len(), 2);
}

#[tokio::test]
async fn metrics_describe_imports_and_restorations() {
    let mut world = with_images();
    world.images = world.images.map(|mut images| {
        images.limits.max_concurrent_syncs = 1;
        images
    });
    world.create_image("debian");
    world.create_image("fedora");
    world.lead_all(&[PlatformName::Kubevirt]);
    world.calm().await;
    // One is imported for a minute, and the other one waits for its turn.
    world.advance(Duration::from_mins(1)).await;
    assert_eq!(world.series("vmpool_vmdi_queue_length"), 1);
    assert_eq!(world.series("vmpool_vmdi_syncs_in_progress"), 1);
    world.finish_import("debian").await;
    let success = r#"{source_type="http",result="success"}"#;
    assert_eq!(world.series(&format!("vmpool_vmdi_sync_attempts_total{success}")), 1);
    assert_eq!(world.series(&format!("vmpool_vmdi_sync_duration_seconds_count{success}")), 1);
    let bucket = |le: &str| {
        format!(
            r#"vmpool_vmdi_sync_duration_seconds_bucket{{le="{le}",source_type="http",result="success"}}"#
        )
    };
    assert_eq!((world.series(&bucket("60.0")), world.series(&bucket("120.0"))), (0, 1));
    let waited = |le: &str| format!(r#"vmpool_vmdi_queue_wait_seconds_bucket{{le="{le}"}}"#);
    assert_eq!((world.series(&waited("1.0")), world.series(&waited("60.0"))), (1, 1));
    assert_eq!(world.series(&waited("300.0")), 2);
    // The second import fails, and the snapshot of the first image is lost.
    world.server.edit(VOLUMES, "fedora", |volume| volume["status"] = json!({ "phase": "Failed" }));
    world.advance(SECOND).await;
    let failure = r#"{source_type="http",result="UnknownSyncFailure"}"#;
    assert_eq!(world.series(&format!("vmpool_vmdi_sync_attempts_total{failure}")), 1);
    assert_eq!(world.series("vmpool_vmdi_syncs_in_progress"), 0);
    // The alerts need the series of a reason before its first attempt.
    let absent = r#"{source_type="s3",result="MissingSourceArtifact"}"#;
    assert_eq!(world.series(&format!("vmpool_vmdi_sync_attempts_total{absent}")), 0);
    let heals =
        |result: &str| format!(r#"vmpool_vmdi_heals_total{{reason="SnapshotLost",result="{result}"}}"#);
    world.server.delete(SNAPSHOTS, "debian");
    world.advance(SECOND).await;
    assert_eq!(world.series(&heals("began")), 1);
    world.server.edit(SNAPSHOTS, "debian", |snapshot| snapshot["status"] = json!({ "readyToUse": true }));
    world.advance(SECOND).await;
    assert_eq!(world.series(&heals("healed")), 1);
}

#[tokio::test]
async fn metrics_describe_references_and_removals_by_age() {
    let mut world = with_images();
    world.create_image("debian");
    world.server.edit(IMAGES, "debian", |image| image["spec"]["ttlAfterUnreferenced"] = json!("60s"));
    world.server.create(POOLS, pool("web", "debian"));
    world.lead_all(&[PlatformName::Kubevirt]);
    world.calm().await;
    world.finish_import("debian").await;
    let references =
        |kind: &str| format!(r#"vmpool_vmdi_references{{namespace="team-a",name="debian",kind="{kind}"}}"#);
    assert_eq!(world.series(&references("VirtualMachine")), 2);
    assert_eq!(world.series(&references("VirtualMachinePool")), 1);
    assert_eq!(world.series(&references("DataVolume")), 0);
    assert!(!world.metrics.page().contains("vmpool_vmdi_unreferenced_since_timestamp_seconds{"));
    world.server.delete(POOLS, "web");
    for _ in 0..3 {
        world.server.collect_garbage();
        world.advance(SECOND).await;
    }
    assert!(world.metrics.page().contains("vmpool_vmdi_unreferenced_since_timestamp_seconds{"));
    world.advance(Duration::from_mins(2)).await;
    assert_eq!(world.series(r#"vmpool_vmdi_expired_total{namespace="team-a"}"#), 1);
    // Series of a deleted image disappear.
    assert!(!world.metrics.page().contains(r#"name="debian""#), "{}", world.metrics.page());
}

#[tokio::test]
async fn metrics_describe_deletions_that_wait_and_references_without_a_grant() {
    const BLOCKED: &str = r#"vmpool_vmdi_deletion_blocked{namespace="team-a",name="debian"}"#;
    let mut world = with_images();
    world.lead_with_image("debian").await;
    world.server.create(MACHINES, machine("web", "debian"));
    let mut stranger = machine("stranger", "debian");
    stranger["metadata"]["namespace"] = json!("evil");
    stranger["spec"]["dataVolumeTemplates"][0]["spec"]["sourceRef"]["namespace"] = json!(NAMESPACE);
    world.server.create(MACHINES, stranger);
    world.advance(10 * SECOND).await;
    let denied = r#"vmpool_vmdi_references_denied_total{image_namespace="team-a",from_namespace="evil"}"#;
    let before = world.series(denied);
    assert!(before > 0);
    // Each pass counts it, also one that nothing but the resync period causes.
    world.advance(world.images.as_ref().unwrap().resync).await;
    assert_eq!(world.series(denied), before + 1);
    assert!(!world.metrics.page().contains("vmpool_vmdi_deletion_blocked{"));
    world.server.delete(IMAGES, "debian");
    world.advance(10 * SECOND).await;
    assert_eq!(world.series(BLOCKED), 1);
    // Without its reference, the image waits only for its objects.
    world
        .server
        .edit(VOLUMES, "debian", |volume| volume["metadata"]["finalizers"] = json!(["example.com/keep"]));
    world.server.delete(MACHINES, "web");
    world.advance(10 * SECOND).await;
    assert_eq!(world.series(BLOCKED), 0);
    world.server.edit(VOLUMES, "debian", |volume| volume["metadata"]["finalizers"] = json!(null));
    world.collect_for(10).await;
    assert!(!world.metrics.page().contains("vmpool_vmdi_deletion_blocked{"));
}

#[tokio::test]
async fn one_event_says_that_an_image_waits_also_after_a_change_of_leaders() {
    let mut world = with_images();
    world.images.as_mut().unwrap().limits.max_concurrent_syncs = 1;
    world.create_image("debian");
    world.create_image("fedora");
    world.lead_all(&[PlatformName::Kubevirt]);
    world.calm().await;
    world.kill_leader().await;
    world.lead_all(&[PlatformName::Kubevirt]);
    world.advance(Duration::from_mins(6)).await;
    assert_eq!(world.event_count("WaitingToSync"), 1, "{:?}", world.server.all("events"));
    world.finish_import("debian").await;
    world.finish_import("fedora").await;
    assert_eq!(world.event_count("WaitingToSync"), 1);
}

const GRANT_FINALIZER: &str = "vmpool.dev/vmdiskimagegrant-protection";

/// A grant for this namespace.
fn grant(guests: &str) -> Value {
    json!({ "metadata": { "name": guests, "namespace": NAMESPACE }, "spec": { "from": [{ "namespace": guests }] } })
}

impl LeaderWorld {
    /// A ready image, a grant, and a machine of another namespace that refers to the image.
    async fn with_guest(&mut self) {
        // As in Kubernetes, a namespace that is deleted stays while it contains objects.
        self.server
            .create("namespaces", json!({ "metadata": { "name": NAMESPACE, "finalizers": ["kubernetes"] } }));
        self.lead_with_image("debian").await;
        self.create_guest("team-b");
        self.advance(10 * SECOND).await;
        assert_eq!(self.server.get(IMAGES, "debian").unwrap()["status"]["referenceCount"], 1);
    }

    /// A grant for a namespace, and a machine of this namespace that refers to the image.
    fn create_guest(&self, namespace: &str) {
        self.server.create(GRANTS, grant(namespace));
        let mut guest = machine("guest", "debian");
        guest["metadata"]["namespace"] = json!(namespace);
        guest["spec"]["dataVolumeTemplates"][0]["spec"]["sourceRef"]["namespace"] = json!(NAMESPACE);
        self.server.create(MACHINES, guest);
    }

    /// Kubernetes deletes the namespace: it marks it, and deletes all of its images and grants.
    async fn delete_namespace(&self) {
        self.server.delete_of_cluster("namespaces", NAMESPACE);
        self.server.delete(IMAGES, "debian");
        self.server.delete(GRANTS, "team-b");
        self.collect_for(5).await;
    }

    async fn collect_for(&self, seconds: usize) {
        for _ in 0..seconds {
            self.advance(SECOND).await;
            self.server.collect_garbage();
        }
    }
}

#[tokio::test]
async fn a_grant_gets_a_finalizer_and_its_deletion_ends_it_at_once() {
    let mut world = with_images();
    world.with_guest().await;
    let protected = world.server.get(GRANTS, "team-b").unwrap();
    assert_eq!(protected["metadata"]["finalizers"], json!([GRANT_FINALIZER]));
    world.advance(Duration::from_mins(2)).await;
    world.server.take_log();
    world.advance(Duration::from_mins(2)).await;
    assert_eq!(world.server.take_log().len(), 0, "a settled grant causes requests");
    world.server.delete(GRANTS, "team-b");
    world.advance(SECOND).await;
    assert_eq!(world.server.get(GRANTS, "team-b"), None);
    assert_eq!(world.server.get(IMAGES, "debian").unwrap()["status"]["referenceCount"], 0);
}

#[tokio::test]
async fn a_deleted_grant_ends_although_another_finalizer_keeps_the_object() {
    let mut world = with_images();
    world.with_guest().await;
    world.server.edit(GRANTS, "team-b", |grant| {
        grant["metadata"]["finalizers"] = json!(["example.com/keep", GRANT_FINALIZER]);
    });
    world.server.delete(GRANTS, "team-b");
    world.advance(10 * SECOND).await;
    assert_eq!(
        world.server.get(GRANTS, "team-b").unwrap()["metadata"]["finalizers"],
        json!(["example.com/keep"])
    );
    assert_eq!(world.server.get(IMAGES, "debian").unwrap()["status"]["referenceCount"], 0);
    // It does not come into effect again when the namespace is deleted.
    world.server.delete_of_cluster("namespaces", NAMESPACE);
    world.server.delete(IMAGES, "debian");
    world.collect_for(5).await;
    assert_eq!(world.server.get(IMAGES, "debian"), None);
}

#[tokio::test]
async fn references_from_other_namespaces_hold_the_images_and_grants_of_a_terminating_namespace() {
    let mut world = with_images();
    world.with_guest().await;
    world.delete_namespace().await;
    let blocked = world.server.get(IMAGES, "debian").unwrap();
    assert!(blocked["status"]["message"].as_str().unwrap().contains("team-b/guest"), "{blocked}");
    assert!(world.server.get(GRANTS, "team-b").is_some());
    // A new leader decides the same.
    world.kill_leader().await;
    world.lead_all(&[PlatformName::Kubevirt]);
    world.advance(Duration::from_mins(3)).await;
    assert!(world.server.get(IMAGES, "debian").is_some());
    assert!(world.server.get(GRANTS, "team-b").is_some());
    // With the reference, both end.
    let guest = world.server.all(MACHINES).pop().unwrap();
    world.server.delete_in("team-b", MACHINES, guest["metadata"]["name"].as_str().unwrap());
    world.collect_for(10).await;
    assert_eq!((world.server.get(IMAGES, "debian"), world.server.get(GRANTS, "team-b")), (None, None));
}

#[tokio::test]
async fn a_released_image_releases_the_grants_of_its_terminating_namespace() {
    let mut world = with_images();
    world.with_guest().await;
    world.delete_namespace().await;
    world.server.edit(IMAGES, "debian", |image| {
        image["metadata"]["annotations"] = json!({ "vmpool.dev/force-release": "true" });
    });
    world.collect_for(10).await;
    assert_eq!((world.server.get(IMAGES, "debian"), world.server.get(GRANTS, "team-b")), (None, None));
}

#[tokio::test]
async fn without_a_reference_or_without_a_grant_no_image_holds_its_terminating_namespace() {
    let mut world = with_images();
    world.with_guest().await;
    // The grant is for another namespace than that of the reference.
    world.server.delete(GRANTS, "team-b");
    let mut other = grant("team-c");
    other["metadata"]["name"] = json!("team-b");
    world.advance(SECOND).await;
    world.server.create(GRANTS, other);
    world.advance(SECOND).await;
    world.delete_namespace().await;
    assert_eq!((world.server.get(IMAGES, "debian"), world.server.get(GRANTS, "team-b")), (None, None));
    assert_eq!(world.server.all(MACHINES).len(), 1);
}

#[tokio::test]
async fn a_cache_that_is_behind_releases_no_grant() {
    let mut world = with_images();
    world.with_guest().await;
    // The watches do not show yet that the namespace is being deleted, and that the image is there.
    world.server.hold("namespaces");
    world.delete_namespace().await;
    assert!(world.server.get(GRANTS, "team-b").is_some());
    world.server.release();
    world.advance(Duration::from_mins(2)).await;
    assert!(world.server.get(IMAGES, "debian").is_some());
}

/// One of several API servers can lack a definition for a while.
#[rstest]
#[case::of_machines("virtualmachines")]
#[case::of_grants("vmdiskimagegrants")]
#[tokio::test]
async fn a_list_that_an_api_server_does_not_serve_releases_no_image(#[case] lacking: &'static str) {
    // Given a machine of another namespace that the watch does not show yet,
    let mut world = with_images();
    world.lead_with_image("debian").await;
    world.server.hold(MACHINES);
    world.create_guest("team-b");
    // when the image is deleted, and the API server does not know a kind that decides about the reference,
    world.server.intercept(move |call: &Call| {
        let refusal = Refusal::new(404, "NotFound", "the server could not find the requested resource");
        if call.is(Verb::List, lacking) { Fate::Refuse(refusal) } else { Fate::Serve }
    });
    world.server.delete(IMAGES, "debian");
    world.collect_for(10).await;
    // then the image stays until the reference is known.
    assert!(world.server.get(IMAGES, "debian").is_some());
    world.server.behave();
    world.advance(Duration::from_mins(2)).await;
    let blocked = world.server.get(IMAGES, "debian").unwrap();
    assert!(blocked["status"]["message"].as_str().unwrap().contains("team-b/guest"), "{blocked}");
}

const WRAPPERS: &str = "wrappedvirtualmachines.vmpool.dev";

impl LeaderWorld {
    /// A wrapper `web` of a ready image, with its machine.
    async fn with_wrapper() -> Self {
        let mut world = Self::new();
        world.images = Some(ImageSettings { wrappers: true, ..ImageSettings::default() });
        world.lead_with_image("debian").await;
        let template = json!({ "spec": { "runStrategy": "Always", "template": { "spec": { "domain": { "devices": {} } } } } });
        let spec = json!({ "vmDiskImageRef": { "name": "debian" }, "virtualMachineTemplate": template });
        world
            .server
            .create(WRAPPERS, json!({ "metadata": { "name": "web", "namespace": NAMESPACE }, "spec": spec }));
        world.advance(10 * SECOND).await;
        assert_eq!(world.server.all(MACHINES).len(), 1);
        world
    }

    fn wrapper_status(&self, name: &str) -> Value {
        self.server.get(WRAPPERS, name).unwrap()["status"].clone()
    }

    /// KubeVirt creates the disk of the machine of a wrapper. Returns its UID.
    fn create_disk(&self, machine: &str, status: &Value) -> Value {
        let stored = self.server.get(MACHINES, machine).unwrap();
        let template = &stored["spec"]["dataVolumeTemplates"][0];
        let owner = json!({ "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": machine,
            "uid": stored["metadata"]["uid"], "controller": true });
        let metadata = json!({ "name": template["metadata"]["name"], "namespace": NAMESPACE,
            "labels": template["metadata"]["labels"], "ownerReferences": [owner] });
        let volume = json!({ "metadata": metadata, "spec": template["spec"], "status": status });
        self.server.create(VOLUMES, volume)["metadata"]["uid"].clone()
    }

    fn lose_disk(&self) {
        self.server.delete(VOLUMES, "web-root");
    }

    fn event_count(&self, reason: &str) -> usize {
        self.server.all("events").iter().filter(|event| event["reason"] == reason).count()
    }
}

#[tokio::test]
async fn a_disk_that_is_lost_while_no_controller_leads_is_reported_by_the_next_one() {
    let recreated = r#"vmpool_wrapper_disk_recreated_total{namespace="team-a"}"#;
    let mut world = LeaderWorld::with_wrapper().await;
    let first = world.create_disk("web", &json!({ "phase": "Succeeded" }));
    world.advance(SECOND).await;
    // Before the machine starts, the status does not have its disk, and the start writes both at once.
    assert_eq!(world.wrapper_status("web")["disk"], Value::Null);
    world.advance(10 * SECOND).await;
    world.server.take_log();
    world
        .server
        .edit(MACHINES, "web", |machine| machine["status"] = json!({ "created": true, "ready": true }));
    world.advance(10 * SECOND).await;
    let is_status = |call: &Call| &*call.resource == "wrappedvirtualmachines" && call.subresource == "status";
    let log = world.server.take_log();
    assert_eq!(log.iter().filter(|call| is_status(call)).count(), 1, "{log:?}");
    assert_eq!(world.wrapper_status("web")["disk"]["dataVolumeUID"], first);
    world.advance(Duration::from_mins(4)).await;
    assert_eq!(world.server.take_log().len(), 0, "a settled wrapper causes requests");
    // The former leader never sees the other disk, and the next one never sees the former one.
    world.kill_leader().await;
    world.lose_disk();
    let second = world.create_disk("web", &json!({ "phase": "Succeeded" }));
    world.lead_all(&[PlatformName::Kubevirt]);
    world.advance(20 * SECOND).await;
    assert_eq!(world.wrapper_status("web")["disk"]["dataVolumeUID"], second);
    assert_eq!((world.event_count("DiskRecreated"), world.series(recreated)), (1, 1));
    // The third one has nothing to report.
    world.kill_leader().await;
    world.lead_all(&[PlatformName::Kubevirt]);
    world.advance(20 * SECOND).await;
    assert_eq!((world.event_count("DiskRecreated"), world.series(recreated)), (1, 1));
}

#[tokio::test]
async fn a_clone_that_does_not_begin_is_kicked_after_five_minutes_three_times_and_ten_minutes_apart() {
    const MINUTE: Duration = Duration::from_mins(1);
    let mut world = LeaderWorld::with_wrapper().await;
    let now = |world: &LeaderWorld| world.env.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let stuck = |world: &LeaderWorld| {
        json!({ "phase": "CloneScheduled", "conditions": [{ "type": "Running", "status": "False",
            "message": "The source snapshot debian doesn't exist", "lastHeartbeatTime": now(world) }] })
    };
    let is_there = |world: &LeaderWorld| world.server.get(VOLUMES, "web-root").is_some();
    for kicks in 1..=3 {
        world.create_disk("web", &stuck(&world));
        // Until half a minute before the kick.
        let minutes = if kicks == 1 { 4 } else { 9 };
        if kicks == 2 {
            // Another leader does not begin to wait anew.
            world.advance(3 * MINUTE).await;
            world.kill_leader().await;
            world.lead_all(&[PlatformName::Kubevirt]);
            world.advance((minutes - 3) * MINUTE + 30 * SECOND).await;
        } else {
            world.advance(minutes * MINUTE + 30 * SECOND).await;
        }
        assert!(is_there(&world), "too early");
        world.advance(40 * SECOND).await;
        assert!(!is_there(&world), "kick {kicks}: {}", world.wrapper_status("web"));
        assert_eq!(world.wrapper_status("web")["kicks"], kicks);
    }
    world.create_disk("web", &stuck(&world));
    world.advance(11 * MINUTE).await;
    assert!(is_there(&world), "at most three times");
    assert_eq!(world.wrapper_status("web")["phase"], "Failed");
    assert_eq!(world.series(r#"vmpool_wrapper_kicks_total{namespace="team-a"}"#), 3);
    // The machine starts after all, and its disk is never deleted from then on.
    world.server.edit(VOLUMES, "web-root", |volume| volume["status"] = json!({ "phase": "Succeeded" }));
    world
        .server
        .edit(MACHINES, "web", |machine| machine["status"] = json!({ "created": true, "ready": true }));
    world.advance(SECOND).await;
    assert_eq!(world.wrapper_status("web")["phase"], "Ready");
    world.server.edit(VOLUMES, "web-root", |volume| volume["status"] = json!({ "phase": "Failed" }));
    world.advance(30 * MINUTE).await;
    assert!(is_there(&world));
}
