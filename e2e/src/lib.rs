//! Control plane, scenario language and end-to-end tests of vmpool.
//!
//! From the top layer down:
//!
//! * [`scenario`] runs a scenario as a test, with its own namespace and controllers;
//! * [`smoke`] contains scenarios for any cluster with the chart installed;
//! * [`world`] is the language of scenarios;
//! * [`invariants`] are checked after each step, over what the [`recorder`] has observed;
//! * [`harness`] is the shared state of the scenarios of one test binary;
//! * [`installation`] is a cluster with CRDs, roles and the platform simulator, and if guarded, webhook and aggregated API;
//! * [`release`] is the chart as a user installs it, on a cluster with nodes;
//! * [`programs`] runs the project's binaries as processes, and [`proxy`] is the fault proxy between them and the API server;
//! * [`autoscaling`] provides metrics for autoscalers;
//! * [`access`] is the access to any cluster;
//! * [`node`] is a cluster of one node, with real Pods;
//! * [`cluster`] is a real control plane as child processes;
//! * [`namespaces`] are the Linux namespaces of a node: network, mounts, processes;
//! * [`provider`] uses external clusters, for `make e2e`;
//! * [`process`] runs child processes that cannot outlive the harness, and [`usage`] reads their resource usage;
//! * [`deadline`] limits waits, and counts little of the time in which the host was busy with other work;
//! * [`random`] makes seeded random decisions.
//!
//! Progress is logged through `tracing`, at level info.

pub mod access;
pub mod autoscaling;
pub mod cluster;
pub mod deadline;
pub mod error;
pub mod fault_proxy;
pub mod harness;
pub mod installation;
pub mod invariants;
pub mod namespaces;
pub mod node;
pub mod object;
pub mod poll;
pub mod process;
pub mod programs;
pub mod provider;
pub mod random;
pub mod recorder;
pub mod release;
pub mod scenario;
pub mod smoke;
pub mod usage;
pub mod world;

pub use error::{Error, Result};
