//! The webhook that sets `replicas` of KubeVirt pools without it.
//!
//! The definition of vmpool has a default. That of KubeVirt has none, and a pool without the field has no
//! scale that an autoscaler can read. The controller counts one machine for such a pool, also without this
//! webhook.

use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, State as Extract};
use axum::response::Response;
use axum::routing::post;
use http::HeaderMap;
use vmpool_platforms::kubevirt::admission::{DEFAULTS_PATH, with_replicas};
use vmpool_runtime::https::Peer;

use crate::handlers::serve_review;
use crate::metrics::Path;
use crate::review::{ReviewAnswer, ReviewRequest};
use crate::state::PlatformState;

/// The webhook, in a program that serves these pools.
pub(crate) fn replicas_default_routes(state: PlatformState) -> Router {
    Router::new().route(DEFAULTS_PATH, post(serve_replicas_default)).with_state(state)
}

async fn serve_replicas_default(
    Extract(state): Extract<PlatformState>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    serve_review(&state, state.rules.kind(), Path::PoolDefaults, peer, &headers, body, async |request, _| {
        (answer_with_replicas(request), Vec::new())
    })
    .await
}

/// Allows the request, and sets the field if it is absent.
fn answer_with_replicas(request: &ReviewRequest) -> ReviewAnswer {
    let is_written = ["CREATE", "UPDATE"].contains(&&*request.operation) && request.sub_resource.is_empty();
    match with_replicas(&request.object).filter(|_| is_written) {
        Some(new) => ReviewAnswer::patched(json_patch::diff(&request.object, &new)),
        None => ReviewAnswer::allowed(),
    }
}
