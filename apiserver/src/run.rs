//! The life of the process.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use vmpool_engine::removal::accept_within;
use vmpool_feature_gates::Feature;
use vmpool_runtime::Env;
use vmpool_runtime::certificates::CertificateMetrics;
use vmpool_runtime::https::{Limits, TrafficMetrics};
use vmpool_runtime::serving::{Program, ServeError, Service};
use vmpool_runtime::tls::ClientCas;

use crate::body;
use crate::metrics::Metrics;
use crate::options::{Options, OptionsError};
use crate::removal;
use crate::router::router;
use crate::state::{Settings, State};

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

/// What one client may take.
fn limits() -> Limits {
    Limits {
        // A longer one is counted and told by the handler, with the limit.
        body_bytes: body::LIMIT + 1,
        // The longest path that can be read has 64 KiB, and the aggregation layer repeats it in a header. A longer head is
        // no answer but a broken stream to it, which clients see as 503.
        header_bytes: 256 << 10,
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
    let gates = options.gates.gates().map_err(OptionsError::from)?;
    let serving = options.serving()?;
    let settings = Settings {
        enabled: gates.enabled(Feature::VirtualMachinePool),
        accept_within: accept_within(options.reservation_timeout()?),
        request_timeout: options.request_timeout()?,
    };
    let (mut certificates, mut traffic) = (CertificateMetrics::default(), TrafficMetrics::default());
    let metrics = Metrics::new(|registry| {
        certificates = CertificateMetrics::new(registry);
        traffic = TrafficMetrics::new(registry);
    });
    let agent = concat!("vmpool-apiserver/", env!("CARGO_PKG_VERSION"));
    let program = Program::open(agent, serving, &options.program.client, &options.program.health).await?;
    let health = program.health();
    health.metrics({
        let metrics = metrics.clone();
        move || metrics.page()
    });
    if !settings.enabled {
        tracing::warn!("feature gate VirtualMachinePool is off: no resource is served");
    }
    let clients = ClientCas::demanding();
    let state = State::new(program.client(), env.clone(), settings, health.clone(), metrics);
    let _front_proxy = env.spawn("front proxy", state.follow_front_proxy(clients.clone()));
    let service = Service { router: router(state), clients, limits: limits(), certificates, traffic };
    Ok(program.serve(service, &env, stop).await?)
}

#[cfg(test)]
mod tests;
