//! An HTTPS server for requests of kube-apiserver, with HTTP/1.1 and HTTP/2 and limits for all resources.
//!
//! ```text
//! accept ─> TLS handshake ─> connection (one task) ─> request ─> Router
//!   │            │                  │                    ├─ too large, too slow, panicked: a Kubernetes Status
//!   │            │                  │                    └─ extension: Peer
//!   │            │                  └─ idle, other client CAs, shutdown: GOAWAY, requests in flight complete
//!   │            └─ handshake_deadline
//!   └─ at most `connections`, and `connections_per_client` of one client: a slow or idle one is closed for a further one
//! ```
//!
//! A client is slow if it owes bytes: of the handshake, of its first request, or of a body. If slots are
//! short, a slow client loses its slot at once (module `capacity`). A body must also arrive at a minimum rate
//! ([`BodyRateLimit`]).
//!
//! Refusals by the server itself are `Status` objects, because its clients are Kubernetes clients.

mod config;
mod connection;
mod hyper_env;
mod listen;
mod metrics;
mod origin;
mod paced_body;
mod request;
mod status;

pub use config::{BodyRateLimit, HttpsServer, Limits, Peer};
pub(crate) use hyper_env::HyperClock;
pub use listen::serve_https;
pub use metrics::TrafficMetrics;

#[cfg(test)]
mod tests;
