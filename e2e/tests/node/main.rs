//! The chart as a user installs it, on a cluster of one node: real Pods, Services, probes and evictions.
//!
//! All tests share one cluster. Tests that only use the installed programs run in parallel. A test that makes programs
//! unavailable has exclusive access, and restores the initial state, so the order does not matter. Clients send requests
//! continuously: see [`load`].
//!
//! If the host cannot run such a cluster, one line says why, and every test passes.

mod autoscaling;
mod drain;
mod kills;
mod load;
mod namespaces;
mod outage;
mod pods;
mod pools;
mod restricted;
mod rotation;
mod stage;
mod uninstall;
mod upgrade;
