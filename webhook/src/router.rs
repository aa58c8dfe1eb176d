//! The paths of the webhook.

use std::sync::Arc;

use axum::Router;
use axum::routing::post;

use crate::state::{ReviewState, ServedWebhook};
use crate::webhook::WebhookEntry;
use crate::{autoscalers, handlers, images, pools, types};

/// The webhooks of each platform, and those of images, instance types and preferences. Other paths return
/// 404, and methods other than POST return 405.
pub fn webhook_router(state: &ReviewState) -> Router {
    let routes = served_webhooks(state).into_iter().map(|webhook| {
        let path = webhook.path;
        let served = ServedWebhook { state: state.clone(), webhook: Arc::new(webhook) };
        Router::new().route(path, post(handlers::serve_review)).with_state(served)
    });
    routes.fold(Router::new(), Router::merge)
}

/// The webhooks that the program serves.
fn served_webhooks(state: &ReviewState) -> Vec<WebhookEntry> {
    let mut webhooks: Vec<WebhookEntry> = state.rules.iter().flat_map(pools::pool_webhooks).collect();
    let serves_pools = state.rules.iter().any(|rules| rules.kind().group == types::POOL_GROUP);
    if serves_pools {
        webhooks.push(types::pool_webhook());
    }
    if state.types || serves_pools {
        webhooks.extend(types::type_webhooks(state.types));
    }
    if state.images {
        webhooks.extend(images::image_webhooks(&state.allowed_urls));
    }
    if state.autoscalers {
        webhooks.push(autoscalers::autoscaler_webhook());
    }
    if state.types {
        webhooks.extend(types::machine_webhooks());
    }
    webhooks
}

/// The router while no feature gate of the webhook is on. Every path returns 404.
pub fn empty_router() -> Router {
    Router::new()
}
