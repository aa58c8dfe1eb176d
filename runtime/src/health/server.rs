//! Serving the health endpoints: to kubelets and Prometheus, but any Pod may connect. So the number of connections, the
//! time for a request and the time without one are limited.

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

use super::Health;
use crate::env::Env;
use crate::https::Clock;
use crate::room::{Busy, Place, Room};

/// Connections at a time.
const CONNECTIONS: usize = 64;
/// Connections of one client.
const CONNECTIONS_PER_CLIENT: usize = 16;
/// For the head of a request, the wait for it included.
pub(super) const HEAD_DEADLINE: Duration = Duration::from_secs(30);
/// From the head of a request to its answer.
const REQUEST_DEADLINE: Duration = Duration::from_secs(10);
/// For requests that are under way when the shutdown begins, and for a connection that has to make room.
const PATIENCE: Duration = Duration::from_secs(1);
/// The pause after a failure to accept.
const PAUSE: Duration = Duration::from_millis(500);

/// Why health is not served.
#[derive(Debug, thiserror::Error)]
pub enum HealthError {
    /// The address cannot be listened on.
    #[error("listening on {address} for health checks")]
    Listen {
        /// The wanted address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The server ended by itself.
    #[error("serving health checks")]
    Serve(#[source] io::Error),
}

/// A server that has its address but does not answer yet.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
}

impl Server {
    /// Listens on `address`; port 0 takes a free one. The address is logged.
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

    /// Where it listens, with the port that was taken.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until `shutdown` fires. Failures to accept are logged and repeated.
    ///
    /// # Errors
    /// [`HealthError::Serve`].
    pub async fn run(
        self,
        health: Health,
        env: &Env,
        shutdown: CancellationToken,
    ) -> Result<(), HealthError> {
        let room = Room::new(CONNECTIONS, CONNECTIONS_PER_CLIENT, env.clone());
        let router = health.router();
        let accepting = async {
            loop {
                let (stream, address) = match self.listener.accept().await {
                    Ok(accepted) => accepted,
                    Err(error) => {
                        tracing::warn!(%error, "connections for health checks cannot be accepted");
                        env.sleep(PAUSE).await;
                        continue;
                    }
                };
                let Some(place) = room.enter(address.ip()).await else {
                    tracing::debug!(%address, "a client has too many connections for health checks");
                    continue;
                };
                let connection = connection(stream, place, router.clone(), env.clone(), shutdown.clone());
                // It ends by itself, or by `shutdown`.
                env.spawn("health-connection", connection).detach();
            }
        };
        select(std::pin::pin!(accepting), std::pin::pin!(shutdown.cancelled())).await;
        if env.timeout(PATIENCE, room.empty(CONNECTIONS)).await.is_err() {
            tracing::debug!("connections for health checks that did not end in time are cut");
        }
        Ok(())
    }
}

/// One connection, until it is idle for too long, has to make room, or the server ends.
async fn connection(stream: TcpStream, place: Place, router: Router, env: Env, shutdown: CancellationToken) {
    let service = service_fn(|request: Request<hyper::body::Incoming>| {
        let (router, busy) = (router.clone(), Busy::new(&place.activity, &env));
        let env = env.clone();
        async move {
            let answer = env.timeout(REQUEST_DEADLINE, router.oneshot(request.map(Body::new))).await;
            drop(busy);
            Ok::<_, Infallible>(match answer {
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
    builder.timer(Clock::new(&env)).header_read_timeout(HEAD_DEADLINE);
    let connection = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
    let mut connection = connection;
    let ending = std::pin::pin!(async {
        select(std::pin::pin!(shutdown.cancelled()), std::pin::pin!(place.evicted.cancelled())).await;
    });
    let ended = match select(connection.as_mut(), ending).await {
        Either::Left((ended, _)) => ended,
        Either::Right(((), _)) => {
            connection.as_mut().graceful_shutdown();
            env.timeout(PATIENCE, connection).await.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection for health checks failed");
    }
}

impl Health {
    /// Listens on `address` and answers until `shutdown` fires.
    ///
    /// # Errors
    /// [`HealthError`] if the address is taken or the server ends by itself.
    pub async fn serve(
        self,
        address: SocketAddr,
        env: &Env,
        shutdown: CancellationToken,
    ) -> Result<(), HealthError> {
        Server::bind(address).await?.run(self, env, shutdown).await
    }
}
