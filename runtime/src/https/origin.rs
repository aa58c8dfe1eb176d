//! The client of a connection.

use std::net::SocketAddr;

use parking_lot::Mutex;
use rustls::pki_types::CertificateDer;

use super::config::Peer;
use super::hyper_env::unix_time;
use crate::env::Env;
use crate::tls::{ClientCas, PeerCertificate};

/// The client of a connection.
#[derive(Debug)]
pub(super) struct ConnectionClient {
    address: SocketAddr,
    chain: Vec<CertificateDer<'static>>,
    clients: ClientCas,
    /// The last result of the verification, and the generation of authorities that it used.
    verified: Mutex<(u64, Option<PeerCertificate>)>,
}

impl ConnectionClient {
    pub(super) fn new(
        address: SocketAddr,
        chain: Vec<CertificateDer<'static>>,
        clients: &ClientCas,
        env: &Env,
    ) -> Self {
        let snapshot = clients.snapshot();
        let verified = (snapshot.generation, snapshot.verify(&chain, unix_time(env)));
        Self { address, chain, clients: clients.clone(), verified: Mutex::new(verified) }
    }

    /// The remote address of the connection.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The peer of a request that arrives now.
    pub(super) fn peer(&self, env: &Env) -> Peer {
        let mut verified = self.verified.lock();
        if verified.0 != self.clients.generation() {
            let snapshot = self.clients.snapshot();
            *verified = (snapshot.generation, snapshot.verify(&self.chain, unix_time(env)));
        }
        Peer { certificate: verified.1.clone(), address: self.address }
    }
}
