//! The environment of a scenario.

use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::api::DynamicObject;
use kube::{Api, Client};
use parking_lot::{Mutex, MutexGuard};
use vmpool_installation::installation::ClusterInstallation;
use vmpool_installation::programs::ControllerProgram;
use vmpool_invariants::UserActions;
use vmpool_invariants::object::TestedKind;
use vmpool_invariants::platform::TestedPlatform;
use vmpool_invariants::recorder::Recorder;
use vmpool_test_cluster::access::Access;
use vmpool_test_cluster::control_plane::{AuditEntry, AuditMark, ControlPlane};

/// Timeout of waits in scenarios. It is far more than needed, because it only limits failures.
pub const DEADLINE: Duration = Duration::from_mins(1);

/// How long a condition must hold to be considered stable.
pub const SETTLE: Duration = Duration::from_secs(2);

/// The environment of a scenario.
pub struct ScenarioWorld {
    pub(super) platform: TestedPlatform,
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) access: Access,
    /// The installation, if the project's programs are child processes of the harness.
    pub(super) installation: Option<Arc<ClusterInstallation>>,
    pub(super) controllers: Mutex<Vec<Arc<ControllerProgram>>>,
    pub(super) recorder: Recorder,
    pub(super) user_actions: Mutex<UserActions>,
    pub(super) audit: Mutex<Audited>,
    /// Whether each step checks the invariants.
    pub(super) checks_steps: bool,
    pub(super) begun: Instant,
}

impl ScenarioWorld {
    /// The platform of the scenario's pools.
    pub fn platform(&self) -> TestedPlatform {
        self.platform
    }

    /// The scenario's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The scenario's namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Time since the start of the scenario.
    pub fn age(&self) -> Duration {
        self.begun.elapsed()
    }

    /// The access to the cluster.
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// The scenario's cluster.
    ///
    /// # Panics
    /// As [`ScenarioWorld::installation`].
    pub fn cluster(&self) -> &ControlPlane {
        self.installation().cluster()
    }

    /// The scenario's installation.
    ///
    /// # Panics
    /// If the world was opened by [`ScenarioWorld::visit`], where the programs are not child processes.
    pub fn installation(&self) -> &ClusterInstallation {
        self.home()
    }

    /// The same, for uses beyond a borrow: the action of a trap, a task.
    ///
    /// # Panics
    /// As [`ScenarioWorld::installation`].
    pub fn shared_installation(&self) -> Arc<ClusterInstallation> {
        self.home().clone()
    }

    fn home(&self) -> &Arc<ClusterInstallation> {
        self.installation.as_ref().expect("the scenario was started on an installation")
    }

    /// A client with all permissions.
    pub fn client(&self) -> Client {
        self.access.client.clone()
    }

    /// An API for a kind in the scenario's namespace.
    pub fn api(&self, kind: TestedKind) -> Api<DynamicObject> {
        self.platform.api(kind, self.client(), &self.namespace)
    }

    /// The recorder of the namespace.
    pub fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// The scenario's own actions, for the invariants. Do not hold the guard across an await.
    pub fn user_actions(&self) -> MutexGuard<'_, UserActions> {
        self.user_actions.lock()
    }
}

/// The audit log entries of this namespace that were read so far.
pub(super) struct Audited {
    pub(super) entries: Vec<AuditEntry>,
    pub(super) next: AuditMark,
}

impl Audited {
    /// No entries yet; entries before the mark are never read.
    pub(super) fn from_mark(next: AuditMark) -> Self {
        Self { entries: Vec::new(), next }
    }
}
