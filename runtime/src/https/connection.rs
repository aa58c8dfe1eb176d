//! One connection, from the handshake to its end.

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
use rustls::ServerConfig;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::config::HttpsServer;
use super::hyper_env::{HyperClock, HyperTasks};
use super::metrics::Refusal;
use super::origin::ConnectionClient;
use super::request::RequestHandler;
use crate::capacity::{ConnectionActivity, ConnectionSlot, Eviction, RequestSlots};

/// The deadline for the headers of an HTTP/1.1 request, including the idle time before it.
pub(super) const HEAD_DEADLINE: Duration = Duration::from_secs(30);
/// The idle time after which a connection is closed gracefully. Clients close idle connections earlier
/// (kube-apiserver after 90 s), so no request is sent on a connection that is being closed.
pub(super) const IDLE: Duration = Duration::from_mins(3);
/// The interval of HTTP/2 pings and TCP keepalive probes, and the deadline for a response to a ping.
const PING: Duration = Duration::from_secs(30);
/// The maximum number of concurrent requests on an HTTP/2 connection.
const STREAMS: u32 = 100;
/// The HTTP/2 flow-control windows in bytes, for one request and for a connection.
const WINDOWS: [u32; 2] = [128 << 10, 256 << 10];
/// The deadline for closing an evicted connection gracefully.
const EVICTION_DEADLINE: Duration = Duration::from_secs(1);
/// The interval at which a connection checks whether to close.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// The phases of the shutdown of the server.
#[derive(Debug, Clone)]
pub(super) struct ShutdownPhases {
    /// The server lingers: an HTTP/1.1 connection closes with its next response. If it were closed while a
    /// client sends a request, the request would fail, because clients do not retry a POST without a
    /// response.
    pub(super) lingering: CancellationToken,
    /// The server drains: connections without a request in flight close now.
    pub(super) draining: CancellationToken,
}

/// The TLS configuration for one generation of the certificate authorities of clients.
#[derive(Debug, Clone)]
pub(super) struct TlsGeneration {
    pub(super) config: Arc<ServerConfig>,
    pub(super) generation: u64,
}

/// A connection before its handshake.
#[derive(Debug)]
pub(super) struct AcceptedConnection {
    pub(super) stream: TcpStream,
    /// The address of the client.
    pub(super) address: SocketAddr,
}

/// Serves one connection until it ends, or until it must close and has no request in flight.
pub(super) async fn serve_https_connection(
    server: HttpsServer,
    router: axum::Router,
    tls: TlsGeneration,
    accepted: AcceptedConnection,
    slot: &ConnectionSlot,
    requests: Arc<RequestSlots>,
    shutdown: ShutdownPhases,
) {
    let TlsGeneration { config, generation } = tls;
    let AcceptedConnection { stream, address } = accepted;
    let _open = server.metrics.connected();
    let handshake = async {
        configure_socket(&stream, server.limits.request_deadline)?;
        TlsAcceptor::from(config).accept(stream).await
    };
    let handshake = std::pin::pin!(server.env.timeout(server.limits.handshake_deadline, handshake));
    let stream = match select(handshake, std::pin::pin!(slot.eviction.wait_until_ordered())).await {
        Either::Left((handshake, _)) => handshake,
        Either::Right(((), _)) => {
            server.metrics.refused(Refusal::Evicted);
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
            tracing::debug!(%address, %elapsed, "a TLS handshake timed out");
            return;
        }
    };
    let session = stream.get_ref().1;
    let http2 = session.alpn_protocol() == Some(b"h2");
    let chain = session.peer_certificates().unwrap_or_default();
    let chain = chain.iter().map(|der| der.clone().into_owned()).collect();
    let origin = Arc::new(ConnectionClient::new(address, chain, &server.clients, &server.env));
    let activity = Arc::clone(&slot.activity);
    if origin.peer(&server.env).certificate.is_some() {
        activity.verify();
    }
    let handler = RequestHandler {
        router,
        limits: server.limits.clone(),
        metrics: server.metrics.clone(),
        env: server.env.clone(),
        origin,
        activity: Arc::clone(&activity),
        requests,
        lingering: shutdown.lingering,
    };
    let service = service_fn(move |request| {
        let handler = handler.clone();
        async move { Ok::<Response<Body>, std::convert::Infallible>(handler.handle(request).await) }
    });
    let builder = connection_builder(&server, http2);
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let ending = until_close(&server, generation, &activity, &shutdown.draining, &slot.eviction);
    let ending = std::pin::pin!(ending);
    let result = match select(connection.as_mut(), ending).await {
        Either::Left((result, _)) => result,
        Either::Right(((), _)) => {
            if slot.eviction.is_ordered() {
                server.metrics.refused(Refusal::Evicted);
            }
            connection.as_mut().graceful_shutdown();
            // A request that has just started may use its deadline. After that, the connection is cut.
            let deadline = if slot.eviction.is_ordered() {
                EVICTION_DEADLINE
            } else {
                server.limits.request_deadline + server.limits.handshake_deadline
            };
            let closed = server.env.timeout(deadline, connection);
            match select(std::pin::pin!(slot.eviction.wait_until_cut()), std::pin::pin!(closed)).await {
                Either::Right((Ok(result), _)) => result,
                Either::Right((Err(_), _)) | Either::Left(_) => Ok(()),
            }
        }
    };
    if let Err(error) = result {
        tracing::debug!(%address, error, "a connection failed");
    }
}

/// Waits until the connection must close.
async fn until_close(
    server: &HttpsServer,
    generation: u64,
    activity: &ConnectionActivity,
    draining: &CancellationToken,
    eviction: &Eviction,
) {
    let env = &server.env;
    let check = async {
        while activity.idle(env) < IDLE && server.clients.generation() == generation {
            env.sleep(CHECK_INTERVAL).await;
        }
    };
    let (draining, evicted) =
        (std::pin::pin!(draining.cancelled()), std::pin::pin!(eviction.wait_until_ordered()));
    select(select(draining, evicted), std::pin::pin!(check)).await;
}

fn connection_builder(server: &HttpsServer, http2: bool) -> auto::Builder<HyperTasks> {
    let mut builder = auto::Builder::new(HyperTasks(server.env.clone()));
    let clock = HyperClock::new(&server.env);
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
    // ALPN selects the protocol, so the server does not wait for data to detect it.
    if http2 { builder.http2_only() } else { builder.http1_only() }
}

/// Configures the socket so that the system closes connections whose peer is unreachable or does not receive
/// data.
fn configure_socket(stream: &TcpStream, limit: Duration) -> io::Result<()> {
    use rustix::net::sockopt;
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, PING)?;
    sockopt::set_tcp_keepintvl(stream, PING)?;
    let millis = u32::try_from(limit.as_millis()).unwrap_or(u32::MAX);
    sockopt::set_tcp_user_timeout(stream, millis.max(1000))?;
    Ok(())
}
