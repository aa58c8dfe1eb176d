//! The scenario language: one namespace, its controllers, and methods that read as the user's actions.
//!
//! ```no_run
//! # use vmpool_e2e::{scenario::define_scenario, world::{SETTLE, condition::ready_replicas}};
//! define_scenario("a deleted machine is replaced").run(async |world| {
//!     // Given a pool of three ready machines,
//!     let pool = world.pool("web").replicas(3).ready().await?;
//!     // when a user deletes one of them,
//!     world.delete(&pool.machine(1).await?).await?;
//!     // then three machines are ready again, and this does not change.
//!     pool.until(ready_replicas(3)).await?;
//!     pool.holds(ready_replicas(3), SETTLE).await?;
//!     Ok(())
//! });
//! ```
//!
//! Every method ends with a check of the invariants over the recorded history.

mod builder;
mod check;
mod claims;
pub mod condition;
mod controllers;
mod defaults;
mod end;
mod faults;
mod foreign;
mod guests;
mod mutations;
mod objects;
mod pool;
mod removal;
mod report;
mod state;
mod users;
mod wait;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::PostParams;
use parking_lot::Mutex;
use serde_json::json;

pub use builder::{PoolScaleDownPolicy, ScenarioPoolBuilder};
pub use claims::ClaimRequestBuilder;
pub use defaults::{CoreFractions, FRACTION_OF_MORE_CORES, FRACTION_OF_ONE_CORE};
pub use faults::{Quota, WriteRefusalPolicy};
pub use mutations::{CreateChange, CreateMutationPolicy};
pub use pool::{PoolDeletion, PoolHandle};
pub use removal::{AggregatedApiResponse, KUBEVIRT_SUBRESOURCES, RemovalRequestBuilder, SUBRESOURCES};
pub use state::{DEADLINE, SETTLE, ScenarioWorld};
pub use wait::until_after_second;

use vmpool_installation::installation::ClusterInstallation;
use vmpool_invariants::object::TestedKind;
use vmpool_invariants::platform::TestedPlatform;
use vmpool_invariants::recorder::Recorder;
use vmpool_test_cluster::access::Access;
use vmpool_test_cluster::control_plane::AuditMark;
use vmpool_test_cluster::error::{Error, Result};

use self::state::Audited;

impl ScenarioWorld {
    /// Creates a namespace on an installation and starts `controllers` controllers for it.
    ///
    /// # Errors
    /// [`Error::Api`], and the errors of
    /// [`ControllerProgram::start`](vmpool_installation::programs::ControllerProgram::start).
    pub async fn start(
        name: &str,
        installation: Arc<ClusterInstallation>,
        controllers: usize,
    ) -> Result<Self> {
        Self::start_on(TestedPlatform::Dvp, name, installation, controllers).await
    }

    /// As [`ScenarioWorld::start`], for pools of a platform.
    ///
    /// # Errors
    /// As [`ScenarioWorld::start`].
    pub async fn start_on(
        platform: TestedPlatform,
        name: &str,
        installation: Arc<ClusterInstallation>,
        controllers: usize,
    ) -> Result<Self> {
        let access = installation.cluster().access();
        let world = Self::open(platform, name, access, Some(installation.clone())).await?;
        installation.accounts().grant_in(installation.cluster(), world.namespace()).await?;
        for _ in 0..controllers {
            world.add_controller().await?;
        }
        Ok(world)
    }

    /// Creates a namespace on a cluster with the chart installed. The programs are the cluster's Pods and
    /// watch every namespace.
    ///
    /// # Errors
    /// [`Error::Api`].
    pub async fn visit(name: &str, access: Access) -> Result<Self> {
        Self::open(TestedPlatform::Dvp, name, access, None).await
    }

    /// A world of another platform in the same namespace, with the same controllers. Its invariants are
    /// checked apart from those of this one, and not at the end of the scenario unless it
    /// [settles](ScenarioWorld::settles).
    ///
    /// # Errors
    /// [`Error::Api`].
    pub async fn beside(&self, platform: TestedPlatform) -> Result<Self> {
        let next = self.access.audit_mark();
        let (namespace, access) = (self.namespace.clone(), self.access.clone());
        let world = Self::record(platform, &self.name, namespace, access, next).await?;
        *world.controllers.lock() = self.controllers();
        Ok(Self { installation: self.installation.clone(), ..world })
    }

    /// A world in an existing namespace, whose programs the caller starts. Its steps check no invariants: the
    /// caller checks them at the end, with [`ScenarioWorld::check_with`].
    ///
    /// # Errors
    /// [`Error::Api`].
    pub async fn in_namespace(platform: TestedPlatform, namespace: &str, access: Access) -> Result<Self> {
        let next = access.audit_mark();
        let world = Self::record(platform, namespace, namespace.to_owned(), access, next).await?;
        Ok(Self { checks_steps: false, ..world })
    }

    async fn open(
        platform: TestedPlatform,
        name: &str,
        access: Access,
        installation: Option<Arc<ClusterInstallation>>,
    ) -> Result<Self> {
        let next = access.audit_mark();
        let namespace = unique_namespace(name);
        let object = serde_json::from_value(json!({ "metadata": { "name": namespace } }))
            .map_err(Error::json("writing a namespace"))?;
        Api::<Namespace>::all(access.client.clone())
            .create(&PostParams::default(), &object)
            .await
            .map_err(Error::api(format!("creating the namespace {namespace}")))?;
        tracing::info!(scenario = name, namespace, "begins");
        let world = Self::record(platform, name, namespace, access, next).await?;
        Ok(Self { installation, ..world })
    }

    /// A world without programs that records the namespace from now on.
    async fn record(
        platform: TestedPlatform,
        name: &str,
        namespace: String,
        access: Access,
        next: AuditMark,
    ) -> Result<Self> {
        let recorder = Recorder::start_on(platform, access.client.clone(), &namespace).await?;
        Ok(Self {
            platform,
            name: name.to_owned(),
            namespace,
            access,
            installation: None,
            controllers: Mutex::default(),
            recorder,
            user_actions: Mutex::default(),
            audit: Mutex::new(Audited::from_mark(next)),
            checks_steps: true,
            begun: Instant::now(),
        })
    }

    /// A builder for a pool.
    pub fn pool(&self, name: &str) -> ScenarioPoolBuilder<'_> {
        ScenarioPoolBuilder::new(self, name)
    }

    /// An existing pool, such as one created by `kubectl apply`.
    ///
    /// # Errors
    /// [`Error::Api`], also if the pool does not exist.
    pub async fn existing(&self, name: &str) -> Result<PoolHandle<'_>> {
        Ok(PoolHandle::new(self, &self.get(TestedKind::Pool, name).await?))
    }
}

/// A unique namespace whose name contains the scenario's name.
fn unique_namespace(name: &str) -> String {
    /// Leaves room for the number within the 63 characters of a label.
    const LENGTH: usize = 50;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let words: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).collect();
    let words: Vec<&str> = words.split('-').filter(|word| !word.is_empty()).collect();
    let slug: String = words.join("-").chars().take(LENGTH).collect();
    format!("{}-{}", slug.trim_end_matches('-'), NEXT.fetch_add(1, Ordering::Relaxed))
}
