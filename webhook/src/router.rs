//! The paths of the webhook.

use axum::Router;
use axum::routing::post;

use crate::handlers;
use crate::state::State;

/// The path for reviews of creates and updates of pools.
pub const POOL_PATH: &str = "/validate-virtualization-deckhouse-io-v1alpha2-virtualmachinepool";
/// The path for reviews of updates of the scale subresource of pools.
pub const SCALE_PATH: &str = "/validate-virtualization-deckhouse-io-v1alpha2-virtualmachinepool-scale";

/// The two webhooks. Other paths return 404, and methods other than POST return 405.
pub fn router(state: State) -> Router {
    Router::new()
        .route(POOL_PATH, post(handlers::pool))
        .route(SCALE_PATH, post(handlers::scale))
        .with_state(state)
}

/// The router while the feature gate VirtualMachinePool is off. Every path returns 404.
pub fn closed() -> Router {
    Router::new()
}
