//! A program that kube-apiserver calls: health endpoints, a client, a maintained certificate and an HTTPS
//! port.
//!
//! ```text
//!  open ─── bind health port ──> client ──> bind HTTPS port          startup errors are returned here
//!  serve ── maintain the certificate, serve requests and health endpoints
//!             stop ──> linger, drain ──> the health endpoints end
//! ```
//!
//! The health endpoints end after the requests in flight. Otherwise probes would fail, and the kubelet would
//! kill the process while it handles requests.

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
use crate::certificates::{self, CertificateMetrics, CertificateSource, ServingConfig};
use crate::client::{self, ConnectError};
use crate::env::Env;
use crate::health::{HealthEndpoints, HealthError, HealthServer as ProbeServer, MetricsAccess, Unhealthy};
use crate::https::{HttpsServer, Limits, TrafficMetrics};
use crate::tls::{ClientCas, ServingIdentity};

/// Why the program exits.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// No client for the API server could be created.
    #[error("connecting to the API server")]
    Connect(#[from] ConnectError),
    /// The health endpoints cannot be served.
    #[error(transparent)]
    Health(#[from] HealthError),
    /// The server cannot listen on the HTTPS address.
    #[error("listening on {address} for HTTPS")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The error of the system.
        source: io::Error,
    },
    /// The HTTPS server ended unexpectedly.
    #[error("serving HTTPS")]
    Serve(#[source] io::Error),
}

/// A program with bound ports and a client, which does not serve yet.
pub struct BoundProgram {
    health: HealthEndpoints,
    probes: ProbeServer,
    client: Client,
    listener: TcpListener,
    address: SocketAddr,
    source: CertificateSource,
    /// Whether `/metrics` requires a token.
    metrics_authorization: bool,
}

/// The service of a program.
#[derive(Debug)]
pub struct ProgramService {
    /// The router for requests.
    pub router: Router,
    /// The certificate authorities of clients.
    pub clients: ClientCas,
    /// The limits of the server.
    pub limits: Limits,
    /// The metrics of the certificate.
    pub certificates: CertificateMetrics,
    /// The metrics of connections.
    pub traffic: TrafficMetrics,
}

impl BoundProgram {
    /// Binds both ports and creates the client. `agent` is the user agent of the client, as `NAME/VERSION`.
    ///
    /// # Errors
    /// [`ServeError`] for the first step that fails.
    pub async fn open(
        agent: &str,
        serving: ServingConfig,
        client: &ClientArgs,
        health: &HealthArgs,
    ) -> Result<Self, ServeError> {
        let ServingConfig { address, source } = serving;
        let probes = ProbeServer::bind(health.health_address).await?;
        let client = client::connect_client(client, agent).await?;
        let failed = |source| ServeError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        tracing::info!(%address, "serving HTTPS");
        let metrics_authorization = health.metrics_authorization;
        Ok(Self {
            health: HealthEndpoints::new(),
            probes,
            client,
            listener,
            address,
            source,
            metrics_authorization,
        })
    }

    /// The client. It does not retry by itself.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// The HTTPS address, with the selected port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address of the health endpoints, with the selected port.
    pub fn probe_address(&self) -> SocketAddr {
        self.probes.address()
    }

    /// The health endpoints, to which checks and the metrics page can be added.
    pub fn health(&self) -> &HealthEndpoints {
        &self.health
    }

    /// Maintains the certificate and serves until `stop` is cancelled, and then until the requests in flight
    /// are answered. The readiness check `certificate` fails until there is a certificate.
    ///
    /// # Errors
    /// [`ServeError::Serve`] and [`ServeError::Health`] if one of the servers ends unexpectedly.
    pub async fn serve(
        self,
        service: ProgramService,
        env: &Env,
        stop: CancellationToken,
    ) -> Result<(), ServeError> {
        let Self { health, probes, client, listener, address: _, source, metrics_authorization } = self;
        if metrics_authorization {
            health.restrict_metrics(MetricsAccess::new(client.clone(), env.clone()));
        }
        let ProgramService { router, clients, limits, certificates, traffic } = service;
        let identity = ServingIdentity::new();
        health.ready("certificate", {
            let identity = identity.clone();
            move || {
                if identity.is_ready() { Ok(()) } else { Err(Unhealthy::new("there is no certificate yet")) }
            }
        });
        // The task ends when this function returns and drops it.
        let certificate =
            certificates::maintain_certificate(client, source, identity.clone(), certificates, env.clone());
        let _certificate = env.spawn("certificate", certificate);
        let server = HttpsServer::new(identity, clients, limits, env.clone()).metrics(traffic);
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

impl fmt::Debug for BoundProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program")
            .field("address", &self.address)
            .field("probes", &self.probes)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
