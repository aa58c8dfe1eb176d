//! Records what the current programs store, for tests of upgrades to later versions (`e2e/stored`).

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use vmpool_invariants::platform::TestedPlatform;
use vmpool_model::{ApiServerModel, ChangeKind};
use vmpool_runtime::testing::Idle;

use crate::claim_client::ClaimParameters;
use crate::manifest_kubevirt::TypeSource;
use crate::operation::{RemovalOperation, ScheduleOperation};
use crate::operation_image::ImageOperation;
use crate::operation_kubevirt::KubeVirtOperation;
use crate::operation_protection::ProtectionOperation;
use crate::world::{SimulatedWorld, SimulatedWorldOptions};

/// Resources that are not recorded: those that no program reads after an upgrade, and those of the API
/// server.
const OMITTED: [&str; 3] =
    ["events.events.k8s.io", "configmaps", "customresourcedefinitions.apiextensions.k8s.io"];

/// How long each step has until the pool is settled.
const PAUSE: Duration = Duration::from_mins(5);

/// Stored objects, under a name.
#[derive(Debug)]
pub struct StoredRecording {
    /// The name of the file without its extension.
    pub name: &'static str,
    /// The objects, sorted by resource, namespace and name.
    pub objects: Vec<Value>,
}

/// What is recorded under a name.
struct RecordedScenario {
    name: &'static str,
    options: SimulatedWorldOptions,
    policy: &'static str,
    /// The value of `reclaim` of the second disk template.
    reclaim: Value,
    steps: Vec<ScheduleOperation>,
    /// Whether the leader is paused before the last removal, so that its record stays.
    leaves_removal: bool,
}

/// Records pools of both platforms: with free and retained disks, with images, wrappers and a claim, with
/// instance types, and with a removal in progress.
///
/// # Panics
/// If the runtime cannot be created.
pub fn record_stored_objects() -> Vec<StoredRecording> {
    [dvp_scenario(), kubevirt_scenario(), instancetype_scenario()].into_iter().map(record_scenario).collect()
}

fn world_options(platform: TestedPlatform) -> SimulatedWorldOptions {
    SimulatedWorldOptions {
        platform,
        seed: 7,
        controllers: 1,
        apiservers: 1,
        webhook: true,
        latency: 20,
        ..SimulatedWorldOptions::default()
    }
}

fn claim_operation() -> ScheduleOperation {
    ScheduleOperation::Protection(ProtectionOperation::Claim(
        ClaimParameters { id: "a", seconds: 280, renew: false },
        0,
    ))
}

fn removal_operation(target: usize) -> ScheduleOperation {
    let targets = vec![target];
    ScheduleOperation::RemoveTargets(RemovalOperation {
        targets,
        first: 0,
        pinned: true,
        forced: true,
        dry_run: false,
    })
}

fn dvp_scenario() -> RecordedScenario {
    RecordedScenario {
        name: "dvp",
        options: world_options(TestedPlatform::Dvp),
        policy: "NewestFirst",
        reclaim: json!({ "onScaleDown": "Retain" }),
        steps: vec![
            ScheduleOperation::SetCores(2),
            ScheduleOperation::Scale(6),
            ScheduleOperation::Scale(5),
            claim_operation(),
            removal_operation(3),
        ],
        leaves_removal: true,
    }
}

fn kubevirt_scenario() -> RecordedScenario {
    let images = [
        ImageOperation::Create("debian", None),
        ImageOperation::Create("fedora", None),
        ImageOperation::Grant(true),
        ImageOperation::CreateWrapper("one", "debian", false),
        ImageOperation::CreateGuestWrapper("two", "debian"),
        ImageOperation::CreateMachine("own", "fedora"),
    ];
    let mut steps: Vec<ScheduleOperation> = images.into_iter().map(ScheduleOperation::Image).collect();
    steps.extend([ScheduleOperation::SetCores(2), claim_operation(), removal_operation(3)]);
    RecordedScenario {
        name: "kubevirt",
        options: SimulatedWorldOptions { images: true, ..world_options(TestedPlatform::KubeVirt) },
        policy: "Unmanaged",
        reclaim: Value::Null,
        steps,
        leaves_removal: true,
    }
}

fn instancetype_scenario() -> RecordedScenario {
    let types = Some(TypeSource::Name);
    RecordedScenario {
        name: "instancetypes",
        options: SimulatedWorldOptions { instancetypes: types, ..world_options(TestedPlatform::KubeVirt) },
        policy: "DescendingOrder",
        reclaim: Value::Null,
        steps: vec![
            ScheduleOperation::KubeVirt(KubeVirtOperation::SetTier(2)),
            ScheduleOperation::KubeVirt(KubeVirtOperation::EditInstancetype(0, 3)),
        ],
        leaves_removal: false,
    }
}

fn record_scenario(scenario: RecordedScenario) -> StoredRecording {
    let (runtime, idle) =
        Idle::runtime().expect("a runtime without threads and sockets uses no system resources");
    let name = scenario.name;
    let objects = runtime.block_on(async {
        let mut world = SimulatedWorld::new(scenario.options, idle, false).await;
        world.advance(PAUSE).await;
        let disks = vec![("root", Value::Null), ("cache", scenario.reclaim)];
        let mut steps = vec![ScheduleOperation::CreatePool(4, scenario.policy, disks)];
        steps.extend(scenario.steps);
        for step in steps {
            step.perform(&mut world).await;
            world.advance(PAUSE).await;
        }
        if scenario.leaves_removal {
            ScheduleOperation::PauseController(0).perform(&mut world).await;
            removal_operation(2).perform(&mut world).await;
            world.advance(Duration::from_secs(5)).await;
        }
        list_stored_objects(&world.server)
    });
    StoredRecording { name, objects }
}

/// The existing objects, without their resource versions.
fn list_stored_objects(server: &ApiServerModel) -> Vec<Value> {
    let mut existing = BTreeMap::new();
    for change in server.history() {
        if change.kind == ChangeKind::Deleted {
            existing.remove(&change.key);
        } else {
            existing.insert(change.key, change.object);
        }
    }
    existing.retain(|key, _| !OMITTED.contains(&&*key.resource));
    existing.into_values().map(|object| without_version(&object)).collect()
}

fn without_version(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("resourceVersion");
    }
    object
}

#[cfg(test)]
mod tests;
