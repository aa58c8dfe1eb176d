mod load;
mod shutdown;
mod slow;
mod world;

use std::time::Duration;

use axum::http::StatusCode;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::metrics::Refusal;
use super::{Limits, connection};
use crate::tls::pki::Ca;
use crate::tls::{ClientCas, ServingIdentity};
use world::{H1, H2, HttpsWorld};

/// A deadline for operations on the loopback interface.
const SOON: Duration = Duration::from_secs(10);

#[tokio::test]
async fn both_protocols_are_served_with_the_peer() {
    let world = HttpsWorld::new(Limits::default()).await;
    for alpn in [H1, H2] {
        let mut client = world.connect(alpn, None).await.unwrap();
        let (status, body) = client.get("/peer").await.unwrap();
        assert_eq!((status, body.as_str()), (StatusCode::OK, "127.0.0.1 none"));
    }
}

#[tokio::test]
async fn a_body_at_the_limit_is_accepted_and_a_longer_one_is_refused() {
    let world = HttpsWorld::new(Limits { body_bytes: 1000, ..Limits::default() }).await;
    for alpn in [H1, H2] {
        for chunked in [false, true] {
            let mut client = world.connect(alpn, None).await.unwrap();
            let (status, body) = client.post("/echo", vec![7; 1000], chunked).await.unwrap();
            assert_eq!((status, body.len()), (StatusCode::OK, 1000));
            let (status, body) = client.post("/echo", vec![7; 1001], chunked).await.unwrap();
            assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE, "{alpn:?} {chunked} {body}");
        }
    }
    assert_eq!(world.metrics.count(Refusal::BodyTooLarge), 2, "the requests with a declared length");
}

#[tokio::test]
async fn a_refusal_is_a_status_object() {
    let world = HttpsWorld::new(Limits { body_bytes: 10, ..Limits::default() }).await;
    let mut client = world.connect(H2, None).await.unwrap();
    let (_, body) = client.post("/echo", vec![7; 11], false).await.unwrap();
    let status: kube::core::Status = serde_json::from_str(&body).unwrap();
    assert_eq!((status.code, status.reason.as_str()), (413, "RequestEntityTooLarge"));
    assert_eq!(status.message, "the body is longer than 10 bytes, the maximum");
}

#[tokio::test]
async fn headers_that_are_too_large_are_refused() {
    let world = HttpsWorld::new(Limits { header_bytes: 8192, ..Limits::default() }).await;
    for alpn in [H1, H2] {
        let mut client = world.connect(alpn, None).await.unwrap();
        let answer = client.get_with("/peer", &"x".repeat(20_000)).await;
        let status = answer.map(|(status, _)| status).ok();
        assert_eq!(status, Some(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE), "{alpn:?}");
    }
}

#[tokio::test]
async fn a_handler_that_takes_too_long_times_out() {
    let world =
        HttpsWorld::new(Limits { request_deadline: Duration::from_millis(50), ..Limits::default() }).await;
    let mut client = world.connect(H2, None).await.unwrap();
    let (status, body) = client.get("/never").await.unwrap();
    assert_eq!(status, StatusCode::GATEWAY_TIMEOUT);
    assert!(body.contains(r#""reason":"Timeout""#), "{body}");
    assert_eq!(world.metrics.count(Refusal::Deadline), 1);
}

#[tokio::test]
async fn a_body_that_does_not_end_times_out() {
    let limits = Limits { request_deadline: Duration::from_millis(50), ..Limits::default() };
    let world = HttpsWorld::new(limits).await;
    let mut stream = world.tls(H1, None).await.unwrap();
    stream
        .write_all(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\nConnection: close\r\n\r\ndrip")
        .await
        .unwrap();
    let mut answer = vec![0; 12];
    world.env.timeout(SOON, stream.read_exact(&mut answer)).await.unwrap().unwrap();
    assert_eq!(answer, b"HTTP/1.1 504");
}

#[tokio::test]
async fn a_panic_is_answered_and_counted_and_affects_no_other_request() {
    let world = HttpsWorld::new(Limits::default()).await;
    for alpn in [H1, H2] {
        let mut client = world.connect(alpn, None).await.unwrap();
        let (status, body) = client.get("/panic").await.unwrap();
        assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
        assert!(body.contains("InternalError") && !body.contains("secret"), "{body}");
        assert_eq!(client.get("/peer").await.unwrap().0, StatusCode::OK, "the connection stays open");
    }
    assert_eq!(world.metrics.count(Refusal::Panic), 2);
}

#[tokio::test]
async fn a_missing_handshake_times_out() {
    let limits = Limits { handshake_deadline: Duration::from_millis(50), ..Limits::default() };
    let world = HttpsWorld::new(limits).await;
    let mut stream = tokio::net::TcpStream::connect(world.address).await.unwrap();
    let read = world.env.timeout(SOON, stream.read(&mut [0; 1])).await.unwrap();
    assert_eq!(read.unwrap_or(0), 0);
    assert_eq!(world.metrics.count(Refusal::Handshake), 1);
}

#[tokio::test]
async fn slow_headers_time_out_by_the_clock_of_the_environment() {
    let world = HttpsWorld::manual(Limits::default()).await;
    let mut stream = world.tls(H1, None).await.unwrap();
    stream.write_all(b"GET /peer HTTP/1.1\r\nHost:").await.unwrap();
    world.pass(connection::HEAD_DEADLINE.saturating_sub(Duration::from_secs(1))).await;
    assert_eq!(world.metrics.open(), 1);
    world.pass(Duration::from_secs(1)).await;
    let mut answer = Vec::new();
    drop(world.env.timeout(SOON, stream.read_to_end(&mut answer)).await.unwrap());
    world.until(|| world.metrics.open() == 0).await;
}

#[tokio::test]
async fn an_idle_connection_is_closed_gracefully() {
    let world = HttpsWorld::manual(Limits::default()).await;
    let mut client = world.connect(H2, None).await.unwrap();
    assert_eq!(client.get("/peer").await.unwrap().0, StatusCode::OK);
    world.pass(connection::IDLE.saturating_sub(Duration::from_secs(10))).await;
    assert_eq!(client.get("/peer").await.unwrap().0, StatusCode::OK, "still there");
    world.pass(connection::IDLE.saturating_sub(Duration::from_secs(10))).await;
    assert_eq!(world.metrics.open(), 1, "the connection had a recent request");
    world.pass(Duration::from_secs(20)).await;
    world.until(|| world.metrics.open() == 0).await;
}

#[tokio::test]
async fn more_connections_than_allowed_wait_while_all_have_requests() {
    let world = HttpsWorld::new(Limits { connections: 2, ..Limits::default() }).await;
    let mut clients = Vec::new();
    for _ in 0..2 {
        let mut client = world.connect(H2, None).await.unwrap();
        clients.push(world.env.spawn("client", async move {
            assert_eq!(client.get("/wait").await.unwrap().0, StatusCode::OK);
        }));
    }
    world.until(|| *world.waiting.lock() == 2).await;
    let third = world.connect(H2, None);
    let mut third = std::pin::pin!(third);
    let early = world.env.timeout(Duration::from_millis(200), third.as_mut()).await;
    assert!(early.is_err(), "the third handshake waits");
    world.gate.notify_waiters();
    for client in clients {
        client.join().await.unwrap();
    }
    let mut third = world.env.timeout(SOON, third).await.unwrap().unwrap();
    assert_eq!(third.get("/peer").await.unwrap().0, StatusCode::OK);
}

#[tokio::test]
async fn without_a_certificate_handshakes_fail_and_with_one_they_succeed() {
    let (identity, clients) = (ServingIdentity::new(), ClientCas::none());
    let world = HttpsWorld::with(Limits::default(), identity.clone(), clients).await;
    assert!(world.connect(H2, None).await.is_err());
    let leaf = world.ca.serving("localhost");
    identity.replace(leaf.chain.as_bytes(), leaf.key.as_bytes()).unwrap();
    assert!(world.connect(H2, None).await.is_ok());
}

#[tokio::test]
async fn client_certificates_are_verified_and_missing_ones_are_marked() {
    let (ours, theirs) = (Ca::new("ours"), Ca::new("theirs"));
    let world = HttpsWorld::new(Limits::default()).await;
    world.clients.replace(ours.pem().as_bytes()).unwrap();
    for alpn in [H1, H2] {
        let mut without = world.connect(alpn, None).await.unwrap();
        assert_eq!(without.get("/peer").await.unwrap().1, "127.0.0.1 none");
        let mut with = world.connect(alpn, Some(&ours.client(&["front-proxy"]))).await.unwrap();
        assert_eq!(with.get("/peer").await.unwrap().1, "127.0.0.1 front-proxy");
        let mut nameless = world.connect(alpn, Some(&ours.client(&[]))).await.unwrap();
        assert_eq!(nameless.get("/peer").await.unwrap().1, "127.0.0.1 nameless");
        // With TLS 1.3, the client receives the refusal after its part of the handshake.
        let refused = match world.connect(alpn, Some(&theirs.client(&["front-proxy"]))).await {
            Err(_) => true,
            Ok(mut client) => client.get("/peer").await.is_err(),
        };
        assert!(refused, "a certificate of another authority");
        let server_only = match world.connect(alpn, Some(&ours.serving("front-proxy"))).await {
            Err(_) => true,
            Ok(mut client) => client.get("/peer").await.is_err(),
        };
        assert!(server_only, "a certificate without client authentication");
    }
}

#[tokio::test]
async fn replaced_authorities_apply_to_existing_connections() {
    let (old, new) = (Ca::new("old"), Ca::new("new"));
    let world = HttpsWorld::manual(Limits::default()).await;
    world.clients.replace(old.pem().as_bytes()).unwrap();
    let mut client = world.connect(H2, Some(&old.client(&["front-proxy"]))).await.unwrap();
    let mut anonymous = world.connect(H2, None).await.unwrap();
    assert_eq!(client.get("/peer").await.unwrap().1, "127.0.0.1 front-proxy");
    assert_eq!(anonymous.get("/peer").await.unwrap().1, "127.0.0.1 none");

    world.clients.replace(format!("{}{}", old.pem(), new.pem()).as_bytes()).unwrap();
    assert_eq!(
        client.get("/peer").await.unwrap().1,
        "127.0.0.1 front-proxy",
        "the authority is still accepted"
    );
    world.clients.replace(new.pem().as_bytes()).unwrap();
    assert_eq!(client.get("/peer").await.unwrap().1, "127.0.0.1 none", "the authority is no longer accepted");

    // Both connections are closed gracefully.
    world.pass(Duration::from_secs(10)).await;
    world.until(|| world.metrics.open() == 0).await;
    let mut client = world.connect(H2, Some(&new.client(&["front-proxy"]))).await.unwrap();
    assert_eq!(client.get("/peer").await.unwrap().1, "127.0.0.1 front-proxy");
}

#[tokio::test]
async fn idle_connections_are_evicted_when_all_slots_are_in_use() {
    let world = HttpsWorld::new(Limits { connections: 2, ..Limits::default() }).await;
    let mut silent = vec![world.connect(H2, None).await.unwrap(), world.connect(H2, None).await.unwrap()];
    let third = async { world.connect(H2, None).await.unwrap().get("/peer").await };
    let third =
        world.env.timeout(SOON * 2, Box::pin(third)).await.expect("one of the two is evicted").unwrap();
    assert_eq!(third.0, StatusCode::OK);
    assert!(silent.pop().unwrap().get("/peer").await.is_ok(), "the other connection stays open");
}

#[tokio::test]
async fn the_connections_of_one_client_are_limited() {
    let world = HttpsWorld::new(Limits { connections_per_client: 2, ..Limits::default() }).await;
    let mut first = world.connect(H2, None).await.unwrap();
    let _second = world.connect(H2, None).await.unwrap();
    assert!(world.connect(H2, None).await.is_err(), "the third connection is closed");
    assert_eq!(world.metrics.count(Refusal::TooManyConnections), 1);
    assert_eq!(first.get("/peer").await.unwrap().0, StatusCode::OK);
}

#[tokio::test]
async fn requests_beyond_the_limit_are_refused_immediately() {
    let world = HttpsWorld::new(Limits { requests: 2, ..Limits::default() }).await;
    let mut first = world.connect(H2, None).await.unwrap();
    let (waiting, refused) = futures::join!(first.get("/wait"), async {
        world.until(|| *world.waiting.lock() == 1).await;
        let refused = world.connect(H1, None).await.unwrap().get("/peer").await.unwrap();
        world.gate.notify_waiters();
        refused
    });
    assert_eq!((waiting.unwrap().0, refused.0), (StatusCode::OK, StatusCode::TOO_MANY_REQUESTS));
    assert_eq!(world.metrics.count(Refusal::TooManyRequests), 1);
    assert_eq!(first.get("/peer").await.unwrap().0, StatusCode::OK, "its request has ended");
}

#[tokio::test]
async fn a_required_certificate_is_requested_in_the_handshake() {
    let (ours, clients) = (Ca::new("ours"), ClientCas::requiring());
    let world = HttpsWorld::with(Limits::default(), ServingIdentity::new(), clients).await;
    let leaf = world.ca.serving("localhost");
    world.identity.replace(leaf.chain.as_bytes(), leaf.key.as_bytes()).unwrap();
    world.clients.replace(ours.pem().as_bytes()).unwrap();
    for alpn in [H1, H2] {
        let without = match world.connect(alpn, None).await {
            Err(_) => true,
            Ok(mut client) => client.get("/peer").await.is_err(),
        };
        assert!(without, "a certificate is required");
        let mut with = world.connect(alpn, Some(&ours.client(&["front-proxy"]))).await.unwrap();
        assert_eq!(with.get("/peer").await.unwrap().1, "127.0.0.1 front-proxy");
    }
    assert_eq!(world.metrics.count(Refusal::Handshake), 2);
}
