//! How a program gets the verdict of a platform about a request: [`Rules::review`] is a decision, as the
//! crate `vmpool_decision` describes it.

use std::fmt;

use serde_json::Value;
use vmpool_decision::{AdmissionRead, AdmissionReads, ObjectLookup, Step};

use super::count::ReplicasTerms;
use super::request::PoolRequest;
use super::verdict::AdmissionVerdict;

/// The rules of one platform.
pub trait Rules: fmt::Debug + Send + Sync {
    /// The kind of pools that the rules are about.
    fn kind(&self) -> PoolKind;

    /// The verdict about a create or an update. Objects that are not read count as unknown.
    ///
    /// # Errors
    /// It depends on these objects, or on a dry run.
    fn review(
        &self,
        request: PoolRequest<'_>,
        reads: &AdmissionReads,
    ) -> Step<AdmissionVerdict, AdmissionRead>;

    /// The guard of the scale subresource; `None` if every user with permission to scale may lower the number
    /// of machines. The program then serves no webhook for it.
    fn scale_guard(&self) -> Option<ScaleGuard>;
}

/// The kind of pools of one platform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolKind {
    /// The API group.
    pub group: &'static str,
    /// The kind, such as `VirtualMachinePool`.
    pub kind: &'static str,
    /// The fields that make a pool large, for the message about a pool that is too large.
    pub templates: &'static str,
    /// The paths of all other fields that the rules use, with dots between the names. Of a stored pool that
    /// is too large, only these are read.
    pub small_fields: &'static [&'static str],
    /// The path of the webhook for creates and updates of pools.
    pub pool_path: &'static str,
    /// A setting without which the rules refuse requests that they could allow, as a warning for the log.
    pub setup_warning: Option<&'static str>,
}

/// How the guard of the scale subresource finds the policy of a pool.
#[derive(Clone, Copy, Debug)]
pub struct ScaleGuard {
    /// The path of the webhook for updates of the scale subresource.
    pub path: &'static str,
    /// The names of count and policy in messages.
    pub terms: ReplicasTerms,
    /// The lookup of the pool with a name.
    pub lookup: fn(name: &str) -> ObjectLookup,
    /// Whether only targeted removals lower the number of machines of a pool.
    pub is_explicit: fn(pool: &Value) -> bool,
}
