//! A server on the loopback interface, and clients of both protocols.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Extension;
use axum::http::{Request, StatusCode};
use axum::routing::{get, post};
use futures::future::{BoxFuture, FutureExt as _};
use futures::stream;
use http_body_util::BodyExt as _;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use rustls::pki_types::ServerName;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Notify;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::CancellationToken;

use crate::env::{Env, Task};
use crate::https::hyper_env::HyperTasks;
use crate::https::{HttpsServer, Limits, Peer, TrafficMetrics};
use crate::testing::{ManualClock, test_env};
use crate::tls::pki::{Ca, Leaf, client_tls_config};
use crate::tls::{ClientCas, ServingIdentity};

pub(super) const H1: &[&[u8]] = &[b"http/1.1"];
pub(super) const H2: &[&[u8]] = &[b"h2"];

pub(super) type BoxedError = Box<dyn std::error::Error + Send + Sync>;

pub(super) struct HttpsWorld {
    pub(super) address: SocketAddr,
    pub(super) identity: ServingIdentity,
    pub(super) clients: ClientCas,
    pub(super) metrics: TrafficMetrics,
    pub(super) ca: Ca,
    /// The environment of the system, for waiting in tests.
    pub(super) env: Env,
    /// The clock of the server, if it is a manual clock.
    clock: Option<ManualClock>,
    pub(super) stop: CancellationToken,
    /// Lets the handlers of `/wait` continue.
    pub(super) gate: Arc<Notify>,
    /// The number of waiting handlers.
    pub(super) waiting: Arc<Mutex<usize>>,
    pub(super) server: Option<Task>,
}

impl HttpsWorld {
    pub(super) async fn new(limits: Limits) -> Self {
        Self::start(limits, None, ServingIdentity::new(), ClientCas::none(), true).await
    }

    /// A server with a manual clock, which [`HttpsWorld::pass`] advances.
    pub(super) async fn manual(limits: Limits) -> Self {
        let clock = ManualClock::new();
        Self::start(limits, Some(clock), ServingIdentity::new(), ClientCas::none(), true).await
    }

    pub(super) async fn with(limits: Limits, identity: ServingIdentity, clients: ClientCas) -> Self {
        Self::start(limits, None, identity, clients, false).await
    }

    /// As [`HttpsWorld::manual`], with these authorities of clients.
    pub(super) async fn manual_with(limits: Limits, clients: ClientCas) -> Self {
        Self::start(limits, Some(ManualClock::new()), ServingIdentity::new(), clients, true).await
    }

    async fn start(
        limits: Limits,
        clock: Option<ManualClock>,
        identity: ServingIdentity,
        clients: ClientCas,
        certified: bool,
    ) -> Self {
        let ca = Ca::new("server");
        if certified {
            let leaf = ca.serving("localhost");
            identity.replace(leaf.chain.as_bytes(), leaf.key.as_bytes()).unwrap();
        }
        let metrics = TrafficMetrics::new(&mut crate::metrics::MetricsRegistry::new());
        let own = clock.as_ref().map_or_else(Env::system, |clock| test_env(clock, 1));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let (gate, waiting) = (Arc::<Notify>::default(), Arc::<Mutex<usize>>::default());
        let server =
            HttpsServer::new(identity.clone(), clients.clone(), limits, own).metrics(metrics.clone());
        let router = router(&gate, &waiting);
        let stopped = stop.clone();
        let real = Env::system();
        let server = real.spawn("server", async move {
            server.serve(listener, router, stopped.cancelled_owned()).await.unwrap();
        });
        let server = Some(server);
        Self { address, identity, clients, metrics, ca, env: real, clock, stop, gate, waiting, server }
    }

    pub(super) async fn tls(
        &self,
        alpn: &[&[u8]],
        own: Option<&Leaf>,
    ) -> Result<TlsStream<TcpStream>, BoxedError> {
        self.tls_trusting(self.ca.pem().as_bytes(), alpn, own).await
    }

    pub(super) async fn tls_trusting(
        &self,
        bundle: &[u8],
        alpn: &[&[u8]],
        own: Option<&Leaf>,
    ) -> Result<TlsStream<TcpStream>, BoxedError> {
        let stream = TcpStream::connect(self.address).await?;
        let connector = TlsConnector::from(client_tls_config(bundle, own, alpn));
        Ok(connector.connect(ServerName::try_from("localhost")?, stream).await?)
    }

    /// A connection from an address of the loopback interface.
    pub(super) async fn tcp_from(&self, address: Ipv4Addr) -> Result<TcpStream, BoxedError> {
        let socket = TcpSocket::new_v4()?;
        socket.bind((address, 0).into())?;
        Ok(socket.connect(self.address).await?)
    }

    pub(super) async fn tls_from(
        &self,
        address: Ipv4Addr,
        alpn: &[&[u8]],
    ) -> Result<TlsStream<TcpStream>, BoxedError> {
        let connector = TlsConnector::from(client_tls_config(self.ca.pem().as_bytes(), None, alpn));
        let stream = self.tcp_from(address).await?;
        Ok(connector.connect(ServerName::try_from("localhost")?, stream).await?)
    }

    pub(super) async fn connect(&self, alpn: &[&[u8]], own: Option<&Leaf>) -> Result<Client, BoxedError> {
        Client::over(self.tls(alpn, own).await?).await
    }

    /// Advances the clock of the server in steps, so that real IO can complete.
    pub(super) async fn pass(&self, duration: Duration) {
        let clock = self.clock.as_ref().unwrap();
        let mut left = duration;
        while !left.is_zero() {
            let step = left.min(Duration::from_secs(1));
            clock.advance(step).await;
            self.env.sleep(Duration::from_millis(2)).await;
            left -= step;
        }
    }

    pub(super) async fn until(&self, done: impl Fn() -> bool) {
        let wait = async {
            while !done() {
                self.env.sleep(Duration::from_millis(5)).await;
                if let Some(clock) = &self.clock {
                    clock.advance(Duration::from_millis(5)).await;
                }
            }
        };
        self.env.timeout(super::SOON, wait).await.unwrap();
    }
}

fn router(gate: &Arc<Notify>, waiting: &Arc<Mutex<usize>>) -> Router {
    let (gate, waiting) = (Arc::clone(gate), Arc::clone(waiting));
    Router::new()
        .route(
            "/peer",
            get(async |Extension(peer): Extension<Peer>| {
                let name = peer.certificate.map(|own| own.common_name.unwrap_or("nameless".to_owned()));
                format!("{} {}", peer.address.ip(), name.as_deref().unwrap_or("none"))
            }),
        )
        .route("/echo", post(async |body: Bytes| body))
        .route("/never", get(async || futures::future::pending::<String>().await))
        .route("/panic", get(panics))
        .route(
            "/wait",
            get(async move || {
                *waiting.lock() += 1;
                gate.notified().await;
                "done"
            }),
        )
}

async fn panics() -> String {
    panic!("a secret of the handler")
}

/// A connection of a client.
pub(super) enum Client {
    One(http1::SendRequest<Body>),
    Two(http2::SendRequest<Body>),
}

impl Client {
    pub(super) async fn over(stream: TlsStream<TcpStream>) -> Result<Self, BoxedError> {
        let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        let (io, env) = (TokioIo::new(stream), Env::system());
        if http2 {
            let (client, connection) = http2::handshake(HyperTasks(env.clone()), io).await?;
            env.spawn("client", async { drop(connection.await) }).detach();
            Ok(Self::Two(client))
        } else {
            let (client, connection) = http1::handshake(io).await?;
            env.spawn("client", async { drop(connection.await) }).detach();
            Ok(Self::One(client))
        }
    }

    pub(super) async fn get(&mut self, path: &str) -> Result<(StatusCode, String), BoxedError> {
        self.get_with(path, "x").await
    }

    pub(super) async fn get_with(
        &mut self,
        path: &str,
        header: &str,
    ) -> Result<(StatusCode, String), BoxedError> {
        self.send(Request::get(url(path)).header("x-long", header).body(Body::empty())?).await
    }

    pub(super) async fn post(
        &mut self,
        path: &str,
        bytes: Vec<u8>,
        chunked: bool,
    ) -> Result<(StatusCode, String), BoxedError> {
        let body = if chunked {
            let chunks: Vec<_> =
                bytes.chunks(100).map(|chunk| Ok::<_, BoxedError>(Bytes::copy_from_slice(chunk))).collect();
            Body::from_stream(stream::iter(chunks))
        } else {
            Body::from(bytes)
        };
        self.send(Request::post(url(path)).body(body)?).await
    }

    async fn send(&mut self, request: Request<Body>) -> Result<(StatusCode, String), BoxedError> {
        let answer = async { self.start(request).await?.await };
        Env::system().timeout(super::SOON, answer).await?
    }

    /// Sends a request. The result is its response.
    pub(super) async fn start(
        &mut self,
        request: Request<Body>,
    ) -> Result<BoxFuture<'static, Result<(StatusCode, String), BoxedError>>, BoxedError> {
        let response = match self {
            Self::One(client) => {
                client.ready().await?;
                client.send_request(request).boxed()
            }
            Self::Two(client) => {
                client.ready().await?;
                client.send_request(request).boxed()
            }
        };
        Ok(async {
            let response = response.await?;
            let status = response.status();
            let body = response.into_body().collect().await?.to_bytes();
            Ok((status, String::from_utf8_lossy(&body).into_owned()))
        }
        .boxed())
    }
}

fn url(path: &str) -> String {
    format!("https://localhost{path}")
}
