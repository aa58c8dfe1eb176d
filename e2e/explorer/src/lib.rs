//! The fault explorer: runs the real controller, shell included, against the API server model, and injects
//! faults.
//!
//! Runs use simulated time only, and every decision derives from the seed: the same seed gives the same run.
//!
//! ```text
//!  SeededRandom(seed) ──▶ Schedule: what users do, which faults occur, and when
//!                            │
//!  controllers ──requests──▶ FaultInjector ──▶ ApiServerModel ◀─────── Platform (core of the platform simulator)
//!  aggregated API            delays, drops,       │         │       ◀── garbage collector, users
//!    ▲                       rejects, kills       │         └── Webhook (the real one, for requests for pools)
//!    └── RemovalClient, Caller: removals, claims  ▼
//!                                              history ──▶ the invariants, for every single change
//! ```
//!
//! ```no_run
//! use vmpool_explorer::schedule::Schedule;
//! use vmpool_invariants::platform::TestedPlatform;
//!
//! // `make faults SEED=7` runs the same schedule.
//! let verdict = Schedule::random(TestedPlatform::Dvp, 7).run();
//! assert!(verdict.violations.is_empty(), "{:#?}", verdict.violations);
//! ```
//!
//! The project's programs run without their transport: the controller with its lease, the router of the
//! aggregated API, and the router of the webhook. Each process has its own wall clock and randomness. It can
//! be killed, paused or cut off between any two steps.

pub mod admission_policy;
pub mod aggregation;
pub mod attempt;
pub mod checks;
mod checks_autoscalers;
mod checks_images;
mod checks_kubevirt;
mod checks_protection;
mod checks_tenants;
pub mod ci_client;
pub mod claim_client;
mod edits;
pub mod exhaustive;
pub mod fault;
pub mod fault_injector;
mod golden_image;
pub mod instance;
pub mod manifest;
pub mod manifest_kubevirt;
pub mod operation;
pub mod operation_autoscaler;
pub mod operation_health;
pub mod operation_image;
pub mod operation_kubevirt;
pub mod operation_protection;
pub mod operation_recycling;
pub mod operation_standby;
pub mod operation_tenant;
pub mod platform;
mod platform_dvp;
mod platform_kubevirt;
pub mod process;
mod random_schedule;
pub mod recording;
pub mod removal_client;
mod repeated_request;
mod requests;
pub mod schedule;
mod shrink;
mod simulated;
mod transcript;
pub mod webhook;
pub mod world;
