//! The fault explorer: runs the real controller, shell included, against the API server model, and injects faults.
//!
//! Runs use simulated time only, and every decision derives from the seed: the same seed gives the same run.
//!
//! ```text
//!  Chance(seed) ──▶ schedule: what users do, which faults occur, and when
//!                        │
//!  controllers ───────requests──▶ Referee ──▶ vmpool_model::Server ◀── Platform (the simulator's pure core)
//!  aggregated API                 delays, drops,    │      │       ◀── garbage collector, users
//!    ▲                            refuses, kills    │      └── Webhook (the real one, asked about pools)
//!    └── Front ◀── Caller: requests targeted removals ▼
//!                                                history ──▶ the invariants of vmpool_e2e, over every single change
//! ```
//!
//! The project's programs run without their transport: the controller with its lease, the router of the aggregated API,
//! and the router of the webhook. Each process has its own wall clock and randomness. It can be killed, paused or cut off
//! between any two steps.

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
