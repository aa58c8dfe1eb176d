//! Control plane, scenario language and end-to-end tests of vmpool.
//!
//! From the outside in:
//!
//! * [`scenario`] runs a scenario as a test, with a namespace and controllers of its own;
//! * [`smoke`] are stories for any cluster where the chart is installed;
//! * [`world`] is the language scenarios are written in;
//! * [`invariants`] are checked after each step, over what the [`recorder`] saw;
//! * [`harness`] is what the scenarios of one test binary share;
//! * [`installation`] is a cluster with CRDs, roles and the platform simulator, and if guarded, webhook and aggregated API;
//! * [`release`] is the chart as a user installs it, on a cluster with nodes;
//! * [`programs`] are our own binaries as processes, and [`choke`] a place on their way to the API server;
//! * [`autoscaling`] is what autoscalers ask for;
//! * [`access`] is how scenarios reach a cluster, whoever started it;
//! * [`node`] is a whole cluster of one node, with real Pods;
//! * [`cluster`] is a real control plane as child processes;
//! * [`namespaces`] are what a node has of its own: network, mounts, processes;
//! * [`provider`] has clusters of other people, for `make e2e`;
//! * [`process`] are child processes that cannot outlive the harness, and [`usage`] what they use;
//! * [`deadline`] bounds waits, and counts little of the time in which the machine was busy with other work;
//! * [`chance`] decides where a seed shall.
//!
//! Progress is told through `tracing`, at level info.

pub mod access;
pub mod autoscaling;
pub mod chance;
pub mod choke;
pub mod cluster;
pub mod deadline;
pub mod error;
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
pub mod recorder;
pub mod release;
pub mod scenario;
pub mod smoke;
pub mod usage;
pub mod world;

pub use error::{Error, Result};
