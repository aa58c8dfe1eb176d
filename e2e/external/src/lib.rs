//! External clusters for `make e2e`. CI has none of them: this code is compiled there and its errors are
//! tested. Developers with Docker or a cluster run the rest.
//!
//! | `E2E_CLUSTER` | What it is | What it needs |
//! | --- | --- | --- |
//! | `kind` | a kind cluster, created and deleted | Docker and kind |
//! | `k3s` | a k3s server in one container, created and deleted | Docker |
//! | `current` | the cluster of the kubeconfig's current context | a cluster with the chart installed |
//!
//! All three take the same path: [`ExternalCluster::start`] obtains a kubeconfig, installs the platform
//! simulator and the chart if it has created the cluster, and checks that the cluster has what the scenarios
//! use.
//!
//! The provider `k3s` needs the feature of this name, which `make e2e` enables for it. It adds the client of
//! the Docker API, about ninety crates, so ordinary builds omit it.

mod cluster;
mod current;
#[cfg(feature = "k3s")]
mod k3s;
#[cfg(not(feature = "k3s"))]
#[path = "without_k3s.rs"]
mod k3s;
mod kind;
mod provider;
mod requirements;
mod tool;

pub use cluster::ExternalCluster;
pub use provider::{Environment, Provider};

#[cfg(test)]
mod tests;
