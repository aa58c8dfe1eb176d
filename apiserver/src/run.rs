//! The process: configuration, startup and serving.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use vmpool_engine::scale_down::removal::acceptance_window;
use vmpool_feature_gates::Feature;
use vmpool_platforms::removal::{APIS, STANDALONE_APIS};
use vmpool_runtime::Env;
use vmpool_runtime::args::InstancetypeMode;
use vmpool_runtime::certificates::CertificateMetrics;
use vmpool_runtime::https::{Limits, TrafficMetrics};
use vmpool_runtime::serving::{BoundProgram, ProgramService, ServeError};
use vmpool_runtime::tls::ClientCas;

use crate::body;
use crate::claims;
use crate::metrics::ApiServerMetrics;
use crate::options::{ApiServerOptions, ApiServerOptionsError};
use crate::removal;
use crate::router::api_router;
use crate::state::{ApiServerSettings, ApiServerState};

/// Why the process exits.
#[derive(Debug, thiserror::Error)]
pub enum ApiServerRunError {
    /// An option is invalid.
    #[error(transparent)]
    Options(#[from] ApiServerOptionsError),
    /// A server could not start, or has ended.
    #[error(transparent)]
    Serve(#[from] ServeError),
}

/// The limits for clients.
fn server_limits() -> Limits {
    Limits {
        // One byte more than the handler accepts, so that the handler refuses longer bodies and names the
        // limit.
        body_bytes: body::MAX_LENGTH + 1,
        // The longest valid path has 64 KiB, and the aggregation layer repeats it in a header. If the headers
        // exceed this limit, the aggregation layer sees a broken stream, and clients receive a 503.
        header_bytes: 256 << 10,
        // Longer than the deadline of the handler, so that the handler responds first.
        request_deadline: claims::DEADLINE.max(removal::DEADLINE) + Duration::from_secs(2),
        ..Limits::default()
    }
}

/// Serves until `stop`, and then until the requests in flight are answered.
///
/// # Errors
/// The reason why the process cannot start or continue.
pub async fn run_apiserver(
    options: ApiServerOptions,
    env: Env,
    stop: CancellationToken,
) -> Result<(), ApiServerRunError> {
    let gates = options.gates.gates().map_err(ApiServerOptionsError::from)?;
    let serving = options.serving()?;
    let settings = ApiServerSettings {
        enabled: gates.enabled(Feature::VirtualMachinePool),
        apis: match options.instancetype_mode {
            InstancetypeMode::Coexist => APIS,
            InstancetypeMode::Standalone => STANDALONE_APIS,
        },
        accept_within: acceptance_window(options.reservation_timeout()?),
        autoscales: gates.enabled(Feature::PoolAutoscaler),
        request_timeout: options.request_timeout()?,
    };
    let (mut certificates, mut traffic) = (CertificateMetrics::default(), TrafficMetrics::default());
    let metrics = ApiServerMetrics::new(|registry| {
        certificates = CertificateMetrics::new(registry);
        traffic = TrafficMetrics::new(registry);
    });
    let agent = concat!("vmpool-apiserver/", env!("CARGO_PKG_VERSION"));
    let program =
        BoundProgram::open(agent, serving, &options.program.client, &options.program.health).await?;
    let health = program.health();
    health.metrics({
        let metrics = metrics.clone();
        move || metrics.page()
    });
    if !settings.enabled {
        tracing::warn!("feature gate VirtualMachinePool is off: the server has no resources");
    }
    let clients = ClientCas::requiring();
    let state = ApiServerState::new(program.client(), env.clone(), settings, health.clone(), metrics);
    let _front_proxy = env.spawn("front proxy", state.follow_front_proxy(clients.clone()));
    let _platform = env.spawn("platform", state.follow_platform());
    let service =
        ProgramService { router: api_router(state), clients, limits: server_limits(), certificates, traffic };
    Ok(program.serve(service, &env, stop).await?)
}

#[cfg(test)]
mod tests;
