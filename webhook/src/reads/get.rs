//! Reads one object and decodes only the fields that rules use. Users can create objects of any size that etcd accepts.

use http_body_util::{BodyExt as _, Limited};
use kube::Client;
use serde_json::Value;
use vmpool_engine::admission::Found;
use vmpool_runtime::telemetry;

use crate::bounded_json;

/// The maximum size of an object in bytes, as text and in memory. etcd accepts 1.5 MiB.
const MAX_SIZE: usize = 2 << 20;
/// The maximum size of a list in bytes, as text and in memory.
const MAX_SIZE_OF_LIST: usize = 8 << 20;

/// What is decoded of a response.
#[derive(Clone, Copy, Debug)]
pub(super) struct Selection<'a> {
    /// Paths of fields.
    pub(super) fields: &'a [&'a str],
    /// Whether it is a list of objects.
    pub(super) is_list: bool,
}

/// Reads the object at a path.
pub(super) async fn get(client: &Client, selection: Selection<'_>, path: &str) -> Found<Value> {
    read(client, selection, path).await.unwrap_or_else(Found::Failed)
}

async fn read(client: &Client, selection: Selection<'_>, path: &str) -> Result<Found<Value>, String> {
    let limit = if selection.is_list { MAX_SIZE_OF_LIST } else { MAX_SIZE };
    let request =
        http::Request::get(path).body(kube::client::Body::empty()).map_err(|error| error.to_string())?;
    let response = client.send(request).await.map_err(|error| telemetry::with_causes(&error))?;
    let status = response.status();
    let body =
        Limited::new(response.into_body(), limit).collect().await.map_err(|error| error.to_string())?;
    let body = body.to_bytes();
    if status == http::StatusCode::NOT_FOUND {
        Ok(Found::Absent)
    } else if status.is_success() {
        let value = bounded_json::read(&body, selection.fields, limit)
            .map_err(|error| format!("decoding the response: {error}"))?;
        Ok(Found::There(value))
    } else {
        let message = bounded_json::read(&body, &["message"], limit).ok();
        let message = message.as_ref().and_then(|status| status["message"].as_str());
        Err(message.map_or_else(|| format!("the API server returned {status}"), str::to_owned))
    }
}
