//! Keeps up with the configuration of the front proxy.

use std::sync::Arc;
use std::time::Duration;

use vmpool_runtime::tls::ClientCas;
use vmpool_runtime::{Env, telemetry};

use super::{Authenticator, RequestHeaders};
use crate::cluster::Cluster;

/// How often the ConfigMap is read. A read costs the API server less than a watch that is renewed each minute, and the
/// certificate authorities of a cluster overlap for hours when they change.
const PERIOD: Duration = Duration::from_secs(10);
/// How often, until it was read once.
const EAGER: Duration = Duration::from_secs(1);

/// Reads the configuration again and again, for ever. What cannot be read changes nothing: the last good one stays.
pub(crate) async fn follow(cluster: Cluster, authenticator: Authenticator, clients: ClientCas, env: Env) {
    let mut known: Option<Arc<RequestHeaders>> = None;
    loop {
        match read(&cluster).await {
            Ok(config) if known.as_deref() == Some(&config) => {}
            Ok(config) => match clients.replace(config.client_ca.as_bytes()) {
                Ok(_) => {
                    tracing::info!("read the front proxy's configuration");
                    let config = Arc::new(config);
                    authenticator.replace(config.clone());
                    known = Some(config);
                }
                Err(error) => {
                    let error = telemetry::with_causes(&error);
                    tracing::error!(error, "the certificate authorities of the front proxy cannot be used");
                }
            },
            Err(error) => tracing::warn!(error, "reading the front proxy's configuration failed"),
        }
        env.sleep(if known.is_some() { PERIOD } else { EAGER }).await;
    }
}

async fn read(cluster: &Cluster) -> Result<RequestHeaders, String> {
    let data = cluster.authentication().await.map_err(|error| error.to_string())?;
    RequestHeaders::parse(&data).map_err(|error| error.to_string())
}
