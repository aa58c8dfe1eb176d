use std::sync::atomic::{AtomicUsize, Ordering};

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::json;
use vmpool_engine::Disk;
use vmpool_engine::ledger::LedgerCache as _;
use vmpool_platforms::dvp::{Dvp, DvpMachineObject, DvpPoolObject};
use vmpool_platforms::{DiskOf, Disks};
use vmpool_runtime::testing::{ManualClock, test_env};

use super::*;

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
        "watch of disks",
        list_and_watch::<DiskOf<Dvp>>(
            Api::all(short_watches(&count)),
            env.clone(),
            WatchScope::default(),
            CacheSink {
                cache: Arc::<ObjectCache<Disk>>::default(),
                env: env.clone(),
                metrics: ControllerMetrics::new(&env),
                resource: WatchResource::Disks,
                read: |disk| <Dvp as Disks<DvpPoolObject, DvpMachineObject>>::read(&disk),
                wake: |_| {},
            },
        ),
    );
    clock.advance(Duration::from_mins(1)).await;
    let watches = count.load(Ordering::Relaxed);
    assert!((5..20).contains(&watches), "{watches} watches in a minute");
}

#[test]
fn a_list_is_no_evidence_about_a_write_that_was_sent_after_it_began() {
    let clock = ManualClock::new();
    let env = test_env(&clock, 1);
    let cache = Arc::<ObjectCache<Disk>>::default();
    let mut sink = CacheSink {
        cache: cache.clone(),
        env: env.clone(),
        metrics: ControllerMetrics::new(&env),
        resource: WatchResource::Disks,
        read: |disk: DiskOf<Dvp>| <Dvp as Disks<DvpPoolObject, DvpMachineObject>>::read(&disk),
        wake: |_| {},
    };
    sink.list_begins();
    let sent = env.uptime();
    sink.list_ends();
    assert!(!cache.of("team-a").relisted_since(sent), "the list may lack the object");
}
