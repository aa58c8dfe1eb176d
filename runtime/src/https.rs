//! An HTTPS server for requests of kube-apiserver, with HTTP/1.1 and HTTP/2 and limits for all resources.
//!
//! ```text
//! accept ─> TLS handshake ─> connection (one task) ─> request ─> Router
//!   │            │                  │                    ├─ too large, too slow, panicked: a Kubernetes Status
//!   │            │                  │                    └─ extension: Peer
//!   │            │                  └─ idle, other client CAs, shutdown: GOAWAY, requests in flight complete
//!   │            └─ handshake_deadline
//!   └─ at most `connections`; others wait in the queue of the listener. At most `connections_per_client` of one client
//! ```
//!
//! Refusals by the server itself are `Status` objects, because its clients are Kubernetes clients.

mod config;
mod connection;
mod hyper_env;
mod listen;
mod metrics;
mod origin;
mod request;
mod status;

pub use config::{Limits, Peer, Server};
pub(crate) use hyper_env::HyperClock;
pub use listen::serve;
pub use metrics::TrafficMetrics;

#[cfg(test)]
mod tests;
