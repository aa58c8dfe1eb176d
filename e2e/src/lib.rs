//! Control plane, scenario language and end-to-end tests of vmpool.
//!
//! From the outside in:
//!
//! * [`scenario`] runs a scenario as a test, with a namespace and controllers of its own;
//! * [`world`] is the language scenarios are written in;
//! * [`invariants`] are checked after each step, over what the [`recorder`] saw;
//! * [`harness`] is what the scenarios of one test binary share;
//! * [`installation`] is a cluster with CRDs, roles and the platform simulator, and if guarded, webhook and aggregated API;
//! * [`programs`] are our own binaries as processes, and [`choke`] a place on their way to the API server;
//! * [`autoscaling`] is what autoscalers ask for;
//! * [`cluster`] is a real control plane as child processes;
//! * [`process`] are child processes that cannot outlive the harness.
//!
//! Progress is told through `tracing`, at level info.

pub mod autoscaling;
pub mod choke;
pub mod cluster;
pub mod error;
pub mod harness;
pub mod installation;
pub mod invariants;
pub mod object;
pub mod poll;
pub mod process;
pub mod programs;
pub mod recorder;
pub mod scenario;
pub mod world;

pub use error::{Error, Result};
