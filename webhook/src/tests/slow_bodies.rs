//! Clients that announce bodies and do not send them do not hold up reviews.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use futures::StreamExt as _;
use futures::future::{Either, select};
use futures::stream::FuturesUnordered;
use http::{Request, StatusCode, header};
use serde_json::Value;
use tower::ServiceExt as _;
use vmpool_runtime::env::Clock as _;
use vmpool_runtime::https::Peer;

use super::{POOL_PATH, World, pool, review};
use crate::{Callers, MAX_LENGTH};

/// The number of addresses of slow clients.
const ADDRESSES: u8 = 9;
/// The number of bodies that each of them announces, again and again.
const ANNOUNCED: usize = 16;

/// Announces a body of the maximum length, and sends nothing.
async fn announce(world: &World, address: u8) -> StatusCode {
    let silent = Body::from_stream(futures::stream::pending::<Result<Vec<u8>, Infallible>>());
    let mut request = Request::post(POOL_PATH)
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::CONTENT_LENGTH, MAX_LENGTH)
        .body(silent)
        .unwrap();
    let peer = Peer { certificate: None, address: ([10, 0, 1, address], 40_000).into() };
    request.extensions_mut().insert(peer);
    world.router.clone().oneshot(request).await.unwrap().status()
}

#[tokio::test]
async fn announced_bodies_do_not_hold_up_a_review() {
    let world = World { certificate: None, ..World::accepting(Callers::Any).add_objects() };
    let world = &world;
    let mut slow = FuturesUnordered::new();
    for address in 0..ADDRESSES {
        for _ in 0..ANNOUNCED {
            slow.push(async move {
                loop {
                    assert_eq!(announce(world, address).await, StatusCode::REQUEST_TIMEOUT);
                }
            });
        }
    }
    let mut attack = std::pin::pin!(async { while let Some(()) = slow.next().await {} });
    for number in 0..5 {
        let start = world.clock.uptime();
        // The bodies of the attack come first.
        assert!(futures::poll!(attack.as_mut()).is_pending());
        let reviewed = world.post(POOL_PATH, review("CREATE", "", &Value::Null, &pool()).to_string());
        let second = async {
            for _ in 0..200 {
                world.clock.advance(Duration::from_millis(50)).await;
            }
        };
        let second = futures::future::join(second, attack.as_mut());
        match select(std::pin::pin!(reviewed), std::pin::pin!(second)).await {
            Either::Left(((status, _), _)) => assert_eq!(status, StatusCode::OK),
            Either::Right(_) => unreachable!("the attack does not end"),
        }
        let took = world.clock.uptime().saturating_sub(start);
        assert!(took < Duration::from_secs(1), "review {number} took {took:?}");
    }
}
