//! One connection, from its handshake to its end.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::Response;
use futures::future::{Either, select};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use hyper_util::server::conn::auto;
use parking_lot::Mutex;
use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::metrics::Refusal;
use super::request::Answering;
use super::rt::{Clock, Tasks, unix_time};
use super::{Peer, Server};
use crate::env::Env;
use crate::room::{Activity, Place, Turns};
use crate::tls::{ClientCas, PeerCertificate};

/// For how long an HTTP/1.1 client may take for the head of a request, the wait for its next request included.
pub(super) const HEAD_DEADLINE: Duration = Duration::from_secs(30);
/// After so long without a request, a connection is ended in order. Longer than clients keep idle ones themselves (the
/// API server: 90 s), so that no request meets a connection that is just being closed.
pub(super) const IDLE: Duration = Duration::from_mins(3);
/// How often an HTTP/2 client is asked whether it is still there, and for how long it may be silent then.
const PING: Duration = Duration::from_secs(30);
/// Requests of one HTTP/2 connection at a time.
const STREAMS: u32 = 100;
/// Bytes of bodies that an HTTP/2 client may send before they are read: of one request, and of all of a connection.
const WINDOWS: [u32; 2] = [128 << 10, 256 << 10];
/// For how long a connection that has to make room may take to end in order.
const EVICTION: Duration = Duration::from_secs(1);
/// How often a connection looks whether it should end.
const LOOK: Duration = Duration::from_secs(5);

/// Where the requests of a connection come from.
#[derive(Debug)]
pub(super) struct Origin {
    address: SocketAddr,
    chain: Vec<CertificateDer<'static>>,
    clients: ClientCas,
    /// The last verdict on the chain, and the generation of authorities that gave it.
    verdict: Mutex<(u64, Option<PeerCertificate>)>,
}

impl Origin {
    fn new(address: SocketAddr, chain: Vec<CertificateDer<'static>>, clients: &ClientCas, env: &Env) -> Self {
        let snapshot = clients.snapshot();
        let verdict = (snapshot.generation, snapshot.verify(&chain, unix_time(env)));
        Self { address, chain, clients: clients.clone(), verdict: Mutex::new(verdict) }
    }

    /// Where the connection comes from.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The sender of a request that comes now.
    pub(super) fn peer(&self, env: &Env) -> Peer {
        let mut verdict = self.verdict.lock();
        if verdict.0 != self.clients.generation() {
            let snapshot = self.clients.snapshot();
            *verdict = (snapshot.generation, snapshot.verify(&self.chain, unix_time(env)));
        }
        Peer { certificate: verdict.1.clone(), address: self.address }
    }
}

/// What a connection hears of the server's end.
#[derive(Debug, Clone)]
pub(super) struct Ends {
    /// The server is about to go: an HTTP/1.1 connection ends with its next answer. Were it closed without one, a request
    /// that is being sent at that moment would fail, since nobody repeats a POST whose answer did not come.
    pub(super) leaving: CancellationToken,
    /// The time for that is over: connections without a request end now.
    pub(super) drain: CancellationToken,
}

/// Serves one connection until it ends, or until it has to and has nothing under way.
pub(super) async fn run(
    server: Server,
    router: axum::Router,
    (config, generation): (Arc<ServerConfig>, u64),
    accepted: (TcpStream, SocketAddr),
    place: &Place,
    turns: Arc<Turns>,
    ends: Ends,
) {
    let (stream, address) = accepted;
    let _counted = server.metrics.connected();
    let handshake = async {
        prepare(&stream, server.limits.request_deadline)?;
        TlsAcceptor::from(config).accept(stream).await
    };
    let handshake = std::pin::pin!(server.env.timeout(server.limits.handshake_deadline, handshake));
    let stream = match select(handshake, std::pin::pin!(place.evicted.cancelled())).await {
        Either::Left((shaken, _)) => shaken,
        Either::Right(((), _)) => {
            server.metrics.refused(Refusal::Handshake);
            return;
        }
    };
    let stream = match stream {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            server.metrics.refused(Refusal::Handshake);
            tracing::debug!(%address, %error, "a TLS handshake failed");
            return;
        }
        Err(elapsed) => {
            server.metrics.refused(Refusal::Handshake);
            tracing::debug!(%address, %elapsed, "a TLS handshake was given up");
            return;
        }
    };
    let session = stream.get_ref().1;
    let http2 = session.alpn_protocol() == Some(b"h2");
    let chain = session.peer_certificates().unwrap_or_default();
    let chain = chain.iter().map(|der| der.clone().into_owned()).collect();
    let origin = Arc::new(Origin::new(address, chain, &server.clients, &server.env));
    let activity = Arc::clone(&place.activity);
    let answering = Answering {
        router,
        limits: server.limits.clone(),
        metrics: server.metrics.clone(),
        env: server.env.clone(),
        origin,
        activity: Arc::clone(&activity),
        turns,
        leaving: ends.leaving,
    };
    let service = service_fn(move |request| {
        let answering = answering.clone();
        async move { Ok::<Response<Body>, std::convert::Infallible>(answering.answer(request).await) }
    });
    let builder = builder(&server, http2);
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let ending = end(&server, generation, &activity, &ends.drain, &place.evicted);
    let ending = std::pin::pin!(ending);
    let result = match select(connection.as_mut(), ending).await {
        Either::Left((result, _)) => result,
        Either::Right(((), _)) => {
            connection.as_mut().graceful_shutdown();
            // A request that has just begun gets its time; a client that does not let go, no more than that.
            let patience = if place.evicted.is_cancelled() {
                EVICTION
            } else {
                server.limits.request_deadline + server.limits.handshake_deadline
            };
            match server.env.timeout(patience, connection).await {
                Ok(result) => result,
                Err(_) => Ok(()),
            }
        }
    };
    if let Err(error) = result {
        tracing::debug!(%address, error, "a connection failed");
    }
}

/// Waits until the connection should end.
async fn end(
    server: &Server,
    generation: u64,
    activity: &Activity,
    drain: &CancellationToken,
    evicted: &CancellationToken,
) {
    let env = &server.env;
    let look = async {
        while activity.idle(env) < IDLE && server.clients.generation() == generation {
            env.sleep(LOOK).await;
        }
    };
    let (drained, evicted) = (std::pin::pin!(drain.cancelled()), std::pin::pin!(evicted.cancelled()));
    select(select(drained, evicted), std::pin::pin!(look)).await;
}

fn builder(server: &Server, http2: bool) -> auto::Builder<Tasks> {
    let mut builder = auto::Builder::new(Tasks(server.env.clone()));
    let clock = Clock::new(&server.env);
    let header_bytes = server.limits.header_bytes;
    builder
        .http1()
        .timer(clock.clone())
        .header_read_timeout(HEAD_DEADLINE)
        .max_buf_size(header_bytes.max(8192));
    builder
        .http2()
        .timer(clock)
        .max_header_list_size(u32::try_from(header_bytes).unwrap_or(u32::MAX))
        .max_concurrent_streams(STREAMS)
        .initial_stream_window_size(WINDOWS[0])
        .initial_connection_window_size(WINDOWS[1])
        .keep_alive_interval(PING)
        .keep_alive_timeout(PING);
    // Decided by ALPN, so that no client can keep us guessing.
    if http2 { builder.http2_only() } else { builder.http1_only() }
}

/// Lets the system end connections whose peer is gone, or does not take what it is sent.
fn prepare(stream: &TcpStream, limit: Duration) -> io::Result<()> {
    use rustix::net::sockopt;
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, PING)?;
    sockopt::set_tcp_keepintvl(stream, PING)?;
    let millis = u32::try_from(limit.as_millis()).unwrap_or(u32::MAX);
    sockopt::set_tcp_user_timeout(stream, millis.max(1000))?;
    Ok(())
}
