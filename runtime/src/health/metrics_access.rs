//! Who may read `/metrics`: clients with a bearer token whose user may `get` the URL `/metrics`.
//!
//! ```text
//! token ──> TokenReview ──> user ──> SubjectAccessReview (get /metrics) ──> cache ──> 200, 401, 403
//!                                                            └─ the API server does not respond: 503
//! ```
//!
//! Any Pod may send tokens, so the number of reviews is limited. Tokens that were accepted before are
//! reviewed beside the others and do not wait for them.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::env::Env;
use crate::telemetry::with_causes;

/// The URL that users need the right to get.
const PATH: &str = "/metrics";
/// How long an accepted token is not reviewed again. A revoked right takes effect after this time.
const ACCEPTED: Duration = Duration::from_mins(1);
/// How long a refused token is not reviewed again.
const REFUSED: Duration = Duration::from_secs(10);
/// The maximum number of tokens that are remembered.
pub(super) const TOKENS: usize = 128;
/// The maximum length of a token in bytes.
const MAX_TOKEN: usize = 8 << 10;
/// The deadline for the reviews of a token, including the wait for others.
const DEADLINE: Duration = Duration::from_secs(5);
/// The minimum interval between reviews of tokens that were not accepted before.
const INTERVAL: Duration = Duration::from_millis(100);

/// Checks the tokens of clients.
pub struct MetricsAccess {
    client: Client,
    env: Env,
    remembered: Mutex<HashMap<String, Remembered>>,
    /// Permits for the reviews of tokens that were accepted before.
    accepted: Semaphore,
    /// The permit for the reviews of other tokens.
    unknown: Semaphore,
    /// The uptime of the next review of such a token.
    next_unknown: Mutex<Duration>,
}

#[derive(Debug, Clone, Copy)]
struct Remembered {
    verdict: MetricsAccessVerdict,
    /// The uptime before the review.
    reviewed_at: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MetricsAccessVerdict {
    Allowed,
    Unauthenticated,
    Forbidden,
}

impl MetricsAccess {
    /// Reviews tokens through this client.
    pub fn new(client: Client, env: Env) -> Self {
        let (accepted, unknown) = (Semaphore::new(2), Semaphore::new(1));
        let (remembered, next_unknown) = (Mutex::default(), Mutex::new(env.uptime()));
        Self { client, env, remembered, accepted, unknown, next_unknown }
    }

    /// The response to a client that may not read the metrics.
    pub(super) async fn refuse(&self, headers: &HeaderMap) -> Option<Response> {
        let token = bearer_token(headers).filter(|token| token.len() <= MAX_TOKEN);
        let verdict = match token {
            Some(token) => self.env.timeout(DEADLINE, self.check(token)).await,
            None => Ok(Ok(MetricsAccessVerdict::Unauthenticated)),
        };
        let unavailable = (StatusCode::SERVICE_UNAVAILABLE, "the token cannot be reviewed now; try again\n");
        match verdict {
            Ok(Ok(MetricsAccessVerdict::Allowed)) => None,
            Ok(Ok(MetricsAccessVerdict::Unauthenticated)) => {
                let message = "send a bearer token of a user who may get the URL /metrics\n";
                let bearer = [(header::WWW_AUTHENTICATE, "Bearer")];
                Some((StatusCode::UNAUTHORIZED, bearer, message).into_response())
            }
            Ok(Ok(MetricsAccessVerdict::Forbidden)) => {
                let message = "the user of the token may not get the URL /metrics; bind the ClusterRole \
                               vmpool-metrics-reader\n";
                Some((StatusCode::FORBIDDEN, message).into_response())
            }
            Ok(Err(error)) => {
                tracing::warn!(error = with_causes(&error), "reviewing a token for the metrics failed");
                Some(unavailable.into_response())
            }
            Err(elapsed) => {
                tracing::warn!(%elapsed, "reviewing a token for the metrics failed");
                Some(unavailable.into_response())
            }
        }
    }

    async fn check(&self, token: &str) -> kube::Result<MetricsAccessVerdict> {
        if let Some(verdict) = self.remembered(token) {
            return Ok(verdict);
        }
        let was_accepted = self
            .remembered
            .lock()
            .get(token)
            .is_some_and(|last| last.verdict == MetricsAccessVerdict::Allowed);
        let permits = if was_accepted { &self.accepted } else { &self.unknown };
        let _permit = permits.acquire().await.expect("this semaphore is never closed");
        // Another request may have reviewed it in the meantime.
        if let Some(verdict) = self.remembered(token) {
            return Ok(verdict);
        }
        if !was_accepted {
            let wait = self.next_unknown.lock().saturating_sub(self.env.uptime());
            if !wait.is_zero() {
                self.env.sleep(wait).await;
            }
            *self.next_unknown.lock() = self.env.uptime() + INTERVAL;
        }
        let reviewed_at = self.env.uptime();
        let verdict = self.review(token).await?;
        self.remember(token, Remembered { verdict, reviewed_at });
        Ok(verdict)
    }

    fn remembered(&self, token: &str) -> Option<MetricsAccessVerdict> {
        let last = self.remembered.lock().get(token).copied()?;
        last.is_valid(self.env.uptime()).then_some(last.verdict)
    }

    fn remember(&self, token: &str, verdict: Remembered) {
        let (mut remembered, now) = (self.remembered.lock(), self.env.uptime());
        if remembered.len() >= TOKENS && !remembered.contains_key(token) {
            remembered.retain(|_, last| last.verdict == MetricsAccessVerdict::Allowed || last.is_valid(now));
        }
        if remembered.len() >= TOKENS && !remembered.contains_key(token) {
            let order = |last: &Remembered| (last.verdict == MetricsAccessVerdict::Allowed, last.reviewed_at);
            let oldest =
                remembered.iter().min_by_key(|(_, last)| order(last)).map(|(token, _)| token.clone());
            oldest.map(|oldest| remembered.remove(&oldest));
        }
        remembered.insert(token.to_owned(), verdict);
    }

    async fn review(&self, token: &str) -> kube::Result<MetricsAccessVerdict> {
        let spec = TokenReviewSpec { token: token.to_owned(), audiences: None };
        let review = TokenReview { spec, ..TokenReview::default() };
        let reviews: Api<TokenReview> = Api::all(self.client.clone());
        let status = reviews.create(&PostParams::default(), &review).await?.status.unwrap_or_default();
        let Some(user) = status.user.filter(|_| status.authenticated == Some(true)) else {
            return Ok(MetricsAccessVerdict::Unauthenticated);
        };
        let attributes = NonResourceAttributes { path: Some(PATH.to_owned()), verb: Some("get".to_owned()) };
        let spec = SubjectAccessReviewSpec {
            user: user.username,
            uid: user.uid,
            groups: user.groups,
            extra: user.extra,
            non_resource_attributes: Some(attributes),
            resource_attributes: None,
        };
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let reviews: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let status = reviews.create(&PostParams::default(), &review).await?.status.unwrap_or_default();
        let is_allowed = status.allowed && status.denied != Some(true);
        Ok(if is_allowed { MetricsAccessVerdict::Allowed } else { MetricsAccessVerdict::Forbidden })
    }
}

impl Remembered {
    fn is_valid(self, now: Duration) -> bool {
        let limit = if self.verdict == MetricsAccessVerdict::Allowed { ACCEPTED } else { REFUSED };
        now.saturating_sub(self.reviewed_at) < limit
    }
}

impl fmt::Debug for MetricsAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MetricsAccess").finish_non_exhaustive()
    }
}

/// The bearer token of a request.
fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests;
