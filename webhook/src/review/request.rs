//! The request of a review.

use serde::Deserialize;
use serde_json::Value;

/// The request of a review. Missing fields are empty.
#[derive(Debug, Default)]
pub(crate) struct ReviewRequest {
    /// Identifies the request in the response.
    pub(crate) uid: String,
    pub(crate) operation: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) sub_resource: String,
    pub(crate) user_info: UserInfo,
    pub(crate) dry_run: bool,
    pub(crate) object: Value,
    pub(crate) old_object: Value,
    /// The object exceeds the memory limit. Both objects are then missing.
    pub(crate) too_large: bool,
    /// An upper bound of the memory of the two objects, in bytes.
    pub(crate) memory: usize,
}

/// The user who sent the request to kube-apiserver.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct UserInfo {
    pub(crate) username: String,
}

impl ReviewRequest {
    /// The first string that is longer than in any review of kube-apiserver, and its maximum length in bytes.
    pub(super) fn too_long(&self) -> Option<(&'static str, usize)> {
        let strings = [
            ("uid", &self.uid, 128),
            ("operation", &self.operation, 32),
            ("namespace", &self.namespace, 63),
            ("name", &self.name, 253),
            ("subResource", &self.sub_resource, 253),
            ("userInfo.username", &self.user_info.username, 64 << 10),
        ];
        strings.into_iter().find_map(|(field, string, max)| (string.len() > max).then_some((field, max)))
    }
}
