//! What a Service does for its Pods: one address in front of several replicas.

use std::net::Ipv4Addr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::AbortOnDropHandle;

use crate::error::{Error, Result};

/// Hands connections on to the replicas, until it is dropped. There is a port for each replica; one that is not there
/// is stood in for by the others.
///
/// With a single port, all requests would go to one replica: the API server has one connection to an address, however
/// many requests there are. A Service hides as much from it; whoever wants several replicas to be asked at a time gives
/// the API server several ports.
///
/// As with a Service, a backend that leaves gets no new connections and keeps those that it has.
#[derive(Debug)]
pub(super) struct Forwarder {
    ports: Vec<u16>,
    backends: Arc<Backends>,
    _tasks: Vec<AbortOnDropHandle<()>>,
}

/// One place per replica, with the port of the replica that is there.
#[derive(Debug)]
struct Backends(Mutex<Vec<Option<u16>>>);

impl Backends {
    /// The ports to be tried for a new connection that is meant for the replica at `place`.
    fn order(&self, place: usize) -> Vec<u16> {
        let mut places = self.0.lock().clone();
        places.rotate_left(place);
        places.into_iter().flatten().collect()
    }
}

impl Forwarder {
    /// Listens on a free loopback port for each of so many replicas, of which none is there yet.
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

    /// Where it listens, in the order of the replicas.
    pub(super) fn ports(&self) -> &[u16] {
        &self.ports
    }

    /// The replica at this place is ready on a port, or takes no new connections any more.
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
            // Out of file descriptors: whoever waits will time out and say so.
            Err(error) => {
                tracing::warn!(%error, "a connection was not accepted");
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        }
    }
}

/// A client without any backend is hung up on, which is what a Service without endpoints amounts to.
async fn forward(mut client: TcpStream, place: usize, backends: Arc<Backends>) {
    for port in backends.order(place) {
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

    /// What each of the ports answers.
    async fn ask(forwarder: &Forwarder) -> Vec<String> {
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
    async fn each_replica_has_a_port_and_those_that_are_there_stand_in_for_the_others() {
        let forwarder = Forwarder::start(3).await.unwrap();
        assert_eq!(ask(&forwarder).await, ["", "", ""], "nobody is there");
        forwarder.set(0, Some(speaker("a").await));
        forwarder.set(2, Some(speaker("c").await));
        assert_eq!(ask(&forwarder).await, ["a", "c", "c"]);
        forwarder.set(0, None);
        assert_eq!(ask(&forwarder).await, ["c", "c", "c"]);
        let [dead] = free_ports().unwrap();
        forwarder.set(1, Some(dead));
        assert_eq!(ask(&forwarder).await, ["c", "c", "c"], "a dead one is passed over");
    }
}
