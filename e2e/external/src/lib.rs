//! External clusters for `make e2e`. CI has none of them: this code is compiled there and its errors are tested.
//! Developers with Docker or a cluster run the rest.
//!
//! | `E2E_CLUSTER` | What it is | What it needs |
//! | --- | --- | --- |
//! | `kind` | a kind cluster, created and deleted | Docker and kind |
//! | `k3s` | a k3s server in one container, created and deleted | Docker |
//! | `current` | the cluster of the kubeconfig's current context | a cluster with the chart installed |
//!
//! All three take the same path: [`ExternalCluster::start`] obtains a kubeconfig, installs the platform simulator and
//! the chart if it has created the cluster, and checks that the cluster has what the scenarios use.
//!
//! This is a crate of its own because of its dependencies: the client of the Docker API is about ninety crates, which
//! the other tests do not use.

mod cluster;
mod current;
mod k3s;
mod kind;
mod provider;
mod requirements;
mod tool;

pub use cluster::ExternalCluster;
pub use provider::{Environment, Provider};

#[cfg(test)]
mod tests;
