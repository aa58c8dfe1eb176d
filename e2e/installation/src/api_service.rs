//! Waiting for aggregated APIs.

use std::time::Duration;

use kube::api::{ApiResource, DynamicObject};
use kube::{Api, Client};
use serde_json::Value;
use vmpool_test_cluster::control_plane::get_text;
use vmpool_test_cluster::error::{Error, Result, error_with_causes};
use vmpool_test_cluster::poll;

/// How long it may take until the API server reaches the programs. Their certificates must be created,
/// written into the registrations, and loaded.
pub(crate) const REACHED_DEADLINE: Duration = Duration::from_mins(1);

/// Waits until an aggregated API is available and the API server proxies requests to it, which it does
/// shortly after it has set the condition.
///
/// # Errors
/// [`Error::Api`], [`Error::Deadline`] with the reason in the condition.
pub(crate) async fn until_available(client: &Client, name: &str) -> Result<()> {
    let resource = ApiResource {
        group: "apiregistration.k8s.io".to_owned(),
        version: "v1".to_owned(),
        api_version: "apiregistration.k8s.io/v1".to_owned(),
        kind: "APIService".to_owned(),
        plural: "apiservices".to_owned(),
    };
    let api = Api::<DynamicObject>::all_with(client.clone(), &resource);
    let (version, group) = name.split_once('.').unwrap_or_default();
    let path = format!("/apis/{group}/{version}");
    let what = || format!("the APIService {name} is available");
    poll::poll_until(what, REACHED_DEADLINE, async || {
        let service = api.get(name).await.map_err(Error::api(format!("reading the APIService {name}")))?;
        let conditions = service.data.pointer("/status/conditions").and_then(Value::as_array);
        let available =
            conditions.into_iter().flatten().find(|condition| condition["type"] == "Available").cloned();
        let available = available.unwrap_or_default();
        if available["status"] != "True" {
            return Ok(Err(available.to_string()));
        }
        Ok(get_text(client, &path).await.map(drop).map_err(|error| error_with_causes(&error)))
    })
    .await
}
