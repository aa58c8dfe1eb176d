//! Reads one object and decodes only the fields that rules use.

use kube::Client;
use serde_json::Value;
use vmpool_engine::admission::LookupOutcome;

use super::exchange::{ExchangeError, MAX_SIZE, read_response_body, send_request, status_message};
use crate::bounded_json;

/// The maximum size of a list in bytes, as text and in memory.
const MAX_SIZE_OF_LIST: usize = 8 << 20;

/// What is decoded of a response.
#[derive(Clone, Copy, Debug)]
pub(super) struct FieldSelection<'a> {
    /// Paths of fields.
    pub(super) fields: &'a [&'a str],
    /// Whether it is a list of objects.
    pub(super) is_list: bool,
}

/// Reads the object at a path.
pub(super) async fn get_object(
    client: &Client,
    selection: FieldSelection<'_>,
    path: &str,
) -> LookupOutcome<Value> {
    let found = try_get_object(client, selection, path).await;
    found.unwrap_or_else(|error| LookupOutcome::Failed(error.to_string()))
}

async fn try_get_object(
    client: &Client,
    selection: FieldSelection<'_>,
    path: &str,
) -> Result<LookupOutcome<Value>, ExchangeError> {
    let limit = if selection.is_list { MAX_SIZE_OF_LIST } else { MAX_SIZE };
    let request = http::Request::get(path).body(kube::client::Body::empty())?;
    let response = send_request(client, request).await?;
    let status = response.status();
    let body = read_response_body(response, limit).await?;
    if status == http::StatusCode::NOT_FOUND {
        Ok(LookupOutcome::Absent)
    } else if status.is_success() {
        Ok(LookupOutcome::There(bounded_json::decode_selected_fields(&body, selection.fields, limit)?))
    } else {
        let message = bounded_json::decode_selected_fields(&body, &["message"], limit).unwrap_or_default();
        Err(ExchangeError::Refused(status_message(status, &message)))
    }
}
