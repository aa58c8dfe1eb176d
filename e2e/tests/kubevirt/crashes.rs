//! A controller that is killed before and after each of its writes, or whose watches are late, incomplete or interrupted.
//!
//! `make crashes PLATFORM=kubevirt` kills it at every write, and has every watch fault (`VMPOOL_CRASHES=all`). The default is
//! one write and one watch fault of every step.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use vmpool_api::kubevirt::POOL_API_VERSION;
use vmpool_e2e::scenario::LIMIT;
use vmpool_installation::fault_proxy::{DropPoint, FaultProxy, RequestLine, WatchFault};
use vmpool_installation::programs::{CONTROLLER_ACCOUNT, ControllerOptions, SYSTEM_NAMESPACE};
use vmpool_test_cluster::control_plane::AuditEntry;

use crate::pins::{small, write};
use crate::pools::spec;
use crate::with_namespace_within;
use crate::world::{INSTALLED, World, accounts, run_with_options, text};

const POOL: &str = "p";
/// A controller without further writes is quiet for this long. It is several times the period for which it collects changes.
const QUIET: Duration = Duration::from_millis(600);

/// How long a step has incomplete watches before they are released.
const STALL: Duration = Duration::from_secs(3);

/// The watched resources, each alone and all of them.
const WATCHED: [&[&str]; 4] = [
    &["virtualmachinepools"],
    &["virtualmachines"],
    &["virtualmachineinstances"],
    &["virtualmachinepools", "virtualmachines", "virtualmachineinstances"],
];

const WATCH_FAULTS: [WatchFault; 12] = [
    WatchFault::Closed(0),
    WatchFault::Closed(2),
    WatchFault::Expired(0),
    WatchFault::Expired(2),
    WatchFault::Refused,
    WatchFault::Behind(1),
    WatchFault::Behind(3),
    WatchFault::Behind(8),
    WatchFault::Silent,
    WatchFault::Duplicated,
    WatchFault::Lost(1),
    WatchFault::Lost(3),
];

/// What a user does with a settled pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The pool is created with two machines.
    Create,
    /// As `Create`, with a template that names an instance type and a preference.
    CreateTyped,
    /// Two of three machines are removed, and their storage is preserved.
    ScaleIn,
    /// Both machines get more memory and restart one after the other.
    Update,
    /// The instance type changes, and both machines get it.
    UpdateTyped,
    /// A user deletes a machine, and the next one with its name uses its storage.
    LoseMachine,
    /// The pool is deleted.
    Delete,
}

impl Step {
    fn spec(self) -> Value {
        let mut spec = spec(if self == Self::ScaleIn { 3 } else { 2 });
        spec["maxUnavailable"] = json!(1);
        spec["scaleInStrategy"]["proactive"]["statePreservation"] = json!("Offline");
        if self.is_typed() {
            let machine = &mut spec["virtualMachineTemplate"]["spec"];
            machine["instancetype"] = json!({ "name": "small", "kind": "VirtualMachineInstancetype" });
            machine["preference"] = json!({ "name": "linux", "kind": "VirtualMachinePreference" });
            for size in ["cpu", "memory"] {
                machine["template"]["spec"]["domain"][size] = Value::Null;
            }
        }
        spec
    }

    /// The watch fault of the default run.
    fn watch_fault(self) -> WatchFault {
        match self {
            Self::Create | Self::CreateTyped => WatchFault::Behind(3),
            Self::ScaleIn => WatchFault::Lost(2),
            Self::Update | Self::UpdateTyped => WatchFault::Silent,
            Self::LoseMachine => WatchFault::Expired(1),
            Self::Delete => WatchFault::Refused,
        }
    }

    /// Whether the template names an instance type and a preference.
    fn is_typed(self) -> bool {
        matches!(self, Self::CreateTyped | Self::UpdateTyped)
    }

    /// The memory of the instances after the step, if it is checked.
    fn memory(self) -> Option<&'static str> {
        match self {
            Self::CreateTyped => Some("1Gi"),
            Self::Update => Some("2Gi"),
            Self::UpdateTyped => Some("3Gi"),
            Self::Create | Self::ScaleIn | Self::LoseMachine | Self::Delete => None,
        }
    }

    /// The machines after the step.
    fn names(self) -> &'static [&'static str] {
        match self {
            Self::Create | Self::CreateTyped | Self::Update | Self::UpdateTyped | Self::LoseMachine => {
                &["p-0", "p-1"]
            }
            Self::ScaleIn => &["p-0"],
            Self::Delete => &[],
        }
    }

    async fn prepare(self, world: &World<'_>) -> Result<()> {
        if self.is_typed() {
            small(world, "1Gi").await?;
            write(world, "VirtualMachinePreference", "linux", json!({})).await?;
        }
        if matches!(self, Self::Create | Self::CreateTyped) {
            return Ok(());
        }
        world.create(POOL, &self.spec()).await?;
        let names: &[&str] = if self == Self::ScaleIn { &["p-0", "p-1", "p-2"] } else { &["p-0", "p-1"] };
        world.until_ready(names).await?;
        world.until_status(POOL, names.len()).await.map(drop)
    }

    async fn begin(self, world: &World<'_>) -> Result<()> {
        match self {
            Self::Create | Self::CreateTyped => world.create(POOL, &self.spec()).await,
            Self::ScaleIn => world.patch(POOL, &json!({ "spec": { "replicas": 1 } })).await.map(drop),
            Self::Update => {
                let memory =
                    json!({ "template": { "spec": { "domain": { "memory": { "guest": "2Gi" } } } } });
                let patch = json!({ "spec": { "virtualMachineTemplate": { "spec": memory } } });
                world.patch(POOL, &patch).await.map(drop)
            }
            Self::UpdateTyped => {
                small(world, "3Gi").await?;
                let annotations = json!({ "vmpool.dev/refresh-instancetype": "1" });
                let patch = json!({ "spec": { "virtualMachineTemplate": { "metadata": { "annotations": annotations } } } });
                world.patch(POOL, &patch).await.map(drop)
            }
            Self::LoseMachine => world.delete_machine("p-1").await,
            Self::Delete => world.delete_pool(POOL, "Background").await,
        }
    }

    /// Waits until the step has completed.
    async fn end(self, world: &World<'_>, before: &State) -> Result<()> {
        if self == Self::Delete {
            return until_gone(world).await;
        }
        world
            .until(&format!("{self:?} has completed"), async || {
                let instances = world.instances().await?;
                let updated = |name: &str| {
                    let memory = &instances[name]["spec"]["domain"]["memory"]["guest"];
                    self.memory().is_none_or(|expected| memory == expected)
                };
                let machines = world.machines().await?;
                let replaced = self != Self::LoseMachine
                    || machines.get("p-1").is_some_and(|machine| uid(machine) != before.machines["p-1"]);
                let done = machines.keys().eq(self.names().iter().copied())
                    && instances.keys().eq(self.names().iter().copied())
                    && machines.values().all(|machine| machine["status"]["ready"] == true)
                    && self.names().iter().all(|name| updated(name));
                Ok((done && replaced).then_some(()))
            })
            .await?;
        world.until_status(POOL, self.names().len()).await?;
        if self.is_typed() {
            have_the_same_copies(world).await?;
        }
        let after = State::of(world).await?;
        for (name, uid) in &before.machines {
            let stays = self.names().contains(&&**name) && !(self == Self::LoseMachine && name == "p-1");
            ensure!(!stays || after.machines[name] == *uid, "machine {name} was replaced");
        }
        for (name, uid) in &before.volumes {
            ensure!(after.volumes.get(name) == Some(uid), "the preserved storage {name} is lost");
        }
        Ok(())
    }
}

/// All machines of a revision use the same copies.
async fn have_the_same_copies(world: &World<'_>) -> Result<()> {
    let mut copies = BTreeMap::new();
    for machine in world.machines().await?.values() {
        let revision = machine["metadata"]["labels"]["kubevirt.io/vm-pool-revision-name"].to_string();
        let used =
            ["instancetype", "preference"].map(|family| machine["spec"][family]["revisionName"].clone());
        ensure!(used.iter().all(Value::is_string), "{machine}");
        let first = copies.entry(revision).or_insert_with(|| used.clone());
        ensure!(*first == used, "machines of one revision use {first:?} and {used:?}");
    }
    Ok(())
}

/// No machine is created before its copies exist. A copy of the former pool can exist already, and gets the new pool as its owner.
async fn copies_come_first(world: &World<'_>, writes: &[AuditEntry]) -> Result<()> {
    let place = |resource: &str, name: &str| {
        let is = |entry: &AuditEntry| {
            entry.verb == "create" && entry.resource == resource && entry.name == name && entry.is_success()
        };
        writes.iter().position(is)
    };
    for (name, machine) in world.machines().await? {
        let Some(created) = place("virtualmachines", &name) else { continue };
        for family in ["instancetype", "preference"] {
            let copy = text(&machine, &format!("/spec/{family}/revisionName")).to_owned();
            let copied = place("controllerrevisions", &copy);
            ensure!(
                copied.is_none_or(|copied| copied < created),
                "{name} was created before {copy}: {writes:#?}"
            );
        }
    }
    Ok(())
}

fn uid(object: &Value) -> String {
    object["metadata"]["uid"].as_str().unwrap_or_default().to_owned()
}

/// The UIDs of the machines and DataVolumes, by name.
#[derive(Default)]
struct State {
    machines: BTreeMap<String, String>,
    volumes: BTreeMap<String, String>,
}

impl State {
    async fn of(world: &World<'_>) -> Result<Self> {
        let uids = |objects: BTreeMap<String, Value>| {
            objects.into_iter().map(|(name, object)| (name, uid(&object))).collect()
        };
        let volumes = world.all("cdi.kubevirt.io/v1beta1", "DataVolume").await?;
        Ok(Self { machines: uids(world.machines().await?), volumes: uids(volumes) })
    }
}

/// Waits until nothing of the pool is left. Preserved storage belongs to users.
async fn until_gone(world: &World<'_>) -> Result<()> {
    world
        .until("nothing of the pool is left", async || {
            let pools = world.all(POOL_API_VERSION, "VirtualMachinePool").await?;
            Ok((pools.is_empty() && world.machines().await?.is_empty()).then_some(()))
        })
        .await
}

/// Deletes the pool and all storage, so that the next trial begins with an empty namespace.
async fn clean_up(world: &World<'_>) -> Result<()> {
    if !world.all(POOL_API_VERSION, "VirtualMachinePool").await?.is_empty() {
        world.delete_pool(POOL, "Background").await?;
    }
    until_gone(world).await?;
    world.delete_all("cdi.kubevirt.io/v1beta1", "DataVolume").await
}

/// A write that counts. Those of the status of pools depend on the timing.
fn counts(request: &RequestLine) -> bool {
    let path = request.path.split('?').next().unwrap_or_default();
    let parts = ["kubevirt.io", "controllerrevisions"];
    let status = path.contains("/virtualmachinepools/") && path.ends_with("/status");
    request.is_write() && parts.iter().any(|part| path.contains(part)) && !status
}

/// The machines that the controller created and deleted.
fn machines_of(entries: &[AuditEntry], verb: &str) -> (usize, BTreeSet<String>) {
    let of =
        |entry: &&AuditEntry| entry.verb == verb && entry.resource == "virtualmachines" && entry.is_success();
    let names: Vec<String> = entries.iter().filter(of).map(|entry| entry.name.clone()).collect();
    (names.len(), names.into_iter().collect())
}

/// Whether the point is selected: `VMPOOL_ONLY` contains parts of names, separated by commas, and none selects all.
fn is_selected(point: &str) -> bool {
    let only = std::env::var("VMPOOL_ONLY").unwrap_or_default();
    let mut words = only.split(',').map(str::trim).filter(|word| !word.is_empty()).peekable();
    words.peek().is_none() || words.any(|word| point.contains(word))
}

struct Trial<'w, 'p> {
    world: &'w World<'p>,
    proxy: &'w FaultProxy,
    step: Step,
}

impl Trial<'_, '_> {
    fn writes(&self) -> Vec<String> {
        let requests = self.proxy.requests().into_iter().filter(counts);
        requests.map(|request| format!("{} {}", request.method, request.path)).collect()
    }

    async fn until_quiet(&self) -> Result<()> {
        loop {
            let before = self.writes().len();
            tokio::time::sleep(QUIET).await;
            if self.writes().len() == before {
                return Ok(());
            }
        }
    }

    /// Runs the step without a fault, and returns its writes.
    async fn without_fault(&self) -> Result<Vec<String>> {
        self.step.prepare(self.world).await?;
        self.until_quiet().await?;
        let before = State::of(self.world).await?;
        self.proxy.clear_requests();
        self.step.begin(self.world).await?;
        self.step.end(self.world, &before).await?;
        self.until_quiet().await?;
        let writes = self.writes();
        clean_up(self.world).await?;
        Ok(writes)
    }

    /// Kills the controller at a write. Returns whether the write came.
    async fn with_fault(&self, place: usize, drop_point: DropPoint) -> Result<bool> {
        self.step.prepare(self.world).await?;
        self.until_quiet().await?;
        let before = State::of(self.world).await?;
        let audited = self.world.writes()?.len();
        self.proxy.clear_requests();
        let killed = Arc::new(AtomicBool::new(false));
        let (controller, flag) = (self.world.controller.clone(), killed.clone());
        self.proxy.trap(counts, place, drop_point, move || {
            controller.kill();
            flag.store(true, Ordering::SeqCst);
        });
        self.step.begin(self.world).await?;
        let patience = tokio::time::Instant::now() + Duration::from_secs(20);
        while !killed.load(Ordering::SeqCst) && tokio::time::Instant::now() < patience {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        self.proxy.disarm();
        let happened = killed.load(Ordering::SeqCst);
        if happened {
            self.world.controller.restart().await?;
        }
        self.verify(&before, audited).await?;
        Ok(happened)
    }

    /// Runs the step with this fault of the watches of `resources`.
    async fn with_watch_fault(&self, resources: &[&str], fault: WatchFault) -> Result<()> {
        self.step.prepare(self.world).await?;
        self.until_quiet().await?;
        let before = State::of(self.world).await?;
        let audited = self.world.writes()?.len();
        self.proxy.clear_requests();
        self.proxy.set_watch_fault(resources, fault);
        self.step.begin(self.world).await?;
        tokio::time::sleep(STALL).await;
        self.proxy.release();
        self.verify(&before, audited).await
    }

    /// Waits until the step has completed, and checks that no machine was created twice or deleted without reason.
    async fn verify(&self, before: &State, audited: usize) -> Result<()> {
        self.step.end(self.world, before).await?;
        self.until_quiet().await?;
        let writes = self.world.writes()?.split_off(audited);
        let (created, names) = machines_of(&writes, "create");
        ensure!(created == names.len(), "a machine was created twice: {writes:#?}");
        if self.step == Step::CreateTyped {
            copies_come_first(self.world, &writes).await?;
        }
        let (_, deleted) = machines_of(&writes, "delete");
        let expected = if self.step == Step::ScaleIn { 2 } else { 0 };
        ensure!(deleted.len() == expected, "{expected} deletions of machines expected: {deleted:?}");
        clean_up(self.world).await
    }
}

/// Kills the controller at the writes of a step, and disturbs its watches.
fn crash(namespace: &str, step: Step) {
    let all = std::env::var("VMPOOL_CRASHES").is_ok_and(|coverage| coverage == "all");
    let limit = if all { Duration::from_hours(1) } else { LIMIT };
    with_namespace_within(limit, namespace, async |place| {
        let _others = INSTALLED.read().await;
        let accounts = accounts(place.cluster).await?;
        let proxy = FaultProxy::open(place.cluster, SYSTEM_NAMESPACE, CONTROLLER_ACCOUNT).await?;
        let mut options = ControllerOptions::short_lease(namespace, "one");
        options.kubeconfig = Some(proxy.kubeconfig(place.cluster)?);
        options.extra = vec!["--platforms=kubevirt".to_owned(), "--request-deadline=1900ms".to_owned()];
        run_with_options(accounts, place, options, async |world| {
            let trial = Trial { world: &world, proxy: &proxy, step };
            let writes = trial.without_fault().await.context("without a fault")?;
            ensure!(!writes.is_empty(), "the step has no writes");
            let sample = writes.len() / 2;
            let places = if all { 0..writes.len() } else { sample..sample + 1 };
            let (mut tried, mut happened, mut disturbed) = (0, 0, 0);
            for place in places {
                for drop_point in [DropPoint::Before, DropPoint::After] {
                    let what =
                        format!("{step:?}: killed {drop_point:?} write {place}, {}", writes[place]);
                    if !is_selected(&what) {
                        continue;
                    }
                    tried += 1;
                    happened += usize::from(trial.with_fault(place, drop_point).await.context(what)?);
                }
            }
            let all_faults =
                || WATCHED.iter().flat_map(|what| WATCH_FAULTS.map(|fault| (*what, fault))).collect();
            let faults = if all { all_faults() } else { vec![(WATCHED[3], step.watch_fault())] };
            for (resources, fault) in &faults {
                let what = format!("{step:?}: watches of {resources:?} are {fault:?}");
                if !is_selected(&what) {
                    continue;
                }
                disturbed += 1;
                trial.with_watch_fault(resources, *fault).await.context(what)?;
            }
            println!(
                "crashes: {step:?}, {happened} of {tried} points happened, {disturbed} watch faults, 0 violations"
            );
            ensure!(4 * (tried - happened) <= tried, "{happened} of {tried} crashes happened");
            Ok(())
        })
        .await
    });
}

#[test]
fn a_pool_is_created_although_the_controller_is_killed() {
    crash("kubevirt-crash-create", Step::Create);
}

#[test]
fn a_pool_with_an_instance_type_is_created_although_the_controller_is_killed() {
    crash("kubevirt-crash-create-typed", Step::CreateTyped);
}

#[test]
fn a_changed_instance_type_reaches_all_machines_although_the_controller_is_killed() {
    crash("kubevirt-crash-update-typed", Step::UpdateTyped);
}

#[test]
fn a_pool_is_scaled_in_although_the_controller_is_killed() {
    crash("kubevirt-crash-scale-in", Step::ScaleIn);
}

#[test]
fn a_pool_is_updated_although_the_controller_is_killed() {
    crash("kubevirt-crash-update", Step::Update);
}

#[test]
fn a_lost_machine_is_replaced_although_the_controller_is_killed() {
    crash("kubevirt-crash-lose", Step::LoseMachine);
}

#[test]
fn a_pool_is_deleted_although_the_controller_is_killed() {
    crash("kubevirt-crash-delete", Step::Delete);
}
