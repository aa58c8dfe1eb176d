//! How a program asks a platform for the verdict about a request.
//!
//! ```text
//!  request ──> Rules::review() ──> Decided: the verdict, without a read
//!                   │
//!                   └──> NeedsFacts ──> lookups() ──> the program reads ──> add() ──> lookups() ... none ──> verdict()
//! ```

use std::fmt;

use serde_json::Value;

use super::{Lookup, LookupResult, Request, Verdict, count};

/// The rules of one platform.
pub trait Rules: fmt::Debug + Send + Sync {
    /// The kind that the rules are about.
    fn kind(&self) -> Kind;

    /// Judges a create or an update as far as possible without a read.
    fn review<'a>(&'a self, request: Request<'a>) -> Review<'a>;

    /// The guard of the scale subresource; `None` if every user who may scale may reduce the number of machines.
    fn scale_guard(&self) -> Option<ScaleGuard>;
}

/// The kind of pools of one platform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// API group.
    pub group: &'static str,
    /// Kind, such as `VirtualMachinePool`.
    pub kind: &'static str,
    /// The fields that make a pool large, for the message about one that is too large.
    pub templates: &'static str,
    /// Path of the webhook for creates and updates of pools.
    pub pool_path: &'static str,
    /// Path of the webhook for updates of the scale of pools.
    pub scale_path: &'static str,
}

/// How far the rules could judge a request.
pub enum Review<'a> {
    /// Completely.
    Decided(Verdict),
    /// The verdict depends on objects of the cluster.
    NeedsFacts(Box<dyn Pending + Send + 'a>),
}

/// A request whose verdict depends on objects of the cluster.
pub trait Pending {
    /// The objects that are still to be read, in a fixed order. More may follow after [`Pending::add`].
    fn lookups(&self) -> Vec<Lookup>;

    /// Adds the results of reads. An object of [`Pending::lookups`] without a result counts as absent.
    fn add(&mut self, results: Vec<LookupResult>);

    /// The verdict, with the results so far.
    fn verdict(self: Box<Self>) -> Verdict;
}

/// How the guard of the scale subresource finds the policy of a pool.
#[derive(Clone, Copy, Debug)]
pub struct ScaleGuard {
    /// The names of count and policy in the messages.
    pub terms: count::Terms,
    /// The lookup of the pool with this name.
    pub lookup: fn(name: &str) -> Lookup,
    /// Whether only targeted removal may reduce the number of machines of a pool.
    pub is_explicit: fn(pool: &Value) -> bool,
}
