//! Free ports on the loopback address.

use std::net::{Ipv4Addr, TcpListener};

use crate::error::{Error, Result};

/// Words with which a program says that its port was taken after all, in lower case: Go and Rust differ in that.
const TAKEN: &str = "address already in use";

/// `N` different ports that nobody listens on at this moment.
///
/// Somebody may take one before the program that needs it binds it, so callers start again when
/// [`was_taken`] recognises that.
///
/// # Errors
/// [`Error::Port`] if the system has none.
pub fn free<const N: usize>() -> Result<[u16; N]> {
    let mut ports = [0; N];
    // All are held until the last is known, or the system may hand out one twice.
    let mut held = Vec::with_capacity(N);
    for port in &mut ports {
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|source| Error::Port { source })?;
        *port = listener.local_addr().map_err(|source| Error::Port { source })?.port();
        held.push(listener);
    }
    Ok(ports)
}

/// Whether a child failed because its port was taken in between.
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
