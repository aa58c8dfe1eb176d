//! A request to the aggregated API, repeated until the client knows its outcome.

use std::time::Duration;

use serde_json::Value;
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

/// A request, and how it is sent.
pub(crate) struct RepeatedRequest {
    /// The client's connection to the aggregated API.
    pub(crate) front: AggregatedApi,
    /// Clock, tasks and randomness.
    pub(crate) env: Env,
    /// The replica that receives the first attempt. Each further attempt goes to the next replica.
    pub(crate) first: usize,
    /// Path and query.
    pub(crate) path: String,
    /// The body.
    pub(crate) body: Value,
}

/// What the client learns about its request.
pub(crate) enum RepeatedRequestProgress {
    /// An attempt was sent: it may take effect from now on.
    Sent,
    /// An attempt was rejected: it has no effect.
    Rejected(String),
    /// An attempt succeeded, with this response.
    Succeeded(Value),
    /// The outcome of an attempt is unknown.
    Unknown(String),
}

impl RepeatedRequest {
    /// Sends the request until the response is definite or all attempts are used.
    pub(crate) async fn repeat_until_known(self, mut report: impl FnMut(RepeatedRequestProgress)) {
        let Self { front, env, first, path, body } = self;
        for attempt in 0..ATTEMPTS {
            report(RepeatedRequestProgress::Sent);
            let timeout = MIN_TIMEOUT + env.jitter(MAX_ADDITIONAL_TIMEOUT);
            let response = env.timeout(timeout, front.post(first + attempt, &path, &body)).await;
            match response {
                Ok(Some(response)) if response.code.is_success() => {
                    report(RepeatedRequestProgress::Succeeded(
                        serde_json::from_str(&response.body).unwrap_or_default(),
                    ));
                    return;
                }
                // A replica that has just started does not know the front proxy's CA yet. A real load
                // balancer would send it no requests.
                Ok(Some(response)) if response.code.is_client_error() => {
                    let again = [401, 409, 429].contains(&response.code.as_u16());
                    report(RepeatedRequestProgress::Rejected(format!(
                        "{} {}",
                        response.code,
                        message(&response.body)
                    )));
                    if !again {
                        return;
                    }
                }
                Ok(Some(response)) => {
                    report(RepeatedRequestProgress::Unknown(format!(
                        "{} {}",
                        response.code,
                        message(&response.body)
                    )));
                }
                Ok(None) => report(RepeatedRequestProgress::Unknown("the connection was closed".to_owned())),
                Err(elapsed) => report(RepeatedRequestProgress::Unknown(elapsed.to_string())),
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
