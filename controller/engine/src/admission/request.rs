//! The request that rules are evaluated for.

use serde_json::Value;

/// A create or an update of a pool.
#[derive(Clone, Copy, Debug)]
pub struct PoolRequest<'a> {
    /// The full name of the requesting user.
    pub user: &'a str,
    /// The stored pool; `None` for a create.
    pub old: Option<&'a Value>,
    /// The requested pool.
    pub new: &'a Value,
}

/// The users with more permissions than other users, by their full names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PrivilegedUsers {
    /// The API server for removals.
    pub removal_handler: Option<String>,
    /// The controller.
    pub controller: Option<String>,
}
