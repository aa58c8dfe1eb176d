//! Requests to the aggregated API of vmpool about a pool.

use std::time::Duration;

use anyhow::{Context as _, Result};
use http::Request;
use serde::Serialize;
use serde_json::Value;
use vmpool_platforms::ClientPlatform;

use crate::cluster::UserClusterClient;
use crate::explain::RequestAttempt;

/// How often a request is sent whose response was lost or says that the server is unavailable.
const ATTEMPTS: u32 = 4;

/// Time between two attempts.
pub(crate) const PAUSE: Duration = Duration::from_secs(1);

/// The attempt of a request to this subresource, for its error.
pub(crate) fn subresource_attempt<P: ClientPlatform>(
    cluster: &UserClusterClient,
    pool: &str,
    subresource: &str,
) -> RequestAttempt {
    RequestAttempt {
        verb: "create",
        resource: format!("{}/{subresource}.{}", P::REMOVAL.plural, P::REMOVAL.group),
        name: pool.to_owned(),
        namespace: cluster.namespace.clone(),
    }
}

/// Sends a request, and repeats it if its response was lost. A repeated request must have no further effect.
///
/// # Errors
/// It was refused, or no attempt got a response.
pub(crate) async fn post_to_subresource<P: ClientPlatform>(
    cluster: &UserClusterClient,
    pool: &str,
    subresource: &str,
    body: &(impl Serialize + Sync),
) -> Result<Result<Value, kube::Error>> {
    let api = P::REMOVAL;
    let path = format!(
        "/apis/{}/{}/namespaces/{}/{}/{pool}/{subresource}",
        api.group, api.version, cluster.namespace, api.plural
    );
    let mut left = ATTEMPTS;
    loop {
        let request = Request::post(&path)
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(serde_json::to_vec(body)?)
            .context("building the request")?;
        left -= 1;
        match cluster.client.request::<Value>(request).await {
            Err(error) if left > 0 && may_repeat(&error) => cluster.env.sleep(PAUSE).await,
            result => return Ok(result),
        }
    }
}

/// Whether the request may be repeated: its response was lost, or the server asks for it.
fn may_repeat(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => status.code == 429 || status.code >= 500,
        kube::Error::HyperError(_) | kube::Error::Service(_) => true,
        _ => false,
    }
}
