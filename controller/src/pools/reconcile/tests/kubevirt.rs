//! KubeVirt pools: their ordinals, and the restarts of their instances.

mod between;
mod conditions;
mod pool_exporter;
mod states;
mod zero_values;

use serde_json::Value;
use vmpool_api::kubevirt::annotations::{REMOVED_MACHINES, SCALE_IN_TARGETS};

use super::*;
use crate::process::options::PlatformName;
use crate::settings::KubevirtMetrics;
use crate::testing::{Fate, JSON_PATCH, NAMESPACE, Refusal};

const POOLS: &str = "virtualmachinepools.pool.kubevirt.io";
const MACHINES: &str = "virtualmachines.kubevirt.io";
const INSTANCES: &str = "virtualmachineinstances.kubevirt.io";

/// Creates the pool `web`, and starts a leader.
pub(super) fn lead(world: &mut LeaderWorld, replicas: usize) {
    let labels = json!({ "farm": "web" });
    let template = json!({
        "metadata": { "labels": labels },
        "spec": {
            "runStrategy": "Always",
            "template": { "metadata": { "labels": labels }, "spec": { "domain": { "devices": {} } } },
        },
    });
    let spec = json!({
        "replicas": replicas, "selector": { "matchLabels": labels }, "virtualMachineTemplate": template,
    });
    let metadata = json!({ "name": "web", "namespace": NAMESPACE });
    world.server.create(POOLS, json!({ "metadata": metadata, "spec": spec }));
    world.lead_all(&[PlatformName::Kubevirt]);
}

/// A pool with one machine that has no instance, and whose guest still seems ready.
async fn world() -> LeaderWorld {
    let mut world = LeaderWorld::new();
    lead(&mut world, 1);
    world.calm().await;
    world.server.edit(MACHINES, "web-0", |machine| {
        machine["status"] = json!({ "conditions": [{ "type": "Ready", "status": "True" }] });
    });
    world.calm().await;
    world.take_writes();
    world
}

impl LeaderWorld {
    /// A user scales the pool, and the world settles.
    async fn settle_at(&self, replicas: usize) {
        self.server.edit(POOLS, "web", |pool| pool["spec"]["replicas"] = json!(replicas));
        self.advance(SECOND * 5).await;
        self.server.collect_garbage();
        self.calm().await;
    }

    /// The reference to the machine `web-0` as the controller of an object.
    fn owner(&self) -> Value {
        let machine = self.server.get(MACHINES, "web-0").unwrap();
        json!({
            "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": "web-0", "controller": true,
            "uid": machine["metadata"]["uid"],
        })
    }

    /// KubeVirt starts the machine `web-0`, from a revision that is not stored.
    fn start_outdated_instance(&self) {
        let owner = self.owner();
        let labels = json!({ "kubevirt.io/vm-pool-revision-name": "web-0" });
        let metadata = json!({
            "name": "web-0", "namespace": NAMESPACE, "labels": labels, "ownerReferences": [owner],
        });
        let status = json!({ "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] });
        self.server.create(INSTANCES, json!({ "metadata": metadata, "spec": {}, "status": status }));
    }
}

#[tokio::test]
async fn an_outdated_instance_is_deleted_after_its_machine_is_marked() {
    let world = world().await;
    world.start_outdated_instance();
    world.calm().await;
    let writes = world.take_writes();
    assert_eq!(count(&writes, Verb::Delete, "virtualmachineinstances"), 1);
    assert_eq!(world.server.get(INSTANCES, "web-0"), None);
}

#[rstest]
#[case::was_detached(MACHINES, "web-0", |machine: &mut Value| machine["metadata"]["ownerReferences"] = json!([]))]
#[case::lost_its_label(MACHINES, "web-0", |machine: &mut Value| machine["metadata"]["labels"]["farm"] = json!("other"))]
#[case::belongs_to_a_paused_pool(POOLS, "web", |pool: &mut Value| pool["spec"]["paused"] = json!(true))]
#[tokio::test]
async fn no_instance_is_deleted_if_the_cache_does_not_show_yet_that_its_machine(
    #[case] resource: &str,
    #[case] name: &str,
    #[case] change: fn(&mut Value),
) {
    let world = world().await;
    world.server.hold(resource);
    world.server.edit(resource, name, change);
    world.start_outdated_instance();
    world.calm().await;
    assert!(world.server.get(INSTANCES, "web-0").is_some());
    // The release of a machine is a JSON patch.
    assert_eq!(count(&world.take_writes(), MERGE_PATCH, "virtualmachines"), 0, "the machine is not marked");
}

/// The ordinal of a target returns. The list of removed machines shows what a repeated request is about.
#[tokio::test]
async fn a_target_whose_entry_leaves_the_record_is_listed_as_removed() {
    let mut world = LeaderWorld::new();
    lead(&mut world, 3);
    world.calm().await;
    let target = world.server.get(MACHINES, "web-1").unwrap()["metadata"]["uid"].as_str().unwrap().to_owned();
    world.take_writes();
    world.server.edit(POOLS, "web", |pool| {
        let record = json!([{ "name": "web-1", "uid": target }]).to_string();
        pool["metadata"]["annotations"] = json!({ SCALE_IN_TARGETS: record });
        pool["spec"]["replicas"] = json!(2);
    });
    world.calm().await;
    assert_eq!(machine_names(&world.server.all(MACHINES)), ["web-0", "web-2"]);
    let annotations = world.server.get(POOLS, "web").unwrap()["metadata"]["annotations"].clone();
    let list = json!([{ "name": "web-1", "uid": target }]).to_string();
    assert_eq!(annotations, json!({ REMOVED_MACHINES: list }));
    assert_eq!(count(&world.take_writes(), MERGE_PATCH, "virtualmachinepools"), 1, "one write does both");
    world.server.edit(POOLS, "web", |pool| pool["spec"]["replicas"] = json!(3));
    world.calm().await;
    assert_eq!(machine_names(&world.server.all(MACHINES)), ["web-0", "web-1", "web-2"]);
}

#[tokio::test]
async fn an_ordinal_whose_create_is_rejected_delays_no_other() {
    let mut world = LeaderWorld::new();
    world.server.intercept(|call| {
        if call.is(Verb::Create, "virtualmachines") && call.name == "web-0" {
            return Fate::Refuse(Refusal::new(403, "Forbidden", "denied by a policy"));
        }
        Fate::Serve
    });
    lead(&mut world, 4);
    world.advance(SECOND * 30).await;
    assert_eq!(machine_names(&world.server.all(MACHINES)), ["web-1", "web-2", "web-3"]);
    world.server.behave();
    world.advance(SECOND * 60).await;
    assert_eq!(world.server.all(MACHINES).len(), 4);
}

#[tokio::test]
async fn a_machine_that_lost_its_label_gets_no_template_although_the_cache_does_not_show_it_yet() {
    let world = world().await;
    world.server.hold(MACHINES);
    world.server.edit(MACHINES, "web-0", |machine| machine["metadata"]["labels"]["farm"] = json!("other"));
    world.server.edit(POOLS, "web", |pool| {
        let template = &mut pool["spec"]["virtualMachineTemplate"]["spec"]["template"];
        template["spec"]["terminationGracePeriodSeconds"] = json!(7);
    });
    world.calm().await;
    let machine = world.server.get(MACHINES, "web-0").unwrap();
    assert_eq!(machine["spec"]["template"]["spec"]["terminationGracePeriodSeconds"], Value::Null);
}

const VOLUMES: &str = "datavolumes.cdi.kubevirt.io";

#[tokio::test]
async fn storage_stays_if_a_user_requires_it_before_deleting_a_machine_and_the_cache_does_not_show_it() {
    let mut world = LeaderWorld::new();
    lead(&mut world, 1);
    world.calm().await;
    let owner = world.owner();
    let metadata = json!({ "name": "root-0", "namespace": NAMESPACE, "ownerReferences": [owner] });
    world.server.create(VOLUMES, json!({ "metadata": metadata, "spec": {} }));
    world.server.edit(MACHINES, "web-0", |machine| {
        machine["spec"]["dataVolumeTemplates"] = json!([{ "metadata": { "name": "root-0" }, "spec": {} }]);
        machine["spec"]["template"]["spec"]["volumes"] =
            json!([{ "name": "root", "dataVolume": { "name": "root-0" } }]);
    });
    world.calm().await;
    world.server.hold(POOLS);
    world.server.edit(POOLS, "web", |pool| {
        pool["spec"]["scaleInStrategy"] = json!({ "proactive": { "statePreservation": "Offline" } });
    });
    world.server.delete(MACHINES, "web-0");
    world.calm().await;
    world.server.collect_garbage();
    let volume = world.server.get(VOLUMES, "root-0").expect("the storage is preserved");
    assert_eq!(volume["metadata"]["ownerReferences"], Value::Null);
}

#[tokio::test]
async fn a_pool_that_is_deleted_with_an_unconfirmed_create_ends_when_the_create_cannot_be_carried_out_any_more()
 {
    let mut world = LeaderWorld::new();
    world.server.intercept(|call| {
        if call.is(Verb::Create, "virtualmachines") && call.name == "web-1" {
            return Fate::Refuse(Refusal::new(500, "InternalError", "failed calling webhook"));
        }
        Fate::Serve
    });
    lead(&mut world, 2);
    world.advance(SECOND * 5).await;
    assert_eq!(machine_names(&world.server.all(MACHINES)), ["web-0"]);
    world.server.delete(POOLS, "web");
    world.advance(SECOND * 90).await;
    assert_eq!(world.server.get(POOLS, "web"), None);
}

/// Between the two reads of a release, the copies of the machine are kept.
#[tokio::test]
async fn a_machine_that_has_another_owner_by_then_is_not_released() {
    let world = world().await;
    let other = json!([{
        "apiVersion": "example.com/v1", "kind": "Farm", "name": "other", "uid": "other", "controller": true,
    }]);
    let (server, owners, reads) =
        (world.server.clone(), other.clone(), std::sync::atomic::AtomicUsize::new(0));
    world.server.intercept(move |call| {
        let is_read = call.is(Verb::Get, "virtualmachines") && call.name == "web-0";
        if is_read && reads.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 1 {
            let owners = owners.clone();
            server.edit(MACHINES, "web-0", |machine| machine["metadata"]["ownerReferences"] = owners);
        }
        Fate::Serve
    });
    world.server.edit(MACHINES, "web-0", |machine| machine["metadata"]["ownerReferences"] = json!([]));
    world.calm().await;
    let machine = world.server.get(MACHINES, "web-0").unwrap();
    assert_eq!(machine["metadata"]["ownerReferences"], other, "{machine}");
}

#[rstest]
#[case::a_machine_keeps_its_finalizer(MACHINES, "web-0", "/metadata/deletionTimestamp")]
#[case::a_pool_gets_no_finalizer(POOLS, "web", "/spec")]
#[tokio::test]
async fn a_finalizer_that_the_api_server_rejects_for_ever_is_reported(
    #[case] resource: &'static str,
    #[case] name: &'static str,
    #[case] exists: &str,
) {
    let mut world = LeaderWorld::new();
    let plural = resource.split('.').next().unwrap();
    let refused = move |call: &Call| call.is(JSON_PATCH, plural) && call.name == name;
    if resource == POOLS {
        world.server.intercept(move |call| {
            if refused(call) {
                Fate::Refuse(Refusal::new(422, "Invalid", "an old field"))
            } else {
                Fate::Serve
            }
        });
    }
    lead(&mut world, 1);
    world.advance(SECOND * 5).await;
    if resource == MACHINES {
        world.server.intercept(move |call| {
            if refused(call) {
                Fate::Refuse(Refusal::new(422, "Invalid", "an old field"))
            } else {
                Fate::Serve
            }
        });
        world.server.delete(MACHINES, "web-0");
    }
    world.take_writes();
    world.advance(SECOND * 60).await;
    assert!(world.server.get(resource, name).unwrap().pointer(exists).is_some());
    let pool = world.server.get(POOLS, "web").unwrap();
    let conditions = pool["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let failure = conditions.iter().find(|condition| condition["type"] == "ReplicaFailure");
    assert!(failure.is_some_and(|failure| failure["message"].to_string().contains("an old field")), "{pool}");
    let writes = world.take_writes();
    assert!(count(&writes, JSON_PATCH, plural) < 20, "{writes:?}");
}

/// A machine that a user keeps when the pool is deleted.
#[tokio::test]
async fn a_machine_that_outlives_its_pool_is_not_marked_as_restarting() {
    let world = world().await;
    world.server.edit(MACHINES, "web-0", |machine| {
        machine["metadata"]["annotations"]["vmpool.dev/restarting"] = json!("web-1");
    });
    world.server.hold(INSTANCES);
    world.server.delete_with(POOLS, "web", &json!({ "propagationPolicy": "Orphan" }));
    world.calm().await;
    let machine = world.server.get(MACHINES, "web-0").unwrap();
    assert_eq!(machine["metadata"]["annotations"]["vmpool.dev/restarting"], Value::Null, "{machine}");
    assert_eq!(machine["metadata"]["finalizers"], Value::Null);
}

/// A machine that a user gave to the pool.
#[tokio::test]
async fn a_machine_without_an_ordinal_is_reported_and_not_tried_again_in_each_pass() {
    let world = world().await;
    let pool = world.server.get(POOLS, "web").unwrap();
    let mut machine = world.server.get(MACHINES, "web-0").unwrap();
    machine["metadata"] = json!({
        "name": "main", "namespace": NAMESPACE, "labels": { "farm": "web" },
        "ownerReferences": [{
            "apiVersion": "pool.kubevirt.io/v1beta1", "kind": "VirtualMachinePool", "name": "web",
            "uid": pool["metadata"]["uid"], "controller": true,
        }],
    });
    world.server.edit(POOLS, "web", |pool| pool["spec"]["replicas"] = json!(2));
    world.server.create(MACHINES, machine);
    world.advance(SECOND * 30).await;
    let pool = world.server.get(POOLS, "web").unwrap();
    let conditions = pool["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let failure = conditions.iter().find(|condition| condition["type"] == "ReplicaFailure");
    assert!(failure.is_some_and(|failure| failure["message"].to_string().contains("ordinal")), "{pool}");
    world.server.take_log();
    world.advance(SECOND * 300).await;
    let reads = count(&world.server.take_log(), Verb::Get, "virtualmachines");
    assert!(reads < 10, "{reads} reads");
}

/// The pass that creates a machine reads the pool live. Later passes see an older one in the cache.
#[tokio::test]
async fn a_machine_keeps_its_template_while_the_cache_shows_an_older_pool() {
    let mut world = LeaderWorld::new();
    lead(&mut world, 1);
    world.calm().await;
    world.server.hold(POOLS);
    world.server.edit(POOLS, "web", |pool| {
        pool["spec"]["virtualMachineTemplate"]["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] =
            json!(7);
    });
    world.server.delete(MACHINES, "web-0");
    world.calm().await;
    let grace = |world: &LeaderWorld| {
        let machine = world.server.get(MACHINES, "web-0").unwrap();
        machine["spec"]["template"]["spec"]["terminationGracePeriodSeconds"].clone()
    };
    assert_eq!(grace(&world), 7);
    world
        .server
        .edit(MACHINES, "web-0", |machine| machine["status"] = json!({ "printableStatus": "Starting" }));
    world.advance(SECOND * 30).await;
    assert_eq!(grace(&world), 7);
    let pool = world.server.get(POOLS, "web").unwrap();
    assert_eq!(pool["status"]["observedGeneration"], pool["metadata"]["generation"]);
}

#[tokio::test]
async fn a_machine_that_a_user_returns_belongs_to_its_pool_again() {
    let mut world = LeaderWorld::new();
    lead(&mut world, 1);
    world.calm().await;
    let machine = world.server.get(MACHINES, "web-0").unwrap();
    world.server.edit(MACHINES, "web-0", |machine| machine["metadata"]["ownerReferences"] = json!([]));
    world.calm().await;
    assert_eq!(machine_names(&world.server.all(MACHINES)), ["web-0", "web-1"]);
    let detached = world.server.get(MACHINES, "web-0").unwrap();
    assert_eq!(detached["metadata"]["finalizers"], Value::Null, "{detached}");

    world.take_writes();
    let owners = &machine["metadata"]["ownerReferences"];
    world.server.edit(MACHINES, "web-0", |machine| machine["metadata"]["ownerReferences"] = owners.clone());
    world.server.edit(POOLS, "web", |pool| pool["spec"]["replicas"] = json!(2));
    world.calm().await;
    let returned = world.server.get(MACHINES, "web-0").unwrap();
    assert_eq!(returned["metadata"]["finalizers"], machine["metadata"]["finalizers"]);
    assert_eq!(machine_names(&world.server.all(MACHINES)), ["web-0", "web-1"]);
    assert_eq!(count(&world.take_writes(), Verb::Create, "virtualmachines"), 0, "it counts as a member");

    world.server.edit(POOLS, "web", |pool| pool["spec"]["replicas"] = json!(1));
    world.advance(SECOND * 5).await;
    assert_eq!(world.server.all(MACHINES).len(), 1, "one machine is surplus");
}

/// Gives the pool a DataVolume template, and lets it preserve the storage of its machines.
fn preserve_a_data_volume(world: &LeaderWorld) {
    world.server.edit(POOLS, "web", |pool| {
        pool["spec"]["scaleInStrategy"] = json!({ "proactive": { "statePreservation": "Offline" } });
        let spec = &mut pool["spec"]["virtualMachineTemplate"]["spec"];
        spec["dataVolumeTemplates"] = json!([{ "metadata": { "name": "root" }, "spec": {} }]);
        spec["template"]["spec"]["volumes"] = json!([{ "name": "root", "dataVolume": { "name": "root" } }]);
    });
}

/// A user moves the volume of a machine to another claim, and removes the DataVolume template.
async fn with_moved_volume() -> LeaderWorld {
    let mut world = LeaderWorld::new();
    lead(&mut world, 1);
    preserve_a_data_volume(&world);
    world.calm().await;
    world.advance(SECOND * 5).await;
    world.server.collect_garbage();
    world.calm().await;
    let old = json!({ "name": "root-0", "namespace": NAMESPACE, "ownerReferences": [world.owner()] });
    world.server.create(VOLUMES, json!({ "metadata": old, "spec": {} }));
    let moved = json!({ "name": "fast-0", "namespace": NAMESPACE });
    world.server.create("persistentvolumeclaims", json!({ "metadata": moved, "spec": {} }));
    world.server.edit(MACHINES, "web-0", |machine| {
        machine["spec"]["dataVolumeTemplates"] = json!([]);
        let claim = json!({ "claimName": "fast-0" });
        machine["spec"]["template"]["spec"]["volumes"] =
            json!([{ "name": "root", "persistentVolumeClaim": claim }]);
    });
    world.calm().await;
    world.settle_at(0).await;
    assert_eq!(world.server.all(MACHINES), [Value::Null; 0]);
    world
}

#[tokio::test]
async fn the_next_machine_uses_the_claim_to_which_a_user_moved_a_volume() {
    const ANNOTATION: &str = "vmpool.dev/moved-storage-0";
    let world = with_moved_volume().await;
    let annotation = |world: &LeaderWorld| {
        world.server.get(POOLS, "web").unwrap()["metadata"]["annotations"][ANNOTATION].clone()
    };
    assert_eq!(annotation(&world), "root-0=PersistentVolumeClaim/fast-0");
    world.settle_at(1).await;
    let volumes = |world: &LeaderWorld| {
        let machine = world.server.get(MACHINES, "web-0").unwrap();
        let spec = &machine["spec"];
        (spec["dataVolumeTemplates"].clone(), spec["template"]["spec"]["volumes"][0].clone())
    };
    let claim = json!({ "name": "root", "persistentVolumeClaim": { "claimName": "fast-0" } });
    assert_eq!(volumes(&world), (json!([]), claim.clone()));
    let untouched = world.server.get("persistentvolumeclaims", "fast-0").unwrap();
    assert_eq!(untouched["metadata"]["labels"], Value::Null, "it belongs to the user");
    world.server.take_log();
    world.advance(SECOND * 30).await;
    let log = world.server.take_log();
    assert!(log.iter().all(|call| call.subresource == "status"), "{log:?}");
    // It stays so for the machine after that, until the user moves the volume back.
    world.settle_at(0).await;
    world.settle_at(1).await;
    assert_eq!(volumes(&world).1, claim);
    world.server.edit(MACHINES, "web-0", |machine| {
        machine["spec"]["dataVolumeTemplates"] = json!([{ "metadata": { "name": "root-0" }, "spec": {} }]);
        machine["spec"]["template"]["spec"]["volumes"] =
            json!([{ "name": "root", "dataVolume": { "name": "root-0" } }]);
    });
    world.calm().await;
    world.settle_at(0).await;
    assert_eq!(annotation(&world), Value::Null);
    world.settle_at(1).await;
    assert_eq!(volumes(&world).1, json!({ "name": "root", "dataVolume": { "name": "root-0" } }));
}

#[tokio::test]
async fn a_machine_whose_moved_claim_is_gone_is_not_created_with_the_old_data() {
    let world = with_moved_volume().await;
    world.server.delete("persistentvolumeclaims", "fast-0");
    world.settle_at(1).await;
    assert_eq!(world.server.all(MACHINES), [Value::Null; 0]);
    let pool = world.server.get(POOLS, "web").unwrap();
    let conditions = pool["status"]["conditions"].to_string();
    assert!(conditions.contains("root-0") && conditions.contains("fast-0"), "{conditions}");
    // The user decides for the old storage.
    world.server.edit(POOLS, "web", |pool| {
        pool["metadata"]["annotations"].as_object_mut().unwrap().remove("vmpool.dev/moved-storage-0");
    });
    world.advance(SECOND * 40).await;
    let machine = world.server.get(MACHINES, "web-0").unwrap();
    assert_eq!(machine["spec"]["template"]["spec"]["volumes"][0]["dataVolume"]["name"], "root-0");
}

/// CDI deletes DataVolumes that are complete, and KubeVirt makes the machine the owner of the claim.
#[tokio::test]
async fn a_claim_whose_data_volume_was_collected_is_preserved() {
    const CLAIMS: &str = "persistentvolumeclaims";
    let mut world = LeaderWorld::new();
    lead(&mut world, 1);
    preserve_a_data_volume(&world);
    world.calm().await;
    let metadata = json!({ "name": "root-0", "namespace": NAMESPACE, "ownerReferences": [world.owner()] });
    world.server.create(CLAIMS, json!({ "metadata": metadata, "spec": {} }));
    world.server.edit(POOLS, "web", |pool| pool["spec"]["replicas"] = json!(0));
    world.advance(SECOND * 5).await;
    world.server.collect_garbage();
    assert_eq!(world.server.all(MACHINES), [Value::Null; 0]);
    let claim = world.server.get(CLAIMS, "root-0").expect("the claim is preserved");
    assert_eq!(claim["metadata"]["ownerReferences"], Value::Null, "{claim}");
    let preserved = |world: &LeaderWorld, labels: &str| {
        let page = world.metrics.page();
        let series = format!("vmpool_pool_preserved_volumes{{{labels}}} ");
        page.lines().find_map(|line| line.strip_prefix(&series)).map(str::to_owned)
    };
    let of_pool = "namespace=\"team-a\",pool=\"web\",platform=\"kubevirt\"";
    assert_eq!(preserved(&world, of_pool).as_deref(), Some("1"));

    // The next machine uses it, and it keeps its labels.
    world.server.edit(POOLS, "web", |pool| pool["spec"]["replicas"] = json!(1));
    world.calm().await;
    let owner = world.owner();
    world.server.edit(CLAIMS, "root-0", |claim| claim["metadata"]["ownerReferences"] = json!([owner]));
    world.calm().await;
    assert_eq!(preserved(&world, of_pool), None);

    world.server.delete(POOLS, "web");
    world.advance(SECOND * 5).await;
    let others = "namespace=\"(others)\",pool=\"(others)\",platform=\"(others)\"";
    assert_eq!(preserved(&world, others), None);
    world.server.edit(CLAIMS, "root-0", |claim| claim["metadata"]["ownerReferences"] = json!([]));
    world.calm().await;
    assert_eq!(preserved(&world, others).as_deref(), Some("1"), "its pool does not exist");
}

impl LeaderWorld {
    /// The condition of the pool `web` with this type.
    fn pool_condition(&self, kind: &str) -> Option<Value> {
        let pool = self.server.get(POOLS, "web").unwrap();
        let conditions = pool["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.into_iter().find(|condition| condition["type"] == kind)
    }

    /// The reasons among `wanted` of the events about the pool `web`, sorted.
    fn events_of_pool(&self, wanted: &[&str]) -> Vec<String> {
        let events = self.server.all("events").into_iter();
        let of_pool = events.filter(|event| event["involvedObject"]["kind"] == "VirtualMachinePool");
        let reasons = of_pool.filter_map(|event| event["reason"].as_str().map(str::to_owned));
        let mut reasons: Vec<String> = reasons.filter(|reason| wanted.contains(&&**reason)).collect();
        reasons.sort_unstable();
        reasons
    }
}

#[tokio::test]
async fn a_revision_that_the_api_server_does_not_delete_is_reported_until_it_is_gone() {
    const REVISIONS: &str = "controllerrevisions.apps";
    let world = world().await;
    world.server.intercept(|call| {
        if call.is(Verb::Delete, "controllerrevisions") {
            return Fate::Refuse(Refusal::new(403, "Forbidden", "denied by a policy"));
        }
        Fate::Serve
    });
    world.server.edit(POOLS, "web", |pool| {
        pool["spec"]["revisionHistoryLimit"] = json!(0);
        pool["spec"]["virtualMachineTemplate"]["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] =
            json!(7);
    });
    world.calm().await;
    let failure = world.pool_condition("ReplicaFailure").expect("the failure is shown");
    assert_eq!(failure["reason"], "FailedRevisionPruning", "{failure}");
    assert!(failure["message"].to_string().contains("denied by a policy"), "{failure}");
    assert_eq!(failure["lastProbeTime"], Value::Null);
    assert!(failure["lastTransitionTime"].is_string(), "{failure}");
    assert_eq!(world.events_of_pool(&["FailedRevisionPruning"]).len(), 1);
    world.server.behave();
    world.advance(SECOND * 60).await;
    assert_eq!(world.server.all(REVISIONS).len(), 1);
    assert_eq!(world.pool_condition("ReplicaFailure"), None);
}

#[tokio::test]
async fn kubevirt_pools_have_metrics_under_the_names_of_kubevirt_if_they_are_switched_on() {
    for (policy, is_enabled) in [(KubevirtMetrics::Never, false), (KubevirtMetrics::Always, true)] {
        let mut world = LeaderWorld::new();
        world.settings.kubevirt_metrics = policy;
        lead(&mut world, 3);
        world.calm().await;
        world.settle_at(2).await;
        let page = world.metrics.page();
        let names: Vec<&str> = page.lines().filter(|line| line.starts_with("kubevirt_vmpool_")).collect();
        if !is_enabled {
            assert_eq!(names, [""; 0]);
            continue;
        }
        for (name, value) in [
            ("info", 1),
            ("desired_replicas", 2),
            ("replicas", 2),
            ("ready_replicas", 0),
            ("paused", 0),
            ("replica_failure", 0),
            ("vms_started_total", 3),
            ("vms_stopped_total", 1),
            ("auto_healing_operations_total", 0),
        ] {
            let labels = format!(r#"{{namespace="{NAMESPACE}",name="web"}}"#);
            let line = format!("kubevirt_vmpool_{name}{labels} {value}");
            assert!(names.contains(&&*line), "{line} is not in {names:#?}");
        }
        assert_eq!(names.len(), 9, "{names:#?}");
    }
}

/// The numbers of the stored revisions, sorted.
fn revision_numbers(world: &LeaderWorld) -> Vec<i64> {
    let stored = world.server.all("controllerrevisions.apps");
    let mut numbers: Vec<i64> = stored.iter().filter_map(|stored| stored["revision"].as_i64()).collect();
    numbers.sort_unstable();
    numbers
}

#[tokio::test]
async fn a_user_can_go_back_after_a_completed_rollout() {
    let world = world().await;
    let template = world.server.get(POOLS, "web").unwrap()["spec"]["virtualMachineTemplate"].clone();
    world.server.edit(POOLS, "web", |pool| {
        pool["spec"]["virtualMachineTemplate"]["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] =
            json!(7);
    });
    world.calm().await;
    assert_eq!(revision_numbers(&world).len(), 2, "the former revision stays for a rollback");
    // When the user goes back, then the controller keeps one revision of each template.
    world.server.edit(POOLS, "web", |pool| pool["spec"]["virtualMachineTemplate"] = template.clone());
    world.calm().await;
    world.advance(SECOND * 60).await;
    let back = revision_numbers(&world);
    assert_eq!(back.len(), 2, "{back:?}");
    // An annotation limits them where pools have no such field.
    world.server.edit(POOLS, "web", |pool| {
        pool["metadata"]["annotations"]["vmpool.dev/revision-history-limit"] = json!("0");
    });
    world.calm().await;
    world.advance(SECOND * 60).await;
    assert_eq!(revision_numbers(&world).len(), 1);
}

#[tokio::test]
async fn each_pause_has_one_event_also_after_a_change_of_leaders() {
    let mut world = world().await;
    world.server.edit(POOLS, "web", |pool| pool["spec"]["paused"] = json!(true));
    world.calm().await;
    assert_eq!(world.pool_condition("ReplicaPaused").unwrap()["reason"], "SuccessfulPaused");
    assert_eq!(world.events_of_pool(&["SuccessfulPaused", "SuccessfulResume"]), ["SuccessfulPaused"]);
    world.kill_leader().await;
    world.lead_all(&[PlatformName::Kubevirt]);
    world.calm().await;
    assert_eq!(world.events_of_pool(&["SuccessfulPaused", "SuccessfulResume"]), ["SuccessfulPaused"]);
    world.server.edit(POOLS, "web", |pool| pool["spec"]["paused"] = json!(false));
    world.calm().await;
    assert_eq!(world.pool_condition("ReplicaPaused"), None);
    assert_eq!(
        world.events_of_pool(&["SuccessfulPaused", "SuccessfulResume"]),
        ["SuccessfulPaused", "SuccessfulResume"]
    );
}

/// An object of any namespace can name the machine as an owner that waits for it.
#[rstest]
#[case::its_storage_is_gone(None, true)]
#[case::its_storage_is_still_deleted("web-0".into(), false)]
#[case::storage_of_this_name_belongs_to_another_machine("web-1".into(), true)]
#[tokio::test]
async fn a_deletion_that_only_the_garbage_collector_holds_ends(
    #[case] owner_of_storage: Option<&str>,
    #[case] ends: bool,
) {
    let world = world().await;
    world.server.edit(POOLS, "web", |pool| {
        pool["spec"]["virtualMachineTemplate"]["spec"]["dataVolumeTemplates"] =
            json!([{ "metadata": { "name": "root" }, "spec": {} }]);
    });
    world.calm().await;
    let uid = world.server.get(MACHINES, "web-0").unwrap()["metadata"]["uid"].clone();
    if let Some(name) = owner_of_storage {
        let uid = if name == "web-0" { uid } else { json!("another") };
        let owner = json!({
            "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": name, "controller": true, "uid": uid,
        });
        let metadata = json!({ "name": "root-0", "namespace": NAMESPACE, "ownerReferences": [owner] });
        world.server.create("datavolumes.cdi.kubevirt.io", json!({ "metadata": metadata, "spec": {} }));
    }
    let since = world.env.now();
    world.server.edit(MACHINES, "web-0", |machine| {
        machine["metadata"]["finalizers"] = json!(["foregroundDeletion"]);
        machine["metadata"]["deletionTimestamp"] = json!(since.to_string());
    });
    world.take_writes();
    world.advance(SECOND * 50).await;
    assert_eq!(
        count(&world.take_writes(), JSON_PATCH, "virtualmachines"),
        0,
        "the garbage collector has time"
    );
    world.advance(SECOND * 20).await;
    let writes = world.take_writes();
    assert_eq!(count(&writes, JSON_PATCH, "virtualmachines"), usize::from(ends), "{writes:?}");
    let status = world.server.get(POOLS, "web").unwrap()["status"].to_string();
    assert_eq!(status.contains("DataVolume root-0 is still being deleted"), !ends, "{status}");
}
