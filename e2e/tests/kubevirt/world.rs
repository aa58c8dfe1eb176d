//! A namespace with a controller and a simulator of KubeVirt.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use http::Method;
use serde_json::{Value, json};
use tokio::sync::{OnceCell, RwLock};
use vmpool_api::kubevirt::{API_VERSION, POOL_API_VERSION};
use vmpool_e2e::wait::{eventually, let_time_pass, throughout};
use vmpool_e2e::world::{SETTLE, ScenarioWorld};
use vmpool_installation::fault_proxy::FaultProxy;
use vmpool_installation::programs::{
    Accounts, CONTROLLER_ACCOUNT, Chart, ControllerOptions, ControllerProgram, SYSTEM_NAMESPACE, Simulator,
};
use vmpool_invariants::platform::TestedPlatform;
use vmpool_test_cluster::control_plane::{AuditEntry, ControlPlane};
use vmpool_test_cluster::error::error_with_causes;

use crate::checks::Checks;
use crate::{TestNamespace, Unknown, with_namespace};

/// How long a step may take.
const STEP: Duration = Duration::from_mins(1);

/// A scenario in a namespace with a controller and a simulator of its own, which sees the objects of KubeVirt
/// as JSON. Dropping it kills both programs. Its invariants are checked at its end.
pub(crate) struct KubeVirtWorld<'p> {
    pub(crate) place: TestNamespace<'p>,
    pub(crate) controller: Arc<ControllerProgram>,
    pub(crate) checks: Arc<Checks>,
    scenario: Arc<ScenarioWorld>,
    _simulator: Arc<Simulator>,
}

impl Deref for KubeVirtWorld<'_> {
    type Target = ScenarioWorld;

    fn deref(&self) -> &ScenarioWorld {
        &self.scenario
    }
}

/// A KubeVirt object stops the controllers of all namespaces, so a test that creates one runs alone.
pub(crate) static INSTALLED: RwLock<()> = RwLock::const_new(());

/// Runs a test on the shared control plane, with programs of its own.
pub(crate) fn with_world(name: &str, test: impl AsyncFnOnce(KubeVirtWorld<'_>) -> Result<()>) {
    with_platforms(name, "kubevirt", test);
}

/// As [`with_world`], with a controller of these platforms.
pub(crate) fn with_platforms(
    name: &str,
    platforms: &str,
    test: impl AsyncFnOnce(KubeVirtWorld<'_>) -> Result<()>,
) {
    with_namespace(name, async |place| {
        let _others = INSTALLED.read().await;
        run(place, platforms, test).await
    });
}

/// As [`with_world`], while no other such test runs.
pub(crate) fn alone(name: &str, test: impl AsyncFnOnce(KubeVirtWorld<'_>) -> Result<()>) {
    with_namespace(name, async |place| {
        let _alone = INSTALLED.write().await;
        run(place, "kubevirt", test).await
    });
}

async fn run(
    place: TestNamespace<'_>,
    platforms: &str,
    test: impl AsyncFnOnce(KubeVirtWorld<'_>) -> Result<()>,
) -> Result<()> {
    run_with(accounts(place.cluster).await?, place, platforms, test).await
}

/// The accounts of the chart on the shared control plane. All tests have the rights of all features.
pub(crate) async fn accounts(cluster: &ControlPlane) -> Result<&'static Accounts> {
    static ACCOUNTS: OnceCell<Accounts> = OnceCell::const_new();
    let install = async || {
        let values = [
            "platforms.kubevirt.enabled=true",
            "featureGates.DiskImages=true",
            "featureGates.MachineWrapper=true",
            "instancetype.mode=Standalone",
            // Tests delete copies.
            "instancetype.protectCopies=false",
        ];
        let chart = Chart::render(&values.map(str::to_owned)).await?;
        anyhow::Ok(Accounts::of(&chart, cluster).await?)
    };
    ACCOUNTS.get_or_try_init(install).await
}

/// Runs a test with the accounts of a chart.
pub(crate) async fn run_with(
    accounts: &Accounts,
    place: TestNamespace<'_>,
    platforms: &str,
    test: impl AsyncFnOnce(KubeVirtWorld<'_>) -> Result<()>,
) -> Result<()> {
    let mut options = ControllerOptions::new(place.namespace, "one");
    options.extra.push(format!("--platforms={platforms}"));
    run_with_options(accounts, place, options, test).await
}

/// Runs a test with the accounts of a chart and a controller with these options, and then [checks](Checks)
/// what holds after every test.
pub(crate) async fn run_with_options(
    accounts: &Accounts,
    place: TestNamespace<'_>,
    options: ControllerOptions,
    test: impl AsyncFnOnce(KubeVirtWorld<'_>) -> Result<()>,
) -> Result<()> {
    accounts.grant_in(place.cluster, place.namespace).await?;
    let namespace = place.namespace;
    let flags = ["--platform=kubevirt".to_owned(), format!("--namespace={namespace}")];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let scenario =
        ScenarioWorld::in_namespace(TestedPlatform::KubeVirt, namespace, place.cluster.access()).await?;
    let scenario = Arc::new(scenario);
    let checks = Arc::new(Checks::of(scenario.clone()));
    let simulator = Arc::new(Simulator::start_with(place.cluster, &flags).await?);
    let controller = Arc::new(ControllerProgram::start(place.cluster, options).await?);
    let programs = (controller.clone(), simulator.clone());
    let world = KubeVirtWorld { place, controller, checks: checks.clone(), scenario, _simulator: simulator };
    test(world).await?;
    // The programs continue until the world is at rest.
    let checked = checks.end().await;
    drop(programs);
    checked
}

/// The options of a controller of KubeVirt whose requests go through a proxy, and the proxy.
pub(crate) async fn behind_proxy(
    cluster: &ControlPlane,
    mut options: ControllerOptions,
) -> Result<(FaultProxy, ControllerOptions)> {
    let proxy = FaultProxy::open(cluster, SYSTEM_NAMESPACE, CONTROLLER_ACCOUNT).await?;
    options.kubeconfig = Some(proxy.kubeconfig(cluster)?);
    options.extra.push("--platforms=kubevirt".to_owned());
    Ok((proxy, options))
}

impl KubeVirtWorld<'_> {
    /// Creates a pool from a spec.
    pub(crate) async fn create(&self, name: &str, spec: &Value) -> Result<()> {
        let pool = json!({
            "apiVersion": POOL_API_VERSION,
            "kind": "VirtualMachinePool",
            "metadata": { "name": name },
            "spec": spec,
        });
        let created = self.place.write(&pool, Unknown::Refused).await?;
        created.map(drop).map_err(|status| anyhow::anyhow!("{}", status.message))
    }

    /// Patches a pool.
    pub(crate) async fn patch(&self, name: &str, patch: &Value) -> Result<Value> {
        self.place.ask(Method::PATCH, &self.place.pool(name)?, patch).await
    }

    /// The stored pool.
    pub(crate) async fn pool(&self, name: &str) -> Result<Value> {
        self.place.ask(Method::GET, &self.place.pool(name)?, &Value::Null).await
    }

    /// All objects of a kind, by name.
    pub(crate) async fn all(&self, api_version: &str, kind: &str) -> Result<BTreeMap<String, Value>> {
        let list = self.place.ask(Method::GET, &self.place.path(api_version, kind)?, &Value::Null).await?;
        let items = list["items"].as_array().cloned().unwrap_or_default();
        Ok(items.into_iter().map(|item| (text(&item, "/metadata/name").to_owned(), item)).collect())
    }

    /// All machines, by name.
    pub(crate) async fn machines(&self) -> Result<BTreeMap<String, Value>> {
        self.all(API_VERSION, "VirtualMachine").await
    }

    /// All instances, by name.
    pub(crate) async fn instances(&self) -> Result<BTreeMap<String, Value>> {
        self.all(API_VERSION, "VirtualMachineInstance").await
    }

    /// Waits until exactly these machines exist and all of them are ready.
    pub(crate) async fn until_ready(&self, names: &[&str]) -> Result<BTreeMap<String, Value>> {
        self.until(&format!("{names:?} are ready"), async || {
            let machines = self.machines().await?;
            let ready = machines.values().filter(|machine| machine["status"]["ready"] == true).count();
            let found: Vec<&str> = machines.keys().map(String::as_str).collect();
            Ok((found == names && ready == names.len()).then_some(machines))
        })
        .await
    }

    /// The machines whose names begin with that of this pool.
    pub(crate) async fn machines_of(&self, pool: &str) -> Result<BTreeMap<String, Value>> {
        let mut machines = self.machines().await?;
        machines.retain(|name, _| is_of(pool, name));
        Ok(machines)
    }

    /// As [`Self::until_ready`], for the machines of one pool, with these ordinals.
    pub(crate) async fn until_ordinals(
        &self,
        pool: &str,
        ordinals: &[usize],
    ) -> Result<BTreeMap<String, Value>> {
        let names: Vec<String> = ordinals.iter().map(|ordinal| format!("{pool}-{ordinal}")).collect();
        self.until(&format!("{names:?} are the machines of {pool} and ready"), async || {
            let machines = self.machines_of(pool).await?;
            let is_ready = |machine: &Value| {
                machine["status"]["ready"] == true && machine["metadata"]["deletionTimestamp"].is_null()
            };
            let complete =
                machines.len() == names.len() && names.iter().all(|name| machines.contains_key(name));
            Ok((complete && machines.values().all(is_ready)).then_some(machines))
        })
        .await
    }

    /// Checks that these ordinals stay those of the machines of a pool.
    pub(crate) async fn keeps_ordinals(&self, pool: &str, ordinals: &[usize]) -> Result<()> {
        let names: Vec<String> = ordinals.iter().map(|ordinal| format!("{pool}-{ordinal}")).collect();
        throughout(&format!("{names:?} are the machines of {pool}"), SETTLE, async || {
            let machines = self.machines_of(pool).await?;
            Ok(if machines.keys().eq(&names) { Ok(()) } else { Err(format!("{machines:#?}")) })
        })
        .await
    }

    /// Waits until there is a machine with this name and another UID than the former one had.
    pub(crate) async fn until_another(&self, machine: &str, former: &str) -> Result<Value> {
        self.until(&format!("{machine} is another machine"), async || {
            let found = self.machines().await?.remove(machine);
            Ok(found.filter(|found| text(found, "/metadata/uid") != former))
        })
        .await
    }

    /// Waits until there is no machine with this name.
    pub(crate) async fn until_no_machine(&self, name: &str) -> Result<()> {
        let is_gone = async || Ok((!self.machines().await?.contains_key(name)).then_some(()));
        self.until(&format!("{name} is gone"), is_gone).await
    }

    /// Waits until all machines of a pool but this one are ready.
    pub(crate) async fn until_ordinals_but(&self, pool: &str, but: &str) -> Result<BTreeMap<String, Value>> {
        self.until(&format!("the machines of {pool} but {but} are ready"), async || {
            let machines = self.machines_of(pool).await?;
            let ready =
                machines.iter().all(|(name, machine)| name == but || machine["status"]["ready"] == true);
            Ok(ready.then_some(machines))
        })
        .await
    }

    /// Waits until the instances of these machines have this memory, and are ready. Returns all instances.
    pub(crate) async fn until_memory(&self, names: &[&str], guest: &str) -> Result<BTreeMap<String, Value>> {
        self.until(&format!("{names:?} run with {guest}"), async || {
            let (instances, machines) = (self.instances().await?, self.machines().await?);
            let done = names.iter().all(|name| {
                let memory =
                    &instances.get(*name).unwrap_or(&Value::Null)["spec"]["domain"]["memory"]["guest"];
                let ready = &machines.get(*name).unwrap_or(&Value::Null)["status"]["ready"];
                memory == guest && ready == true
            });
            Ok(done.then_some(instances))
        })
        .await
    }

    /// Waits until the pool has a condition of this type whose message contains this text.
    pub(crate) async fn until_condition(&self, name: &str, kind: &str, part: &str) -> Result<Value> {
        self.until(&format!("condition {kind} of {name} contains {part:?}"), async || {
            let pool = self.pool(name).await?;
            let found = condition(&pool, kind).filter(|found| text(found, "/message").contains(part));
            Ok(found.cloned())
        })
        .await
    }

    /// Waits until the pool has no condition of this type.
    pub(crate) async fn until_no_condition(&self, name: &str, kind: &str) -> Result<()> {
        self.until(&format!("{name} has no condition {kind}"), async || {
            Ok(condition(&self.pool(name).await?, kind).is_none().then_some(()))
        })
        .await
    }

    /// The names of the machines of a pool in the accepted requests of the controller with this verb and
    /// resource, in their order.
    pub(crate) fn requested(&self, pool: &str, verb: &str, resource: &str) -> Result<Vec<String>> {
        let of = |entry: &AuditEntry| {
            entry.code < 300 && entry.verb == verb && entry.resource == resource && is_of(pool, &entry.name)
        };
        Ok(self.writes()?.into_iter().filter(of).map(|entry| entry.name).collect())
    }

    /// Waits until the pool shows this number of machines, all ready, and no condition.
    pub(crate) async fn until_status(&self, name: &str, replicas: usize) -> Result<Value> {
        self.until(&format!("{name} has {replicas} ready replicas"), async || {
            let pool = self.pool(name).await?;
            let status = &pool["status"];
            let done = status["replicas"] == replicas && status["readyReplicas"] == replicas;
            Ok(done.then_some(pool))
        })
        .await
    }

    /// Waits until `look` finds something.
    pub(crate) async fn until<T>(&self, what: &str, look: impl AsyncFn() -> Result<Option<T>>) -> Result<T> {
        let found = async || Ok(look().await?.ok_or_else(|| "not yet".to_owned()));
        let waited = eventually(what, STEP, found).await;
        let Err(error) = waited else { return waited };
        let (pools, machines) =
            (self.all(POOL_API_VERSION, "VirtualMachinePool").await?, self.machines().await?);
        Err(error.context(format!("{pools:#?}\n{machines:#?}\n{}", self.controller.log_tail(60))))
    }

    /// The writes of the controller since the start, without events and the lease.
    pub(crate) fn writes(&self) -> Result<Vec<AuditEntry>> {
        let (mut entries, user) = (self.audit()?, Accounts::controller_user());
        entries.retain(|entry| {
            entry.user == user && entry.is_write() && !["events", "leases"].contains(&entry.resource.as_str())
        });
        Ok(entries)
    }

    /// The number of accepted writes of this kind, for example `create virtualmachines`. A write that the API
    /// server refuses because the simulator has changed the object in between is repeated, and changes
    /// nothing.
    pub(crate) fn count(&self, what: &str) -> Result<usize> {
        let is = |entry: &&AuditEntry| {
            let slash = if entry.subresource.is_empty() { "" } else { "/" };
            let kind = format!("{} {}{slash}{}", entry.verb, entry.resource, entry.subresource);
            entry.code < 300 && kind == what
        };
        Ok(self.writes()?.iter().filter(is).count())
    }

    /// Checks that the controller writes nothing for a while.
    pub(crate) async fn is_settled(&self) -> Result<()> {
        let_time_pass(SETTLE).await;
        let before = self.writes()?.len();
        let_time_pass(Duration::from_secs(3)).await;
        let writes = self.writes()?;
        ensure!(writes.len() == before, "a settled pool causes writes: {:#?}", &writes[before..]);
        Ok(())
    }

    /// Lets the simulator apply no changes to running guests: only a restarted one has the new template.
    pub(crate) async fn without_live_updates(&self) -> Result<()> {
        Ok(self.knob("live-update", "false").await?)
    }

    /// Deletes a machine.
    pub(crate) async fn delete_machine(&self, name: &str) -> Result<()> {
        self.place.delete(API_VERSION, "VirtualMachine", name).await
    }

    /// Deletes all objects of a kind, and waits until they are gone.
    pub(crate) async fn delete_all(&self, api_version: &str, kind: &str) -> Result<()> {
        self.place.ask(Method::DELETE, &self.place.path(api_version, kind)?, &Value::Null).await?;
        let gone = async || Ok(self.all(api_version, kind).await?.is_empty().then_some(()));
        self.until(&format!("no {kind} is left"), gone).await
    }

    /// Waits until an event of a pool with this reason names `what`.
    pub(crate) async fn until_event(&self, reason: &str, what: &str) -> Result<()> {
        self.until(&format!("event {reason} names {what}"), async || {
            let events = self.all("events.k8s.io/v1", "Event").await?;
            let is = |event: &Value| {
                let regarding = &event["regarding"];
                event["reason"] == reason
                    && regarding["kind"] == "VirtualMachinePool"
                    && text(event, "/note").contains(what)
            };
            Ok(events.values().any(is).then_some(()))
        })
        .await
    }

    /// Patches a machine.
    pub(crate) async fn patch_machine(&self, name: &str, patch: &Value) -> Result<()> {
        self.place.patch(API_VERSION, "VirtualMachine", name, patch).await.map(drop)
    }

    /// Deletes a pool with this propagation policy.
    pub(crate) async fn delete_pool(&self, name: &str, policy: &str) -> Result<()> {
        let options = json!({ "propagationPolicy": policy });
        self.place.ask(Method::DELETE, &self.place.pool(name)?, &options).await.map(drop).context("deleting")
    }
}

/// The result of situations that share a world: all of their errors.
pub(crate) fn all_of(results: impl IntoIterator<Item = Result<()>>) -> Result<()> {
    let failed = results.into_iter().filter_map(Result::err);
    let errors: Vec<String> = failed.map(|error| error_with_causes(error.as_ref())).collect();
    ensure!(errors.is_empty(), "{} situations failed:\n{}", errors.len(), errors.join("\n"));
    Ok(())
}

/// Whether a machine has the name of this pool and an ordinal.
fn is_of(pool: &str, name: &str) -> bool {
    name.rsplit_once('-').is_some_and(|(prefix, ordinal)| prefix == pool && ordinal.parse::<u32>().is_ok())
}

/// The condition of a pool with this type.
pub(crate) fn condition<'a>(pool: &'a Value, kind: &str) -> Option<&'a Value> {
    pool["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind)
}

/// The text at a JSON pointer.
pub(crate) fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Whether the object has the finalizer of the pool controller.
pub(crate) fn has_finalizer(object: &Value) -> bool {
    let finalizers = object["metadata"]["finalizers"].as_array();
    finalizers.is_some_and(|all| all.contains(&json!("pool.kubevirt.io/finalizer")))
}
