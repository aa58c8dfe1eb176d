//! The test environment: one control plane with namespaces, pools and controllers.

use std::future::Future;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::request::Request;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use vmpool_installation::installation::{cluster_options, install_without_simulator, kubevirt_definitions};
use vmpool_installation::programs::{Accounts, Chart, ControllerOptions, ControllerProgram};
use vmpool_installation::workspace_root;
use vmpool_invariants::object::TestedKind;
use vmpool_invariants::platform::TestedPlatform;
use vmpool_test_cluster::control_plane::{
    AuditLog, ControlPlane, ControlPlaneOptions as ClusterOptions, RequestCounts, RequestKey,
};

use crate::manifest;
use crate::options::BenchOptions;
use crate::tally::{ObjectCounter, step_timeout};

/// Name of the measured pool.
pub(crate) const POOL: &str = "bench";

/// Machines of the warm-up pool. The number is large enough to open every connection of the client.
const WARM_UP: usize = 64;

/// The control plane is quiet if no request arrives for this long.
const QUIET: Duration = Duration::from_secs(2);

/// Interval at which the API server's counters are read while waiting for quiet.
const POLL: Duration = Duration::from_millis(500);

/// A control plane without audit log and platform simulator, and the programs that use it.
pub(crate) struct Lab {
    cluster: ControlPlane,
    accounts: Accounts,
    platform: TestedPlatform,
    disks: usize,
    types: bool,
    controller_args: Vec<String>,
    begin: Instant,
}

impl Lab {
    /// Starts the control plane and installs CRDs and roles.
    pub(crate) async fn start(options: &BenchOptions) -> anyhow::Result<Self> {
        let begin = Instant::now();
        println!("[  0.0 s] starting the control plane");
        let mut cluster = ClusterOptions { audit: AuditLog::Off, ..cluster_options("bench") };
        let platform = options.platform();
        if platform == TestedPlatform::KubeVirt {
            cluster.manifests.extend(kubevirt_definitions());
        }
        if options.types {
            cluster.manifests.push(workspace_root().join("api/crds/instancetype"));
        }
        let mut controller_args = vec![format!("--platforms={platform}")];
        let mut chart = Chart::stored()?;
        if let Some(images) = options.images {
            cluster.manifests.push(workspace_root().join("api/crds/diskimage"));
            let values = ["platforms.kubevirt.enabled=true", "featureGates.DiskImages=true"];
            chart = Chart::render(&values.map(str::to_owned)).await?;
            controller_args.push("--feature-gates=VirtualMachinePool=true,DiskImages=true".to_owned());
            // All of them are in one namespace.
            for flag in ["max-concurrent-syncs", "max-concurrent-syncs-per-namespace"] {
                controller_args.push(format!("--disk-image-{flag}={images}"));
            }
        }
        if options.life_cycle {
            let gates = ["StandbyMachines=true", "ImageRefresh=true"];
            chart = Chart::render(&gates.map(|gate| format!("featureGates.{gate}"))).await?;
            controller_args.push(format!("--feature-gates=VirtualMachinePool=true,{}", gates.join(",")));
        }
        let cluster = ControlPlane::start(cluster).await?;
        let accounts = install_without_simulator(&chart, &cluster).await?;
        controller_args.extend(options.controller_args());
        let disks = options.disks();
        let types = options.types;
        Ok(Self { cluster, accounts, platform, disks, types, controller_args, begin })
    }

    /// Prints the current step.
    pub(crate) fn step(&self, what: &str) {
        println!("[{:>5.1} s] {what}", self.begin.elapsed().as_secs_f32());
    }

    /// Prints the result of a step.
    pub(crate) fn note(what: &str) {
        println!("          {what}");
    }

    /// The control plane.
    pub(crate) fn cluster(&self) -> &ControlPlane {
        &self.cluster
    }

    /// Creates a namespace in which a controller may have its lease, with what its pools name.
    pub(crate) async fn namespace(&self, name: &str) -> anyhow::Result<()> {
        let namespace = serde_json::from_value(json!({ "metadata": { "name": name } }))?;
        let namespaces = Api::<Namespace>::all(self.cluster.admin());
        let created = namespaces.create(&PostParams::default(), &namespace).await;
        created.with_context(|| format!("creating namespace {name}"))?;
        self.accounts.grant_in(&self.cluster, name).await?;
        for (collection, object) in manifest::instancetype_objects(name).into_iter().filter(|_| self.types) {
            let request =
                Request::new(collection).create(&PostParams::default(), serde_json::to_vec(&object)?)?;
            let created = self.cluster.admin().request::<Value>(request).await;
            created.with_context(|| format!("creating {object}"))?;
        }
        Ok(())
    }

    /// Creates a pool with this number of replicas, and returns it as stored.
    pub(crate) async fn pool(&self, namespace: &str, name: &str, replicas: usize) -> anyhow::Result<Value> {
        let pool = match self.platform {
            TestedPlatform::Dvp => manifest::dvp_pool(name, replicas, self.disks),
            TestedPlatform::KubeVirt if self.types => {
                manifest::pool_with_instancetype(manifest::kubevirt_pool(name, replicas, self.disks))
            }
            TestedPlatform::KubeVirt => manifest::kubevirt_pool(name, replicas, self.disks),
        };
        self.create_pool(namespace, pool).await
    }

    /// Creates the pool with some fields of its spec replaced. It has no machines.
    pub(crate) async fn pool_with(&self, namespace: &str, fields: &[(&str, Value)]) -> anyhow::Result<()> {
        let mut pool = manifest::dvp_pool(POOL, 0, self.disks);
        for (field, value) in fields {
            pool["spec"][*field] = value.clone();
        }
        self.create_pool(namespace, pool).await?;
        Ok(())
    }

    async fn create_pool(&self, namespace: &str, pool: Value) -> anyhow::Result<Value> {
        let pool: DynamicObject = serde_json::from_value(pool)?;
        let name = pool.name_any();
        let created = self.pools(namespace).create(&PostParams::default(), &pool).await;
        Ok(serde_json::to_value(created.with_context(|| format!("creating pool {namespace}/{name}"))?)?)
    }

    /// The pools of a namespace.
    pub(crate) fn pools(&self, namespace: &str) -> Api<DynamicObject> {
        self.platform.api(TestedKind::Pool, self.cluster.admin(), namespace)
    }

    /// Changes the number of replicas, as `kubectl scale` does.
    pub(crate) async fn scale(&self, namespace: &str, name: &str, replicas: usize) -> anyhow::Result<()> {
        let patch = Patch::Merge(json!({ "spec": { "replicas": replicas } }));
        let scaled = self.pools(namespace).patch_scale(name, &PatchParams::default(), &patch).await;
        scaled.with_context(|| format!("scaling {namespace}/{name} to {replicas}"))?;
        Ok(())
    }

    /// Starts a controller that watches one namespace.
    pub(crate) async fn controller(
        &self,
        namespace: &str,
        identity: &str,
    ) -> anyhow::Result<ControllerProgram> {
        let extra = self.controller_args.clone();
        let options = ControllerOptions { extra, ..ControllerOptions::new(namespace, identity) };
        Ok(ControllerProgram::start(&self.cluster, options).await?)
    }

    /// Starts the first controller of a new namespace, and lets it create and remove a few machines.
    pub(crate) async fn warm_controller(&self, namespace: &str) -> anyhow::Result<ControllerProgram> {
        self.namespace(namespace).await?;
        let controller = self.controller(namespace, "first").await?;
        self.warm_up(namespace).await?;
        Ok(controller)
    }

    /// Disks of each machine.
    pub(crate) fn disks(&self) -> usize {
        self.disks
    }

    /// Counts the objects of a kind.
    pub(crate) async fn tally(&self, kind: TestedKind, namespace: &str) -> anyhow::Result<ObjectCounter> {
        ObjectCounter::start(self.cluster.admin(), self.platform.resource(kind), namespace).await
    }

    /// Counts the machines of which `is_counted` is true.
    pub(crate) async fn tally_of_machines(
        &self,
        namespace: &str,
        is_counted: impl Fn(&DynamicObject) -> bool + Send + 'static,
    ) -> anyhow::Result<ObjectCounter> {
        let resource = self.platform.resource(TestedKind::Machine);
        ObjectCounter::start_where(self.cluster.admin(), resource, namespace, is_counted).await
    }

    /// Counts the objects that are created last, and returns their number for this number of machines. A disk
    /// is created after its machine, so the last disk exists after the last machine. Disks that the platform
    /// creates do not exist while the simulator is off.
    pub(crate) async fn tally_of_last(
        &self,
        namespace: &str,
        machine_count: usize,
    ) -> anyhow::Result<(ObjectCounter, usize)> {
        match (self.platform, self.disks) {
            (_, 0) | (TestedPlatform::KubeVirt, _) => {
                Ok((self.tally(TestedKind::Machine, namespace).await?, machine_count))
            }
            (TestedPlatform::Dvp, disks) => {
                Ok((self.tally(TestedKind::Disk, namespace).await?, machine_count * disks))
            }
        }
    }

    /// Lets the controller of a namespace create and remove a few machines. Afterwards its connections are
    /// open, and the API server has done its one-time work for each kind.
    pub(crate) async fn warm_up(&self, namespace: &str) -> anyhow::Result<()> {
        const NAME: &str = "warm-up";
        let (mut tally, objects) = self.tally_of_last(namespace, WARM_UP).await?;
        self.pool(namespace, NAME, WARM_UP).await?;
        tally.reach(objects).await.context("warming up")?;
        self.scale(namespace, NAME, 0).await?;
        tally.reach(0).await.context("warming up")?;
        self.quiet().await?;
        let deleted = self.pools(namespace).delete(NAME, &DeleteParams::default()).await;
        deleted.context("deleting the pool that warmed up")?;
        self.quiet().await?;
        Ok(())
    }

    /// Waits until no requests arrive, and returns the counters.
    pub(crate) async fn quiet(&self) -> anyhow::Result<RequestCounts> {
        let begin = Instant::now();
        let mut last = self.cluster.metrics().await?;
        let mut since = Instant::now();
        while since.elapsed() < QUIET {
            tokio::time::sleep(POLL).await;
            let now = self.cluster.metrics().await?;
            let added = now.since(&last).only(of_pools);
            if added.total() > 0 {
                since = Instant::now();
                if begin.elapsed() > step_timeout(0) {
                    bail!("requests still arrive after {:?}; the last ones:\n{added}", begin.elapsed());
                }
            }
            last = now;
        }
        Ok(last)
    }

    /// Runs a measurement with a controller. If it fails, the error contains the end of the controller's log.
    pub(crate) async fn with_log<T>(
        controller: &ControllerProgram,
        measurement: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<T> {
        measurement
            .await
            .with_context(|| format!("the controller's log ends with:\n{}", controller.log_tail(10)))
    }

    /// Keeps all logs. Their path is printed when the control plane stops.
    pub(crate) fn keep_logs(&self) {
        self.cluster.keep_directory();
    }

    /// Stops the control plane.
    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        Ok(self.cluster.stop().await?)
    }
}

/// Whether a request concerns pools, their revisions and machines, disks or events. Watches, leases and
/// requests of other components do not count.
pub(crate) fn of_pools(key: &RequestKey) -> bool {
    (is_of_platform(key) || key.resource == "events") && key.verb != "WATCH" && !is_scale_request(key)
}

/// Whether a request is a write of the controller, without events.
pub(crate) fn is_write_of_controller(key: &RequestKey) -> bool {
    key.is_write() && is_of_platform(key) && !is_scale_request(key)
}

/// The groups of disk images and their snapshots.
const IMAGE_GROUPS: [&str; 2] = ["vmpool.dev", "snapshot.storage.k8s.io"];

/// Whether a request is for a kind of a platform, for disk images, or for stored revisions.
fn is_of_platform(key: &RequestKey) -> bool {
    let groups = [TestedPlatform::Dvp, TestedPlatform::KubeVirt].map(TestedPlatform::groups);
    groups.concat().contains(&&*key.group)
        || IMAGE_GROUPS.contains(&&*key.group)
        || key.resource == "controllerrevisions"
}

/// Whether the request comes from the benchmark itself.
fn is_scale_request(key: &RequestKey) -> bool {
    key.subresource == "scale"
}

/// Seconds between two moments.
pub(crate) fn seconds_between(from: Instant, to: Instant) -> f64 {
    to.saturating_duration_since(from).as_secs_f64()
}

/// The process id of a running controller.
pub(crate) fn controller_process_id(controller: &ControllerProgram) -> anyhow::Result<u32> {
    controller.pid().ok_or_else(|| anyhow::anyhow!("the controller is not running"))
}
