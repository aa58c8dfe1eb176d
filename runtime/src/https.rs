//! An HTTPS server for answers to the API server: HTTP/1.1 and HTTP/2, bounded in every direction.
//!
//! ```text
//! accept ─> TLS handshake ─> connection (one task) ─> request ─> Router
//!   │            │                  │                    ├─ too large, too slow, panicked: a Kubernetes Status
//!   │            │                  │                    └─ extension: Peer
//!   │            │                  └─ idle, other client CAs, shutdown: GOAWAY, what is under way finishes
//!   │            └─ handshake_deadline
//!   └─ no more than `connections`; the rest waits in the listener's queue. No more than `connections_per_client` of one
//! ```
//!
//! Refusals that do not come from the router are `Status` objects, because those who call are Kubernetes clients.

mod answer;
mod connection;
mod listen;
mod metrics;
mod request;
mod rt;

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use tokio::net::TcpListener;

use crate::env::Env;
use crate::tls::{ClientCas, Identity, PeerCertificate};

pub use metrics::TrafficMetrics;
pub(crate) use rt::Clock;

/// What one client may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a request's body. A longer one is answered 413.
    pub body_bytes: usize,
    /// From the head of a request to the head of its answer, the body included. Then the handler is dropped and the
    /// answer is 504.
    pub request_deadline: Duration,
    /// From the connection to the end of the TLS handshake.
    pub handshake_deadline: Duration,
    /// Bytes of a request's head, at least 8 KiB. A longer one is answered 431.
    pub header_bytes: usize,
    /// Connections at a time. More wait in the queue of the listener until one ends. Meanwhile the client with the most of
    /// them loses one that has had no request for some seconds.
    pub connections: usize,
    /// Connections of one client, which is an address. More are closed at once.
    pub connections_per_client: usize,
    /// Requests at a time, of which one client may have half. More are answered 429.
    pub requests: usize,
    /// For how long new connections are accepted after the shutdown has begun: those who still believe that this
    /// server is there would be refused otherwise. Meanwhile each answer over HTTP/1.1 is the last one of its connection, so
    /// that at the end none is closed under somebody who is just sending.
    pub linger: Duration,
}

impl Default for Limits {
    /// Generous towards the API server: 4 MiB, 30 s, 10 s, 64 KiB, 512 connections of which one client has 64, 1024
    /// requests, 3 s.
    fn default() -> Self {
        Self {
            body_bytes: 4 << 20,
            request_deadline: Duration::from_secs(30),
            handshake_deadline: Duration::from_secs(10),
            header_bytes: 64 << 10,
            connections: 512,
            connections_per_client: 64,
            requests: 1024,
            linger: Duration::from_secs(3),
        }
    }
}

/// Who sent a request: an extension of every request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// What the client's certificate says. It was verified against [`ClientCas`] as they are now; nothing if the client
    /// showed none.
    pub certificate: Option<PeerCertificate>,
    /// Where the connection comes from.
    pub address: SocketAddr,
}

/// A server that is configured and does not listen yet.
#[derive(Debug, Clone)]
pub struct Server {
    identity: Identity,
    clients: ClientCas,
    limits: Limits,
    metrics: TrafficMetrics,
    env: Env,
}

impl Server {
    /// A server that shows `identity` and asks for certificates of `clients`.
    pub fn new(identity: Identity, clients: ClientCas, limits: Limits, env: Env) -> Self {
        Self { identity, clients, limits, metrics: TrafficMetrics::default(), env }
    }

    /// Counts in `metrics`.
    #[must_use]
    pub fn metrics(mut self, metrics: TrafficMetrics) -> Self {
        self.metrics = metrics;
        self
    }

    /// Serves `router` until `shutdown`, and then until every request under way is answered, for as long as
    /// [`Limits::request_deadline`] at most.
    ///
    /// Dropping the future ends every connection at once.
    ///
    /// # Errors
    /// If the TLS configuration cannot be made. Failures to accept are logged and repeated.
    pub async fn serve(
        self,
        listener: TcpListener,
        router: Router,
        shutdown: impl Future<Output = ()> + Send,
    ) -> io::Result<()> {
        listen::serve(self, listener, router, shutdown).await
    }
}

/// [`Server::serve`] in one call, for those who count nothing.
///
/// # Errors
/// As [`Server::serve`].
pub async fn serve(
    listener: TcpListener,
    identity: Identity,
    clients: ClientCas,
    router: Router,
    limits: Limits,
    env: &Env,
    shutdown: impl Future<Output = ()> + Send,
) -> io::Result<()> {
    Server::new(identity, clients, limits, env.clone()).serve(listener, router, shutdown).await
}

#[cfg(test)]
mod tests;
