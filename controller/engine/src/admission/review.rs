//! How a program gets the verdict of a platform about a request.
//!
//! ```text
//!  request ──> Rules::review() ──> Decided: the verdict, without reads
//!                   │
//!                   └──> NeedsFacts ──> lookups() ──> the program reads ──> add() ──┬──> lookups() is empty: verdict()
//!                                           ▲                                      │
//!                                           └──────────────────────────────────────┘
//! ```
//!
//! Before the verdict, the program creates the object of [`UndecidedReview::dry_run`], if there is one, as a
//! dry run.

use std::fmt;

use serde_json::Value;

use super::count::ReplicasTerms;
use super::dry_run::{DryRun, DryRunResult};
use super::lookup::{LookupResult, ObjectLookup};
use super::request::PoolRequest;
use super::verdict::AdmissionVerdict;

/// The rules of one platform.
pub trait Rules: fmt::Debug + Send + Sync {
    /// The kind of pools that the rules are about.
    fn kind(&self) -> PoolKind;

    /// Evaluates a create or an update as far as possible without reads.
    fn review<'a>(&'a self, request: PoolRequest<'a>) -> RuleReview<'a>;

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

/// The result of evaluating a request without reads.
pub enum RuleReview<'a> {
    /// The verdict is complete.
    Decided(AdmissionVerdict),
    /// The verdict depends on objects of the cluster.
    NeedsFacts(Box<dyn UndecidedReview + Send + 'a>),
}

/// A request whose verdict depends on objects of the cluster.
pub trait UndecidedReview {
    /// The objects that are still to be read, in a fixed order. After [`UndecidedReview::add`] there can be
    /// others.
    fn lookups(&self) -> Vec<ObjectLookup>;

    /// Adds the results of reads.
    fn add(&mut self, results: Vec<LookupResult>);

    /// The object to create as a dry run after all reads. Programs without the permission do not create it.
    fn dry_run(&self) -> Option<DryRun> {
        None
    }

    /// Adds the result of the dry run.
    fn add_dry_run(&mut self, _: DryRunResult) {}

    /// The verdict, given the results so far. An object without a result counts as not read.
    fn verdict(self: Box<Self>) -> AdmissionVerdict;
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
