//! Callers that claim machines, and release them.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use vmpool_runtime::Env;

use crate::aggregation::AggregatedApi;
use crate::attempt::{ClaimReleaseRequest, ClientRequestEvent, Holding, MachineToRemove};
use crate::repeated_request::{RepeatedRequest, RepeatedRequestProgress};

/// A request to claim a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimParameters {
    /// The id.
    pub id: &'static str,
    /// `durationSeconds`.
    pub seconds: u64,
    /// Whether the request only renews a claim.
    pub renew: bool,
}

/// A caller of the aggregated API.
pub struct AggregatedClaimClient {
    /// The caller's connection to the aggregated API.
    pub front: AggregatedApi,
    /// Clock, tasks and randomness.
    pub env: Env,
    /// The replica that receives the first attempt.
    pub first: usize,
    /// The path of the pool.
    pub pool: String,
    /// Collects the outcome of each attempt.
    pub attempts: Arc<Mutex<Vec<ClientRequestEvent>>>,
}

impl AggregatedClaimClient {
    fn request(&self, subresource: &str, body: Value) -> RepeatedRequest {
        let (front, env) = (self.front.clone(), self.env.clone());
        RepeatedRequest { front, env, first: self.first, path: format!("{}/{subresource}", self.pool), body }
    }

    /// Claims a machine, and repeats the request with the same id until the outcome is known.
    pub async fn claim(self, claim: ClaimParameters) {
        let ClaimParameters { id, seconds, renew } = claim;
        let body = json!({ "id": id, "durationSeconds": seconds, "renew": renew });
        let record = |attempt| self.attempts.lock().push(attempt);
        let request = self.request("claim", body);
        request
            .repeat_until_known(|progress| match progress {
                RepeatedRequestProgress::Sent => {}
                RepeatedRequestProgress::Succeeded(body) => record(match holding(id, &body) {
                    Some(holding) => ClientRequestEvent::Claimed(holding),
                    None => {
                        ClientRequestEvent::Unknown(format!("the response to a claim is incomplete: {body}"))
                    }
                }),
                RepeatedRequestProgress::Rejected(text) | RepeatedRequestProgress::Unknown(text) => {
                    record(ClientRequestEvent::Unknown(text));
                }
            })
            .await;
    }

    /// Releases a machine. With `Remove`, this is also a targeted removal.
    pub async fn release(self, release: ClaimReleaseRequest) {
        let Holding { id, uid, name, .. } = release.holding.clone();
        let body = json!({ "id": id, "machineUID": uid, "then": release.then });
        let targets = vec![MachineToRemove { name, uid }];
        let removes = release.then == "Remove";
        let record = |attempt| self.attempts.lock().push(attempt);
        let request = self.request("release", body);
        request
            .repeat_until_known(|progress| match progress {
                RepeatedRequestProgress::Sent => {
                    record(ClientRequestEvent::ReleaseSent(release.clone()));
                    if removes {
                        record(ClientRequestEvent::SentUndrained(targets.clone()));
                    }
                }
                RepeatedRequestProgress::Succeeded(_) if removes => {
                    record(ClientRequestEvent::Succeeded(targets.clone()));
                }
                RepeatedRequestProgress::Rejected(text) if removes => {
                    record(ClientRequestEvent::Rejected(targets.clone(), text));
                }
                RepeatedRequestProgress::Succeeded(_) => {}
                RepeatedRequestProgress::Rejected(text) | RepeatedRequestProgress::Unknown(text) => {
                    record(ClientRequestEvent::Unknown(text));
                }
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
