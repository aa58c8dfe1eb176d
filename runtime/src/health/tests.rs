use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use super::{HealthEndpoints, HealthError, HealthServer, Heartbeat, Unhealthy};
use crate::env::Env;
use crate::testing::{ManualClock, test_env};

async fn get(health: &HealthEndpoints, path: &str) -> (StatusCode, String) {
    let request = Request::get(path).body(Body::empty()).unwrap();
    let response = health.router().oneshot(request).await.unwrap();
    let status = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

fn failing() -> HealthEndpoints {
    let health = HealthEndpoints::new();
    health.ready("caches", || Ok(()));
    health.ready("lease", || Err(Unhealthy::new("no answer for 20 s")));
    health
}

#[tokio::test]
async fn without_checks_the_process_is_live_and_ready() {
    let health = HealthEndpoints::new();
    assert_eq!(get(&health, "/livez").await, (StatusCode::OK, "ok".to_owned()));
    assert_eq!(get(&health, "/readyz?verbose").await, (StatusCode::OK, "readyz check passed\n".to_owned()));
}

#[tokio::test]
async fn a_failed_check_is_listed_with_its_reason() {
    let expected = "[+]caches ok\n[-]lease failed: no answer for 20 s\nreadyz check failed\n";
    assert_eq!(get(&failing(), "/readyz").await, (StatusCode::SERVICE_UNAVAILABLE, expected.to_owned()));
}

#[tokio::test]
async fn readiness_lists_details_without_failing() {
    let health = HealthEndpoints::new();
    health.ready("caches", || Ok(()));
    health.detail("platforms", || "dvp is reconciling".to_owned());
    let expected = "[+]caches ok\n[+]platforms ok: dvp is reconciling\nreadyz check passed\n";
    assert_eq!(get(&health, "/readyz?verbose").await, (StatusCode::OK, expected.to_owned()));
    assert_eq!(get(&health, "/livez?verbose").await.1, "livez check passed\n");
}

#[tokio::test]
async fn liveness_and_readiness_have_separate_checks() {
    let health = failing();
    health.live("heart", || Ok(()));
    assert_eq!(get(&health, "/livez?verbose").await.1, "[+]heart ok\nlivez check passed\n");
}

#[tokio::test]
async fn only_the_parameter_verbose_lists_all_checks() {
    let health = HealthEndpoints::new();
    health.live("heart", || Ok(()));
    for (query, answer) in [
        ("verbose=true", "[+]heart ok\nlivez check passed\n"),
        ("timeout=1s&verbose", "[+]heart ok\nlivez check passed\n"),
        ("verbosely", "ok"),
        ("exclude=verbose", "ok"),
    ] {
        assert_eq!(get(&health, &format!("/livez?{query}")).await.1, answer, "{query}");
    }
}

#[tokio::test]
async fn checks_run_for_each_request() {
    let (health, broken) = (HealthEndpoints::new(), Arc::new(AtomicBool::new(false)));
    let probe = Arc::clone(&broken);
    health.live(
        "mood",
        move || if probe.load(Ordering::Relaxed) { Err(Unhealthy::new("sad")) } else { Ok(()) },
    );
    assert_eq!(get(&health, "/livez").await.0, StatusCode::OK);
    broken.store(true, Ordering::Relaxed);
    assert_eq!(get(&health, "/livez").await.0, StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test]
async fn the_metrics_path_exists_after_a_function_is_set() {
    let health = HealthEndpoints::new();
    assert_eq!(get(&health, "/metrics").await.0, StatusCode::NOT_FOUND);
    health.metrics(|| "# EOF\n".to_owned());
    assert_eq!(get(&health, "/metrics").await, (StatusCode::OK, "# EOF\n".to_owned()));
}

#[tokio::test]
async fn a_missing_heartbeat_fails_the_check_until_the_next_beat() {
    let clock = ManualClock::new();
    let heartbeat = Heartbeat::new(&test_env(&clock, 0));
    let check = heartbeat.younger_than(Duration::from_secs(30));
    clock.advance(Duration::from_millis(29_999)).await;
    assert_eq!(check(), Ok(()));
    clock.advance(Duration::from_millis(1)).await;
    assert_eq!(check(), Err(Unhealthy::new("no heartbeat for 30 s")));
    heartbeat.clone().beat();
    assert_eq!((check(), heartbeat.age()), (Ok(()), Duration::ZERO));
}

#[tokio::test]
async fn the_server_responds_until_it_is_shut_down() {
    let server = HealthServer::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let address = server.address();
    assert_ne!(address.port(), 0);
    let shutdown = CancellationToken::new();
    let stop = shutdown.clone();
    let task = Env::system()
        .spawn("health", async move { server.run(failing(), &Env::system(), stop).await.unwrap() });
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\nok"), "{answer}");
    // A connection without a request must not delay the shutdown.
    let _idle = tokio::net::TcpStream::connect(address).await.unwrap();
    shutdown.cancel();
    Env::system().timeout(Duration::from_secs(5), task.join()).await.unwrap().unwrap();
}

#[tokio::test]
async fn an_address_in_use_is_reported() {
    let taken = HealthServer::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let error = HealthEndpoints::new()
        .serve(taken.address(), &Env::system(), CancellationToken::new())
        .await
        .unwrap_err();
    assert!(matches!(error, HealthError::Listen { .. }));
    assert_eq!(error.to_string(), format!("listening on {} for health checks", taken.address()));
}

/// The number of connections that the server closes, of `count` connections without requests.
async fn closed(address: std::net::SocketAddr, count: usize) -> usize {
    let mut streams = Vec::new();
    for _ in 0..count {
        streams.push(tokio::net::TcpStream::connect(address).await.unwrap());
    }
    let mut closed = 0;
    for stream in &mut streams {
        let mut byte = [0];
        let read = stream.read(&mut byte);
        closed += usize::from(Env::system().timeout(Duration::from_millis(200), read).await.is_ok());
    }
    closed
}

#[tokio::test]
async fn idle_connections_cannot_use_all_slots() {
    let server = HealthServer::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let address = server.address();
    let (clock, stop) = (ManualClock::new(), CancellationToken::new());
    let (own, stopped) = (test_env(&clock, 0), stop.clone());
    let task =
        Env::system().spawn("health", async move { server.run(failing(), &own, stopped).await.unwrap() });
    assert_eq!(closed(address, 20).await, 4, "one client may have 16 connections");
    // An idle connection is closed by the clock of the environment.
    let mut silent = tokio::net::TcpStream::connect(address).await.unwrap();
    let ended = async {
        while Env::system().timeout(Duration::from_millis(20), silent.read(&mut [0; 1])).await.is_err() {
            clock.advance(super::server::HEAD_DEADLINE / 10).await;
        }
    };
    Env::system().timeout(Duration::from_secs(20), ended).await.expect("it ends");
    stop.cancel();
    Env::system().timeout(Duration::from_secs(20), task.join()).await.unwrap().unwrap();
}
