//! The HTTP server of the health endpoints, for kubelets and Prometheus.
//!
//! Any Pod may connect, so the number of connections, the duration of a request and the idle time are
//! limited.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response, StatusCode};
use futures::future::{Either, select};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use super::endpoints::HealthEndpoints;
use crate::capacity::{ActiveRequest, ConnectionSlot, ConnectionSlots};
use crate::env::Env;
use crate::https::HyperClock;

/// The maximum number of connections.
const CONNECTIONS: usize = 64;
/// The maximum number of connections of one client.
const CONNECTIONS_PER_CLIENT: usize = 16;
/// The deadline for the headers of a request, including the idle time before it.
pub(super) const HEAD_DEADLINE: Duration = Duration::from_secs(30);
/// The deadline from the headers of a request to its response.
const REQUEST_DEADLINE: Duration = Duration::from_secs(10);
/// The deadline for requests in flight during the shutdown, and for evicted connections.
const CLOSE_DEADLINE: Duration = Duration::from_secs(1);
/// The pause after a connection could not be accepted.
const PAUSE: Duration = Duration::from_millis(500);

/// Why the health endpoints are not served.
#[derive(Debug, thiserror::Error)]
pub enum HealthError {
    /// The server cannot listen on the address.
    #[error("listening on {address} for health checks")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The error of the system.
        source: io::Error,
    },
    /// The server ended unexpectedly.
    #[error("serving health checks")]
    Serve(#[source] io::Error),
}

/// A server that listens and does not respond yet.
#[derive(Debug)]
pub struct HealthServer {
    listener: TcpListener,
    address: SocketAddr,
}

impl HealthServer {
    /// Listens on `address`, and logs the address. Port 0 selects a free port.
    ///
    /// # Errors
    /// [`HealthError::Listen`].
    pub async fn bind(address: SocketAddr) -> Result<Self, HealthError> {
        let failed = |source| HealthError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        tracing::info!(%address, "serving health checks");
        Ok(Self { listener, address })
    }

    /// The address on which the server listens, with the selected port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Responds until `shutdown` is cancelled. Failures to accept connections are logged and retried.
    ///
    /// # Errors
    /// [`HealthError::Serve`].
    pub async fn run(
        self,
        health: HealthEndpoints,
        env: &Env,
        shutdown: CancellationToken,
    ) -> Result<(), HealthError> {
        let slots = ConnectionSlots::new(CONNECTIONS, CONNECTIONS_PER_CLIENT, env.clone());
        let router = health.router();
        let accepting = async {
            loop {
                let (stream, address) = match self.listener.accept().await {
                    Ok(accepted) => accepted,
                    Err(error) => {
                        tracing::warn!(%error, "accepting a connection for health checks failed, retrying");
                        env.sleep(PAUSE).await;
                        continue;
                    }
                };
                let Some(slot) = slots.acquire(address.ip()).await else {
                    tracing::debug!(%address, "a client has too many connections for health checks");
                    continue;
                };
                let connection =
                    serve_health_connection(stream, slot, router.clone(), env.clone(), shutdown.clone());
                // The task ends with the connection, or after `shutdown` is cancelled.
                env.spawn("health-connection", connection).detach();
            }
        };
        select(std::pin::pin!(accepting), std::pin::pin!(shutdown.cancelled())).await;
        if env.timeout(CLOSE_DEADLINE, slots.wait_until_free()).await.is_err() {
            tracing::debug!("closing connections for health checks that did not end in time");
        }
        Ok(())
    }
}

/// Serves one connection until it is idle for too long, is evicted, or the server ends.
async fn serve_health_connection(
    stream: TcpStream,
    slot: ConnectionSlot,
    router: Router,
    env: Env,
    shutdown: CancellationToken,
) {
    let service = service_fn(|request: Request<hyper::body::Incoming>| {
        let (router, active) = (router.clone(), ActiveRequest::new(&slot.activity, &env));
        let env = env.clone();
        // No endpoint reads a body.
        active.arrive();
        async move {
            let result = env.timeout(REQUEST_DEADLINE, router.oneshot(request.map(Body::new))).await;
            drop(active);
            Ok::<_, Infallible>(match result {
                Ok(Ok(response)) => response,
                Ok(Err(never)) => match never {},
                Err(_) => {
                    let mut response = Response::new(Body::empty());
                    *response.status_mut() = StatusCode::GATEWAY_TIMEOUT;
                    response
                }
            })
        }
    });
    let mut builder = http1::Builder::new();
    builder.timer(HyperClock::new(&env)).header_read_timeout(HEAD_DEADLINE);
    let connection = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
    let mut connection = connection;
    let ending = std::pin::pin!(async {
        select(std::pin::pin!(shutdown.cancelled()), std::pin::pin!(slot.eviction.wait_until_ordered()))
            .await;
    });
    let ended = match select(connection.as_mut(), ending).await {
        Either::Left((ended, _)) => ended,
        Either::Right(((), _)) => {
            connection.as_mut().graceful_shutdown();
            let closed = std::pin::pin!(env.timeout(CLOSE_DEADLINE, connection));
            match select(std::pin::pin!(slot.eviction.wait_until_cut()), closed).await {
                Either::Right((closed, _)) => closed.unwrap_or(Ok(())),
                Either::Left(_) => Ok(()),
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection for health checks failed");
    }
}

impl HealthEndpoints {
    /// Listens on `address` and responds until `shutdown` is cancelled.
    ///
    /// # Errors
    /// [`HealthError`] if the address is in use or the server ends unexpectedly.
    pub async fn serve(
        self,
        address: SocketAddr,
        env: &Env,
        shutdown: CancellationToken,
    ) -> Result<(), HealthError> {
        HealthServer::bind(address).await?.run(self, env, shutdown).await
    }
}
