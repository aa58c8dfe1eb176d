//! Reads the configuration of the front proxy periodically.

use std::sync::Arc;
use std::time::Duration;

use vmpool_runtime::tls::ClientCas;
use vmpool_runtime::{Env, telemetry};

use super::authenticator::Authenticator;
use super::requestheader::{ConfigError, RequestHeaders};
use crate::cluster::{CallError, ClusterClient};

/// The interval between reads of the ConfigMap. Reads cost the API server less than a watch that is renewed
/// every minute. The old and new certificate authorities of a cluster overlap for hours, so a delay is
/// acceptable.
const PERIOD: Duration = Duration::from_secs(10);
/// The interval until the first successful read.
const INITIAL_PERIOD: Duration = Duration::from_secs(1);

/// Reads the configuration periodically and never returns. If a read fails, the last configuration stays in
/// use.
pub(crate) async fn follow_front_proxy_config(
    cluster: ClusterClient,
    authenticator: Authenticator,
    clients: ClientCas,
    env: Env,
) {
    let mut known: Option<Arc<RequestHeaders>> = None;
    loop {
        match read_front_proxy_config(&cluster).await {
            Ok(config) if known.as_deref() == Some(&config) => {}
            Ok(config) => match clients.replace(config.client_ca.as_bytes()) {
                Ok(_) => {
                    tracing::info!("read a new configuration of the front proxy");
                    let config = Arc::new(config);
                    authenticator.replace(config.clone());
                    known = Some(config);
                }
                Err(error) => {
                    let error = telemetry::with_causes(&error);
                    tracing::error!(
                        error,
                        "the certificate authorities of the front proxy are invalid; keeping the last valid ones"
                    );
                }
            },
            Err(error) => {
                let error = telemetry::with_causes(&error);
                tracing::warn!(error, "reading the configuration of the front proxy failed, retrying");
            }
        }
        env.sleep(if known.is_some() { PERIOD } else { INITIAL_PERIOD }).await;
    }
}

/// Why the configuration could not be read.
#[derive(Debug, thiserror::Error)]
enum FrontProxyReadError {
    #[error(transparent)]
    Read(#[from] CallError),
    #[error(transparent)]
    Parse(#[from] ConfigError),
}

async fn read_front_proxy_config(cluster: &ClusterClient) -> Result<RequestHeaders, FrontProxyReadError> {
    Ok(RequestHeaders::parse(&cluster.front_proxy_config().await?)?)
}
