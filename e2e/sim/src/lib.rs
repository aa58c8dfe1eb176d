//! Runs the real controller, shell included, against a model of the API server, and breaks everything around it.
//!
//! Nothing here waits for real time, and nothing happens that the seed does not decide: the same seed is the same run.
//!
//! ```text
//!  Chance(seed) ──▶ schedule: what users do, what breaks, and when
//!                        │
//!  controllers ───────requests──▶ Referee ──▶ vmpool_model::Server ◀── Platform (the simulator's pure core)
//!  aggregated API                 delays, loses,    │      │       ◀── garbage collector, users
//!    ▲                            refuses, kills    │      └── Webhook (the real one, asked about pools)
//!    └── Front ◀── Caller: removes machines by name ▼
//!                                                history ──▶ the invariants of vmpool_e2e, over every single change
//! ```
//!
//! Ours are the programs behind their transport: the controller with its lease, the router of the aggregated API, the
//! router of the webhook. Each process has a wall clock and randomness of its own, and can die, stand still or be cut off
//! between any two of its steps.

pub mod caller;
pub mod cast;
pub mod chance;
pub mod exhaustive;
pub mod front;
pub mod judge;
pub mod manifest;
pub mod op;
pub mod platform;
pub mod process;
mod random;
pub mod referee;
pub mod schedule;
mod shrink;
mod transcript;
pub mod trouble;
pub mod webhook;
pub mod world;
