//! Objects that the API server validates for a rule, as data: a platform returns the object, and the webhook
//! sends it.

use serde_json::Value;

/// An object to create as a dry run in the namespace of the pool, so that the admission of its kind validates
/// it.
#[derive(Clone, Debug, PartialEq)]
pub struct DryRun {
    /// Group and version of the object, such as `apps/v1`.
    pub api_version: &'static str,
    /// The plural name of the resource.
    pub plural: &'static str,
    /// The object.
    pub object: Value,
}

/// One reason why an object is invalid.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DryRunCause {
    /// Path of the field in the object; empty if the cause names none.
    pub field: String,
    /// The problem.
    pub message: String,
}

/// The result of a [`DryRun`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DryRunResult {
    /// The object is valid, or the cluster does not have its kind.
    Accepted,
    /// The object is invalid.
    Invalid(Vec<DryRunCause>),
    /// The object could not be validated. Contains the error.
    Failed(String),
}
