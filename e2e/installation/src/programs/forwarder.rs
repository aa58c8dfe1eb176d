//! A stand-in for a Service: one address in front of several replicas.

use std::net::Ipv4Addr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::AbortOnDropHandle;
use vmpool_test_cluster::error::{Error, Result};

/// Forwards connections to the replicas until it is dropped. There is a port for each replica. While a
/// replica is not running, its port leads to the others.
///
/// With a single port all requests would reach one replica, because the API server uses one connection per
/// address. A real Service has the same effect. Several ports let the API server call several replicas at the
/// same time.
///
/// As with a Service, a removed backend gets no new connections but keeps its open ones.
#[derive(Debug)]
pub(super) struct ReplicaForwarder {
    ports: Vec<u16>,
    backends: Arc<Backends>,
    _tasks: Vec<AbortOnDropHandle<()>>,
}

/// The port of each running replica.
#[derive(Debug)]
struct Backends(Mutex<Vec<Option<u16>>>);

impl Backends {
    /// The ports to try for a new connection to the replica at `place`, in order.
    fn order(&self, place: usize) -> Vec<u16> {
        let mut places = self.0.lock().clone();
        places.rotate_left(place);
        places.into_iter().flatten().collect()
    }
}

impl ReplicaForwarder {
    /// Listens on a free loopback port for each replica. No replica is running yet.
    ///
    /// # Errors
    /// [`Error::Port`].
    pub(super) async fn start(replicas: usize) -> Result<Self> {
        let failed = |source| Error::Port { source };
        let backends = Arc::new(Backends(Mutex::new(vec![None; replicas])));
        let (mut ports, mut tasks) = (Vec::new(), Vec::new());
        for place in 0..replicas {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(failed)?;
            ports.push(listener.local_addr().map_err(failed)?.port());
            tasks.push(AbortOnDropHandle::new(tokio::spawn(accept(listener, place, backends.clone()))));
        }
        Ok(Self { ports, backends, _tasks: tasks })
    }

    /// The listening ports, in the order of the replicas.
    pub(super) fn ports(&self) -> &[u16] {
        &self.ports
    }

    /// Records that the replica at this place is ready on a port, or accepts no new connections.
    pub(super) fn set(&self, place: usize, port: Option<u16>) {
        self.backends.0.lock()[place] = port;
    }
}

async fn accept(listener: TcpListener, place: usize, backends: Arc<Backends>) {
    loop {
        match listener.accept().await {
            Ok((client, _)) => {
                tokio::spawn(forward(client, place, backends.clone()));
            }
            // No free file descriptors: the waiting client will time out and report it.
            Err(error) => {
                tracing::warn!(%error, "a connection was not accepted");
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        }
    }
}

/// If there is no backend, the client's connection is closed, as by a Service without endpoints.
async fn forward(mut client: TcpStream, place: usize, backends: Arc<Backends>) {
    for port in backends.order(place) {
        // A replica that was just killed refuses the connection; the next one may accept it.
        if let Ok(mut server) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await {
            let _ = client.set_nodelay(true).and_then(|()| server.set_nodelay(true));
            // Either side may close the connection at any time.
            let _ = copy_bidirectional(&mut client, &mut server).await;
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use vmpool_test_cluster::control_plane::free_ports;

    /// A server that sends its name on each connection.
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

    /// The response on each port.
    async fn ask(forwarder: &ReplicaForwarder) -> Vec<String> {
        let mut answers = Vec::new();
        for port in forwarder.ports() {
            let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, *port)).await.unwrap();
            let mut heard = String::new();
            let _ = stream.read_to_string(&mut heard).await;
            answers.push(heard);
        }
        answers
    }

    #[tokio::test]
    async fn the_port_of_a_missing_replica_leads_to_the_others() {
        let forwarder = ReplicaForwarder::start(3).await.unwrap();
        assert_eq!(ask(&forwarder).await, ["", "", ""], "no replica is running");
        forwarder.set(0, Some(speaker("a").await));
        forwarder.set(2, Some(speaker("c").await));
        assert_eq!(ask(&forwarder).await, ["a", "c", "c"]);
        forwarder.set(0, None);
        assert_eq!(ask(&forwarder).await, ["c", "c", "c"]);
        let [dead] = free_ports().unwrap();
        forwarder.set(1, Some(dead));
        assert_eq!(ask(&forwarder).await, ["c", "c", "c"], "a killed replica is skipped");
    }
}
