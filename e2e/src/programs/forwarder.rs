//! What a Service does for its Pods: one address in front of several replicas.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::AbortOnDropHandle;

use crate::error::{Error, Result};

/// Hands the connections to its port on to one backend after the other, until it is dropped.
///
/// As with a Service, a backend that leaves gets no new connections and keeps those that it has.
#[derive(Debug)]
pub(super) struct Forwarder {
    port: u16,
    backends: Arc<Backends>,
    _task: AbortOnDropHandle<()>,
}

/// One place per replica, with the port of the replica that is there.
#[derive(Debug)]
struct Backends {
    places: Mutex<Vec<Option<u16>>>,
    next: AtomicUsize,
}

impl Backends {
    /// The ports to be tried for a new connection, in this order: another one first each time.
    fn order(&self) -> Vec<u16> {
        let mut ports: Vec<u16> = self.places.lock().iter().copied().flatten().collect();
        if !ports.is_empty() {
            let turns = self.next.fetch_add(1, Ordering::Relaxed) % ports.len();
            ports.rotate_left(turns);
        }
        ports
    }
}

impl Forwarder {
    /// Listens on a free loopback port, with room for so many replicas and none there yet.
    ///
    /// # Errors
    /// [`Error::Port`].
    pub(super) async fn start(replicas: usize) -> Result<Self> {
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(|source| Error::Port { source })?;
        let port = listener.local_addr().map_err(|source| Error::Port { source })?.port();
        let backends =
            Arc::new(Backends { places: Mutex::new(vec![None; replicas]), next: AtomicUsize::new(0) });
        let task = AbortOnDropHandle::new(tokio::spawn(accept(listener, backends.clone())));
        Ok(Self { port, backends, _task: task })
    }

    /// Where it listens.
    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// The replica at this place is ready on a port, or takes no new connections any more.
    pub(super) fn set(&self, place: usize, port: Option<u16>) {
        self.backends.places.lock()[place] = port;
    }
}

async fn accept(listener: TcpListener, backends: Arc<Backends>) {
    loop {
        match listener.accept().await {
            Ok((client, _)) => {
                tokio::spawn(forward(client, backends.clone()));
            }
            // Out of file descriptors: whoever waits will time out and say so.
            Err(error) => {
                tracing::warn!(%error, "a connection was not accepted");
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        }
    }
}

/// A client without any backend is hung up on, which is what a Service without endpoints amounts to.
async fn forward(mut client: TcpStream, backends: Arc<Backends>) {
    for port in backends.order() {
        // One that was killed a moment ago refuses; the next one may not.
        if let Ok(mut server) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await {
            let _ = client.set_nodelay(true).and_then(|()| server.set_nodelay(true));
            // Either side may break the connection at any time.
            let _ = copy_bidirectional(&mut client, &mut server).await;
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::cluster::free_ports;

    /// Says its name to everybody.
    async fn speaker(name: &'static str) -> u16 {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                stream.write_all(name.as_bytes()).await.unwrap();
            }
        });
        port
    }

    async fn ask(forwarder: &Forwarder) -> String {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, forwarder.port())).await.unwrap();
        let mut heard = String::new();
        let _ = stream.read_to_string(&mut heard).await;
        heard
    }

    #[tokio::test]
    async fn connections_go_to_those_that_are_there() {
        let forwarder = Forwarder::start(3).await.unwrap();
        assert_eq!(ask(&forwarder).await, "", "nobody is there");
        forwarder.set(0, Some(speaker("a").await));
        forwarder.set(2, Some(speaker("c").await));
        let mut heard = [ask(&forwarder).await, ask(&forwarder).await];
        heard.sort();
        assert_eq!(heard, ["a", "c"], "each has its turn");
        forwarder.set(0, None);
        assert_eq!([ask(&forwarder).await, ask(&forwarder).await], ["c", "c"]);
        let [dead] = free_ports().unwrap();
        forwarder.set(1, Some(dead));
        assert_eq!([ask(&forwarder).await, ask(&forwarder).await], ["c", "c"], "a dead one is passed over");
    }
}
