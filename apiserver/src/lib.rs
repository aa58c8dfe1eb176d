//! The aggregated API of vmpool: removal of chosen machines from a pool.
//!
//! ```text
//!  caller ──> kube-apiserver ──(front-proxy certificate, headers)──> router: who, may they, what
//!                  ▲                                                     │
//!                  │                                                     ▼
//!                  └──── pool (two guarded writes), machines ──────── removal
//! ```
//!
//! The server keeps nothing: every replica can answer every request, and any of them may die between any two writes.
//! What is promised about that is in the documentation of the module `removal`.

pub mod api;
mod audit;
mod authentication;
mod authorization;
mod body;
mod cluster;
mod discovery;
mod documents;
mod error;
mod metrics;
mod negotiation;
mod openapi;
pub mod options;
mod removal;
mod router;
mod run;
mod state;
mod success;
mod target;
#[cfg(test)]
mod testing;

pub use error::Error;
pub use metrics::Metrics;
pub use metrics::reference::part as metrics_reference;
pub use router::router;
pub use run::{RunError, run};
pub use state::{Settings, State};
