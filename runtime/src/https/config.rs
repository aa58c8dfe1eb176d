//! The configuration of a server, and the peer of a request.

use std::net::SocketAddr;
use std::time::Duration;

use super::metrics::TrafficMetrics;
use crate::env::Env;
use crate::tls::{ClientCas, Identity, PeerCertificate};

/// The limits of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// The maximum length of the body of a request in bytes. A longer body gets a 413 response.
    pub body_bytes: usize,
    /// The deadline from the headers of a request to the headers of its response, including the body of the request. After
    /// it, the handler is dropped and the response is 504.
    pub request_deadline: Duration,
    /// The deadline from the connection to the end of the TLS handshake.
    pub handshake_deadline: Duration,
    /// The maximum size of the headers of a request in bytes, at least 8 KiB. Larger headers get a 431 response.
    pub header_bytes: usize,
    /// The maximum number of connections. Further connections wait in the queue of the listener. In the meantime, the client
    /// with the most connections loses one that has been idle for some seconds.
    pub connections: usize,
    /// The maximum number of connections of one client, identified by its IP address. Further connections are closed.
    pub connections_per_client: usize,
    /// The maximum number of requests in flight. One client may use half of it. Further requests get a 429 response.
    pub requests: usize,
    /// How long the server accepts connections after the shutdown has started, for clients that have not yet been informed.
    /// During this time, each HTTP/1.1 response closes its connection, so that no connection is closed while a client sends
    /// a request.
    pub linger: Duration,
}

impl Default for Limits {
    /// Limits for kube-apiserver as client: 4 MiB, 30 s, 10 s, 64 KiB, 512 connections, 64 of one client, 1024 requests,
    /// 3 s.
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

/// The client of a request. Every request has it as an extension.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// The client certificate, verified against the current [`ClientCas`]. `None` if the client has no certificate.
    pub certificate: Option<PeerCertificate>,
    /// The remote address of the connection.
    pub address: SocketAddr,
}

/// A configured server that does not listen yet.
#[derive(Debug, Clone)]
pub struct Server {
    pub(super) identity: Identity,
    pub(super) clients: ClientCas,
    pub(super) limits: Limits,
    pub(super) metrics: TrafficMetrics,
    pub(super) env: Env,
}

impl Server {
    /// A server with the serving certificate `identity`, which requests certificates of `clients`.
    pub fn new(identity: Identity, clients: ClientCas, limits: Limits, env: Env) -> Self {
        Self { identity, clients, limits, metrics: TrafficMetrics::default(), env }
    }

    /// The same server with these metrics.
    #[must_use]
    pub fn metrics(mut self, metrics: TrafficMetrics) -> Self {
        self.metrics = metrics;
        self
    }
}
