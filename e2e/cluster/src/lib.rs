//! A real Kubernetes for tests, started from Rust without containers.
//!
//! * [`control_plane`] runs etcd, kube-apiserver and kube-controller-manager as child processes of the test,
//!   ready in three to four seconds. It needs no root, and no container engine.
//! * [`node`] adds a node with containerd, a kubelet, kube-proxy and kube-scheduler, on which Pods run. It
//!   needs root on Linux and some packages of the distribution.
//!
//! # Example
//!
//! ```no_run
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use kube::Api;
//! use vmpool_test_cluster::control_plane::{ControlPlane, ControlPlaneOptions};
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let options = ControlPlaneOptions {
//!         // CRDs of these manifests are established when the control plane is ready.
//!         manifests: vec!["config/crds".into()],
//!         ..ControlPlaneOptions::default()
//!     };
//!     let cluster = ControlPlane::start(options).await?;
//!     // A client with all permissions; `service_account_client` returns one with those of a service account.
//!     let maps: Api<ConfigMap> = Api::namespaced(cluster.admin(), "default");
//!     assert!(maps.get_opt("kube-root-ca.crt").await?.is_some());
//!     println!("{}", cluster.kubectl(&["get", "namespaces"]).await?);
//!     // Every request of the test, as the API server has seen it.
//!     let (requests, _) = cluster.audit(Default::default())?;
//!     assert!(requests.iter().any(|request| request.resource == "configmaps"));
//!     cluster.stop().await?;
//!     Ok(())
//! }
//! ```
//!
//! # Programs
//!
//! The programs of Kubernetes are looked up in `$VMPOOL_TOOLS`, and otherwise in `tools` of cargo's target
//! directory, where `cargo xtask tools` of this repository builds them from source. A missing program is an
//! error that names this command.
//!
//! # Guarantees
//!
//! * No process outlives the test: on Linux the kernel kills every child when the test process exits for any
//!   reason.
//! * Clusters run in parallel: ports are free ones, and each cluster has its own directory for logs, keys and
//!   data.
//! * Every wait has a limit. An error contains the last observation, and the end of the log of the component
//!   that failed.
//! * Clients do not retry, so one call is one request.
//!
//! # Modules
//!
//! [`process`] runs child processes that cannot outlive their parent, and [`usage`] reads what they use.
//! [`deadline`] limits waits and counts little of the time in which the host was busy with other work;
//! [`poll`] repeats a question until then. [`access`] is the access to any cluster. [`binaries`] finds
//! programs that cargo has built next to the test, and [`http_probe`] asks them for their health. Progress is
//! logged through `tracing` at level info.

pub mod access;
pub mod binaries;
pub mod control_plane;
pub mod deadline;
pub mod error;
pub mod http_probe;
pub mod namespaces;
pub mod node;
pub mod poll;
pub mod process;
pub mod test_runner;
pub mod usage;

pub use error::{Error, Result};
