//! The caller of a request.

use std::collections::BTreeMap;

/// The user information of a caller, as kube-apiserver authenticated it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct AuthenticatedUser {
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) groups: Vec<String>,
    pub(crate) extra: BTreeMap<String, Vec<String>>,
}
