//! Forwards ports of the host's loopback address to addresses inside the namespaces.
//!
//! A socket belongs to the network namespace of the thread that creates it. Therefore one thread creates its
//! listeners on the host, enters the other network, and connects there.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr};

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use crate::error::{Error, Result};

/// Forwards connections until it is dropped.
#[derive(Debug)]
pub struct NamespaceForwarder {
    stop: CancellationToken,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl NamespaceForwarder {
    /// Listens on free loopback ports, and forwards connections into `network`: to the address that `target`
    /// returns for each port.
    ///
    /// # Errors
    /// [`Error::Port`] if no port or thread is available, or the network cannot be entered.
    pub(super) fn start<const N: usize>(
        network: File,
        target: impl Fn(u16) -> SocketAddr,
    ) -> Result<(Self, [u16; N])> {
        let mut listeners = Vec::with_capacity(N);
        let mut ports = [0; N];
        for port in &mut ports {
            let listener = listen().map_err(|source| Error::Port { source })?;
            *port = listener.local_addr().map_err(|source| Error::Port { source })?.port();
            listeners.push((target(*port), listener));
        }
        let stop = CancellationToken::new();
        let (entered, result) = std::sync::mpsc::sync_channel(1);
        let ended = stop.clone();
        let thread = std::thread::Builder::new()
            .name("forwarder".to_owned())
            .spawn(move || {
                let ready = enter_network_namespace(&network)
                    .and_then(|()| tokio::runtime::Builder::new_current_thread().enable_io().build());
                match ready {
                    Ok(runtime) => {
                        let _ = entered.send(Ok(()));
                        runtime.block_on(serve(listeners, ended));
                    }
                    Err(error) => {
                        let _ = entered.send(Err(error));
                    }
                }
            })
            .map_err(|source| Error::Port { source })?;
        let forwarder = Self { stop, thread: Some(thread) };
        let gone = || std::io::Error::other("the forwarder's thread has ended");
        result.recv().unwrap_or_else(|_| Err(gone())).map_err(|source| Error::Port { source })?;
        Ok((forwarder, ports))
    }
}

impl Drop for NamespaceForwarder {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn listen() -> std::io::Result<std::net::TcpListener> {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

#[cfg(target_os = "linux")]
pub(super) fn enter_network_namespace(network: &File) -> std::io::Result<()> {
    use std::os::fd::AsFd;

    use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

    move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network)).map_err(Into::into)
}

/// Other systems have no network namespaces.
#[cfg(not(target_os = "linux"))]
pub(super) fn enter_network_namespace(_network: &File) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

async fn serve(listeners: Vec<(SocketAddr, std::net::TcpListener)>, stop: CancellationToken) {
    let mut tasks = tokio::task::JoinSet::new();
    for (target, listener) in listeners {
        tasks.spawn(accept(target, listener));
    }
    stop.cancelled().await;
}

async fn accept(target: SocketAddr, listener: std::net::TcpListener) {
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::warn!(%target, %error, "a forwarded port is closed"),
    };
    loop {
        match listener.accept().await {
            Ok((client, _)) => {
                tokio::spawn(forward(client, target));
            }
            // Most likely there are no free file descriptors; other connections will release theirs.
            Err(error) => {
                tracing::debug!(%target, %error, "a connection was not accepted");
                tokio::task::yield_now().await;
            }
        }
    }
}

/// If no process listens inside, the client's connection is closed.
async fn forward(mut client: TcpStream, target: SocketAddr) {
    if let Ok(mut server) = TcpStream::connect(target).await {
        let _ = client.set_nodelay(true).and_then(|()| server.set_nodelay(true));
        // Either side may close the connection at any time.
        let _ = copy_bidirectional(&mut client, &mut server).await;
    }
}
