//! The types that the steps of claims and releases share.

use std::sync::Weak;
use std::time::Duration;

use futures::channel::oneshot;
use jiff::Timestamp;
use vmpool_api::subresources::ReleaseAction;
use vmpool_engine::ObjectId;

use crate::error::Error;

/// How long a claim or a release may take. kube-apiserver ends a request after 60 s.
pub(crate) const DEADLINE: Duration = Duration::from_secs(55);

/// A claim, as the request describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClaimRequest {
    /// The id that the caller chose. The same user and id find the same claim again.
    pub(crate) id: String,
    pub(crate) duration: Duration,
    pub(crate) reason: Option<String>,
    /// How long the request waits for a free machine.
    pub(crate) wait: Duration,
    /// The only machine that the caller accepts.
    pub(crate) machine: Option<String>,
    /// Whether the request only renews a claim.
    pub(crate) renew: bool,
    pub(crate) dry_run: bool,
}

/// A claimed machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claimed {
    pub(crate) id: String,
    pub(crate) machine: ObjectId,
    pub(crate) addresses: Vec<String>,
    pub(crate) expires: Timestamp,
    /// Whether an earlier request had made the claim.
    pub(crate) renewed: bool,
}

/// A release, as the request describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReleaseRequest {
    pub(crate) id: String,
    pub(crate) machine_uid: String,
    pub(crate) then: ReleaseAction,
    pub(crate) dry_run: bool,
}

/// A released machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReleasedMachine {
    pub(crate) machine: ObjectId,
    pub(crate) then: ReleaseAction,
    /// `replicas` of the pool after the release.
    pub(crate) replicas: i64,
}

/// A claim in the queue of its pool.
pub(super) struct ClaimJob {
    pub(super) user: String,
    pub(super) request: ClaimRequest,
    /// The uptime until which it waits for a free machine.
    pub(super) wait_until: Duration,
    /// The uptime until which its writes are retried.
    pub(super) deadline: Duration,
    /// Cannot be upgraded any more when the caller has disconnected.
    pub(super) caller: Weak<()>,
    pub(super) reply: oneshot::Sender<Result<Claimed, Error>>,
}

impl ClaimJob {
    /// Whether the caller still waits for the response.
    pub(super) fn has_caller(&self) -> bool {
        self.caller.strong_count() > 0
    }

    /// Whether another job is about the same claim.
    pub(super) fn is_same_claim(&self, other: &Self) -> bool {
        (&self.user, &self.request.id) == (&other.user, &other.request.id)
    }

    /// Ends the job with its result.
    pub(super) fn finish(self, result: Result<Claimed, Error>) {
        // Sending fails only if the task of the request is gone, which means that the process exits.
        let _ = self.reply.send(result);
    }
}
