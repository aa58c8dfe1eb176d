//! The process: configuration, startup and serving.

use std::time::Duration;

use kube::Client;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use vmpool_feature_gates::Feature;
use vmpool_runtime::Env;
use vmpool_runtime::args::InstancetypeMode;
use vmpool_runtime::health::Unhealthy;
use vmpool_runtime::https::Limits;
use vmpool_runtime::serving::{BoundProgram, ProgramService, ServeError};
use vmpool_runtime::telemetry;
use vmpool_runtime::tls::ClientCas;

use crate::metrics::WebhookMetrics;
use crate::options::{WebhookOptions, WebhookOptionsError};
use crate::review::MAX_LENGTH;
use crate::router::{empty_router, webhook_router};
use crate::state::ReviewState;

/// The interval of connection attempts to kube-apiserver until the first success.
const CONNECT_INTERVAL: Duration = Duration::from_secs(2);

/// The deadline of a review. By default kube-apiserver waits ten seconds for the response of a webhook.
const REQUEST_DEADLINE: Duration = Duration::from_secs(10);

/// The maximum size of the headers of a review in bytes.
const HEADER_BYTES: usize = 16 << 10;

/// Why the process exits.
#[derive(Debug, thiserror::Error)]
pub enum WebhookRunError {
    /// An option is invalid.
    #[error(transparent)]
    Options(#[from] WebhookOptionsError),
    /// A server could not start, or has ended.
    #[error(transparent)]
    Serve(#[from] ServeError),
}

/// Handles reviews until `stop`, and then the reviews in flight.
///
/// # Errors
/// The reason why the process cannot start or continue.
pub async fn run_webhook(
    options: WebhookOptions,
    env: Env,
    stop: CancellationToken,
) -> Result<(), WebhookRunError> {
    let gates = options.gates.gates().map_err(WebhookOptionsError::from)?;
    let settings = options.settings()?;
    let serving = options.serving()?;
    let callers = options.callers()?;
    let allowed_urls = options.allowed_urls()?;
    let metrics = WebhookMetrics::new();
    let agent = concat!("vmpool-webhook/", env!("CARGO_PKG_VERSION"));
    let program =
        BoundProgram::open(agent, serving, &options.program.client, &options.program.health).await?;
    let (health, client) = (program.health(), program.client());
    health.metrics({
        let metrics = metrics.clone();
        move || metrics.page()
    });
    let (pools, images) = (gates.enabled(Feature::VirtualMachinePool), gates.enabled(Feature::DiskImages));
    let autoscalers = gates.enabled(Feature::PoolAutoscaler);
    let standalone = pools && options.instancetype_mode == InstancetypeMode::Standalone;
    let router = if pools || images || autoscalers {
        let rules = if pools { vmpool_platforms::admission::admission_rules(&settings) } else { Vec::new() };
        for warning in rules.iter().filter_map(|rules| rules.kind().setup_warning) {
            tracing::warn!("{warning}");
        }
        let state = ReviewState::new(rules, client.clone(), metrics.clone(), env.clone()).accepting(callers);
        let state = if images { state.with_images(allowed_urls) } else { state };
        let state = if autoscalers { state.with_autoscalers() } else { state };
        webhook_router(&if standalone { state.with_types() } else { state })
    } else {
        tracing::warn!(
            "feature gates VirtualMachinePool, DiskImages and PoolAutoscaler are off: the webhook validates nothing"
        );
        empty_router()
    };
    let (connected, is_connected) = watch::channel(false);
    health.ready("api-server", move || {
        if *is_connected.borrow() { Ok(()) } else { Err(Unhealthy::new("not connected yet")) }
    });
    // The task ends when this function returns and drops it.
    let _connection = env.spawn("connection", wait_for_api_server(client, env.clone(), connected));
    let clients = ClientCas::requiring();
    let _followed = options.callers.client_ca_file.map(|file| {
        health.ready("client-authorities", {
            let clients = clients.clone();
            move || {
                if clients.is_ready() {
                    Ok(())
                } else {
                    Err(Unhealthy::new("the file has not been read yet"))
                }
            }
        });
        // The task ends when this function returns and drops it.
        env.spawn("client-authorities", clients.clone().follow(file, env.clone()))
    });
    let service = ProgramService {
        router,
        clients,
        limits: Limits {
            body_bytes: MAX_LENGTH,
            request_deadline: REQUEST_DEADLINE,
            header_bytes: HEADER_BYTES,
            ..Limits::default()
        },
        certificates: metrics.certificates.clone(),
        traffic: metrics.traffic.clone(),
    };
    Ok(program.serve(service, &env, stop).await?)
}

/// Requests the version of kube-apiserver until it responds.
async fn wait_for_api_server(client: Client, env: Env, connected: watch::Sender<bool>) {
    loop {
        let failure = match env.timeout(CONNECT_INTERVAL, client.apiserver_version()).await {
            Ok(Ok(version)) => {
                tracing::info!(version = version.git_version, "connected to the API server");
                connected.send_replace(true);
                return;
            }
            Ok(Err(error)) => telemetry::with_causes(&error),
            Err(elapsed) => elapsed.to_string(),
        };
        tracing::warn!(failure, "connecting to the API server failed, retrying");
        env.sleep(CONNECT_INTERVAL).await;
    }
}

#[cfg(test)]
mod process_tests;
#[cfg(test)]
mod tests;
