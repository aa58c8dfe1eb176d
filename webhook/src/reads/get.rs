//! Reads one object and decodes only the fields that rules use.

use kube::Client;
use serde_json::Value;
use vmpool_engine::admission::Found;

use super::exchange::{MAX_SIZE, body, error, send};
use crate::bounded_json;

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
    let response = send(client, request).await?;
    let status = response.status();
    let body = body(response, limit).await?;
    if status == http::StatusCode::NOT_FOUND {
        Ok(Found::Absent)
    } else if status.is_success() {
        let value = bounded_json::read(&body, selection.fields, limit)
            .map_err(|error| format!("decoding the response: {error}"))?;
        Ok(Found::There(value))
    } else {
        Err(error(status, &bounded_json::read(&body, &["message"], limit).unwrap_or_default()))
    }
}
