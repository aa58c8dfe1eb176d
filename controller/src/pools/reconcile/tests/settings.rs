//! Unreadable settings: each gets its safe value, and the rest of the pool works.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use rstest::rstest;
use serde_json::{Value, json};
use vmpool_engine::model::CurrentRevision;
use vmpool_engine::plan::{DisksByName, NamesInUse, ObservedPool, PlanSettings, PoolSnapshot};
use vmpool_engine::{PassMemory, Pool, PoolAction, compute_status, plan_pass};
use vmpool_platforms::{Dvp, Platform};

use super::rollouts::{POOLS, PREFIX, REVISIONS, edit, label, resize, roll, shown, synced};
use crate::testing::{LeaderWorld, pool_manifest};

/// Values of an annotation or a field on a cluster whose pool definition has no checks.
fn odd_values() -> Vec<Value> {
    let texts = [
        "",
        " ",
        "0",
        "-1",
        "+1",
        "ten",
        "yes",
        "0%",
        "101%",
        "The_Last",
        "9999999999999999999999",
        "18446744073709551615",
        "18446744073709551615-18446744073709551615",
        "0-18446744073709551615",
        "9223372036854775807-9223372036854775807",
        "5-3",
        "-5m",
        "9999999999999999999h",
        "[]",
        "[{}]",
        "null",
        "\u{0}\u{202e}",
    ];
    let numbers = [json!(-1), json!(0), json!(i64::MIN), json!(i64::MAX), json!(u64::MAX), json!(1e300)];
    let others = [json!(true), json!([]), json!([null, 1, {}]), json!({}), json!("x".repeat(5000))];
    texts.map(Value::from).into_iter().chain(numbers).chain(others).collect()
}

/// Settings with which the pool has the desired number of machines for any value.
const SETTINGS: [&str; 12] = [
    "/spec/scaleDownPolicy",
    "/spec/rollout",
    "/spec/rollout/paused",
    "/spec/rollout/maxUnavailable",
    "/spec/rollout/revision",
    "/spec/revisionHistoryLimit",
    "/spec/maxProtection",
    "/spec/imageRefresh",
    "/spec/progressDeadlineSeconds",
    "/spec/virtualDiskTemplates/0/reclaim/keep",
    "/spec/virtualDiskTemplates/0/reclaim/ttl",
    "/spec/virtualDiskTemplates/0/spec/persistentVolumeClaim/size",
];
/// The annotations of these settings, and the name block, which the controller can reserve again.
const ANNOTATIONS: [&str; 5] =
    ["rollout-paused", "rollout-max-unavailable", "rollout-revision", "revision-history-limit", "names"];
/// Fields that determine whether the pool can have machines and how many, and fields that other clients
/// write.
const OTHERS: [&str; 13] = [
    "/spec",
    "/spec/replicas",
    "/spec/maxProvisioning",
    "/spec/virtualMachineTemplate",
    "/spec/virtualMachineTemplate/metadata",
    "/spec/virtualMachineTemplate/spec",
    "/spec/virtualMachineTemplate/spec/blockDeviceRefs",
    "/spec/virtualDiskTemplates",
    "/spec/virtualDiskTemplates/0",
    "/spec/virtualDiskTemplates/0/reclaim",
    "/status",
    "/status/observedGeneration",
    "/status/conditions",
];

/// Sets the value at `path` and creates the objects on the way.
fn set(object: &mut Value, path: &str, value: Value) {
    let place = path.split('/').skip(1).fold(object, |object, step| match step.parse::<usize>() {
        Ok(index) => &mut object[index],
        Err(_) => &mut object[step.replace("~1", "/")],
    });
    *place = value;
}

/// A namespace in which all names are free.
struct Free;

impl NamesInUse for Free {
    fn has_machine(&self, _: &str) -> bool {
        false
    }
    fn has_disk(&self, _: &str) -> bool {
        false
    }
}

/// The number of machines that a pass creates for a pool without machines. It also computes the status.
fn created(pool: &Pool) -> usize {
    let (mut memory, uptime) = (PassMemory::default(), Duration::from_secs(100));
    memory.observe(pool, uptime);
    let snapshot = PoolSnapshot {
        now: Timestamp::from_second(1_000_000).unwrap(),
        uptime,
        server_clock: None,
        machines: Vec::new(),
        disks: DisksByName::new(),
        pool_disks: Vec::new(),
        other_users: BTreeMap::new(),
        replaced_disks: [].into(),
        unconfirmed_creates: Vec::new(),
    };
    let stored = ["a", "b"].map(Into::into);
    let observed = ObservedPool::new(&snapshot, pool, &stored, PlanSettings::default(), &memory, &Free);
    let status = compute_status(&observed, None);
    assert!(status.conditions.iter().all(|condition| condition.message.len() <= 32_768));
    plan_pass(&observed).actions.iter().filter(|action| matches!(action, PoolAction::Create { .. })).count()
}

#[test]
fn no_value_of_any_field_or_annotation_panics_and_the_rest_of_the_pool_is_served() {
    let annotation = |key: &str| format!("/metadata/annotations/{PREFIX}~1{key}");
    let settings = SETTINGS.map(str::to_owned).into_iter().chain(ANNOTATIONS.map(annotation));
    let others = OTHERS.map(str::to_owned).into_iter().chain([annotation("scale-down-targets")]);
    let places = settings.map(|place| (place, true)).chain(others.map(|place| (place, false)));
    let mut stuck = Vec::new();
    for (place, served) in places {
        for value in odd_values() {
            let mut object = pool_manifest("web", 3);
            object["metadata"]["uid"] = json!("u");
            set(&mut object, &place, value.clone());
            // An API server never returns annotations with values that are not strings.
            let Ok(object) = serde_json::from_value::<<Dvp as Platform>::Pool>(object) else { continue };
            let read = Dvp::read_pool(&object);
            let revision = CurrentRevision::of_template(Dvp::first_revision(&object, &read), true);
            let read = Pool { spec: read.spec, revision };
            let outcome = std::panic::catch_unwind(|| created(&read));
            match outcome {
                Ok(count) if count != 3 && served => stuck.push(format!("{count} with {place}: {value:.60}")),
                Ok(_) => {}
                Err(_) => stuck.push(format!("panic with {place}: {value:.60}")),
            }
        }
    }
    assert!(stuck.is_empty(), "{}\n{stuck:#?}", stuck.len());
}

fn annotate(world: &LeaderWorld, key: &str, value: &str) {
    edit(world, |pool| pool["metadata"]["annotations"][format!("{PREFIX}/{key}")] = json!(value));
}

fn warnings(world: &LeaderWorld) -> Vec<Value> {
    world.server.all("events").into_iter().filter(|event| event["reason"] == "InvalidSettings").collect()
}

#[rstest]
#[case::paused("rollout-paused", "yes", "the rollout is paused")]
#[case::budget("rollout-max-unavailable", "0%", "one machine at a time is updated")]
#[case::revision("rollout-revision", "The_Last", "the rollout is held")]
#[case::empty_revision("rollout-revision", "", "the rollout is held")]
#[case::history("revision-history-limit", "ten", "10 earlier revisions are kept")]
#[tokio::test]
async fn a_pool_with_an_unreadable_setting_is_scaled_and_reported_once(
    #[case] key: &str,
    #[case] value: &str,
    #[case] instead: &str,
) {
    let mut world = LeaderWorld::with_pool(2).await;
    annotate(&world, key, value);
    world.scale(4);
    world.calm().await;
    assert_eq!(world.machines().len(), 4);
    world.scale(3);
    world.calm().await;
    assert_eq!(
        world.machines().iter().filter(|machine| machine["metadata"]["deletionTimestamp"].is_null()).count(),
        3
    );
    let condition = world.condition("InvalidSettings").unwrap();
    assert_eq!((&condition["status"], &condition["reason"]), (&json!("True"), &json!("UnreadableSettings")));
    let message = condition["message"].as_str().unwrap();
    assert!(message.contains(instead), "{message}");
    assert_eq!(world.condition("ReplicaFailure"), None);
    let told = warnings(&world);
    assert_eq!(
        (told.len(), told[0]["type"].as_str(), told[0]["message"].as_str()),
        (1, Some("Warning"), Some(message))
    );

    world.run_machines();
    world.calm().await;
    world.kill_leader().await;
    world.lead();
    world.calm().await;
    assert_eq!(warnings(&world).len(), 1, "the condition shows the next leader that the event was sent");
    assert!(warnings(&world)[0]["series"].is_null());
    edit(&world, |pool| {
        drop(pool["metadata"]["annotations"].as_object_mut().unwrap().remove(&format!("{PREFIX}/{key}")));
    });
    world.calm().await;
    assert_eq!(world.condition("InvalidSettings"), None);
}

#[tokio::test]
async fn an_unreadable_revision_holds_the_rollout_and_new_machines_come_from_the_revision_in_force() {
    let world = LeaderWorld::with_pool(2).await;
    resize(&world, "1Gi");
    roll(&world, 1).await;
    let last = shown(&world);
    annotate(&world, "rollout-revision", "The_Last");
    resize(&world, "2Gi");
    world.scale(3);
    world.calm().await;
    assert!(
        world
            .machines()
            .iter()
            .all(|machine| label(machine) == last && machine["spec"]["memory"]["size"] == "1Gi")
    );
    assert_eq!((world.machines().len(), shown(&world), world.server.all(REVISIONS).len()), (3, last, 2));
    world.server.take_log();
    world.advance(super::SECOND * 30).await;
    assert!(world.take_writes().is_empty(), "a settled pool costs no write");

    edit(&world, |pool| pool["metadata"]["annotations"] = json!({}));
    world.run_machines();
    roll(&world, 1).await;
    assert!(world.machines().iter().all(|machine| machine["spec"]["memory"]["size"] == "2Gi"));
    assert_eq!(synced(&world).0, "True");
}

#[tokio::test]
async fn a_pool_without_stored_revisions_and_with_an_unreadable_revision_gets_its_machines() {
    let mut world = LeaderWorld::new();
    let mut web = pool_manifest("web", 2);
    web["metadata"]["annotations"] = json!({ format!("{PREFIX}/rollout-revision"): "The_Last" });
    world.server.create(POOLS, web);
    world.lead();
    world.calm().await;
    assert_eq!(world.machines().len(), 2);
    assert_eq!(world.server.all(REVISIONS).len(), 1);
}

#[tokio::test]
async fn only_an_unreadable_removal_record_blocks_creates_and_count_removals() {
    let world = LeaderWorld::with_pool(3).await;
    annotate(&world, "scale-down-targets", "none");
    for replicas in [5, 1] {
        world.scale(replicas);
        world.calm().await;
        assert_eq!(world.machines().len(), 3);
    }
    assert!(
        world.condition("ReplicaFailure").unwrap()["message"]
            .as_str()
            .unwrap()
            .contains("scale-down-targets")
    );
}
