//! A client that requests a targeted removal and repeats the request until the outcome is known.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use vmpool_runtime::Env;

use crate::front::Front;

/// Maximum number of attempts.
const ATTEMPTS: usize = 4;
/// Minimum time that the client waits for a response.
const LEAST_PATIENCE: Duration = Duration::from_secs(5);
/// Maximum additional wait. Together with [`LEAST_PATIENCE`] it equals the API server's own limit.
const MORE_PATIENCE: Duration = Duration::from_secs(55);
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

/// What happened to a request for a targeted removal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// The request was sent: it may take effect from now on.
    Sent(Vec<Target>),
    /// The request was refused: it has no effect.
    Refused(Vec<Target>, String),
    /// The removal succeeded.
    Removed(Vec<Target>),
    /// The outcome is unknown.
    Lost(String),
}

/// One request, repeated until the client has a definite response.
pub struct Caller {
    /// The client's connection to the aggregated API.
    pub front: Front,
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
    pub told: Arc<Mutex<Vec<Asked>>>,
}

impl Caller {
    /// Sends the request until the response is definite or all attempts are used.
    pub async fn ask(self) {
        let Self { front, env, first, path, targets, pinned, dry_run, told } = self;
        let tell = |asked: Asked| told.lock().push(asked);
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
                tell(Asked::Sent(targets.clone()));
            }
            let patience = LEAST_PATIENCE + env.jitter(MORE_PATIENCE);
            let answer = env.timeout(patience, front.post(first + attempt, &path, &body)).await;
            match answer {
                Ok(Some(heard)) if heard.code.is_success() => {
                    if !dry_run {
                        tell(Asked::Removed(targets));
                    }
                    return;
                }
                // A replica that has just started does not know the front proxy's CA yet. A real load balancer would
                // send it no requests.
                Ok(Some(heard)) if heard.code.is_client_error() => {
                    let again = [401, 409, 429].contains(&heard.code.as_u16());
                    let text = format!("{} {}", heard.code, message(&heard.body));
                    if dry_run {
                        tell(Asked::Lost(format!("dry run: {text}")));
                    } else {
                        tell(Asked::Refused(targets.clone(), text));
                    }
                    if !again {
                        return;
                    }
                }
                Ok(Some(heard)) => tell(Asked::Lost(format!("{} {}", heard.code, message(&heard.body)))),
                Ok(None) => tell(Asked::Lost("the connection was closed".to_owned())),
                Err(elapsed) => tell(Asked::Lost(elapsed.to_string())),
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
