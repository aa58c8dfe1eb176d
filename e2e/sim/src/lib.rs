//! Runs the real controller, shell included, against a model of the API server, and breaks everything around it.
//!
//! Nothing here waits for real time, and nothing happens that the seed does not decide: the same seed is the same run.
//!
//! ```text
//!  Chance(seed) ──▶ schedule: what users do, what breaks, and when
//!                        │
//!  Process × n ──requests──▶ Referee ──▶ vmpool_model::Server ◀── Platform (the simulator's pure core)
//!  (real controllers)        delays, loses,      │            ◀── garbage collector
//!                            refuses, kills      ▼
//!                                             history ──▶ the invariants of vmpool_e2e, over every single change
//! ```

pub mod chance;
pub mod exhaustive;
pub mod judge;
pub mod op;
pub mod platform;
pub mod process;
pub mod referee;
pub mod schedule;
pub mod world;
