//! The life of the process.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use vmpool_feature_gates::Feature;
use vmpool_runtime::Env;
use vmpool_runtime::certificates::{self, CertificateMetrics, ServingConfig};
use vmpool_runtime::client::ConnectError;
use vmpool_runtime::health::{Health, HealthError, Server};
use vmpool_runtime::https::{self, Limits, TrafficMetrics};
use vmpool_runtime::tls::{ClientCas, Identity};

use crate::body;
use crate::metrics::Metrics;
use crate::options::{Options, OptionsError};
use crate::removal;
use crate::router::router;
use crate::state::State;

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
    /// The HTTPS port cannot be had.
    #[error("listening on {address} for HTTPS")]
    Listen {
        /// The wanted address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The HTTPS server ended by itself.
    #[error("serving HTTPS")]
    Serve(#[source] io::Error),
}

/// What one client may take.
fn limits() -> Limits {
    Limits {
        // A longer one is counted and told by the handler, with the limit.
        body_bytes: body::LIMIT + 1,
        // So that the handler's own answer comes first.
        request_deadline: removal::DEADLINE + Duration::from_secs(2),
        ..Limits::default()
    }
}

/// Serves until `stop`, and then until what is under way is answered.
///
/// # Errors
/// What keeps it from starting, or from going on.
pub async fn run(options: Options, env: Env, stop: CancellationToken) -> Result<(), RunError> {
    let gates = options.gates()?;
    let ServingConfig { address, source } = options.serving()?;
    let (mut certificate_metrics, mut traffic) = (CertificateMetrics::default(), TrafficMetrics::default());
    let metrics = Metrics::new(|registry| {
        certificate_metrics = CertificateMetrics::new(registry);
        traffic = TrafficMetrics::new(registry);
    });
    let health = Health::new();
    health.metrics({
        let metrics = metrics.clone();
        move || metrics.page()
    });
    let probes = Server::bind(options.health.health_address).await?;
    let agent = concat!("vmpool-apiserver/", env!("CARGO_PKG_VERSION"));
    let client = vmpool_runtime::client::connect(&options.client, agent).await?;
    let failed = |source| RunError::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let enabled = gates.enabled(Feature::VirtualMachinePool);
    if !enabled {
        tracing::warn!("feature gate VirtualMachinePool is off: no resource is served");
    }
    tracing::info!(%address, "serving HTTPS");

    let (identity, clients) = (Identity::new(), ClientCas::none());
    health.ready("certificate", {
        let identity = identity.clone();
        move || if identity.is_ready() { Ok(()) } else { Err("there is no certificate yet".to_owned()) }
    });
    let state = State::new(client.clone(), env.clone(), enabled, health.clone(), metrics);
    let certificate = certificates::keep(client, source, identity.clone(), certificate_metrics, env.clone());
    let _certificate = env.spawn("certificate", certificate);
    let _front_proxy = env.spawn("front proxy", state.follow_front_proxy(clients.clone()));
    let server = https::Server::new(identity, clients, limits(), env.clone()).metrics(traffic);
    let serving = server.serve(listener, router(state), stop.clone().cancelled_owned());
    // The probes outlive the requests under way: a kubelet that gets no answer would kill them.
    let drained = CancellationToken::new();
    let probing = probes.run(health, drained.clone());
    futures::pin_mut!(serving, probing);
    match futures::future::select(serving, probing).await {
        futures::future::Either::Left((served, probing)) => {
            drained.cancel();
            probing.await?;
            served.map_err(RunError::Serve)
        }
        futures::future::Either::Right((ended, _)) => Ok(ended?),
    }
}

#[cfg(test)]
mod tests;
