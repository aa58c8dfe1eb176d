//! The current programs continue with the objects of an earlier version (`e2e/stored`).

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use rstest::rstest;
use serde_json::Value;
use vmpool_invariants::platform::TestedPlatform;
use vmpool_model::{ChangeKind, ObjectChange};
use vmpool_runtime::testing::Idle;
use vmpool_test_cluster::control_plane::read_yaml_documents;

use crate::world::{SimulatedWorld, SimulatedWorldOptions};

/// The kinds that the controller may neither create nor delete after an upgrade.
const KEPT: [&str; 8] = [
    "VirtualMachine",
    "VirtualDisk",
    "DataVolume",
    "PersistentVolumeClaim",
    "VirtualMachineInstance",
    "VMDiskImage",
    "VolumeSnapshot",
    "ControllerRevision",
];

/// The removal records, which the controller empties.
const REMOVAL_RECORDS: [&str; 2] =
    ["vmpool.virtualization.deckhouse.io/scale-down-targets", "vmpool.pool.kubevirt.io/scale-in-targets"];

/// The label with the revision in effect. The stored rollout waits for restarts. A new platform simulator
/// does not remember them and reports none, so the controller records the revision.
const REVISION_IN_EFFECT: &str = "vmpool.virtualization.deckhouse.io/template-hash";

/// A world after an upgrade.
struct Upgrade {
    stored: Vec<Value>,
    /// What changed afterwards.
    changes: Vec<ObjectChange>,
    pools: Vec<Value>,
    transcript: String,
}

fn upgrade(recording: &str, platform: TestedPlatform) -> Upgrade {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../stored/333cbe32");
    let stored = read_yaml_documents(&folder.join(recording).with_extension("yaml")).unwrap();
    let options = SimulatedWorldOptions {
        platform,
        images: recording == "kubevirt",
        seed: 7,
        controllers: 1,
        apiservers: 1,
        webhook: true,
        latency: 20,
        ..SimulatedWorldOptions::default()
    };
    let (runtime, idle) = Idle::runtime().unwrap();
    runtime.block_on(async {
        let mut world = SimulatedWorld::from_stored_objects(options, idle, &stored).await.unwrap();
        world.advance(Duration::from_mins(5)).await;
        let uids = list_uids(&stored);
        let history = world.server.history();
        let is_restored = |change: &ObjectChange| {
            change.kind == ChangeKind::Added && uids.contains(find_uid(&change.object))
        };
        let restored = history.iter().rposition(is_restored).unwrap();
        let pools = world.server.all(world.resources().pools);
        Upgrade {
            stored,
            changes: history[restored + 1..].to_vec(),
            pools: pools.iter().map(|pool| (**pool).clone()).collect(),
            transcript: world.transcript.take().unwrap().join("\n"),
        }
    })
}

fn find_uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap_or_default()
}

fn list_uids(objects: &[Value]) -> BTreeSet<&str> {
    objects.iter().map(find_uid).collect()
}

impl Upgrade {
    /// The UIDs of stored objects that were being deleted, and of what they own.
    fn terminating(&self) -> BTreeSet<&str> {
        let is_deleted = |object: &&Value| !object["metadata"]["deletionTimestamp"].is_null();
        let mut found: BTreeSet<&str> = self.stored.iter().filter(is_deleted).map(find_uid).collect();
        loop {
            let owner = |object: &Value| object["metadata"]["ownerReferences"][0]["uid"].clone();
            let owned = self
                .stored
                .iter()
                .filter(|object| owner(object).as_str().is_some_and(|owner| found.contains(owner)));
            let next: BTreeSet<&str> = owned.map(find_uid).chain(found.iter().copied()).collect();
            if next == found {
                return found;
            }
            found = next;
        }
    }

    /// Creates and deletions of [`KEPT`], except the end of deletions.
    fn replaced(&self) -> Vec<String> {
        let terminating = self.terminating();
        let is_kept = |change: &&ObjectChange| {
            KEPT.iter().any(|kind| change.object["kind"] == *kind)
                && change.kind != ChangeKind::Modified
                && !terminating.contains(find_uid(&change.object))
        };
        self.changes
            .iter()
            .filter(is_kept)
            .map(|change| format!("{:?} {:?}", change.kind, change.key))
            .collect()
    }

    /// Changes of machines other than of their status.
    fn changed_machines(&self) -> Vec<String> {
        let terminating = self.terminating();
        let content = |object: &Value| {
            let mut object = object.clone();
            let metadata = object["metadata"].as_object_mut().expect("an object has metadata");
            metadata.remove("resourceVersion");
            if let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) {
                labels.remove(REVISION_IN_EFFECT);
            }
            object.as_object_mut().expect("an object").remove("status");
            object
        };
        let is_changed = |change: &&ObjectChange| {
            change.object["kind"] == "VirtualMachine"
                && !terminating.contains(find_uid(&change.object))
                && change.before.as_ref().is_some_and(|before| content(before) != content(&change.object))
        };
        let describe = |change: &ObjectChange| format!("{:?}: {}", change.key, content(&change.object));
        self.changes.iter().filter(is_changed).map(describe).collect()
    }
}

#[rstest]
#[case::dvp("dvp", TestedPlatform::Dvp)]
#[case::kubevirt("kubevirt", TestedPlatform::KubeVirt)]
#[case::instance_types("instancetypes", TestedPlatform::KubeVirt)]
fn an_upgrade_replaces_no_object_and_changes_no_machine(
    #[case] recording: &str,
    #[case] platform: TestedPlatform,
) {
    let upgrade = upgrade(recording, platform);
    assert_eq!(upgrade.replaced(), [""; 0], "{}", upgrade.transcript);
    assert_eq!(upgrade.changed_machines(), [""; 0], "{}", upgrade.transcript);
}

#[rstest]
#[case::dvp("dvp", TestedPlatform::Dvp)]
#[case::kubevirt("kubevirt", TestedPlatform::KubeVirt)]
#[case::instance_types("instancetypes", TestedPlatform::KubeVirt)]
fn an_upgrade_completes_removals_and_reports_on_pools(
    #[case] recording: &str,
    #[case] platform: TestedPlatform,
) {
    let upgrade = upgrade(recording, platform);
    assert!(!upgrade.pools.is_empty());
    for pool in &upgrade.pools {
        let (metadata, status) = (&pool["metadata"], &pool["status"]);
        let record = REMOVAL_RECORDS.iter().find(|record| metadata["annotations"][record].is_string());
        assert_eq!(record, None, "{}", upgrade.transcript);
        assert_eq!(metadata["generation"], status["observedGeneration"], "{}", upgrade.transcript);
        assert_eq!(pool["spec"]["replicas"], status["replicas"], "{}", upgrade.transcript);
    }
}
