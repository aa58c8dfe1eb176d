//! Serving the health endpoints.

use std::io;
use std::net::SocketAddr;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::Health;

/// Why health is not served.
#[derive(Debug, thiserror::Error)]
pub enum HealthError {
    /// The address cannot be listened on.
    #[error("listening on {address} for health checks")]
    Listen {
        /// The wanted address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The server ended by itself.
    #[error("serving health checks")]
    Serve(#[source] io::Error),
}

/// A server that has its address but does not answer yet.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
}

impl Server {
    /// Listens on `address`; port 0 takes a free one. The address is logged.
    ///
    /// # Errors
    /// [`HealthError::Listen`].
    pub async fn bind(address: SocketAddr) -> Result<Self, HealthError> {
        let failed = |source| HealthError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        tracing::info!(%address, "serving health checks");
        Ok(Self { listener, address })
    }

    /// Where it listens, with the port that was taken.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until `shutdown` fires.
    ///
    /// # Errors
    /// [`HealthError::Serve`].
    pub async fn run(self, health: Health, shutdown: CancellationToken) -> Result<(), HealthError> {
        axum::serve(self.listener, health.router())
            .with_graceful_shutdown(shutdown.cancelled_owned())
            .await
            .map_err(HealthError::Serve)
    }
}

impl Health {
    /// Listens on `address` and answers until `shutdown` fires.
    ///
    /// # Errors
    /// [`HealthError`] if the address is taken or the server ends by itself.
    pub async fn serve(self, address: SocketAddr, shutdown: CancellationToken) -> Result<(), HealthError> {
        Server::bind(address).await?.run(self, shutdown).await
    }
}
