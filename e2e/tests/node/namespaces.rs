//! Creates and deletes namespaces.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;
use vmpool_test_cluster::access::Access;
use vmpool_test_cluster::{Error, Result, poll};

/// Longer than the deletion of any namespace takes.
const DEADLINE: Duration = Duration::from_mins(2);

/// Creates a namespace.
pub(crate) async fn create(access: &Access, name: &str) -> Result<()> {
    let object = serde_json::from_value(json!({ "metadata": { "name": name } }))
        .map_err(Error::json("writing a namespace"))?;
    let created = api(access).create(&PostParams::default(), &object).await;
    created.map(drop).map_err(Error::api(format!("creating the namespace {name}")))
}

fn api(access: &Access) -> Api<Namespace> {
    Api::all(access.client.clone())
}

/// Requests the deletion of a namespace.
pub(crate) async fn delete(access: &Access, name: &str) -> Result<()> {
    let deleted = api(access).delete(name, &DeleteParams::default()).await;
    deleted.map(drop).map_err(Error::api(format!("deleting the namespace {name}")))
}

/// Waits until a namespace is deleted. Returns how long that took.
pub(crate) async fn until_gone(access: &Access, name: &str) -> Result<Duration> {
    let begin = Instant::now();
    poll::poll_until(
        || format!("the namespace {name} is gone"),
        DEADLINE,
        async || {
            let found = api(access).get_opt(name).await;
            let found = found.map_err(Error::api(format!("reading the namespace {name}")))?;
            Ok(found.map_or(Ok(()), |namespace| Err(format!("{:#?}", namespace.status))))
        },
    )
    .await?;
    Ok(begin.elapsed())
}

/// Waits until the status of a namespace reports that an APIService prevents its deletion.
pub(crate) async fn until_stuck(access: &Access, name: &str, service: &str) -> Result<()> {
    let group = service.split_once('.').unwrap_or_default().1;
    poll::poll_until(
        || format!("the namespace {name} waits for {service}"),
        DEADLINE,
        async || {
            let found = api(access).get(name).await;
            let found = found.map_err(Error::api(format!("reading the namespace {name}")))?;
            let conditions = found.status.and_then(|status| status.conditions).unwrap_or_default();
            let is_stuck = conditions.iter().any(|condition| {
                condition.type_ == "NamespaceDeletionDiscoveryFailure"
                    && condition.status == "True"
                    && condition.message.as_deref().is_some_and(|message| message.contains(group))
            });
            Ok(if is_stuck { Ok(()) } else { Err(format!("{conditions:?}")) })
        },
    )
    .await
}
