//! State shared by all scenarios of one test binary: a runtime, and the clusters.
//!
//! The runtime does not belong to a test, because watches and connections of the shared cluster would end
//! with the runtime of the first test. Statics are never dropped, so the shared cluster is torn down when the
//! process exits.

use std::future::Future;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::OnceCell;
use tracing_subscriber::EnvFilter;
use vmpool_installation::installation::{
    ClusterInstallation, GuardOptions, autoscaler_definitions, cluster_options, kubevirt_definitions,
};
use vmpool_test_cluster::control_plane::ControlPlane;
use vmpool_test_cluster::error::{Error, Result, error_with_causes};

/// A part of the shared cluster. It is started once; if that fails, every caller gets the error.
type Shared<T> = OnceCell<std::result::Result<Arc<T>, String>>;

static CLUSTER: Shared<ControlPlane> = OnceCell::const_new();
static INSTALLATION: Shared<ClusterInstallation> = OnceCell::const_new();
static GUARDED: Shared<ClusterInstallation> = OnceCell::const_new();
static BOTH_PLATFORMS: Shared<ClusterInstallation> = OnceCell::const_new();
static WITH_FAULT_PROXIES: Shared<ClusterInstallation> = OnceCell::const_new();
static WITH_ALL_FEATURES: Shared<ClusterInstallation> = OnceCell::const_new();

/// A flag that shortens reservations, for scenarios that wait for their end.
pub const SHORT_RESERVATION: &str = "--reservation-timeout=5s";

/// The runtime of the harness. It exists until the process exits.
///
/// # Panics
/// If the system cannot create threads, in which case no test can run.
pub fn harness_runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        log_to_stderr();
        Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .thread_name("e2e")
            .build()
            .expect("the runtime can be created")
    })
}

/// Runs a test on the runtime of the harness.
pub fn block_on<F: Future>(test: F) -> F::Output {
    harness_runtime().block_on(test)
}

/// The control plane that all scenarios share, with the project's CRDs and nothing else.
///
/// # Errors
/// [`Error::Unavailable`] if it did not start; every caller gets this error.
pub async fn shared_cluster() -> Result<Arc<ControlPlane>> {
    let start = async || {
        tear_down_at_exit();
        ControlPlane::start(cluster_options("shared")).await
    };
    shared(&CLUSTER, start).await
}

/// The shared control plane with the chart's accounts and the simulator.
///
/// # Errors
/// [`Error::Unavailable`] if a part of it did not start; every caller gets this error.
pub async fn installation_on_shared_cluster() -> Result<Arc<ClusterInstallation>> {
    shared(&INSTALLATION, async || ClusterInstallation::onto(shared_cluster().await?).await).await
}

/// A second shared control plane, with the chart's accounts, the simulator, the webhook and the aggregated
/// API.
///
/// It is separate, because the first one tests the controller without the webhook.
///
/// # Errors
/// [`Error::Unavailable`] if a part of it did not start; every caller gets this error.
pub async fn guarded_installation() -> Result<Arc<ClusterInstallation>> {
    let start = async || {
        tear_down_at_exit();
        ClusterInstallation::start("guarded", Some(GuardOptions::default())).await
    };
    shared(&GUARDED, start).await
}

/// A control plane as [`guarded_installation`], with both platforms.
///
/// # Errors
/// [`Error::Unavailable`] if a part of it did not start; every caller gets this error.
pub async fn both_platforms() -> Result<Arc<ClusterInstallation>> {
    let start = async || {
        tear_down_at_exit();
        start_with_both_platforms("both-platforms", GuardOptions::default()).await
    };
    shared(&BOTH_PLATFORMS, start).await
}

/// Starts a control plane of its own as [`both_platforms`], with these options.
///
/// # Errors
/// As [`ClusterInstallation::guarded`].
pub async fn start_with_both_platforms(name: &str, guard: GuardOptions) -> Result<ClusterInstallation> {
    let mut options = cluster_options(name);
    options.manifests.extend(kubevirt_definitions());
    let cluster = Arc::new(ControlPlane::start(options).await?);
    ClusterInstallation::guarded(cluster, guard.with_kubevirt()).await
}

/// A further shared control plane with both platforms. Its webhook and aggregated API have one replica each,
/// which can be killed at one of its requests, and reservations last five seconds.
///
/// # Errors
/// [`Error::Unavailable`] if a part of it did not start; every caller gets this error.
pub async fn with_fault_proxies() -> Result<Arc<ClusterInstallation>> {
    let start = async || {
        tear_down_at_exit();
        let impatient = format!("apiserver.extraArgs={{{SHORT_RESERVATION}}}");
        let options = GuardOptions::default().with_fault_proxy().value(&impatient);
        start_with_both_platforms("fault-proxy", options).await
    };
    shared(&WITH_FAULT_PROXIES, start).await
}

/// A further shared control plane with both platforms, and with the feature gates of PoolAutoscalers, image
/// refresh and standby machines.
///
/// # Errors
/// [`Error::Unavailable`] if a part of it did not start; every caller gets this error.
pub async fn with_all_features() -> Result<Arc<ClusterInstallation>> {
    let start = async || {
        tear_down_at_exit();
        let mut options = cluster_options("all-features");
        options.manifests.extend(kubevirt_definitions());
        options.manifests.push(autoscaler_definitions());
        let cluster = Arc::new(ControlPlane::start(options).await?);
        let guard = ["PoolAutoscaler", "ImageRefresh", "StandbyMachines"]
            .into_iter()
            .fold(GuardOptions::default(), |guard, gate| guard.value(&format!("featureGates.{gate}=true")));
        ClusterInstallation::guarded(cluster, guard.with_kubevirt()).await
    };
    shared(&WITH_ALL_FEATURES, start).await
}

/// Checks that the tests can start the cluster that `E2E_CLUSTER` requests: a node cluster is an embedded one
/// with a node.
///
/// # Errors
/// [`Error::Unavailable`] for any other provider.
pub(crate) fn check_embedded() -> Result<()> {
    match std::env::var("E2E_CLUSTER") {
        Ok(name) if !["embedded", "node"].contains(&name.as_str()) => Err(unsupported_cluster_error(&name)),
        _ => Ok(()),
    }
}

/// The error for a value of `E2E_CLUSTER` that a program does not support.
pub fn unsupported_cluster_error(name: &str) -> Error {
    let reason = format!(
        "E2E_CLUSTER={name} is not supported here: tests start `embedded` and `node` by themselves, and `make e2e` takes \
         `kind`, `k3s` and `current`, too"
    );
    Error::Unavailable { reason }
}

async fn shared<T>(cell: &Shared<T>, start: impl AsyncFnOnce() -> Result<T>) -> Result<Arc<T>> {
    check_embedded()?;
    let started = cell
        .get_or_init(async || start().await.map(Arc::new).map_err(|error| error_with_causes(&error)))
        .await;
    started.clone().map_err(|reason| Error::Unavailable {
        reason: format!("the shared cluster did not start: {reason}"),
    })
}

/// Logs of the harness, printed for failed tests or with `--nocapture`, filtered by `RUST_LOG`.
fn log_to_stderr() {
    // The client logs every refused connection to a starting API server as an error.
    const DEFAULT: &str =
        "warn,vmpool_e2e=info,vmpool_installation=info,vmpool_test_cluster=info,kube_client=off";
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(DEFAULT));
    // A program with its own subscriber keeps it.
    let _ = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).try_init();
}

fn tear_down_at_exit() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        at_exit(|| {
            if let Some(Ok(installation)) = INSTALLATION.get() {
                installation.tear_down();
            }
            for own in [&GUARDED, &BOTH_PLATFORMS, &WITH_FAULT_PROXIES, &WITH_ALL_FEATURES] {
                if let Some(Ok(installation)) = own.get() {
                    installation.tear_down();
                    installation.cluster().tear_down();
                }
            }
            if let Some(Ok(cluster)) = CLUSTER.get() {
                cluster.tear_down();
            }
        });
    });
}

/// Registers a function to run when the process exits, for values in statics, which are never dropped.
#[expect(unsafe_code, reason = "the standard library has no exit hooks")]
pub fn at_exit(last: impl FnOnce() + Send + 'static) {
    static LAST: Mutex<Vec<Box<dyn FnOnce() + Send>>> = Mutex::new(Vec::new());
    static ONCE: std::sync::Once = std::sync::Once::new();
    unsafe extern "C" {
        safe fn atexit(callback: extern "C" fn()) -> std::ffi::c_int;
    }
    extern "C" fn tear_down() {
        // The lock is released first, because a function may take long or panic.
        let all = std::mem::take(&mut *LAST.lock());
        for last in all {
            last();
        }
    }
    LAST.lock().push(Box::new(last));
    ONCE.call_once(|| {
        // On Linux the children are killed with the process anyway; only the directory would remain.
        if atexit(tear_down) != 0 {
            tracing::warn!("the directory of the shared cluster will not be removed");
        }
    });
}
