//! The paths of the webhook.

use axum::Router;
use axum::routing::post;

use crate::state::{PlatformState, ReviewState};
use crate::{handlers, images, replicas, types};

/// The webhooks of each platform, and those of images, instance types and preferences. Other paths return
/// 404, and methods other than POST return 405.
pub fn webhook_router(state: &ReviewState) -> Router {
    let mut router = Router::new();
    for rules in state.rules.clone() {
        let (pool_path, guard) = (rules.kind().pool_path, rules.scale_guard());
        let of_kubevirt = rules.kind().group == types::POOL_GROUP;
        let platform = PlatformState { rules, shared: state.clone() };
        if of_kubevirt {
            router = router.merge(replicas::replicas_default_routes(platform.clone()));
        }
        router = router.merge(platform_routes(platform, pool_path, guard.map(|guard| guard.path)));
    }
    let serves_pools = state.rules.iter().any(|rules| rules.kind().group == types::POOL_GROUP);
    if serves_pools {
        router = router.merge(types::pool_routes(state));
    }
    if state.types || serves_pools {
        router = router.merge(types::object_routes(state));
    }
    if state.images {
        router = router.merge(images::image_routes(state));
    }
    if state.types {
        router = router.merge(types::machine_routes(state));
    }
    router
}

/// The webhook for pools of one platform, and the one for their scale, if the platform has a scale guard.
fn platform_routes(state: PlatformState, pool_path: &str, scale_path: Option<&str>) -> Router {
    let mut router = Router::new().route(pool_path, post(handlers::serve_pool_review));
    if let Some(path) = scale_path {
        router = router.route(path, post(handlers::serve_scale_review));
    }
    router.with_state(state)
}

/// The router while no feature gate of the webhook is on. Every path returns 404.
pub fn empty_router() -> Router {
    Router::new()
}
