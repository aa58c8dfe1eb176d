//! The aggregated API of vmpool: targeted removal of machines from a pool, claims of machines, and machines
//! and pools with instance type and preference written out.
//!
//! ```text
//!  caller ──> kube-apiserver ──(front proxy certificate, headers)──> router: authentication, authorization
//!                  ▲                                                     │
//!                  │                                                     ▼
//!                  └──── pool (two guarded writes), machines ──────── removal
//! ```
//!
//! The server is stateless. Every replica can handle every request, and a replica can exit between any two
//! writes: the documentation of the module `removal` says what happens then.
//!
//! The layers, lowest first. A module imports only from lower layers:
//!
//! 1. [`api`], `error`, `metrics`, `request_info`, `negotiation`: names, errors and requests
//! 2. `cluster`: requests to kube-apiserver
//! 3. `authentication`, `authorization`, `body`: what a caller may do and asks for
//! 4. `audit`, `pool_queue`, `removal`, `claims`, `response`: removals and claims. `audit` and `pool_queue`
//!    use only the types of `removal::model`, and `claims` uses `removal`
//! 5. `expansion`, `served`, `discovery`, `openapi`, `documents`: expansion, and the documents of the API
//! 6. `routes`, `state`, `handlers`, `router`: the handling of a request
//! 7. [`options`], `run`: the process

pub mod api;
mod audit;
mod authentication;
mod authorization;
mod body;
mod claims;
mod cluster;
mod discovery;
mod documents;
mod error;
mod expansion;
mod forced;
mod handlers;
mod metrics;
mod negotiation;
mod openapi;
pub mod options;
mod pool_queue;
mod removal;
mod request_info;
mod response;
mod router;
mod routes;
mod run;
mod served;
mod state;
#[cfg(test)]
mod testing;

pub use error::Error;
pub use metrics::ApiServerMetrics;
pub use metrics::reference::metrics_reference;
pub use router::api_router;
pub use run::{ApiServerRunError, run_apiserver};
pub use state::{ApiServerSettings, ApiServerState};
