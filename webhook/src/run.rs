//! The life of the process.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use futures::future::{Either, select};
use futures::pin_mut;
use kube::Client;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use vmpool_feature_gates::Feature;
use vmpool_runtime::Env;
use vmpool_runtime::client::ConnectError;
use vmpool_runtime::health::{Health, HealthError, Server as HealthServer};
use vmpool_runtime::https::{Limits, Server};
use vmpool_runtime::tls::{ClientCas, Identity};
use vmpool_runtime::{certificates, client, telemetry};

use crate::metrics::Metrics;
use crate::options::{Options, OptionsError};
use crate::{LARGEST_BODY, State, closed, router};

/// How often the API server is asked whether it is there, until it was once.
const ASK_EVERY: Duration = Duration::from_secs(2);

/// The API server gives a webhook ten seconds by default: an answer after that is for nobody.
const REQUEST_DEADLINE: Duration = Duration::from_secs(10);

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
    /// The address cannot be listened on.
    #[error("listening on {address} for reviews")]
    Listen {
        /// The wanted address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The server ended by itself.
    #[error("serving reviews")]
    Serve(#[source] io::Error),
}

/// Answers reviews until `stop`, and then those that are under way.
///
/// # Errors
/// What keeps it from starting, or from answering.
pub async fn run(options: Options, env: Env, stop: CancellationToken) -> Result<(), RunError> {
    let gates = options.gates()?;
    let settings = options.settings()?;
    let serving = options.serving()?;
    let (health, metrics, identity) = (Health::new(), Metrics::new(), Identity::new());
    health.metrics({
        let metrics = metrics.clone();
        move || metrics.page()
    });
    let probes = HealthServer::bind(options.health.health_address).await?;
    let client =
        client::connect(&options.client, concat!("vmpool-webhook/", env!("CARGO_PKG_VERSION"))).await?;

    let router = if gates.enabled(Feature::VirtualMachinePool) {
        if settings.removal_handler.is_none() {
            tracing::warn!("no --removal-handler: pools with scaleDownPolicy Explicit cannot shrink");
        }
        router(State::new(settings, client.clone(), metrics.clone(), env.clone()))
    } else {
        tracing::warn!("feature gate VirtualMachinePool is off: no review is answered");
        closed()
    };
    let failed = |source| RunError::Listen { address: serving.address, source };
    let listener = TcpListener::bind(serving.address).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    tracing::info!(%address, "serving reviews");

    let (reached, seen) = watch::channel(false);
    health.ready("certificate", {
        let identity = identity.clone();
        move || if identity.is_ready() { Ok(()) } else { Err("there is none yet".to_owned()) }
    });
    health.ready("api-server", move || {
        if *seen.borrow() { Ok(()) } else { Err("it was not reached yet".to_owned()) }
    });
    // Both end when they are dropped, with this function.
    let _certificate = env.spawn(
        "certificate",
        certificates::keep(
            client.clone(),
            serving.source,
            identity.clone(),
            metrics.certificates.clone(),
            env.clone(),
        ),
    );
    let _contact = env.spawn("contact", reach(client, env.clone(), reached));

    let limits = Limits { body_bytes: LARGEST_BODY, request_deadline: REQUEST_DEADLINE, ..Limits::default() };
    let reviews = Server::new(identity, ClientCas::none(), limits, env)
        .metrics(metrics.traffic.clone())
        .serve(listener, router, stop.clone().cancelled_owned());
    let probes = probes.run(health, stop);
    pin_mut!(reviews, probes);
    match select(reviews, probes).await {
        Either::Left((ended, _)) => ended.map_err(RunError::Serve),
        Either::Right((ended, reviews)) => {
            ended?;
            // The probes stop at once on shutdown; reviews that have begun are answered.
            reviews.await.map_err(RunError::Serve)
        }
    }
}

/// Asks the API server for its version until it answers.
async fn reach(client: Client, env: Env, reached: watch::Sender<bool>) {
    loop {
        let failure = match env.timeout(ASK_EVERY, client.apiserver_version()).await {
            Ok(Ok(version)) => {
                tracing::info!(version = version.git_version, "the API server answers");
                reached.send_replace(true);
                return;
            }
            Ok(Err(error)) => telemetry::with_causes(&error),
            Err(elapsed) => elapsed.to_string(),
        };
        tracing::warn!(failure, "the API server does not answer yet");
        env.sleep(ASK_EVERY).await;
    }
}

#[cfg(test)]
mod life;
#[cfg(test)]
mod tests;
