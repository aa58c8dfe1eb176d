//! Requests for the Secret, and the clock of the API server.

use std::time::Duration;

use axum::body::Body;
use axum::http::{StatusCode, header};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{GetParams, PostParams};
use kube::{Api, Client};

use super::args::SecretName;
use crate::env::{Env, TimeoutElapsed};

/// The deadline of each request.
pub(super) const DEADLINE: Duration = Duration::from_secs(10);
/// The maximum size of a response in bytes, larger than every stored object.
const MAX_SIZE: usize = 4 << 20;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RequestError {
    /// The API server returned an error, or the connection failed.
    #[error(transparent)]
    Kube(#[from] kube::Error),
    /// There was no response before the deadline.
    #[error("no response within {0:?}")]
    Deadline(Duration),
    /// The response is invalid.
    #[error("decoding the response: {0}")]
    Decode(String),
}

/// Sends a request with [`DEADLINE`].
pub(super) async fn send_with_deadline<T>(
    env: &Env,
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, RequestError> {
    match env.timeout(DEADLINE, request).await {
        Ok(response) => Ok(response?),
        Err(TimeoutElapsed(limit)) => Err(RequestError::Deadline(limit)),
    }
}

/// A Secret on the API server.
#[derive(Clone)]
pub(super) struct SecretStore {
    client: Client,
    namespace: String,
    name: String,
    env: Env,
}

/// The response to a read.
#[derive(Debug)]
pub(super) struct Read {
    /// `None` if the Secret does not exist.
    pub(super) secret: Option<Secret>,
    /// The time of the API server, if the response contains it.
    pub(super) date: Option<Timestamp>,
}

/// The result of a write.
#[derive(Debug)]
pub(super) enum SecretWriteResult {
    /// The API server stored the Secret.
    Stored,
    /// Another client changed the Secret, which must be read again.
    Stale,
}

impl SecretStore {
    pub(super) fn new(client: Client, secret: SecretName, env: Env) -> Self {
        let SecretName { namespace, name } = secret;
        Self { client, namespace, name, env }
    }

    /// Reads the most recent Secret.
    pub(super) async fn read(&self) -> Result<Read, RequestError> {
        let path = format!("/api/v1/namespaces/{}/secrets", self.namespace);
        let request = kube::core::Request::new(path)
            .get(&self.name, &GetParams::default())
            .map_err(kube::Error::BuildRequest)?;
        // A typed request does not return the header with the time.
        let exchange = async {
            let response = self.client.send(request.map(kube::client::Body::from)).await?;
            let (head, body) = response.into_parts();
            let body = axum::body::to_bytes(Body::new(body), MAX_SIZE).await;
            Ok((head, body))
        };
        let (head, body) = send_with_deadline(&self.env, exchange).await?;
        let body = body.map_err(|error| RequestError::Decode(error.to_string()))?;
        let date =
            head.headers.get(header::DATE).and_then(|date| date.to_str().ok()).and_then(parse_http_date);
        if head.status.is_success() {
            let secret =
                serde_json::from_slice(&body).map_err(|error| RequestError::Decode(error.to_string()))?;
            return Ok(Read { secret: Some(secret), date });
        }
        let status: kube::core::Status =
            serde_json::from_slice(&body).unwrap_or_else(|_| kube::core::Status {
                code: head.status.as_u16(),
                message: String::from_utf8_lossy(&body).chars().take(200).collect(),
                reason: head.status.to_string(),
                ..kube::core::Status::default()
            });
        // A 404 without this reason may come from a proxy.
        if head.status == StatusCode::NOT_FOUND && status.reason == "NotFound" {
            return Ok(Read { secret: None, date });
        }
        Err(kube::Error::Api(status.boxed()).into())
    }

    /// Creates the Secret if it has no resource version. Otherwise replaces the version that was read.
    pub(super) async fn write(&self, mut secret: Secret) -> Result<SecretWriteResult, RequestError> {
        secret.metadata.name = Some(self.name.clone());
        secret.metadata.namespace = Some(self.namespace.clone());
        secret.metadata.managed_fields = None;
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &self.namespace);
        let parameters =
            PostParams { field_manager: Some("vmpool-certificates".to_owned()), ..PostParams::default() };
        let replaces = secret.metadata.resource_version.is_some();
        let result = if replaces {
            send_with_deadline(&self.env, api.replace(&self.name, &parameters, &secret)).await
        } else {
            send_with_deadline(&self.env, api.create(&parameters, &secret)).await
        };
        match result {
            Ok(_) => Ok(SecretWriteResult::Stored),
            Err(RequestError::Kube(kube::Error::Api(status)))
                if status.code == 409 || (replaces && status.code == 404) =>
            {
                Ok(SecretWriteResult::Stale)
            }
            Err(error) => Err(error),
        }
    }

    /// The Secret, as `namespace/name`.
    pub(super) fn object(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// A time in the format of HTTP headers, such as `Sun, 06 Nov 1994 08:49:37 GMT`.
fn parse_http_date(date: &str) -> Option<Timestamp> {
    jiff::fmt::rfc2822::parse(date).ok().map(|zoned| zoned.timestamp())
}
