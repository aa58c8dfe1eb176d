//! One object of the API server, of which only what a rule reads is kept: users can make it as large as etcd stores it.

use http_body_util::{BodyExt as _, Limited};
use kube::Client;
use serde_json::Value;
use vmpool_engine::admission::{Found, Lookup, Subject};
use vmpool_runtime::telemetry;

use crate::tree;

/// Bytes of an object, or of the memory that its values take. etcd stores 1.5 MiB.
const MOST: usize = 2 << 20;
/// The same of all classes together.
const MOST_OF_CLASSES: usize = 8 << 20;

/// How much of an object, or of all classes, is read.
fn most(lookup: &Lookup) -> usize {
    if lookup.subject == Subject::Class { MOST_OF_CLASSES } else { MOST }
}

/// Reads the object of a path.
pub(super) async fn get(client: &Client, lookup: &Lookup, path: &str) -> Found<Value> {
    read(client, lookup, path).await.unwrap_or_else(Found::Failed)
}

async fn read(client: &Client, lookup: &Lookup, path: &str) -> Result<Found<Value>, String> {
    let (fields, most) = (lookup.fields, most(lookup));
    let request =
        http::Request::get(path).body(kube::client::Body::empty()).map_err(|error| error.to_string())?;
    let response = client.send(request).await.map_err(|error| telemetry::with_causes(&error))?;
    let status = response.status();
    let body = Limited::new(response.into_body(), most).collect().await.map_err(|error| error.to_string())?;
    let body = body.to_bytes();
    if status == http::StatusCode::NOT_FOUND {
        Ok(Found::Absent)
    } else if status.is_success() {
        let value =
            tree::read(&body, fields, most).map_err(|error| format!("the answer is of no use: {error}"))?;
        Ok(Found::There(value))
    } else {
        let message = tree::read(&body, &["message"], most).ok();
        let message = message.as_ref().and_then(|status| status["message"].as_str());
        Err(message.map_or_else(|| format!("the API server answered {status}"), str::to_owned))
    }
}
