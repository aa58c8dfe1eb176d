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

/// How long a connection may take to be made.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a connection may be silent while an answer is awaited.
///
/// Longer than a watch of [`WATCH_TIMEOUT_LIMIT`], during which nothing may happen; single requests have deadlines of
/// their own, set by those who send them.
pub const READ_TIMEOUT: Duration = Duration::from_secs(75);

/// The longest `timeoutSeconds` that a watch may ask for: without it, a watch whose connection was dropped silently goes
/// unnoticed for about five minutes.
pub const WATCH_TIMEOUT_LIMIT: Duration = Duration::from_mins(1);

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The named kubeconfig cannot be used.
    #[error("using kubeconfig {}", path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: Box<KubeconfigError>,
    },
    /// No kubeconfig was named, and there is neither a default one nor a ServiceAccount.
    #[error("looking for a kubeconfig or a ServiceAccount; name a file with --kubeconfig")]
    Infer(#[source] Box<InferConfigError>),
    /// The user agent has characters that a header cannot have.
    #[error("`{0}` cannot be a user agent")]
    UserAgent(String),
    /// The configuration was read, but no client can be made of it.
    #[error("making a client")]
    Client(#[source] Box<kube::Error>),
}

/// Makes a client of the kubeconfig that `args` names, else of `$KUBECONFIG`, `~/.kube/config` or the ServiceAccount of
/// the pod, in this order. Nothing is sent yet.
///
/// The client repeats nothing by itself: kube's own policy also repeats creates, past any deadline. It speaks HTTP/1.1
/// over a pool of connections, which kube has no choice about.
///
/// # Errors
/// [`ConnectError`].
pub async fn connect(args: &ClientArgs, user_agent: &str) -> Result<Client, ConnectError> {
    let config = configure(args, user_agent).await?;
    Client::try_from(config).map_err(|source| ConnectError::Client(Box::new(source)))
}

/// What sends the requests of a client.
pub type Transport = BoxService<Request<Body>, Response<Box<DynBody>>, BoxError>;

/// As [`connect`], with a layer through which every request passes: those of watches and of the lease, too.
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
    let config = configure(args, user_agent).await?;
    let builder = ClientBuilder::try_from(config).map_err(|source| ConnectError::Client(Box::new(source)))?;
    Ok(builder.with_layer(layer).build())
}

/// The configuration behind [`connect`], for those who put layers of their own around the client.
///
/// # Errors
/// [`ConnectError`].
pub async fn configure(args: &ClientArgs, user_agent: &str) -> Result<Config, ConnectError> {
    let mut config = match &args.kubeconfig {
        Some(path) => read(path)
            .await
            .map_err(|source| ConnectError::Kubeconfig { path: path.clone(), source: Box::new(source) })?,
        None => infer().await?,
    };
    let agent =
        HeaderValue::from_str(user_agent).map_err(|_| ConnectError::UserAgent(user_agent.to_owned()))?;
    config.headers.push((USER_AGENT, agent));
    config.default_retry = false;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.read_timeout = Some(READ_TIMEOUT);
    // Else the time that a pooled connection was idle would count against the answer to its next request.
    config.reset_reader_on_write = true;
    Ok(config)
}

async fn read(path: &std::path::Path) -> Result<Config, KubeconfigError> {
    let kubeconfig = Kubeconfig::read_from(path)?;
    Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await
}

#[expect(clippy::disallowed_methods, reason = "this is the one place that looks for a cluster")]
async fn infer() -> Result<Config, ConnectError> {
    Config::infer().await.map_err(|source| ConnectError::Infer(Box::new(source)))
}

#[cfg(test)]
mod tests;
