//! The life of the process: standby, leader, standby again, shutdown.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use vmpool_feature_gates::Feature;
use vmpool_runtime::Env;
use vmpool_runtime::args::ArgsError;
use vmpool_runtime::client::ConnectError;
use vmpool_runtime::health::{Health, HealthError, Server};
use vmpool_runtime::lease::{Candidate, LeaseConfig};

use crate::lead::{LeaderHealth, Surroundings, lead};
use crate::metrics::{LeadershipChange, Metrics};
use crate::options::{Options, OptionsError};
use crate::platform::Dvp;

/// A pass that takes this long is stuck: the longest honest one is some hundred writes.
const STUCK: Duration = Duration::from_mins(5);
/// A replica that has not spoken to the API server for this long could not take over.
const OUT_OF_TOUCH: Duration = Duration::from_secs(30);

/// Why the process could not go on.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// An option is not usable.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// There is no way to the API server.
    #[error("connecting to the API server")]
    Connect(#[from] ConnectError),
    /// The probes cannot be served.
    #[error(transparent)]
    Health(#[from] HealthError),
    /// The lease cannot be given back.
    #[error(transparent)]
    Lease(#[from] ArgsError),
}

/// Runs the controller until `stop`.
///
/// # Errors
/// What keeps it from starting, or from answering probes.
pub async fn run(options: Options, env: Env, stop: CancellationToken) -> Result<(), RunError> {
    let gates = options.gates.gates().map_err(OptionsError::from)?;
    let settings = options.settings()?;
    let health = Health::new();
    let metrics = Metrics::new(&env);
    health.metrics({
        let metrics = metrics.clone();
        move || metrics.page()
    });
    let server = Server::bind(options.program.health.health_address).await?;

    if !gates.enabled(Feature::VirtualMachinePool) {
        tracing::warn!("feature gate VirtualMachinePool is off: nothing is watched, no pool is served");
        return Ok(server.run(health, &env, stop).await?);
    }

    let client = vmpool_runtime::client::connect_through(
        &options.program.client,
        concat!("vmpool-controller/", env!("CARGO_PKG_VERSION")),
        &metrics.api.layer::<Dvp>(),
    )
    .await?;
    let namespace = options.watch_namespace.clone();
    let home = namespace.clone().unwrap_or_else(|| client.default_namespace().to_owned());
    let lease = options.lease.config(&env, &home).map_err(OptionsError::from)?;
    let surroundings = Surroundings {
        env: env.clone(),
        client: client.clone(),
        namespace,
        instance: lease.identity.clone(),
        settings,
        metrics: metrics.clone(),
    };

    let leader_health = LeaderHealth::new(&env);
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
    health.ready("lease", move || contact.check(OUT_OF_TOUCH));
    let probes = server.run(health, &env, stop.clone());
    let leadership_changes = serve(&mut candidate, &lease, surroundings, leader_health, stop.clone());
    futures::pin_mut!(probes, leadership_changes);
    match futures::future::select(leadership_changes, probes).await {
        futures::future::Either::Left(((), _)) => Ok(()),
        futures::future::Either::Right((ended, leadership_changes)) => {
            ended?;
            // The probes stop at once on shutdown; the pass that has begun does not.
            leadership_changes.await;
            Ok(())
        }
    }
}

/// Standby and leader in turn, until `stop`.
pub async fn serve(
    candidate: &mut Candidate,
    lease: &LeaseConfig,
    surroundings: Surroundings,
    leader_health: LeaderHealth,
    stop: CancellationToken,
) {
    tracing::info!(
        lease = format!("{}/{}", lease.namespace, lease.name),
        identity = lease.identity,
        "waiting for the lease"
    );
    while let Some(leadership) = candidate.acquire(&stop).await {
        tracing::info!("leading");
        let metrics = surroundings.metrics.clone();
        metrics.leadership_changed(LeadershipChange::Acquired);
        let leading =
            lead::<Dvp>(surroundings.clone(), leadership.fence.clone(), leader_health.clone(), stop.clone());
        let lost = leadership.lost();
        futures::pin_mut!(leading, lost);
        match futures::future::select(leading, lost).await {
            futures::future::Either::Left(((), _)) => {
                if let Err(error) = leadership.release().await {
                    tracing::warn!(%error, "the lease was not given back; it ends by itself");
                }
                metrics.leadership_changed(LeadershipChange::Released);
                tracing::info!("stopped leading");
            }
            // What is under way is dropped with the future: its answers no longer matter.
            futures::future::Either::Right(((), _)) => {
                metrics.leadership_changed(LeadershipChange::Lost);
                tracing::error!("lost the lease: back to standby");
            }
        }
    }
}

#[cfg(test)]
mod tests;
