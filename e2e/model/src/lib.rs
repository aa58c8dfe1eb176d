//! An in-memory model of the Kubernetes API server.
//!
//! It implements the rules that a controller relies on: resource versions and optimistic locking, UIDs,
//! generations, finalizers, owner references and garbage collection, preconditions, the subresources of
//! custom resources, defaults, merge and JSON patches, consistent paginated lists, and watches that resume,
//! expire and send bookmarks. It is deterministic: time comes from [`vmpool_runtime::Env`], and only the
//! order of requests matters.
//!
//! ```text
//!  client(sender) ──request──▶ FaultInjector ──▶ admission ──▶ Store ──change──▶ history ──▶ watches
//!                             delays, refuses,                                      delayed, ended,
//!                             drops responses                                       expired on demand
//! ```
//!
//! # Example
//!
//! ```
//! use kube::Api;
//! use kube::api::{ApiResource, DynamicObject, PostParams};
//! use vmpool_model::{ApiServerModel, Resource};
//! use vmpool_runtime::Env;
//!
//! #[tokio::main]
//! async fn main() -> Result<(), kube::Error> {
//!     let deployments = Resource::builtin("apps", "v1", "deployments", "Deployment").with_status();
//!     let server = ApiServerModel::new(&Env::system(), [deployments]);
//!     let resource = ApiResource {
//!         group: "apps".to_owned(),
//!         version: "v1".to_owned(),
//!         api_version: "apps/v1".to_owned(),
//!         kind: "Deployment".to_owned(),
//!         plural: "deployments".to_owned(),
//!     };
//!     // An ordinary client of kube. The name identifies it to the fault injector.
//!     let client = server.client("example", "default");
//!     let api: Api<DynamicObject> = Api::namespaced_with(client, "default", &resource);
//!     let web = DynamicObject::new("web", &resource);
//!     let created = api.create(&PostParams::default(), &web).await?;
//!     assert_eq!(created.metadata.generation, Some(1));
//!     // A repeated create is rejected, as by a real API server.
//!     let repeated = api.create(&PostParams::default(), &web).await;
//!     assert!(matches!(repeated, Err(kube::Error::Api(status)) if status.is_already_exists()));
//!     Ok(())
//! }
//! ```
//!
//! Not implemented: schemas beyond defaults, authentication and authorization, managed fields and server-side
//! apply, strategic merge patches, deletion of collections, and table output. Tests on a real API server
//! cover those. `e2e/tests/conformance` compares everything else with a real API server.

mod api_error;
mod call;
mod connection;
mod control;
mod delete;
mod direct;
mod fault;
mod garbage_collector;
mod pages;
mod patch;
mod platform;
mod recording;
mod resource;
mod restore;
mod scale;
mod selector;
mod server;
mod store;
#[cfg(test)]
mod tests;
mod validation;
mod watch;
mod write;

pub use api_error::ApiError;
pub use call::{Call, PatchKind, Verb};
pub use connection::ClientConnection;
pub use fault::{Admission, AdmissionInput, FaultInjector, HandledRequest, Handling, RequestOutcome};
pub use platform::{kubevirt_resources, platform_resources};
pub use recording::{NAMESPACE, RecordingApiServer};
pub use resource::Resource;
pub use server::ApiServerModel;
pub use store::{ApiObjectKey, ChangeKind, ObjectChange};
pub use watch::{WatchDelay, WatchEnd};
