//! The scenario language: one namespace, its controllers, and verbs that read as the user's story.
//!
//! ```no_run
//! # use vmpool_e2e::{scenario::scenario, world::{SETTLE, condition::ready_replicas}};
//! scenario("a deleted machine is replaced").run(async |world| {
//!     // Given a pool of three ready machines,
//!     let pool = world.pool("web").replicas(3).ready().await?;
//!     // when somebody deletes one of them,
//!     world.delete(&pool.machine(1).await?).await?;
//!     // then three are ready again, and it stays that way.
//!     pool.until(ready_replicas(3)).await?;
//!     pool.holds(ready_replicas(3), SETTLE).await?;
//!     Ok(())
//! });
//! ```
//!
//! Every verb ends with a check of the invariants over everything that was recorded so far.

mod builder;
mod check;
pub mod condition;
mod end;
mod faults;
mod objects;
mod others;
mod pool;
mod remove;
mod report;
mod staff;
mod users;
mod wait;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DynamicObject, PostParams};
use kube::{Api, Client};
use parking_lot::{Mutex, MutexGuard};
use serde_json::json;

pub use builder::{Policy, PoolBuilder};
pub use faults::{Quota, Refusal};
pub use pool::{Deletion, Pool};
pub use remove::{Answer, Removal, SUBRESOURCES};

use self::check::Audited;
use crate::access::Access;
use crate::cluster::Cluster;
use crate::error::{Error, Result};
use crate::installation::Installation;
use crate::invariants::Grounds;
use crate::object::Kind;
use crate::programs::Controller;
use crate::recorder::Recorder;

/// How long a scenario waits for something before it fails. Far more than needed: it only bounds a failure.
pub const DEADLINE: Duration = Duration::from_mins(1);

/// How long something must stay so to be believed.
pub const SETTLE: Duration = Duration::from_secs(2);

/// A scenario's own world.
pub struct World {
    name: String,
    namespace: String,
    access: Access,
    /// What the scenario may do more to, where our programs are processes of ours.
    installation: Option<Arc<Installation>>,
    controllers: Mutex<Vec<Arc<Controller>>>,
    recorder: Recorder,
    grounds: Mutex<Grounds>,
    audit: Mutex<Audited>,
    begun: Instant,
}

impl World {
    /// Makes a namespace on an installation and starts `controllers` controllers for it.
    ///
    /// # Errors
    /// [`Error::Api`], and what [`Controller::start`] says.
    pub async fn start(name: &str, installation: Arc<Installation>, controllers: usize) -> Result<Self> {
        let access = installation.cluster().access();
        let world = Self::open(name, access, Some(installation.clone())).await?;
        installation.accounts().grant_in(installation.cluster(), world.namespace()).await?;
        for _ in 0..controllers {
            world.add_controller().await?;
        }
        Ok(world)
    }

    /// Makes a namespace on a cluster where the chart is installed, so that its programs are the cluster's own Pods and
    /// look after every namespace.
    ///
    /// # Errors
    /// [`Error::Api`].
    pub async fn visit(name: &str, access: Access) -> Result<Self> {
        Self::open(name, access, None).await
    }

    async fn open(name: &str, access: Access, installation: Option<Arc<Installation>>) -> Result<Self> {
        let next = access.audit_mark();
        let namespace = unique_namespace(name);
        let object = serde_json::from_value(json!({ "metadata": { "name": namespace } }))
            .map_err(Error::json("writing a namespace"))?;
        Api::<Namespace>::all(access.client.clone())
            .create(&PostParams::default(), &object)
            .await
            .map_err(Error::api(format!("creating the namespace {namespace}")))?;
        let recorder = Recorder::start(access.client.clone(), &namespace).await?;
        tracing::info!(scenario = name, namespace, "begins");
        Ok(Self {
            name: name.to_owned(),
            namespace,
            access,
            installation,
            controllers: Mutex::default(),
            recorder,
            grounds: Mutex::default(),
            audit: Mutex::new(Audited::from_mark(next)),
            begun: Instant::now(),
        })
    }

    /// The scenario's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Time since it began.
    pub fn age(&self) -> Duration {
        self.begun.elapsed()
    }

    /// How its cluster is reached.
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// The cluster that it lives on.
    ///
    /// # Panics
    /// As [`World::installation`].
    pub fn cluster(&self) -> &Cluster {
        self.installation().cluster()
    }

    /// The installation that it lives on.
    ///
    /// # Panics
    /// If it was opened by [`World::visit`], where our programs are none of our processes.
    pub fn installation(&self) -> &Installation {
        self.home()
    }

    /// The same, for what outlives a borrow: the action of a trap, a task.
    ///
    /// # Panics
    /// As [`World::installation`].
    pub fn shared_installation(&self) -> Arc<Installation> {
        self.home().clone()
    }

    fn home(&self) -> &Arc<Installation> {
        self.installation.as_ref().expect("only scenarios that were started on an installation ask for it")
    }

    /// A client with every right.
    pub fn client(&self) -> Client {
        self.access.client.clone()
    }

    /// An API for a kind in the scenario's namespace.
    pub fn api(&self, kind: Kind) -> Api<DynamicObject> {
        kind.api(self.client(), &self.namespace)
    }

    /// What happened in the namespace since the scenario began.
    pub fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// What the scenario did itself, for the invariants. The guard must not be held across an await.
    pub fn grounds(&self) -> MutexGuard<'_, Grounds> {
        self.grounds.lock()
    }

    /// A pool to be created.
    pub fn pool(&self, name: &str) -> PoolBuilder<'_> {
        PoolBuilder::new(self, name)
    }

    /// A pool that is there already, such as one that `kubectl apply` has made.
    ///
    /// # Errors
    /// [`Error::Api`], also if there is none.
    pub async fn existing(&self, name: &str) -> Result<Pool<'_>> {
        Ok(Pool::new(self, &self.get(Kind::Pool, name).await?))
    }
}

/// A namespace that says which scenario it belongs to.
fn unique_namespace(name: &str) -> String {
    /// Leaves room for the number in the 63 characters of a label.
    const LENGTH: usize = 50;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let words: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).collect();
    let words: Vec<&str> = words.split('-').filter(|word| !word.is_empty()).collect();
    let slug: String = words.join("-").chars().take(LENGTH).collect();
    format!("{}-{}", slug.trim_end_matches('-'), NEXT.fetch_add(1, Ordering::Relaxed))
}
