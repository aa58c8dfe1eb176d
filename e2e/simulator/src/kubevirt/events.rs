//! What the shell reports to the model, and what the model asks it to do.

use super::objects::{KubeVirtObjectId, KubeVirtObjectKind, ObservedKubeVirtObject};
use crate::shared;
use serde_json::Value;
use std::sync::Arc;

/// An event that the shell has observed.
pub type KubeVirtModelEvent =
    shared::ModelEvent<KubeVirtObjectId, KubeVirtObjectKind, ObservedKubeVirtObject>;
/// The result of a write.
pub type KubeVirtWriteOutcome = shared::ModelWriteOutcome<ObservedKubeVirtObject>;
/// An action of the shell.
pub type KubeVirtModelAction = shared::ModelAction<KubeVirtObjectId, KubeVirtWrite>;

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub enum KubeVirtWrite {
    /// A merge patch of the object. Instances have no status subresource, so it may contain their status.
    Patch(Value),
    /// A merge patch of the object's status.
    PatchStatus(Value),
    /// Create the object. If it exists already, the write has succeeded.
    Create(Value),
    /// Create the DataVolume if the review permits it.
    CreateClone {
        /// The DataVolume.
        body: Value,
        /// What the API server is asked before.
        review: CloneReview,
    },
    /// Download the data of the DataVolume, and record the result in its annotations.
    Fetch(Download),
    /// Delete the object with this UID. If it is gone already, the write has succeeded.
    Delete {
        /// UID of the object.
        uid: Arc<str>,
        /// Whether to skip the grace period of a Pod.
        now: bool,
    },
}

/// Whether a user may clone a source: a SubjectAccessReview on `datavolumes/source`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloneReview {
    /// The user, a service account of the machine's namespace.
    pub user: String,
    /// Namespace of the source.
    pub namespace: String,
    /// Name of the source.
    pub name: String,
}

impl CloneReview {
    /// The failure of a clone that is not permitted, in KubeVirt's words.
    pub fn refusal(&self) -> String {
        let (user, namespace) = (&self.user, &self.namespace);
        format!(
            "{REFUSED}, message is: User {user} has insufficient permissions in clone source namespace {namespace}"
        )
    }
}

/// The beginning of [`CloneReview::refusal`].
pub(super) const REFUSED: &str = "Authorization failed";

/// A download over HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Download {
    /// Address of the server.
    pub address: std::net::SocketAddr,
    /// Name of the server.
    pub host: String,
    /// Path and query.
    pub path: String,
    /// The checksum that the data must have, such as `sha256:<hex>`.
    pub checksum: Option<String>,
    /// How often the download failed before.
    pub restarts: u64,
}
