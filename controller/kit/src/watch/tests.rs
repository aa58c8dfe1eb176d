use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{Request, Response};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::client::Body;
use serde_json::json;
use vmpool_runtime::testing::{ManualClock, test_env};

use super::*;
use crate::sink::{MapSink, Objects};

/// An API server with empty lists and with watches that end at once. It counts the watches.
fn short_watches(count: &Arc<AtomicUsize>) -> Client {
    let count = count.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let body = if is_watch {
            count.fetch_add(1, Ordering::Relaxed);
            String::new()
        } else {
            json!({ "metadata": { "resourceVersion": "7" }, "items": [] }).to_string()
        };
        async move { Ok::<_, std::convert::Infallible>(Response::new(Body::from(body.into_bytes()))) }
    });
    Client::new(service, "default")
}

#[tokio::test]
async fn watches_that_end_at_once_restart_with_backoff() {
    let clock = ManualClock::new();
    let env = test_env(&clock, 1);
    let count = Arc::new(AtomicUsize::new(0));
    let _watch = env.spawn(
        "watch",
        list_and_watch::<ConfigMap>(
            Api::all(short_watches(&count)),
            env.clone(),
            WatchScope::default(),
            MapSink::new(Some, |_: &Objects<ConfigMap>| {}),
        ),
    );
    clock.advance(Duration::from_mins(1)).await;
    let watches = count.load(Ordering::Relaxed);
    assert!((5..20).contains(&watches), "{watches} watches in a minute");
}
