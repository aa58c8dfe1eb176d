use std::time::Duration;

use axum::http::StatusCode;

use super::SOON;
use super::world::{H1, H2, World};
use crate::https::Limits;

fn brisk() -> Limits {
    Limits { linger: Duration::ZERO, request_deadline: Duration::from_secs(5), ..Limits::default() }
}

#[tokio::test]
async fn requests_under_way_are_answered_and_nothing_new_is_taken() {
    for alpn in [H1, H2] {
        let mut world = World::new(brisk()).await;
        let mut busy = world.connect(alpn, None).await.unwrap();
        let mut idle = world.connect(alpn, None).await.unwrap();
        assert_eq!(idle.get("/peer").await.unwrap().0, StatusCode::OK);
        let asking = world.env.spawn("asking", async move {
            let (status, body) = busy.get("/wait").await.unwrap();
            assert_eq!((status, body.as_str()), (StatusCode::OK, "done"));
            assert!(busy.get("/peer").await.is_err(), "the connection ends with its answer");
        });
        world.until(|| *world.waiting.lock() == 1).await;
        world.stop.cancel();
        world.until(|| world.metrics.open() == 1).await;
        assert!(world.connect(alpn, None).await.is_err(), "{alpn:?}: not listening any more");
        assert!(idle.get("/peer").await.is_err());
        world.gate.notify_waiters();
        asking.join().await.unwrap();
        let server = world.server.take().unwrap();
        world.env.timeout(SOON, server.join()).await.unwrap().unwrap();
        assert_eq!(world.metrics.open(), 0);
    }
}

#[tokio::test]
async fn a_request_that_does_not_end_holds_the_shutdown_up_no_longer_than_its_deadline() {
    let limits = Limits { request_deadline: Duration::from_millis(200), ..brisk() };
    let mut world = World::new(limits).await;
    // Not even a request: a client that just holds on.
    let _stream = world.tls(H1, None).await.unwrap();
    let _raw = tokio::net::TcpStream::connect(world.address).await.unwrap();
    world.until(|| world.metrics.open() == 2).await;
    world.stop.cancel();
    let server = world.server.take().unwrap();
    world.env.timeout(SOON, server.join()).await.unwrap().unwrap();
    world.until(|| world.metrics.open() == 0).await;
}

#[tokio::test]
async fn those_who_come_late_are_served_while_it_lingers() {
    let mut world = World::manual(Limits { linger: Duration::from_secs(3), ..Limits::default() }).await;
    world.stop.cancel();
    world.pass(Duration::from_secs(2)).await;
    let mut late = world.connect(H2, None).await.unwrap();
    assert_eq!(late.get("/peer").await.unwrap().0, StatusCode::OK);
    world.pass(Duration::from_secs(2)).await;
    world.until(|| world.metrics.open() == 0).await;
    let server = world.server.take().unwrap();
    world.env.timeout(SOON, server.join()).await.unwrap().unwrap();
}

/// A connection that is closed while its client sends costs a request, and clients cannot tell when that will be.
#[tokio::test]
async fn a_connection_ends_with_an_answer_while_the_server_lingers() {
    let world = World::manual(Limits { linger: Duration::from_secs(3), ..Limits::default() }).await;
    let mut one = world.connect(H1, None).await.unwrap();
    let mut two = world.connect(H2, None).await.unwrap();
    for client in [&mut one, &mut two] {
        assert_eq!(client.get("/peer").await.unwrap().0, StatusCode::OK);
        assert_eq!(client.get("/peer").await.unwrap().0, StatusCode::OK, "it goes on for now");
    }
    world.stop.cancel();
    world.pass(Duration::from_secs(1)).await;
    for client in [&mut one, &mut two] {
        assert_eq!(client.get("/peer").await.unwrap().0, StatusCode::OK, "still served");
    }
    // HTTP/2 has better means: it is told which of its requests were not seen.
    world.until(|| world.metrics.open() == 1).await;
    assert!(one.get("/peer").await.is_err());
    assert_eq!(two.get("/peer").await.unwrap().0, StatusCode::OK);
    world.pass(Duration::from_secs(3)).await;
    world.until(|| world.metrics.open() == 0).await;
}

#[tokio::test]
async fn dropping_the_server_ends_its_connections() {
    let mut world = World::new(Limits::default()).await;
    let mut client = world.connect(H2, None).await.unwrap();
    assert_eq!(client.get("/peer").await.unwrap().0, StatusCode::OK);
    drop(world.server.take());
    world.until(|| world.metrics.open() == 0).await;
    assert!(client.get("/peer").await.is_err());
}
