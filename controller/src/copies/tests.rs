//! Copies and the protection of instance types, with one leader, on a model of the API server.

use std::collections::BTreeSet;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};
use vmpool_platforms::instancetype::copies::CopyPolicy;
use vmpool_platforms::instancetype::type_protection::FINALIZER;

use crate::process::options::PlatformName;
use crate::testing::{Call, Fate, LeaderWorld, NAMESPACE, Refusal, Verb};

mod bounded;
mod cluster;
mod deletion;
mod foreign;
mod integrity;
mod metrics;
mod owners;
mod pools;
mod protection;

const TYPES: &str = "virtualmachineinstancetypes.instancetype.kubevirt.io";
const POOLS: &str = "virtualmachinepools.pool.kubevirt.io";
const MACHINES: &str = "virtualmachines.kubevirt.io";
const REVISIONS: &str = "controllerrevisions.apps";
const PREFERENCES: &str = "virtualmachinepreferences.instancetype.kubevirt.io";

const SECOND: Duration = Duration::from_secs(1);

/// What names instance type `small`.
fn matcher() -> Value {
    json!({ "name": "small", "kind": "VirtualMachineInstancetype" })
}

/// A world with instance type `small`, and a leader.
async fn world(copies: Option<CopyPolicy>) -> LeaderWorld {
    let mut world = LeaderWorld::new();
    world.settings.copies = copies;
    world.create_type(2);
    world.lead_all(&[PlatformName::Kubevirt]);
    world.calm().await;
    world
}

impl LeaderWorld {
    /// Creates the type as the webhook does, with the finalizer.
    fn create_type(&self, cpus: u32) {
        let metadata =
            json!({ "name": "small", "namespace": NAMESPACE, "generation": 1, "finalizers": [FINALIZER] });
        let spec = json!({ "cpu": { "guest": cpus }, "memory": { "guest": "1Gi" } });
        self.server.create(TYPES, json!({ "metadata": metadata, "spec": spec }));
    }

    fn create_machine(&self, name: &str) {
        let spec = json!({
            "runStrategy": "Halted", "instancetype": matcher(),
            "template": { "spec": { "domain": { "devices": {} } } },
        });
        let metadata = json!({ "name": name, "namespace": NAMESPACE });
        self.server.create(MACHINES, json!({ "metadata": metadata, "spec": spec }));
    }

    /// A pool without machines, whose controller does not run.
    fn create_pool(&self, name: &str) {
        let metadata = json!({ "name": name, "namespace": NAMESPACE });
        let template = json!({
            "metadata": { "labels": { "farm": name } },
            "spec": {
                "runStrategy": "Always",
                "instancetype": matcher(),
                "preference": { "name": "missing" },
                "template": { "spec": { "domain": { "devices": {} } } },
            },
        });
        let spec = json!({
            "replicas": 0, "selector": { "matchLabels": { "farm": name } }, "virtualMachineTemplate": template,
        });
        self.server.create(POOLS, json!({ "metadata": metadata, "spec": spec }));
    }

    /// The API server rejects new copies and revisions.
    fn refuse_copies(&self) {
        let refusal = Refusal::new(503, "ServiceUnavailable", "try again");
        self.server.intercept(move |call: &Call| {
            if call.is(Verb::Create, "controllerrevisions") {
                Fate::Refuse(refusal.clone())
            } else {
                Fate::Serve
            }
        });
    }

    /// A pool without machines whose template can be resolved.
    fn create_pool_at_rest(&self, name: &str) {
        self.create_pool(name);
        self.server.edit(POOLS, name, |pool| {
            pool["spec"]["virtualMachineTemplate"]["spec"]["preference"] = Value::Null;
        });
    }

    /// Whether a revision of a pool contains copies.
    fn has_copies(&self, pool: &str) -> bool {
        let uid = self.server.get(POOLS, pool).unwrap()["metadata"]["uid"].clone();
        let is_it = |revision: &Value| {
            revision["metadata"]["ownerReferences"][0]["uid"] == uid
                && revision["data"]["vmpoolPins"].is_object()
        };
        self.server.all(REVISIONS).iter().any(is_it)
    }

    fn small(&self) -> Option<Value> {
        self.server.get(TYPES, "small")
    }

    fn delete_small(&self) {
        self.server.delete(TYPES, "small");
    }

    /// Whether the status of a machine names a copy of `small`.
    fn has_copy_of_small(&self, machine: &str) -> bool {
        self.copy_of(machine).is_some_and(|copy| copy.contains("-small-"))
    }

    /// The name of the copy of a machine, if no client has deleted it.
    fn existing_copy_of(&self, machine: &str) -> Option<String> {
        self.copy_of(machine).filter(|copy| self.server.get(REVISIONS, copy).is_some())
    }

    /// The name of the copy in the status of a machine.
    fn copy_of(&self, machine: &str) -> Option<String> {
        let machine = self.server.get(MACHINES, machine)?;
        machine.pointer("/status/instancetypeRef/controllerRevisionRef/name")?.as_str().map(str::to_owned)
    }
}

#[tokio::test]
async fn beside_kubevirt_a_type_stays_until_kubevirt_has_copied_it_and_vmpool_copies_nothing() {
    let world = world(None).await;
    assert_eq!(world.small().unwrap()["metadata"]["finalizers"], json!([FINALIZER]));
    world.create_machine("db");
    world.calm().await;
    world.delete_small();
    world.advance(100 * SECOND).await;
    assert!(world.small().is_some(), "the machine has no copy");
    assert!(world.server.all(REVISIONS).is_empty() && world.copy_of("db").is_none(), "KubeVirt makes copies");
    // When KubeVirt writes the status, then the type is released at once.
    world.server.edit(MACHINES, "db", |machine| {
        let mut reference = matcher();
        reference["controllerRevisionRef"] = json!({ "name": "db-small" });
        machine["status"]["instancetypeRef"] = reference;
    });
    world.advance(3 * SECOND).await;
    assert_eq!(world.small(), None);
}

#[tokio::test]
async fn a_change_of_a_pool_releases_a_type_at_once() {
    for copies in [None, Some(CopyPolicy::Reference)] {
        let world = world(copies).await;
        world.create_pool("web");
        world.refuse_copies();
        world.calm().await;
        world.delete_small();
        // The checks now have their longest pause.
        world.advance(100 * SECOND).await;
        assert!(world.small().is_some(), "the template of the pool has no copy");
        world.server.edit(POOLS, "web", |pool| {
            pool["spec"]["virtualMachineTemplate"]["spec"]["instancetype"] = Value::Null;
        });
        world.advance(3 * SECOND).await;
        assert_eq!(world.small(), None);
    }
}

/// One step of [`a_machine_that_exists_when_its_type_is_deleted_gets_its_copy`].
#[derive(Clone, Copy, Debug)]
enum Step {
    CreateType,
    EditType,
    DeleteType,
    CreateMachine,
    /// A machine that infers its type from a volume.
    CreateInferring,
    /// A pool without machines.
    CreatePool,
    DeleteMachine,
    /// A machine sets what its type sets, or no longer.
    Conflict(usize, bool),
    /// A machine names the instance type `large`, which is never deleted, or `small` again.
    Rename(usize, bool),
    /// A machine names no preference, one that exists, or one that does not exist. Neither decides about its
    /// instance type.
    Prefer(usize, Option<&'static str>),
    /// A client deletes the copy of a machine.
    LoseCopy(usize),
    /// A client removes the labels of the copy of a machine.
    StripLabels(usize),
    Advance(u64),
    Crash,
    /// The responses to the next writes are lost.
    Fail,
    Recover,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => Just(Step::CreateType),
        2 => Just(Step::EditType),
        3 => Just(Step::DeleteType),
        5 => Just(Step::CreateMachine),
        2 => Just(Step::CreateInferring),
        1 => Just(Step::CreatePool),
        2 => (0..8_usize, any::<bool>()).prop_map(|(machine, conflicts)| Step::Conflict(machine, conflicts)),
        2 => (0..8_usize, any::<bool>()).prop_map(|(machine, away)| Step::Rename(machine, away)),
        2 => (0..8_usize, prop_oneof![Just(None), Just(Some("linux")), Just(Some("missing"))])
            .prop_map(|(machine, preference)| Step::Prefer(machine, preference)),
        1 => (0..8_usize).prop_map(Step::LoseCopy),
        1 => (0..8_usize).prop_map(Step::StripLabels),
        1 => Just(Step::DeleteMachine),
        6 => (1..400_u64).prop_map(Step::Advance),
        2 => Just(Step::Crash),
        1 => Just(Step::Fail),
        2 => Just(Step::Recover),
    ]
}

/// What a sequence of steps has done.
#[derive(Default)]
struct Story {
    machines: usize,
    /// The machines that existed when their type existed and was not being deleted, and that no user deleted.
    owed: BTreeSet<String>,
    /// The machines that set what their type sets.
    conflicting: BTreeSet<String>,
    /// The machines that name another type.
    renamed: BTreeSet<String>,
    pools: usize,
    /// The pools that existed when their type was deleted.
    owed_pools: BTreeSet<String>,
    failing: bool,
}

impl Story {
    /// Lets a machine name `large`, or `small` again.
    fn rename(&mut self, world: &LeaderWorld, name: &str, away: bool, is_usable: bool) {
        if world.server.get(MACHINES, name).is_none() {
            return;
        }
        world.server.edit(MACHINES, name, |machine| {
            machine["spec"]["instancetype"] = matcher();
            if away {
                machine["spec"]["instancetype"]["name"] = json!("large");
            }
        });
        if away {
            self.owed.remove(name);
            self.renamed.insert(name.to_owned());
        } else if self.renamed.remove(name) && is_usable && !self.conflicting.contains(name) {
            self.owed.insert(name.to_owned());
        }
    }

    async fn take(&mut self, world: &mut LeaderWorld, step: Step) {
        let small = world.small();
        let is_usable = small.as_ref().is_some_and(|small| small["metadata"]["deletionTimestamp"].is_null());
        match step {
            Step::CreateType if small.is_none() => {
                world.create_type(2);
                // A machine that was created without a type uses the next one.
                self.owed.extend((0..self.machines).map(name).filter(|name| {
                    world.server.get(MACHINES, name).is_some()
                        && !self.conflicting.contains(name)
                        && !self.renamed.contains(name)
                }));
            }
            Step::EditType if is_usable => world.server.edit(TYPES, "small", |small| {
                small["spec"]["cpu"]["guest"] =
                    json!(small["spec"]["cpu"]["guest"].as_u64().unwrap_or(1) + 1);
            }),
            Step::DeleteType if is_usable => {
                world.delete_small();
                self.owed_pools.extend((0..self.pools).map(pool_name));
            }
            Step::CreateMachine | Step::CreateInferring => {
                let name = name(self.machines);
                match step {
                    Step::CreateInferring => world.create_inferring(&name),
                    _ => world.create_machine(&name),
                }
                self.machines += 1;
                if is_usable {
                    self.owed.insert(name);
                }
            }
            Step::CreatePool => {
                world.create_pool_at_rest(&pool_name(self.pools));
                self.pools += 1;
            }
            Step::Conflict(machine, conflicts) => {
                let name = name(machine);
                if world.server.get(MACHINES, &name).is_none() {
                    return;
                }
                world.server.edit(MACHINES, &name, |machine| {
                    machine["spec"]["template"]["spec"]["domain"]["memory"] =
                        if conflicts { json!({ "guest": "1Gi" }) } else { Value::Null };
                });
                if conflicts {
                    self.conflicting.insert(name.clone());
                    if !world.has_copy_of_small(&name) {
                        self.owed.remove(&name);
                    }
                } else if self.conflicting.remove(&name) && is_usable && !self.renamed.contains(&name) {
                    self.owed.insert(name);
                }
            }
            Step::Rename(machine, away) => self.rename(world, &name(machine), away, is_usable),
            Step::Prefer(machine, preference) => prefer(world, &name(machine), preference),
            Step::LoseCopy(machine) => {
                if let Some(copy) = world.existing_copy_of(&name(machine)) {
                    world.server.delete(REVISIONS, &copy);
                }
            }
            Step::StripLabels(machine) => {
                if let Some(copy) = world.existing_copy_of(&name(machine)) {
                    world.server.edit(REVISIONS, &copy, |copy| copy["metadata"]["labels"] = json!({}));
                }
            }
            Step::DeleteMachine => {
                if let Some(name) = self.owed.pop_last() {
                    world.server.delete(MACHINES, &name);
                }
            }
            Step::Advance(millis) => world.advance(Duration::from_millis(millis)).await,
            Step::Crash => {
                world.kill_leader().await;
                world.lead_all(&[PlatformName::Kubevirt]);
            }
            Step::Fail if !self.failing => {
                self.failing = true;
                world.server.intercept(
                    |call: &Call| {
                        if call.is_write() { Fate::ResponseLost } else { Fate::Serve }
                    },
                );
            }
            Step::Recover if self.failing => {
                self.failing = false;
                world.server.behave();
            }
            _ => {}
        }
    }
}

/// Lets a machine name a preference, or none.
fn prefer(world: &LeaderWorld, name: &str, preference: Option<&str>) {
    if world.server.get(MACHINES, name).is_some() {
        world.server.edit(MACHINES, name, |machine| {
            machine["spec"]["preference"] = preference.map_or(
                Value::Null,
                |preference| json!({ "name": preference, "kind": "VirtualMachinePreference" }),
            );
        });
    }
}

fn name(number: usize) -> String {
    format!("m{number}")
}

fn pool_name(number: usize) -> String {
    format!("p{number}")
}

/// Returns the machines and the pools without a copy, and the copies without labels at the end, and whether
/// the type remains.
async fn tell(steps: &[Step]) -> (Vec<String>, bool) {
    let mut world = world(Some(CopyPolicy::Reference)).await;
    world.create_claim("small");
    let metadata = |name: &str| json!({ "name": name, "namespace": NAMESPACE });
    let large = json!({ "cpu": { "guest": 8 }, "memory": { "guest": "8Gi" } });
    world.server.create(TYPES, json!({ "metadata": metadata("large"), "spec": large }));
    let linux = json!({ "devices": { "preferredRng": {} } });
    world.server.create(PREFERENCES, json!({ "metadata": metadata("linux"), "spec": linux }));
    let mut story = Story::default();
    for step in steps {
        story.take(&mut world, *step).await;
    }
    story.take(&mut world, Step::Recover).await;
    world.advance(Duration::from_mins(2)).await;
    let mut without: Vec<String> =
        story.owed.iter().filter(|name| !world.has_copy_of_small(name)).cloned().collect();
    without.extend(story.owed_pools.iter().filter(|name| !world.has_copies(name)).cloned());
    let copies = story.owed.iter().filter_map(|name| world.copy_of(name));
    let is_unlabeled = |copy: &String| {
        let copy = world.server.get(REVISIONS, copy);
        copy.is_some_and(|copy| copy["metadata"]["labels"]["instancetype.kubevirt.io/object-kind"].is_null())
    };
    without.extend(copies.filter(is_unlabeled));
    let is_stuck = world.small().is_some_and(|small| !small["metadata"]["deletionTimestamp"].is_null());
    (without, is_stuck)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, max_shrink_iters: 200, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn a_machine_that_exists_when_its_type_is_deleted_gets_its_copy(steps in vec(step(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (without, is_stuck) = runtime.block_on(tell(&steps));
        prop_assert_eq!(without, Vec::<String>::new());
        prop_assert!(!is_stuck, "the type is never released");
    }
}

#[tokio::test]
async fn a_lost_copy_of_an_older_template_is_restored() {
    let world = world(None).await;
    world.create_pool("web");
    world.server.edit(POOLS, "web", |pool| {
        pool["spec"]["replicas"] = json!(1);
        pool["spec"]["updateStrategy"] = json!({ "unmanaged": {} });
        pool["spec"]["virtualMachineTemplate"]["spec"]["preference"] = Value::Null;
    });
    world.calm().await;
    let used = |world: &LeaderWorld| {
        let machine = world.server.get(MACHINES, "web-0").unwrap();
        machine["spec"]["instancetype"]["revisionName"].as_str().unwrap_or_default().to_owned()
    };
    let copy = used(&world);
    assert!(copy.starts_with("web-small-"), "{copy}");
    // Given a type and a template that have changed since, so that only the older revision contains the copy,
    world.server.edit(TYPES, "small", |small| small["spec"]["cpu"]["guest"] = json!(8));
    world.server.edit(POOLS, "web", |pool| {
        pool["spec"]["replicas"] = json!(2);
        pool["spec"]["virtualMachineTemplate"]["metadata"]["annotations"] =
            json!({ "vmpool.dev/refresh-instancetype": "1" });
    });
    world.calm().await;
    assert_eq!(used(&world), copy, "the machine is not updated");
    let stored = world.server.get(REVISIONS, &copy).unwrap();
    // when a client deletes the copy, then it is restored.
    world.server.delete(REVISIONS, &copy);
    world.calm().await;
    let restored = world.server.get(REVISIONS, &copy).unwrap();
    assert_ne!(restored["metadata"]["uid"], stored["metadata"]["uid"]);
    assert_eq!(restored["data"], stored["data"]);
    let repairs = format!(r#"vmpool_pool_pin_repairs_total{{namespace="{NAMESPACE}",pool="web"}} 1"#);
    assert!(world.metrics.page().contains(&repairs), "{}", world.metrics.page());
    world.server.take_log();
    world.advance(10 * SECOND).await;
    assert_eq!(world.take_writes().len(), 0, "it is restored once");
}

#[tokio::test]
async fn a_new_pool_of_the_same_name_becomes_the_controller_of_the_former_copy() {
    let world = world(None).await;
    let create = |world: &LeaderWorld| {
        world.create_pool("web");
        world.server.edit(POOLS, "web", |pool| {
            pool["spec"]["replicas"] = json!(1);
            pool["spec"]["virtualMachineTemplate"]["spec"]["preference"] = Value::Null;
        });
    };
    create(&world);
    world.calm().await;
    let is_copy =
        |object: &Value| !object["metadata"]["labels"]["instancetype.kubevirt.io/object-kind"].is_null();
    let copy =
        |world: &LeaderWorld| world.server.all(REVISIONS).into_iter().find(|object| is_copy(object)).unwrap();
    let former = copy(&world);
    // Given a pool that is gone, whose copy the garbage collector has not deleted yet,
    let mut world = world;
    world.kill_leader().await;
    world.server.edit(POOLS, "web", |pool| pool["metadata"]["finalizers"] = json!([]));
    world.server.delete(POOLS, "web");
    assert_eq!(world.server.get(POOLS, "web"), None);
    // when a new one has its name, then the copy is that of the new one, and the garbage collector leaves it.
    create(&world);
    world.lead_all(&[PlatformName::Kubevirt]);
    world.calm().await;
    world.server.collect_garbage();
    world.calm().await;
    let (pool, now) = (world.server.get(POOLS, "web").unwrap(), copy(&world));
    assert_eq!(now["metadata"]["name"], former["metadata"]["name"]);
    let owner = &now["metadata"]["ownerReferences"];
    assert_eq!((owner.as_array().unwrap().len(), &owner[0]["uid"]), (1, &pool["metadata"]["uid"]));
    assert_eq!(owner[0]["controller"], true);
    assert_eq!(now["metadata"]["labels"]["vmpool.dev/pool-uid"], pool["metadata"]["uid"]);
}
