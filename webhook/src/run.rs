//! The life of the process.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use vmpool_feature_gates::Feature;
use vmpool_platforms::dvp::admission::DvpRules;
use vmpool_runtime::Env;
use vmpool_runtime::https::Limits;
use vmpool_runtime::serving::{Program, ServeError, Service};
use vmpool_runtime::telemetry;
use vmpool_runtime::tls::ClientCas;

use crate::metrics::Metrics;
use crate::options::{Options, OptionsError};
use crate::{LARGEST_BODY, State, closed, router};

/// How often the API server is asked whether it is there, until it was once.
const ASK_EVERY: Duration = Duration::from_secs(2);

/// The API server gives a webhook ten seconds by default: an answer after that is for nobody.
const REQUEST_DEADLINE: Duration = Duration::from_secs(10);

/// The head of a review says nothing but where it goes.
const HEADER_BYTES: usize = 16 << 10;

/// Why the process could not go on.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// An option is not usable.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// Something that it needs cannot be had, or has ended.
    #[error(transparent)]
    Serve(#[from] ServeError),
}

/// Answers reviews until `stop`, and then those that are under way.
///
/// # Errors
/// What keeps it from starting, or from answering.
pub async fn run(options: Options, env: Env, stop: CancellationToken) -> Result<(), RunError> {
    let gates = options.gates.gates().map_err(OptionsError::from)?;
    let settings = options.settings()?;
    let serving = options.serving()?;
    let callers = options.callers()?;
    let metrics = Metrics::new();
    let agent = concat!("vmpool-webhook/", env!("CARGO_PKG_VERSION"));
    let program = Program::open(agent, serving, &options.program.client, &options.program.health).await?;
    let (health, client) = (program.health(), program.client());
    health.metrics({
        let metrics = metrics.clone();
        move || metrics.page()
    });
    let router = if gates.enabled(Feature::VirtualMachinePool) {
        if settings.users.removal_handler.is_none() {
            tracing::warn!("no --removal-handler: pools with scaleDownPolicy Explicit cannot shrink");
        }
        router(
            State::new(Arc::new(DvpRules(settings)), client.clone(), metrics.clone(), env.clone())
                .answering(callers),
        )
    } else {
        tracing::warn!("feature gate VirtualMachinePool is off: no review is answered");
        closed()
    };
    let (reached, seen) = watch::channel(false);
    health.ready("api-server", move || {
        if *seen.borrow() { Ok(()) } else { Err("it was not reached yet".to_owned()) }
    });
    // It ends when it is dropped, with this function.
    let _contact = env.spawn("contact", reach(client, env.clone(), reached));
    let clients = ClientCas::demanding();
    let _followed = options.callers.client_ca_file.map(|file| {
        health.ready("client-authorities", {
            let clients = clients.clone();
            move || if clients.is_ready() { Ok(()) } else { Err("they were not read yet".to_owned()) }
        });
        // It ends when it is dropped, with this function.
        env.spawn("client-authorities", clients.clone().follow(file, env.clone()))
    });
    let service = Service {
        router,
        clients,
        limits: Limits {
            body_bytes: LARGEST_BODY,
            request_deadline: REQUEST_DEADLINE,
            header_bytes: HEADER_BYTES,
            ..Limits::default()
        },
        certificates: metrics.certificates.clone(),
        traffic: metrics.traffic.clone(),
    };
    Ok(program.serve(service, &env, stop).await?)
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
