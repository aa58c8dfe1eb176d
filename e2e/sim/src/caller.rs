//! Somebody who wants machines to leave, and asks again until he knows whether they do.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use vmpool_runtime::Env;

use crate::front::Front;

/// How often one asks at most.
const ATTEMPTS: usize = 4;
/// How long one waits for an answer, at least.
const LEAST_PATIENCE: Duration = Duration::from_secs(5);
/// How much longer one may wait: as long as the API server would, with the rest.
const MORE_PATIENCE: Duration = Duration::from_secs(55);
/// The longest pause before one asks again.
const PAUSE: Duration = Duration::from_secs(3);

/// A machine that is to leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

/// What becomes of a request to remove machines by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// It is sent: from now on it may take effect.
    Sent(Vec<Target>),
    /// It is refused: it has no effect.
    Refused(Vec<Target>, String),
    /// It is done.
    Removed(Vec<Target>),
    /// Nobody knows.
    Lost(String),
}

/// One request, repeated until it has an answer.
pub struct Caller {
    /// The way to the aggregated API.
    pub front: Front,
    /// Time.
    pub env: Env,
    /// Which replica is asked first; the next one is asked when it does not answer.
    pub first: usize,
    /// Where, with the query.
    pub path: String,
    /// Who shall leave.
    pub targets: Vec<Target>,
    /// Whether the UIDs are named, too.
    pub pinned: bool,
    /// Whether nothing is to happen.
    pub dry_run: bool,
    /// Who listens.
    pub told: Arc<Mutex<Vec<Asked>>>,
}

impl Caller {
    /// Asks until there is an answer that leaves nothing open, or patience ends.
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
                // A replica that has just started does not know yet whom to believe; nobody would send it requests.
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
                Ok(None) => tell(Asked::Lost("the connection breaks".to_owned())),
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
