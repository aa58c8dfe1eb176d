//! Accepts connections, and closes them at shutdown.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use futures::future::{Either, select};
use rustls::ServerConfig;
use rustls::server::NoServerSessionStorage;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::config::{HttpsServer, Limits};
use super::connection::{self, AcceptedConnection, ShutdownPhases, TlsGeneration};
use super::hyper_env::RustlsClock;
use super::metrics::Refusal;
use crate::capacity::{ConnectionSlots, RequestSlots};
use crate::env::Env;
use crate::tls::{ClientCas, ClientCasSnapshot, ServingIdentity, crypto_provider};

/// The pause after an error that does not concern a single connection, such as too many open files.
const PAUSE: Duration = Duration::from_millis(500);

impl HttpsServer {
    /// Serves `router` until `shutdown` completes, and then until all requests in flight are answered, for at
    /// most [`Limits::request_deadline`].
    ///
    /// Dropping the future closes all connections immediately.
    ///
    /// # Errors
    /// The TLS configuration is invalid. Failures to accept connections are logged and retried.
    pub async fn serve(
        self,
        listener: TcpListener,
        router: Router,
        shutdown: impl Future<Output = ()> + Send,
    ) -> io::Result<()> {
        run_https_server(self, listener, router, shutdown).await
    }
}

/// Runs a server without metrics, see [`HttpsServer::serve`].
///
/// # Errors
/// As [`HttpsServer::serve`].
pub async fn serve_https(
    listener: TcpListener,
    identity: ServingIdentity,
    clients: ClientCas,
    router: Router,
    limits: Limits,
    env: &Env,
    shutdown: impl Future<Output = ()> + Send,
) -> io::Result<()> {
    HttpsServer::new(identity, clients, limits, env.clone()).serve(listener, router, shutdown).await
}

async fn run_https_server(
    server: HttpsServer,
    listener: TcpListener,
    router: Router,
    shutdown: impl Future<Output = ()> + Send,
) -> io::Result<()> {
    // The body is limited outside the router, so the limit applies to all extractors.
    let router = router.layer(DefaultBodyLimit::disable());
    let (lingering, draining, stop) =
        (CancellationToken::new(), CancellationToken::new(), CancellationToken::new());
    let _stopped = stop.clone().drop_guard();
    let limits = &server.limits;
    let slots = ConnectionSlots::new(limits.connections, limits.connections_per_client, server.env.clone());

    let env = server.env.clone();
    let shutdown = async {
        shutdown.await;
        lingering.cancel();
        env.sleep(server.limits.linger).await;
    };
    let phases = ShutdownPhases { lingering: lingering.clone(), draining: draining.clone() };
    let accepting = accept_connections(&server, &listener, &router, &slots, &phases, &stop);
    match select(std::pin::pin!(shutdown), std::pin::pin!(accepting)).await {
        Either::Left(((), _)) => {}
        Either::Right((ended, _)) => return ended,
    }
    // Further connections are refused immediately instead of waiting in the queue.
    drop(listener);
    draining.cancel();
    let closed = slots.wait_until_free();
    if env.timeout(server.limits.request_deadline, closed).await.is_err() {
        tracing::warn!("closing connections that did not end in time");
    }
    Ok(())
}

/// Accepts connections and never returns. Each connection holds one of the slots.
async fn accept_connections(
    server: &HttpsServer,
    listener: &TcpListener,
    router: &Router,
    slots: &ConnectionSlots,
    shutdown: &ShutdownPhases,
    stop: &CancellationToken,
) -> io::Result<()> {
    let mut snapshot = server.clients.snapshot();
    let mut config = Arc::new(tls_server_config(server, &snapshot)?);
    let requests = RequestSlots::new(server.limits.requests);
    loop {
        let accepted = match listener.accept().await {
            Ok((stream, address)) => AcceptedConnection { stream, address },
            Err(error) if concerns_one_connection(&error) => continue,
            Err(error) => {
                tracing::warn!(%error, "accepting a connection failed, retrying");
                server.env.sleep(PAUSE).await;
                continue;
            }
        };
        let Some(slot) = slots.acquire(accepted.address.ip()).await else {
            server.metrics.refused(Refusal::TooManyConnections);
            tracing::debug!(address = %accepted.address, "a client has too many connections");
            continue;
        };
        if snapshot.generation != server.clients.generation() {
            snapshot = server.clients.snapshot();
            config = Arc::new(tls_server_config(server, &snapshot)?);
        }
        let (connection_server, router) = (server.clone(), router.clone());
        let tls = TlsGeneration { config: Arc::clone(&config), generation: snapshot.generation };
        let requests = Arc::clone(&requests);
        let shutdown = shutdown.clone();
        let stop = stop.clone();
        let task = async move {
            let connection = connection::serve_https_connection(
                connection_server,
                router,
                tls,
                accepted,
                &slot,
                requests,
                shutdown,
            );
            select(std::pin::pin!(connection), std::pin::pin!(stop.cancelled())).await;
        };
        // The task ends with the connection, or when the server is dropped, which cancels `stop`.
        server.env.spawn("https-connection", task).detach();
    }
}

/// Whether an error concerns only the connection that was accepted.
fn concerns_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

fn tls_server_config(server: &HttpsServer, clients: &ClientCasSnapshot) -> io::Result<ServerConfig> {
    let mut config = ServerConfig::builder_with_details(crypto_provider(), RustlsClock::shared(&server.env))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_client_cert_verifier(Arc::clone(&clients.verifier))
        .with_cert_resolver(Arc::new(server.identity.clone()));
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    // A resumed session would keep a client certificate that the current authorities may not accept.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}
