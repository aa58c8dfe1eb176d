//! Free ports on the loopback address.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, TcpListener};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};

use parking_lot::Mutex;

use crate::error::{Error, Result};

/// The ports of one cluster.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ports {
    pub(super) etcd: u16,
    pub(super) etcd_peer: u16,
    pub(super) api_server: u16,
}

/// The error text of a program whose port is in use, in lower case, because Go and Rust capitalize it
/// differently.
const TAKEN: &str = "address already in use";

/// The reservations of the ports that this process returned last.
static RESERVED: Mutex<VecDeque<UnixListener>> = Mutex::new(VecDeque::new());

/// How many reservations are kept. A program binds its port within seconds, and each one costs a file
/// descriptor.
const RESERVATIONS: usize = 64;

/// Reserves a port among all processes that call this, until the process has reserved many others. The port
/// itself cannot be held, because the program must bind it. Without this, two tests can choose one port, and
/// the health check of one program gets the response of the other.
fn reserve(port: u16) -> bool {
    // The system removes an abstract name with the process.
    let name = SocketAddr::from_abstract_name(format!("vmpool-port-{port}"));
    let Ok(reservation) = name.and_then(|name| UnixListener::bind_addr(&name)) else { return false };
    let mut reserved = RESERVED.lock();
    reserved.push_back(reservation);
    let surplus = reserved.len().saturating_sub(RESERVATIONS);
    reserved.drain(..surplus);
    true
}

/// `N` different unused ports.
///
/// Another process may take a port before the program binds it. Callers detect that with [`is_port_conflict`]
/// and start again.
///
/// # Errors
/// [`Error::Port`] if there is no free port.
pub fn reserve_free_ports<const N: usize>() -> Result<[u16; N]> {
    let mut ports = [0; N];
    // All ports are held until the last is known; otherwise the system could return one twice.
    let mut held = Vec::with_capacity(N);
    for port in &mut ports {
        loop {
            let listener =
                TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|source| Error::Port { source })?;
            *port = listener.local_addr().map_err(|source| Error::Port { source })?.port();
            held.push(listener);
            if reserve(*port) {
                break;
            }
        }
    }
    Ok(ports)
}

/// Whether a child failed because another process took its port.
pub fn is_port_conflict(error: &Error) -> bool {
    matches!(error, Error::Exited { log, .. } if log.lines.to_lowercase().contains(TAKEN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_returned_port_is_reserved() {
        let [port] = reserve_free_ports().unwrap();
        assert!(!reserve(port));
    }

    #[test]
    fn all_ports_differ() {
        let mut ports = reserve_free_ports::<20>().unwrap().to_vec();
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 20);
    }
}
