//! A cluster for tests that answers requests without a server.

use std::convert::Infallible;

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use vmpool_runtime::Env;

use crate::cluster::UserClusterClient;

/// What the API server answers.
pub(crate) struct FakeAnswer {
    /// The status code.
    pub(crate) code: u16,
    /// The body: JSON, or lines of JSON.
    pub(crate) body: String,
}

impl FakeAnswer {
    /// A list of objects.
    pub(crate) fn list(items: &[Value]) -> Self {
        let list = json!({ "apiVersion": "v1", "kind": "List", "metadata": { "resourceVersion": "5" }, "items": items });
        Self { code: 200, body: list.to_string() }
    }

    /// A refusal.
    pub(crate) fn failure(code: u16, message: &str, details: &Value) -> Self {
        let status = json!({
            "apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code, "message": message,
            "reason": "Reason", "details": details,
        });
        Self { code, body: status.to_string() }
    }
}

/// A cluster that answers a request for a path with its query.
pub(crate) fn answering_cluster(
    answer: impl Fn(&str) -> FakeAnswer + Send + Sync + 'static,
) -> UserClusterClient {
    let service = tower::service_fn(move |request: Request<Body>| {
        let FakeAnswer { code, body } = answer(&request.uri().to_string());
        let response = Response::builder().status(code).header("content-type", "application/json");
        let response = response.body(Body::from(body.into_bytes())).expect("the response is valid");
        async move { Ok::<_, Infallible>(response) }
    });
    UserClusterClient {
        client: Client::new(service, "team-a"),
        namespace: "team-a".to_owned(),
        env: Env::system(),
        request_timeout: None,
    }
}
