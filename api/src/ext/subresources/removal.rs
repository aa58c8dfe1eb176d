//! Bodies of targeted removals.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use serde::{Deserialize, Serialize};

use super::{PoolSubresource, dry_run_all};
use crate::enums::{UnknownValue, api_enum};

/// The maximum number of targets in one request.
pub const MAX_REMOVAL_TARGETS: usize = 1000;

/// A request to remove machines and to decrement `replicas` by their number, either all or none.
///
/// ```
/// use vmpool_api::subresources::TargetedRemoval;
///
/// let removal = TargetedRemoval::of(["runners-7xk2d", "runners-b9q4m"]);
/// assert_eq!(serde_json::to_string(&removal)?, r#"{"targets":["runners-7xk2d","runners-b9q4m"]}"#);
/// # Ok::<_, serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[must_use = "a removal does nothing until a client sends it"]
pub struct TargetedRemoval {
    /// Group and version. The server does not require it. If it is set, the server checks it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// The kind of the body. The server does not require it. If it is set, the server checks it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Names of the machines, at least one and at most [`MAX_REMOVAL_TARGETS`]. Repeated names are ignored.
    pub targets: Vec<String>,
    /// UIDs that the machines must have, one for each target and in the same order. An empty UID is no
    /// condition. An empty list is omitted, and no target has a condition.
    #[serde(default, rename = "targetUIDs", skip_serializing_if = "Vec::is_empty")]
    pub target_uids: Vec<String>,
    /// Conditions that must hold. Otherwise the request is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preconditions: Option<PoolPreconditions>,
    /// `All` if the request is only checked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dry_run: Vec<String>,
    /// Whether protected machines are removed as well. The user needs the verb `force` on the subresource.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
}

/// Conditions of a [`TargetedRemoval`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolPreconditions {
    /// The UID that the pool must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
}

impl TargetedRemoval {
    /// A removal of the machines with these names, whatever their UIDs are.
    pub fn of<N: Into<String>>(names: impl IntoIterator<Item = N>) -> Self {
        Self { targets: names.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// Adds a machine. If another machine has its name meanwhile, the request is refused.
    pub fn target(mut self, name: impl Into<String>, uid: impl Into<String>) -> Self {
        self.target_uids.resize(self.targets.len(), String::new());
        self.targets.push(name.into());
        self.target_uids.push(uid.into());
        self
    }

    /// Sets the UID that the pool must have.
    pub fn pool_uid(mut self, uid: impl Into<String>) -> Self {
        self.preconditions = Some(PoolPreconditions { uid: Some(uid.into()) });
        self
    }

    /// Removes protected machines as well.
    pub fn force(mut self) -> Self {
        self.force = true;
        self
    }

    /// Sets `apiVersion` and `kind`.
    pub fn api_version(mut self, api_version: impl Into<String>) -> Self {
        self.api_version = Some(api_version.into());
        self.kind = Some(PoolSubresource::ScaleDownWith.kind().to_owned());
        self
    }

    /// Only checks the request.
    pub fn dry_run(mut self) -> Self {
        self.dry_run = dry_run_all();
        self
    }
}

api_enum! {
    /// What an accepted targeted removal did with one target.
    RemovalOutcome ("outcome of a removal") {
        /// The machine is removed, and `replicas` was decremented for it.
        Removed,
        /// An earlier request removed the machine.
        AlreadyRemoved,
        /// The request was a dry run.
        WouldBeRemoved,
    }
}

/// The result for one target of a targeted removal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemovalResult {
    /// Name of the machine.
    pub machine: String,
    /// What happened to it. `None` if this crate does not know the value.
    pub outcome: Option<RemovalOutcome>,
}

/// The results in the response to a [`TargetedRemoval`], one for each target. The response is a `Status` of
/// Kubernetes; one that refuses the request contains no results.
pub fn removal_results(response: &Status) -> Vec<RemovalResult> {
    if response.status.as_deref() != Some("Success") {
        return Vec::new();
    }
    let details = response.details.as_ref();
    let causes = details.and_then(|details| details.causes.as_deref()).unwrap_or_default();
    causes
        .iter()
        .map(|cause| RemovalResult {
            machine: cause.message.clone().unwrap_or_default(),
            outcome: cause.reason.as_deref().and_then(|reason| reason.parse().ok()),
        })
        .collect()
}
