//! The client of the Kubernetes API.

use std::path::PathBuf;
use std::time::Duration;

use axum::http::header::USER_AGENT;
use axum::http::{HeaderValue, Request, Response};
use kube::client::{Body, ClientBuilder, DynBody};
use kube::config::{InferConfigError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use tower::util::BoxService;
use tower::{BoxError, Layer, Service};

use crate::args::ClientArgs;

/// The deadline for establishing a connection.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The maximum time without data on a connection while a response is expected.
///
/// It is longer than [`WATCH_TIMEOUT_LIMIT`], because a watch may have no events. Callers set shorter
/// deadlines for single requests.
pub const READ_TIMEOUT: Duration = Duration::from_secs(75);

/// The maximum `timeoutSeconds` of a watch. Without it, a silently dropped connection of a watch would be
/// detected only after about five minutes.
pub const WATCH_TIMEOUT_LIMIT: Duration = Duration::from_mins(1);

/// Why no client could be created.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The given kubeconfig is unusable.
    #[error("loading kubeconfig {}", path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: Box<KubeconfigError>,
    },
    /// No kubeconfig is given, and there is neither a default kubeconfig nor a ServiceAccount.
    #[error("finding a kubeconfig or a ServiceAccount; set --kubeconfig")]
    Infer(#[source] Box<InferConfigError>),
    /// The user agent contains characters that are invalid in a header.
    #[error("`{0}` is not a valid user agent")]
    UserAgent(String),
    /// The configuration does not result in a client.
    #[error("creating a client")]
    Client(#[source] Box<kube::Error>),
}

/// Creates a client from the kubeconfig in `args`, or else from `$KUBECONFIG`, `~/.kube/config` or the
/// ServiceAccount of the pod, in this order. It sends no request.
///
/// The client does not retry by itself, because the retry policy of kube also repeats creates and ignores
/// deadlines. It uses HTTP/1.1 with a pool of connections. kube offers no other protocol.
///
/// # Errors
/// [`ConnectError`].
pub async fn connect_client(args: &ClientArgs, user_agent: &str) -> Result<Client, ConnectError> {
    let config = client_config(args, user_agent).await?;
    Client::try_from(config).map_err(|source| ConnectError::Client(Box::new(source)))
}

/// The service that sends the requests of a client.
pub type Transport = BoxService<Request<Body>, Response<Box<DynBody>>, BoxError>;

/// As [`connect_client`], with a layer for all requests, including those of watches and of the lease.
///
/// # Errors
/// [`ConnectError`].
pub async fn connect_through<L>(
    args: &ClientArgs,
    user_agent: &str,
    layer: &L,
) -> Result<Client, ConnectError>
where
    L: Layer<Transport>,
    L::Service: Service<Request<Body>, Response = Response<Box<DynBody>>, Error = BoxError> + Send + 'static,
    <L::Service as Service<Request<Body>>>::Future: Send + 'static,
{
    let config = client_config(args, user_agent).await?;
    let builder = ClientBuilder::try_from(config).map_err(|source| ConnectError::Client(Box::new(source)))?;
    Ok(builder.with_layer(layer).build())
}

/// The configuration that [`connect_client`] uses, for callers that add layers to the client.
///
/// # Errors
/// [`ConnectError`].
pub async fn client_config(args: &ClientArgs, user_agent: &str) -> Result<Config, ConnectError> {
    let mut config = match &args.kubeconfig {
        Some(path) => read_kubeconfig(path)
            .await
            .map_err(|source| ConnectError::Kubeconfig { path: path.clone(), source: Box::new(source) })?,
        None => infer_cluster_config().await?,
    };
    let agent =
        HeaderValue::from_str(user_agent).map_err(|_| ConnectError::UserAgent(user_agent.to_owned()))?;
    config.headers.push((USER_AGENT, agent));
    config.default_retry = false;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.read_timeout = Some(READ_TIMEOUT);
    // Otherwise the idle time of a pooled connection would count for the response to its next request.
    config.reset_reader_on_write = true;
    Ok(config)
}

async fn read_kubeconfig(path: &std::path::Path) -> Result<Config, KubeconfigError> {
    let kubeconfig = Kubeconfig::read_from(path)?;
    Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await
}

#[expect(clippy::disallowed_methods, reason = "the only place that finds a cluster by itself")]
async fn infer_cluster_config() -> Result<Config, ConnectError> {
    Config::infer().await.map_err(|source| ConnectError::Infer(Box::new(source)))
}

#[cfg(test)]
mod tests;
