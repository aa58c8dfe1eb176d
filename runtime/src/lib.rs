//! What every vmpool process stands on: an injected environment, the fenced lease, health endpoints, telemetry,
//! shutdown, the client and the flags that configure them.
//!
//! ```text
//! args ──> checked configs ──> client, lease::Candidate, health::Server, telemetry::init
//!                                   │    certificates ──> tls::Identity ──> https::Server
//!                                   │    └──────────── serving::Program ────────────┘
//!                            env::Env (clock, entropy, spawner)
//! ```
//!
//! [`env::Env`] is the only source of time, randomness and tasks. The ambient ones are banned by the `clippy.toml` of
//! this crate and of the controller; the exceptions are the system implementations in [`mod@env`] and two places that act
//! before or beside any `Env`: signals in [`shutdown`] and the choice of a kubeconfig in [`client`].

pub mod args;
pub mod certificates;
pub mod client;
pub mod duration;
pub mod env;
pub mod health;
pub mod https;
pub mod lease;
pub mod metrics;
mod room;
pub mod serving;
pub mod shutdown;
pub mod telemetry;
pub mod testing;
pub mod tls;

pub use env::Env;
