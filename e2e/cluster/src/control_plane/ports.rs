//! Free ports on the loopback address.

use std::net::{Ipv4Addr, TcpListener};

use crate::error::{Error, Result};

/// The ports of one cluster.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ports {
    pub(super) etcd: u16,
    pub(super) etcd_peer: u16,
    pub(super) api_server: u16,
}

/// The error text of a program whose port is in use, in lower case, because Go and Rust capitalize it differently.
const TAKEN: &str = "address already in use";

/// `N` different unused ports.
///
/// Another process may take a port before the program binds it. Callers detect that with [`was_taken`] and start again.
///
/// # Errors
/// [`Error::Port`] if there is no free port.
pub fn free<const N: usize>() -> Result<[u16; N]> {
    let mut ports = [0; N];
    // All ports are held until the last is known; otherwise the system could return one twice.
    let mut held = Vec::with_capacity(N);
    for port in &mut ports {
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|source| Error::Port { source })?;
        *port = listener.local_addr().map_err(|source| Error::Port { source })?.port();
        held.push(listener);
    }
    Ok(ports)
}

/// Whether a child failed because another process took its port.
pub fn was_taken(error: &Error) -> bool {
    matches!(error, Error::Exited { log, .. } if log.lines.to_lowercase().contains(TAKEN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_ports_differ() {
        let mut ports = free::<20>().unwrap().to_vec();
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 20);
    }
}
