//! The configuration of a server, and the peer of a request.

use std::net::SocketAddr;
use std::time::Duration;

use super::metrics::TrafficMetrics;
use crate::env::Env;
use crate::tls::{ClientCas, PeerCertificate, ServingIdentity};

/// The limits of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// The maximum length of the body of a request in bytes. A longer body gets a 413 response.
    pub body_bytes: usize,
    /// The deadline from the headers of a request to the headers of its response, including the body of the
    /// request. After it, the handler is dropped and the response is 504.
    pub request_deadline: Duration,
    /// How fast a body must arrive.
    pub body_rate_limit: BodyRateLimit,
    /// The deadline from the connection to the end of the TLS handshake.
    pub handshake_deadline: Duration,
    /// The maximum size of the headers of a request in bytes, at least 8 KiB. Larger headers get a 431
    /// response.
    pub header_bytes: usize,
    /// The maximum number of connections. For a further connection, the server closes one whose client owes
    /// bytes, or else an idle one. A quarter is kept for clients that have a verified certificate or have
    /// completed a request.
    pub connections: usize,
    /// The maximum number of connections of one client, identified by its IP address. For a further
    /// connection, the server closes one of this client that is slow or has been idle for some seconds. If
    /// there is none, it closes the new one.
    pub connections_per_client: usize,
    /// The maximum number of requests in flight. One client may use half of it. For a further request, the
    /// server cancels one whose body is outstanding. If there is none, the further request gets a 429
    /// response.
    pub requests: usize,
    /// How long the server accepts connections after the shutdown has started, for clients that have not yet
    /// been informed. During this time, each HTTP/1.1 response closes its connection, so that no connection
    /// is closed while a client sends a request.
    pub linger: Duration,
}

/// How fast the body of a request must arrive. kube-apiserver sends a body without a delay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BodyRateLimit {
    /// The time after which the rate is checked.
    pub grace: Duration,
    /// The minimum rate after `grace`, in bytes per second.
    pub bytes_per_second: u64,
    /// The deadline for the whole body.
    pub deadline: Duration,
}

impl Default for BodyRateLimit {
    /// 2 s, 64 KiB per second, 15 s.
    fn default() -> Self {
        Self { grace: Duration::from_secs(2), bytes_per_second: 64 << 10, deadline: Duration::from_secs(15) }
    }
}

impl BodyRateLimit {
    /// The time from its start at which a body of this length so far is too slow.
    pub(super) fn limit(&self, received: u64) -> Duration {
        let earned = Duration::from_millis(received.saturating_mul(1000) / self.bytes_per_second.max(1));
        self.grace.saturating_add(earned).min(self.deadline)
    }
}

impl Default for Limits {
    /// Limits for kube-apiserver as client: 4 MiB, 30 s, the default pace, 10 s, 64 KiB, 512 connections, 64
    /// of one client, 1024 requests, 3 s.
    fn default() -> Self {
        Self {
            body_bytes: 4 << 20,
            request_deadline: Duration::from_secs(30),
            body_rate_limit: BodyRateLimit::default(),
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
    /// The client certificate, verified against the current [`ClientCas`]. `None` if the client has no
    /// certificate.
    pub certificate: Option<PeerCertificate>,
    /// The remote address of the connection.
    pub address: SocketAddr,
}

/// A configured server that does not listen yet.
#[derive(Debug, Clone)]
pub struct HttpsServer {
    pub(super) identity: ServingIdentity,
    pub(super) clients: ClientCas,
    pub(super) limits: Limits,
    pub(super) metrics: TrafficMetrics,
    pub(super) env: Env,
}

impl HttpsServer {
    /// A server with the serving certificate `identity`, which requests certificates of `clients`.
    pub fn new(identity: ServingIdentity, clients: ClientCas, limits: Limits, env: Env) -> Self {
        Self { identity, clients, limits, metrics: TrafficMetrics::default(), env }
    }

    /// The same server with these metrics.
    #[must_use]
    pub fn metrics(mut self, metrics: TrafficMetrics) -> Self {
        self.metrics = metrics;
        self
    }
}
