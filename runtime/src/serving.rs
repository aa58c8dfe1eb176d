//! A program that the API server calls: probes, a client, a certificate that is kept right, and an HTTPS port.
//!
//! ```text
//!  open ─── probes bound ──> client ──> HTTPS port bound          what keeps it from starting is told here
//!  serve ── certificate kept, requests answered, probes answered
//!             stop ──> linger, drain ──> the probes end
//! ```
//!
//! The probes outlive the requests under way: a kubelet that gets no answer would kill them.

use std::fmt;
use std::io;
use std::net::SocketAddr;

use axum::Router;
use futures::future::{Either, select};
use futures::pin_mut;
use kube::Client;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::args::{ClientArgs, HealthArgs};
use crate::certificates::{self, CertificateMetrics, ServingConfig, Source};
use crate::client::{self, ConnectError};
use crate::env::Env;
use crate::health::{Health, HealthError, Server as ProbeServer};
use crate::https::{Limits, Server, TrafficMetrics};
use crate::tls::{ClientCas, Identity};

/// Why the program could not go on.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// There is no way to the API server.
    #[error("connecting to the API server")]
    Connect(#[from] ConnectError),
    /// The probes cannot be served.
    #[error(transparent)]
    Health(#[from] HealthError),
    /// The HTTPS port cannot be had.
    #[error("listening on {address} for HTTPS")]
    Listen {
        /// The wanted address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The HTTPS server ended by itself.
    #[error("serving HTTPS")]
    Serve(#[source] io::Error),
}

/// A program that has its ports and its client, and answers nobody yet.
pub struct Program {
    health: Health,
    probes: ProbeServer,
    client: Client,
    listener: TcpListener,
    address: SocketAddr,
    source: Source,
}

/// What a program does with requests.
#[derive(Debug)]
pub struct Service {
    /// The answers.
    pub router: Router,
    /// Whose client certificates are believed.
    pub clients: ClientCas,
    /// What one client may take.
    pub limits: Limits,
    /// Where the certificate is told about.
    pub certificates: CertificateMetrics,
    /// Where connections are told about.
    pub traffic: TrafficMetrics,
}

impl Program {
    /// Binds both ports and makes the client. `agent` is what the client calls itself, as `NAME/VERSION`.
    ///
    /// # Errors
    /// [`ServeError`], for the first of them that cannot be had.
    pub async fn open(
        agent: &str,
        serving: ServingConfig,
        client: &ClientArgs,
        health: &HealthArgs,
    ) -> Result<Self, ServeError> {
        let ServingConfig { address, source } = serving;
        let probes = ProbeServer::bind(health.health_address).await?;
        let client = client::connect(client, agent).await?;
        let failed = |source| ServeError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        tracing::info!(%address, "serving HTTPS");
        Ok(Self { health: Health::new(), probes, client, listener, address, source })
    }

    /// The client. It repeats nothing by itself.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Where it listens for HTTPS, with the port that was taken.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where it answers probes, with the port that was taken.
    pub fn probe_address(&self) -> SocketAddr {
        self.probes.address()
    }

    /// What the probes say, to which checks and the page about metrics can be added.
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// Keeps the certificate, and answers requests and probes until `stop`; then until what is under way is answered.
    /// There is a readiness check `certificate`, which fails until there is one to show.
    ///
    /// # Errors
    /// [`ServeError::Serve`] and [`ServeError::Health`], if one of the servers ends by itself.
    pub async fn serve(self, service: Service, env: &Env, stop: CancellationToken) -> Result<(), ServeError> {
        let Self { health, probes, client, listener, address: _, source } = self;
        let Service { router, clients, limits, certificates, traffic } = service;
        let identity = Identity::new();
        health.ready("certificate", {
            let identity = identity.clone();
            move || if identity.is_ready() { Ok(()) } else { Err("there is no certificate yet".to_owned()) }
        });
        // It ends when it is dropped, with this function.
        let kept = certificates::keep(client, source, identity.clone(), certificates, env.clone());
        let _kept = env.spawn("certificate", kept);
        let server = Server::new(identity, clients, limits, env.clone()).metrics(traffic);
        let serving = server.serve(listener, router, stop.cancelled_owned());
        let drained = CancellationToken::new();
        let probing = probes.run(health, env, drained.clone());
        pin_mut!(serving, probing);
        match select(serving, probing).await {
            Either::Left((served, probing)) => {
                drained.cancel();
                probing.await?;
                served.map_err(ServeError::Serve)
            }
            Either::Right((ended, _)) => Ok(ended?),
        }
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program")
            .field("address", &self.address)
            .field("probes", &self.probes)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
