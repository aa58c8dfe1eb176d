//! A socket of this process on the network inside the namespaces, through which programs there reach the
//! harness.

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};

use super::forwarder::enter_network_namespace;
use crate::error::{Error, Result};

/// Listens on a free port of an address of `network`.
///
/// # Errors
/// [`Error::Port`] if the network cannot be entered or has no such address.
pub(super) fn listen_in_network(network: File, address: Ipv4Addr) -> Result<TcpListener> {
    // A thread that has entered another network namespace is not reused.
    let thread = std::thread::spawn(move || {
        enter_network_namespace(&network)?;
        let listener = TcpListener::bind((address, 0))?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    });
    let gone = |_panic| Err(std::io::Error::other("the listening thread has panicked"));
    thread.join().unwrap_or_else(gone).map_err(|source| Error::Port { source })
}
