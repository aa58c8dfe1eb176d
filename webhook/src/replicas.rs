//! The webhook that sets `replicas` of KubeVirt pools without it.
//!
//! The definition of vmpool has a default. That of KubeVirt has none, and a pool without the field has no scale that an autoscaler
//! can read. The controller counts one machine for such a pool, also without this webhook.

use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, State as Extract};
use axum::response::Response;
use axum::routing::post;
use http::HeaderMap;
use vmpool_platforms::kubevirt::admission::{DEFAULTS_PATH, with_replicas};
use vmpool_runtime::https::Peer;

use crate::handlers::handle;
use crate::metrics::Path;
use crate::review::{Answer, Request};
use crate::state::PlatformState;

/// The webhook, in a program that serves these pools.
pub(crate) fn routes(state: PlatformState) -> Router {
    Router::new().route(DEFAULTS_PATH, post(complete)).with_state(state)
}

async fn complete(
    Extract(state): Extract<PlatformState>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    handle(&state, state.rules.kind(), Path::PoolDefaults, peer, &headers, body, async |request, _| {
        (completed(request), Vec::new())
    })
    .await
}

/// Allows the request, and sets the field if it is absent.
fn completed(request: &Request) -> Answer {
    let is_written = ["CREATE", "UPDATE"].contains(&&*request.operation) && request.sub_resource.is_empty();
    match with_replicas(&request.object).filter(|_| is_written) {
        Some(new) => Answer::patched(json_patch::diff(&request.object, &new)),
        None => Answer::allowed(),
    }
}
