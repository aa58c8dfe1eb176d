//! A client that requests a targeted removal and repeats the request until the outcome is known.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::json;
use vmpool_runtime::Env;

use crate::aggregation::AggregatedApi;
use crate::attempt::{ClientRequestEvent, MachineToRemove};
use crate::repeated_request::{RepeatedRequest, RepeatedRequestProgress};

/// One request, repeated until the client has a definite response.
pub struct AggregatedRemovalClient {
    /// The client's connection to the aggregated API.
    pub front: AggregatedApi,
    /// Clock, tasks and randomness.
    pub env: Env,
    /// The replica that receives the first attempt. Each further attempt goes to the next replica.
    pub first: usize,
    /// Path and query of the request.
    pub path: String,
    /// The machines to remove.
    pub targets: Vec<MachineToRemove>,
    /// Whether the request also contains the UIDs.
    pub pinned: bool,
    /// Whether the request also removes protected machines.
    pub forced: bool,
    /// Whether the request is a dry run.
    pub dry_run: bool,
    /// Collects the outcome of each attempt.
    pub attempts: Arc<Mutex<Vec<ClientRequestEvent>>>,
}

impl AggregatedRemovalClient {
    /// Sends the request until the response is definite or all attempts are used.
    pub async fn run(self) {
        let Self { front, env, first, path, targets, pinned, forced, dry_run, attempts } = self;
        let record = |attempt: ClientRequestEvent| attempts.lock().push(attempt);
        let names = |field: fn(&MachineToRemove) -> &str| targets.iter().map(field).collect::<Vec<_>>();
        let mut body = json!({ "targets": names(|target| &target.name) });
        if pinned {
            body["targetUIDs"] = json!(names(|target| &target.uid));
        }
        if forced {
            body["force"] = json!(true);
        }
        if dry_run {
            body["dryRun"] = json!(["All"]);
        }
        let request = RepeatedRequest { front, env, first, path, body };
        request
            .repeat_until_known(|progress| match progress {
                RepeatedRequestProgress::Sent | RepeatedRequestProgress::Succeeded(_) if dry_run => {}
                RepeatedRequestProgress::Sent if forced => {
                    record(ClientRequestEvent::SentUndrained(targets.clone()));
                }
                RepeatedRequestProgress::Sent => record(ClientRequestEvent::Sent(targets.clone())),
                RepeatedRequestProgress::Succeeded(_) => {
                    record(ClientRequestEvent::Succeeded(targets.clone()));
                }
                RepeatedRequestProgress::Rejected(text) if dry_run => {
                    record(ClientRequestEvent::Unknown(format!("dry run: {text}")));
                }
                RepeatedRequestProgress::Rejected(text) => {
                    record(ClientRequestEvent::Rejected(targets.clone(), text));
                }
                RepeatedRequestProgress::Unknown(text) => record(ClientRequestEvent::Unknown(text)),
            })
            .await;
    }
}
