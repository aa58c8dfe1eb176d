use std::time::Duration;

use axum::http::StatusCode;

use super::SOON;
use super::world::{H1, H2, HttpsWorld};
use crate::https::Limits;

fn brisk() -> Limits {
    Limits { linger: Duration::ZERO, request_deadline: Duration::from_secs(5), ..Limits::default() }
}

#[tokio::test]
async fn requests_in_flight_are_answered_and_new_connections_are_refused() {
    for alpn in [H1, H2] {
        let mut world = HttpsWorld::new(brisk()).await;
        let mut busy = world.connect(alpn, None).await.unwrap();
        let mut idle = world.connect(alpn, None).await.unwrap();
        assert_eq!(idle.get("/peer").await.unwrap().0, StatusCode::OK);
        let asking = world.env.spawn("asking", async move {
            let (status, body) = busy.get("/wait").await.unwrap();
            assert_eq!((status, body.as_str()), (StatusCode::OK, "done"));
            assert!(busy.get("/peer").await.is_err(), "the response closes the connection");
        });
        world.until(|| *world.waiting.lock() == 1).await;
        world.stop.cancel();
        world.until(|| world.metrics.open() == 1).await;
        assert!(world.connect(alpn, None).await.is_err(), "{alpn:?}: the server does not listen");
        assert!(idle.get("/peer").await.is_err());
        world.gate.notify_waiters();
        asking.join().await.unwrap();
        let server = world.server.take().unwrap();
        world.env.timeout(SOON, server.join()).await.unwrap().unwrap();
        assert_eq!(world.metrics.open(), 0);
    }
}

#[tokio::test]
async fn a_request_that_does_not_end_delays_the_shutdown_until_its_deadline() {
    let limits = Limits { request_deadline: Duration::from_millis(200), ..brisk() };
    let mut world = HttpsWorld::new(limits).await;
    // A client that keeps its connection open without a request.
    let _stream = world.tls(H1, None).await.unwrap();
    let _raw = tokio::net::TcpStream::connect(world.address).await.unwrap();
    world.until(|| world.metrics.open() == 2).await;
    world.stop.cancel();
    let server = world.server.take().unwrap();
    world.env.timeout(SOON, server.join()).await.unwrap().unwrap();
    world.until(|| world.metrics.open() == 0).await;
}

#[tokio::test]
async fn new_connections_are_served_while_the_server_lingers() {
    let mut world = HttpsWorld::manual(Limits { linger: Duration::from_secs(3), ..Limits::default() }).await;
    world.stop.cancel();
    world.pass(Duration::from_secs(2)).await;
    let mut late = world.connect(H2, None).await.unwrap();
    assert_eq!(late.get("/peer").await.unwrap().0, StatusCode::OK);
    world.pass(Duration::from_secs(2)).await;
    world.until(|| world.metrics.open() == 0).await;
    let server = world.server.take().unwrap();
    world.env.timeout(SOON, server.join()).await.unwrap().unwrap();
}

/// If the server closes a connection while a client sends a request, the request fails.
#[tokio::test]
async fn a_response_closes_its_connection_while_the_server_lingers() {
    let world = HttpsWorld::manual(Limits { linger: Duration::from_secs(3), ..Limits::default() }).await;
    let mut one = world.connect(H1, None).await.unwrap();
    let mut two = world.connect(H2, None).await.unwrap();
    for client in [&mut one, &mut two] {
        assert_eq!(client.get("/peer").await.unwrap().0, StatusCode::OK);
        assert_eq!(client.get("/peer").await.unwrap().0, StatusCode::OK, "the connection stays open");
    }
    world.stop.cancel();
    world.pass(Duration::from_secs(1)).await;
    for client in [&mut one, &mut two] {
        assert_eq!(client.get("/peer").await.unwrap().0, StatusCode::OK, "still served");
    }
    // With HTTP/2, the server reports which requests it has not handled.
    world.until(|| world.metrics.open() == 1).await;
    assert!(one.get("/peer").await.is_err());
    assert_eq!(two.get("/peer").await.unwrap().0, StatusCode::OK);
    world.pass(Duration::from_secs(3)).await;
    world.until(|| world.metrics.open() == 0).await;
}

#[tokio::test]
async fn dropping_the_server_closes_its_connections() {
    let mut world = HttpsWorld::new(Limits::default()).await;
    let mut client = world.connect(H2, None).await.unwrap();
    assert_eq!(client.get("/peer").await.unwrap().0, StatusCode::OK);
    drop(world.server.take());
    world.until(|| world.metrics.open() == 0).await;
    assert!(client.get("/peer").await.is_err());
}
