//! The chart as a user installs it, on a whole cluster of one node: real Pods, Services, probes and evictions.
//!
//! All tests share one cluster. Those that only use what is installed run side by side; one that takes away what users need
//! has the cluster to itself, and leaves it as it was. So the order does not matter. Users are always at it meanwhile: see
//! [`load`].
//!
//! Where there can be no such cluster, one line says why, and every test passes.

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
