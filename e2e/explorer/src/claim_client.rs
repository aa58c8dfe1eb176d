//! Callers that claim machines, and release them.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use vmpool_runtime::Env;

use crate::aggregation::AggregatedApi;
use crate::attempt::{Attempt, Holding, Release, Target};
use crate::repeated_request::{Progress, Request};

/// A request to claim a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The id.
    pub id: &'static str,
    /// `durationSeconds`.
    pub seconds: u64,
    /// Whether the request only renews a claim.
    pub renew: bool,
}

/// A caller of the aggregated API.
pub struct Caller {
    /// The caller's connection to the aggregated API.
    pub front: AggregatedApi,
    /// Clock, tasks and randomness.
    pub env: Env,
    /// The replica that receives the first attempt.
    pub first: usize,
    /// The path of the pool.
    pub pool: String,
    /// Collects the outcome of each attempt.
    pub attempts: Arc<Mutex<Vec<Attempt>>>,
}

impl Caller {
    fn request(&self, subresource: &str, body: Value) -> Request {
        let (front, env) = (self.front.clone(), self.env.clone());
        Request { front, env, first: self.first, path: format!("{}/{subresource}", self.pool), body }
    }

    /// Claims a machine, and repeats the request with the same id until the outcome is known.
    pub async fn claim(self, claim: Claim) {
        let Claim { id, seconds, renew } = claim;
        let body = json!({ "id": id, "durationSeconds": seconds, "renew": renew });
        let record = |attempt| self.attempts.lock().push(attempt);
        let request = self.request("claim", body);
        request
            .repeat_until_known(|progress| match progress {
                Progress::Sent => {}
                Progress::Succeeded(body) => record(match holding(id, &body) {
                    Some(holding) => Attempt::Claimed(holding),
                    None => Attempt::Unknown(format!("the response to a claim is incomplete: {body}")),
                }),
                Progress::Rejected(text) | Progress::Unknown(text) => record(Attempt::Unknown(text)),
            })
            .await;
    }

    /// Releases a machine. With `Remove`, this is also a targeted removal.
    pub async fn release(self, release: Release) {
        let Holding { id, uid, name, .. } = release.holding.clone();
        let body = json!({ "id": id, "machineUID": uid, "then": release.then });
        let targets = vec![Target { name, uid }];
        let removes = release.then == "Remove";
        let record = |attempt| self.attempts.lock().push(attempt);
        let request = self.request("release", body);
        request
            .repeat_until_known(|progress| match progress {
                Progress::Sent => {
                    record(Attempt::ReleaseSent(release.clone()));
                    if removes {
                        record(Attempt::Sent(targets.clone()));
                    }
                }
                Progress::Succeeded(_) if removes => record(Attempt::Succeeded(targets.clone())),
                Progress::Rejected(text) if removes => record(Attempt::Rejected(targets.clone(), text)),
                Progress::Succeeded(_) => {}
                Progress::Rejected(text) | Progress::Unknown(text) => record(Attempt::Unknown(text)),
            })
            .await;
    }
}

fn holding(id: &'static str, body: &Value) -> Option<Holding> {
    let text = |pointer: &str| body.pointer(pointer).and_then(Value::as_str);
    Some(Holding {
        id,
        uid: text("/machine/uid")?.to_owned(),
        name: text("/machine/name")?.to_owned(),
        until: text("/expiresAt")?.parse().ok()?,
    })
}
