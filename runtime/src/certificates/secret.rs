//! The Secret on the server, and the server's clock.

use std::time::Duration;

use axum::body::Body;
use axum::http::{StatusCode, header};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{GetParams, PostParams};
use kube::{Api, Client};

use crate::env::{Elapsed, Env};

/// The longest that one request may take.
pub(super) const DEADLINE: Duration = Duration::from_secs(10);
/// More than any object that the server stores.
const LARGEST: usize = 4 << 20;

/// Why a request had no success.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RequestError {
    /// The server or the way to it failed.
    #[error(transparent)]
    Kube(#[from] kube::Error),
    /// It took too long.
    #[error("no answer within {0:?}")]
    Deadline(Duration),
    /// The answer is not what was asked for.
    #[error("the answer cannot be read: {0}")]
    Answer(String),
}

/// Waits for an answer, but not for ever.
pub(super) async fn bounded<T>(
    env: &Env,
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, RequestError> {
    match env.timeout(DEADLINE, request).await {
        Ok(answer) => Ok(answer?),
        Err(Elapsed(limit)) => Err(RequestError::Deadline(limit)),
    }
}

/// One Secret.
#[derive(Clone)]
pub(super) struct Store {
    client: Client,
    namespace: String,
    name: String,
    env: Env,
}

/// An answer to a read.
#[derive(Debug)]
pub(super) struct Read {
    /// Nothing if there is no such Secret.
    pub(super) secret: Option<Secret>,
    /// The server's clock, if it told.
    pub(super) date: Option<Timestamp>,
}

/// What the server did with a write.
#[derive(Debug)]
pub(super) enum Written {
    /// It is stored.
    Stored,
    /// Somebody else was first: read again.
    Stale,
}

impl Store {
    pub(super) fn new(client: Client, (namespace, name): (String, String), env: Env) -> Self {
        Self { client, namespace, name, env }
    }

    /// Reads the Secret from the server's storage.
    pub(super) async fn read(&self) -> Result<Read, RequestError> {
        let path = format!("/api/v1/namespaces/{}/secrets", self.namespace);
        let request = kube::core::Request::new(path)
            .get(&self.name, &GetParams::default())
            .map_err(kube::Error::BuildRequest)?;
        // The typed call would hide the header that has the time.
        let answer = async {
            let response = self.client.send(request.map(kube::client::Body::from)).await?;
            let (head, body) = response.into_parts();
            let body = axum::body::to_bytes(Body::new(body), LARGEST).await;
            Ok((head, body))
        };
        let (head, body) = bounded(&self.env, answer).await?;
        let body = body.map_err(|error| RequestError::Answer(error.to_string()))?;
        let date = head.headers.get(header::DATE).and_then(|date| date.to_str().ok()).and_then(moment);
        if head.status.is_success() {
            let secret =
                serde_json::from_slice(&body).map_err(|error| RequestError::Answer(error.to_string()))?;
            return Ok(Read { secret: Some(secret), date });
        }
        let status: kube::core::Status =
            serde_json::from_slice(&body).unwrap_or_else(|_| kube::core::Status {
                code: head.status.as_u16(),
                message: String::from_utf8_lossy(&body).chars().take(200).collect(),
                reason: head.status.to_string(),
                ..kube::core::Status::default()
            });
        // Else it could be another kind of absence, such as a proxy's page.
        if head.status == StatusCode::NOT_FOUND && status.reason == "NotFound" {
            return Ok(Read { secret: None, date });
        }
        Err(kube::Error::Api(status.boxed()).into())
    }

    /// Creates the Secret if it has no resourceVersion, else replaces exactly the version that was read.
    pub(super) async fn write(&self, mut secret: Secret) -> Result<Written, RequestError> {
        secret.metadata.name = Some(self.name.clone());
        secret.metadata.namespace = Some(self.namespace.clone());
        secret.metadata.managed_fields = None;
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &self.namespace);
        let parameters =
            PostParams { field_manager: Some("vmpool-certificates".to_owned()), ..PostParams::default() };
        let replaces = secret.metadata.resource_version.is_some();
        let answer = if replaces {
            bounded(&self.env, api.replace(&self.name, &parameters, &secret)).await
        } else {
            bounded(&self.env, api.create(&parameters, &secret)).await
        };
        match answer {
            Ok(_) => Ok(Written::Stored),
            Err(RequestError::Kube(kube::Error::Api(status)))
                if status.code == 409 || (replaces && status.code == 404) =>
            {
                Ok(Written::Stale)
            }
            Err(error) => Err(error),
        }
    }

    /// The Secret in words.
    pub(super) fn object(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// A moment as HTTP writes it, such as `Sun, 06 Nov 1994 08:49:37 GMT`.
fn moment(date: &str) -> Option<Timestamp> {
    jiff::fmt::rfc2822::parse(date).ok().map(|zoned| zoned.timestamp())
}
