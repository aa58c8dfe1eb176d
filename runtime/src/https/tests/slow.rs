//! Many slow clients, of several addresses, do not hold up a fast one.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use futures::stream;
use rstest::rstest;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::SOON;
use super::world::{BoxedError, Client, H1, H2, HttpsWorld};
use crate::env::Task;
use crate::https::Limits;
use crate::https::metrics::Refusal;
use crate::tls::ClientCas;
use crate::tls::pki::Ca;

/// The number of addresses of slow clients. With [`SLOW_CLIENTS`] each, they want more than all slots.
const ADDRESSES: u8 = 9;
/// The number of connections of one address, its maximum. An eighth of the default, as the other limits here.
const SLOW_CLIENTS: usize = 8;
/// The number of reviews.
const REVIEWS: usize = 6;

/// What a slow client does not send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Handshake,
    Headers,
    Body,
    /// The bodies of many requests on one HTTP/2 connection.
    Bodies,
    /// Further requests, after one that has completed.
    NextRequest,
}

fn limits() -> Limits {
    Limits { connections: 64, connections_per_client: SLOW_CLIENTS, requests: 128, ..Limits::default() }
}

/// One slow client, until the server closes its connection.
async fn stall(world: &HttpsWorld, address: Ipv4Addr, form: Form) -> Result<(), BoxedError> {
    let mut bytes = [0; 64];
    let length = "Content-Length: 1000000";
    match form {
        Form::Handshake => {
            let mut stream = world.tcp_from(address).await?;
            // The header of a record of a handshake, without its content.
            stream.write_all(&[22, 3, 1, 2, 0]).await?;
            while stream.read(&mut bytes).await? > 0 {}
        }
        Form::Headers | Form::Body => {
            let mut stream = world.tls_from(address, H1).await?;
            stream.write_all(b"POST /echo HTTP/1.1\r\nHost: x\r\n").await?;
            if form == Form::Body {
                stream.write_all(format!("{length}\r\n\r\ndrip").as_bytes()).await?;
            }
            while stream.read(&mut bytes).await? > 0 {}
        }
        Form::Bodies => {
            let mut client = Client::over(world.tls_from(address, H2).await?).await?;
            let mut requests = Vec::new();
            for _ in 0..10 {
                let body = Body::from_stream(stream::pending::<Result<&[u8], BoxedError>>());
                requests.push(client.start(Request::post("https://localhost/echo").body(body)?).await?);
            }
            futures::future::join_all(requests).await;
        }
        Form::NextRequest => {
            let mut stream = world.tls_from(address, H1).await?;
            stream.write_all(b"GET /peer HTTP/1.1\r\nHost: x\r\n\r\nPOST /echo HTTP/1.1\r\n").await?;
            while stream.read(&mut bytes).await? > 0 {}
        }
    }
    Ok(())
}

/// Slow clients that return soon after the server closes a connection.
fn attack(world: &Arc<HttpsWorld>, form: Form) -> Vec<Task> {
    let mut tasks = Vec::new();
    for last in 0..ADDRESSES {
        let address = Ipv4Addr::new(127, 0, 1, last + 1);
        for _ in 0..SLOW_CLIENTS {
            let world = Arc::clone(world);
            tasks.push(world.env.clone().spawn("slow", async move {
                loop {
                    drop(stall(&world, address, form).await);
                    world.env.sleep(Duration::from_secs(2)).await;
                }
            }));
        }
    }
    tasks
}

/// Waits until slow clients have the slots, and have been slow for a while.
async fn hold_slots(world: &HttpsWorld, form: Form) {
    let is_full = || match form {
        // The slots for requests are short, and not those for connections.
        Form::Bodies => {
            world.metrics.count(Refusal::Evicted) + world.metrics.count(Refusal::TooManyRequests) > 100
        }
        _ => world.metrics.open() >= 48,
    };
    // Many handshakes take a while on a busy machine.
    let wait = async {
        while !is_full() {
            world.env.sleep(Duration::from_millis(20)).await;
        }
    };
    world.env.timeout(SOON * 6, wait).await.unwrap();
    world.env.sleep(Duration::from_millis(500)).await;
    world.pass(Duration::from_millis(1500)).await;
}

/// The clock of the server stands still, so no deadline of a slow client ends.
#[rstest]
#[tokio::test]
async fn a_fast_client_is_answered_at_once_beside_slow_ones(
    #[values(Form::Handshake, Form::Headers, Form::Body, Form::Bodies, Form::NextRequest)] form: Form,
) {
    let world = Arc::new(HttpsWorld::manual(limits()).await);
    let mut kept = world.connect(H2, None).await.unwrap();
    assert_eq!(kept.post("/echo", vec![7; 3000], false).await.unwrap().0, StatusCode::OK);
    let _slow = attack(&world, form);
    hold_slots(&world, form).await;
    for review in 0..REVIEWS {
        let reviewed = async {
            let mut client = world.connect([H1, H2][review % 2], None).await?;
            client.post("/echo", vec![7; 3000], false).await
        };
        let answer = Box::pin(world.env.timeout(SOON, reviewed)).await;
        let status = answer.unwrap_or_else(|_| panic!("{form:?}: review {review} is held up")).unwrap().0;
        assert_eq!(status, StatusCode::OK, "{form:?}: review {review}");
        let status = kept.post("/echo", vec![7; 3000], false).await.unwrap().0;
        assert_eq!(status, StatusCode::OK, "{form:?}: the connection of a client that is not slow stays");
    }
}

/// The aggregated API, and a webhook with `--client-ca-file`: other clients do not get beyond the handshake.
#[tokio::test]
async fn a_client_with_a_certificate_is_answered_at_once_beside_slow_handshakes() {
    let ours = Ca::new("ours");
    let world = Arc::new(HttpsWorld::manual_with(limits(), ClientCas::requiring()).await);
    world.clients.replace(ours.pem().as_bytes()).unwrap();
    let leaf = ours.client(&["kube-apiserver"]);
    let mut kept = world.connect(H2, Some(&leaf)).await.unwrap();
    assert_eq!(kept.get("/peer").await.unwrap().0, StatusCode::OK);
    let _slow = attack(&world, Form::Handshake);
    hold_slots(&world, Form::Handshake).await;
    for review in 0..REVIEWS {
        let reviewed = async {
            let mut client = world.connect([H1, H2][review % 2], Some(&leaf)).await?;
            client.post("/echo", vec![7; 3000], false).await
        };
        let answer = Box::pin(world.env.timeout(SOON, reviewed)).await;
        let status = answer.unwrap_or_else(|_| panic!("review {review} is held up")).unwrap().0;
        assert_eq!(status, StatusCode::OK, "review {review}");
        assert_eq!(kept.get("/peer").await.unwrap().0, StatusCode::OK, "review {review}");
    }
}

/// A body that makes progress has the time that its length needs. One that only drips does not.
#[rstest]
#[case::nothing_arrives(0, Duration::from_secs(10), StatusCode::REQUEST_TIMEOUT)]
#[case::a_byte_each_second(1, Duration::from_secs(10), StatusCode::REQUEST_TIMEOUT)]
#[case::faster_than_the_minimum(100 << 10, Duration::from_secs(8), StatusCode::OK)]
#[case::longer_than_the_deadline(100 << 10, Duration::from_secs(20), StatusCode::REQUEST_TIMEOUT)]
#[tokio::test]
async fn a_body_has_a_deadline_by_progress(
    #[case] bytes_per_second: usize,
    #[case] duration: Duration,
    #[case] status: StatusCode,
) {
    for alpn in [H1, H2] {
        let world = HttpsWorld::manual(Limits::default()).await;
        let mut client = world.connect(alpn, None).await.unwrap();
        let (sender, receiver) = futures::channel::mpsc::unbounded::<Result<Vec<u8>, BoxedError>>();
        let request = Request::post("https://localhost/echo").body(Body::from_stream(receiver)).unwrap();
        let answer = client.start(request).await.unwrap();
        let task = world.env.spawn("client", async move {
            assert_eq!(answer.await.unwrap().0, status, "{bytes_per_second}");
        });
        for _ in 0..duration.as_secs() {
            if bytes_per_second > 0 {
                drop(sender.unbounded_send(Ok(vec![7; bytes_per_second])));
            }
            world.env.sleep(Duration::from_millis(20)).await;
            world.pass(Duration::from_secs(1)).await;
        }
        drop(sender);
        world.env.timeout(SOON, task.join()).await.unwrap().unwrap();
    }
}
