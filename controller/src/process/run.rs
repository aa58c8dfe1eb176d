//! The process: standby, leader and shutdown.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use vmpool_feature_gates::Feature;
use vmpool_runtime::Env;
use vmpool_runtime::args::ArgsError;
use vmpool_runtime::client::ConnectError;
use vmpool_runtime::health::{HealthEndpoints, HealthError, HealthServer, MetricsAccess};
use vmpool_runtime::lease::{Candidate, LeaseConfig};

use crate::leadership::{Dependencies, LeaderHealth};
use crate::metrics::{ControllerMetrics, LeadershipChange};
use crate::process::options::{ControllerArgs, ControllerArgsError, PlatformName};
use crate::process::platforms::lead_all;
use crate::process::uninstall::{self, FinalizerScope, UninstallError};
use crate::server_clock::SharedServerClock;

/// Duration after which a pass counts as stuck. The longest regular pass has some hundred writes.
const STUCK: Duration = Duration::from_mins(5);
/// Duration without contact to the API server after which a replica is not ready, because it could not take
/// over.
const OUT_OF_TOUCH: Duration = Duration::from_secs(30);

/// Why the process ended.
#[derive(Debug, thiserror::Error)]
pub enum ControllerRunError {
    /// An option is invalid.
    #[error(transparent)]
    Options(#[from] ControllerArgsError),
    /// The API server cannot be reached.
    #[error("connecting to the API server")]
    Connect(#[from] ConnectError),
    /// The server of the probes failed.
    #[error(transparent)]
    Health(#[from] HealthError),
    /// The finalizers cannot be removed.
    #[error(transparent)]
    Uninstall(#[from] UninstallError),
    /// The lease cannot be given back.
    #[error(transparent)]
    Lease(#[from] ArgsError),
}

/// Runs the controller until `stop`.
///
/// # Errors
/// If it cannot start or cannot serve probes.
pub async fn run_controller(
    options: ControllerArgs,
    env: Env,
    stop: CancellationToken,
) -> Result<(), ControllerRunError> {
    let gates = options.gates.gates().map_err(ControllerArgsError::from)?;
    let mut settings = options.settings()?;
    let image_refresh = options.image_refresh()?;
    settings.autoscales = gates.enabled(Feature::PoolAutoscaler);
    let mut images = options.images.settings().map_err(ControllerArgsError::from)?;
    images.wrappers = gates.enabled(Feature::MachineWrapper);
    if images.wrappers && !gates.enabled(Feature::DiskImages) {
        return Err(ControllerArgsError::WrapperWithoutImages.into());
    }
    let health = HealthEndpoints::new();
    let metrics = ControllerMetrics::new(&env);
    health.metrics({
        let metrics = metrics.clone();
        move || metrics.page()
    });
    let agent = concat!("vmpool-controller/", env!("CARGO_PKG_VERSION"));
    if options.program.health.metrics_authorization && !options.remove_finalizers {
        let client = vmpool_runtime::client::connect_client(&options.program.client, agent).await?;
        health.restrict_metrics(MetricsAccess::new(client, env.clone()));
    }
    let server = HealthServer::bind(options.program.health.health_address).await?;

    let (reconciles_pools, reconciles_images) =
        (gates.enabled(Feature::VirtualMachinePool), gates.enabled(Feature::DiskImages));
    let removes_finalizers = options.remove_finalizers;
    if !reconciles_pools && !removes_finalizers {
        tracing::warn!(
            "feature gate VirtualMachinePool is off: the controller does not watch or reconcile pools"
        );
    }
    // Objects have the finalizers from a time when the gate was on.
    let chosen = options.platforms();
    let platforms = if reconciles_pools || removes_finalizers { chosen.as_slice() } else { &[] };
    if !reconciles_pools && !reconciles_images && !removes_finalizers {
        return Ok(server.run(health, &env, stop).await?);
    }

    let server_clock = SharedServerClock::default();
    let layers = (metrics.api.layer(), server_clock.layer(&env));
    let client = vmpool_runtime::client::connect_through(&options.program.client, agent, &layers).await?;
    let namespace = options.watch_namespace.clone();
    let home = namespace.clone().unwrap_or_else(|| client.default_namespace().to_owned());
    let lease = options.lease.config(&env, &home).map_err(ControllerArgsError::from)?;
    if removes_finalizers {
        let scope = FinalizerScope {
            namespace: namespace.as_deref(),
            platforms,
            images: reconciles_images,
            types: settings.protects_types,
        };
        // The future is large.
        let removed = Box::pin(uninstall::remove_finalizers(&client, &env, &lease, scope)).await?;
        tracing::info!(removed, "removed the finalizers of pools, machines, disk images and instance types");
        return Ok(());
    }
    let dependencies = Dependencies {
        env: env.clone(),
        client: client.clone(),
        namespace,
        instance: lease.identity.clone(),
        settings,
        metrics: metrics.clone(),
        images: reconciles_images.then_some(images),
        image_refresh,
        server_clock,
    };

    let leader_health = LeaderHealth::default();
    let mut candidate = Candidate::new(client, lease.clone(), env.clone());
    let contact = candidate.health();
    metrics.follow_lease(contact.clone());
    health.live("workers", {
        let leader_health = leader_health.clone();
        move || leader_health.working(STUCK)
    });
    health.ready("caches", {
        let leader_health = leader_health.clone();
        move || leader_health.synced()
    });
    health.detail("platforms", {
        let leader_health = leader_health.clone();
        move || leader_health.platforms()
    });
    health.ready("lease", move || Ok(contact.check(OUT_OF_TOUCH)?));
    let probes = server.run(health, &env, stop.clone());
    let leadership_changes =
        run_leader_election(&mut candidate, &lease, dependencies, leader_health, platforms, stop.clone());
    futures::pin_mut!(probes, leadership_changes);
    match futures::future::select(leadership_changes, probes).await {
        futures::future::Either::Left(((), _)) => Ok(()),
        futures::future::Either::Right((ended, leadership_changes)) => {
            ended?;
            // On shutdown the probes stop at once, and the passes in progress finish.
            leadership_changes.await;
            Ok(())
        }
    }
}

/// Waits for the lease and leads, in turn, until `stop`.
pub async fn run_leader_election(
    candidate: &mut Candidate,
    lease: &LeaseConfig,
    dependencies: Dependencies,
    leader_health: LeaderHealth,
    platforms: &[PlatformName],
    stop: CancellationToken,
) {
    tracing::info!(
        lease = format!("{}/{}", lease.namespace, lease.name),
        identity = lease.identity,
        "waiting for the lease"
    );
    while let Some(leadership) = candidate.acquire(&stop).await {
        tracing::info!("leading");
        let metrics = dependencies.metrics.clone();
        metrics.leadership_changed(LeadershipChange::Acquired);
        let leading = lead_all(
            dependencies.clone(),
            leadership.fence.clone(),
            leader_health.clone(),
            platforms,
            stop.clone(),
        );
        let lost = leadership.wait_until_lost();
        futures::pin_mut!(leading, lost);
        match futures::future::select(leading, lost).await {
            futures::future::Either::Left(((), _)) => {
                if let Err(error) = leadership.release().await {
                    tracing::warn!(%error, "the lease was not released; it expires");
                }
                metrics.leadership_changed(LeadershipChange::Released);
                tracing::info!("stopped leading");
            }
            // Requests in flight are dropped with the future.
            futures::future::Either::Right(((), _)) => {
                metrics.leadership_changed(LeadershipChange::Lost);
                tracing::error!("lost the lease: back to standby");
            }
        }
    }
}

#[cfg(test)]
mod tests;
