//! Accepting connections, and the end of all of them.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use futures::future::{Either, select};
use rustls::ServerConfig;
use rustls::server::NoServerSessionStorage;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::Server;
use super::connection::{self, Ends};
use super::metrics::Refusal;
use super::rt::Wall;
use crate::room::{Room, Turns};
use crate::tls::{Snapshot, provider};

/// The pause after a failure to accept that is not about one connection, such as too many open files.
const PAUSE: Duration = Duration::from_millis(500);

pub(super) async fn serve(
    server: Server,
    listener: TcpListener,
    router: Router,
    shutdown: impl Future<Output = ()> + Send,
) -> io::Result<()> {
    // The body is limited below the router, for every extractor alike.
    let router = router.layer(DefaultBodyLimit::disable());
    let (leaving, drain, stop) =
        (CancellationToken::new(), CancellationToken::new(), CancellationToken::new());
    let _stopped = stop.clone().drop_guard();
    let room = Room::new(server.limits.connections, server.limits.connections_per_client, server.env.clone());

    let env = server.env.clone();
    let shutdown = async {
        shutdown.await;
        leaving.cancel();
        env.sleep(server.limits.linger).await;
    };
    let ends = Ends { leaving: leaving.clone(), drain: drain.clone() };
    let accepting = accept(&server, &listener, &router, &room, &ends, &stop);
    match select(std::pin::pin!(shutdown), std::pin::pin!(accepting)).await {
        Either::Left(((), _)) => {}
        Either::Right((ended, _)) => return ended,
    }
    // Whoever connects from now on is refused at once instead of waiting in the queue for nothing.
    drop(listener);
    drain.cancel();
    let gone = room.empty(server.limits.connections);
    if env.timeout(server.limits.request_deadline, gone).await.is_err() {
        tracing::warn!("connections that did not end in time are cut");
    }
    Ok(())
}

/// Accepts for ever. Every connection holds one place of `room`.
async fn accept(
    server: &Server,
    listener: &TcpListener,
    router: &Router,
    room: &Room,
    ends: &Ends,
    stop: &CancellationToken,
) -> io::Result<()> {
    let mut snapshot = server.clients.snapshot();
    let mut config = Arc::new(configure(server, &snapshot)?);
    let turns = Turns::new(server.limits.requests);
    loop {
        let accepted = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) if is_about_one(&error) => continue,
            Err(error) => {
                tracing::warn!(%error, "connections cannot be accepted");
                server.env.sleep(PAUSE).await;
                continue;
            }
        };
        let Some(place) = room.enter(accepted.1.ip()).await else {
            server.metrics.refused(Refusal::TooManyConnections);
            tracing::debug!(address = %accepted.1, "a client has too many connections");
            continue;
        };
        if snapshot.generation != server.clients.generation() {
            snapshot = server.clients.snapshot();
            config = Arc::new(configure(server, &snapshot)?);
        }
        let (server_of_it, router) = (server.clone(), router.clone());
        let (config, turns) = ((Arc::clone(&config), snapshot.generation), Arc::clone(&turns));
        let ends = ends.clone();
        let stop = stop.clone();
        let task = async move {
            let connection = connection::run(server_of_it, router, config, accepted, &place, turns, ends);
            select(std::pin::pin!(connection), std::pin::pin!(stop.cancelled())).await;
        };
        // It ends by itself, or by `stop`, which fires when the server is dropped.
        server.env.spawn("https-connection", task).detach();
    }
}

/// Whether a failure to accept concerns only the connection that was to be accepted.
fn is_about_one(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

fn configure(server: &Server, clients: &Snapshot) -> io::Result<ServerConfig> {
    let mut config = ServerConfig::builder_with_details(provider(), Wall::shared(&server.env))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_client_cert_verifier(Arc::clone(&clients.verifier))
        .with_cert_resolver(Arc::new(server.identity.clone()));
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    // A resumed session would carry a client's certificate past the authorities of today.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}
