//! The components that all vmpool programs share: an injected environment, the fenced lease, health
//! endpoints, HTTPS with maintained certificates, metrics, logs, shutdown, the client, and the flags that
//! configure them.
//!
//! ```text
//! args ──> validated configuration ──> client, lease::Candidate, health::Server, telemetry::init
//!                                        │    certificates ──> tls::Identity ──> https::Server
//!                                        │    └──────────── serving::Program ────────────┘
//!                                 env::Env (clock, entropy, spawner)
//! ```
//!
//! [`env::Env`] is the only source of time, randomness and tasks. The `clippy.toml` files of this crate and
//! of the programs ban the ambient ones. The exceptions are the implementations for the operating system in
//! [`mod@env`], and two places without an `Env`: the signals in [`shutdown`] and the choice of a kubeconfig
//! in [`client`].
//!
//! The layers, lowest first. A module imports only from lower layers:
//!
//! 1. [`mod@env`], [`duration`], [`shutdown`], [`metrics`], [`telemetry`]
//! 2. `capacity`, [`tls`], [`lease`]
//! 3. [`https`], [`health`]
//! 4. [`certificates`]
//! 5. [`args`]
//! 6. [`client`]
//! 7. [`serving`]
//! 8. `testing`, with the feature `testing`: environments for tests

pub mod args;
mod capacity;
pub mod certificates;
pub mod client;
pub mod duration;
pub mod env;
pub mod health;
pub mod https;
pub mod lease;
pub mod metrics;
pub mod serving;
pub mod shutdown;
pub mod telemetry;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod tls;

pub use env::Env;
