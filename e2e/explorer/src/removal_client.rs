//! A client that requests a targeted removal and repeats the request until the outcome is known.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use vmpool_runtime::Env;

use crate::aggregation::AggregatedApi;

/// Maximum number of attempts.
const ATTEMPTS: usize = 4;
/// Minimum time that the client waits for a response.
const MIN_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum additional wait. Together with [`MIN_TIMEOUT`] it equals the API server's own limit.
const MAX_ADDITIONAL_TIMEOUT: Duration = Duration::from_secs(55);
/// Longest pause before the next attempt.
const PAUSE: Duration = Duration::from_secs(3);

/// A machine to remove.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The machine's name.
    pub name: String,
    /// The machine's UID.
    pub uid: String,
}

/// A step of a request for a targeted removal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// The request was sent: it may take effect from now on.
    Sent(Vec<Target>),
    /// The request was rejected: it has no effect.
    Rejected(Vec<Target>, String),
    /// The removal succeeded.
    Succeeded(Vec<Target>),
    /// The outcome is unknown.
    Unknown(String),
}

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
    /// Whether the request is a dry run.
    pub dry_run: bool,
    /// Collects the outcome of each attempt.
    pub attempts: Arc<Mutex<Vec<Attempt>>>,
}

impl RemovalClient {
    /// Sends the request until the response is definite or all attempts are used.
    pub async fn run(self) {
        let Self { front, env, first, path, targets, pinned, dry_run, attempts } = self;
        let record = |attempt: Attempt| attempts.lock().push(attempt);
        let names = |field: fn(&Target) -> &str| targets.iter().map(field).collect::<Vec<_>>();
        let mut body = json!({ "targets": names(|target| &target.name) });
        if pinned {
            body["targetUIDs"] = json!(names(|target| &target.uid));
        }
        if dry_run {
            body["dryRun"] = json!(["All"]);
        }
        for attempt in 0..ATTEMPTS {
            if !dry_run {
                record(Attempt::Sent(targets.clone()));
            }
            let timeout = MIN_TIMEOUT + env.jitter(MAX_ADDITIONAL_TIMEOUT);
            let response = env.timeout(timeout, front.post(first + attempt, &path, &body)).await;
            match response {
                Ok(Some(response)) if response.code.is_success() => {
                    if !dry_run {
                        record(Attempt::Succeeded(targets));
                    }
                    return;
                }
                // A replica that has just started does not know the front proxy's CA yet. A real load balancer would
                // send it no requests.
                Ok(Some(response)) if response.code.is_client_error() => {
                    let again = [401, 409, 429].contains(&response.code.as_u16());
                    let text = format!("{} {}", response.code, message(&response.body));
                    if dry_run {
                        record(Attempt::Unknown(format!("dry run: {text}")));
                    } else {
                        record(Attempt::Rejected(targets.clone(), text));
                    }
                    if !again {
                        return;
                    }
                }
                Ok(Some(response)) => {
                    record(Attempt::Unknown(format!("{} {}", response.code, message(&response.body))));
                }
                Ok(None) => record(Attempt::Unknown("the connection was closed".to_owned())),
                Err(elapsed) => record(Attempt::Unknown(elapsed.to_string())),
            }
            env.sleep(env.jitter(PAUSE)).await;
        }
    }
}

/// The message of a Status.
fn message(body: &str) -> String {
    let status: Value = serde_json::from_str(body).unwrap_or_default();
    status["message"].as_str().unwrap_or(body).to_owned()
}
