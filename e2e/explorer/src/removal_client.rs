//! A client that requests a targeted removal and repeats the request until the outcome is known.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::json;
use vmpool_runtime::Env;

use crate::aggregation::AggregatedApi;
use crate::attempt::{Attempt, Target};
use crate::repeated_request::{Progress, Request};

/// One request, repeated until the client has a definite response.
pub struct RemovalClient {
    /// The client's connection to the aggregated API.
    pub front: AggregatedApi,
    /// Clock, tasks and randomness.
    pub env: Env,
    /// The replica that receives the first attempt. Each further attempt goes to the next replica.
    pub first: usize,
    /// Path and query of the request.
    pub path: String,
    /// The machines to remove.
    pub targets: Vec<Target>,
    /// Whether the request also contains the UIDs.
    pub pinned: bool,
    /// Whether the request also removes protected machines.
    pub forced: bool,
    /// Whether the request is a dry run.
    pub dry_run: bool,
    /// Collects the outcome of each attempt.
    pub attempts: Arc<Mutex<Vec<Attempt>>>,
}

impl RemovalClient {
    /// Sends the request until the response is definite or all attempts are used.
    pub async fn run(self) {
        let Self { front, env, first, path, targets, pinned, forced, dry_run, attempts } = self;
        let record = |attempt: Attempt| attempts.lock().push(attempt);
        let names = |field: fn(&Target) -> &str| targets.iter().map(field).collect::<Vec<_>>();
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
        let request = Request { front, env, first, path, body };
        request
            .repeat_until_known(|progress| match progress {
                Progress::Sent | Progress::Succeeded(_) if dry_run => {}
                Progress::Sent => record(Attempt::Sent(targets.clone())),
                Progress::Succeeded(_) => record(Attempt::Succeeded(targets.clone())),
                Progress::Rejected(text) if dry_run => record(Attempt::Unknown(format!("dry run: {text}"))),
                Progress::Rejected(text) => record(Attempt::Rejected(targets.clone(), text)),
                Progress::Unknown(text) => record(Attempt::Unknown(text)),
            })
            .await;
    }
}
