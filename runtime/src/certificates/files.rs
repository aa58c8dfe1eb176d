//! File mode: reads the certificate from files and follows their changes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::metrics::{CertificateMetrics, Rotated, Stage};
use crate::env::Env;
use crate::telemetry::with_causes;
use crate::tls::{ServingIdentity, TlsError};

/// The interval between reads of the files. The content is compared, because a mounted Secret changes by
/// renaming a link to its directory.
pub(super) const PERIOD: Duration = Duration::from_secs(5);

/// Why the files are unusable.
#[derive(Debug, thiserror::Error)]
enum FilesError {
    #[error("reading {}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("loading the certificate in {}", path.display())]
    Use { path: PathBuf, source: TlsError },
}

/// Reads two files periodically.
pub(super) struct FileReader {
    certificate: PathBuf,
    key: PathBuf,
    identity: ServingIdentity,
    metrics: CertificateMetrics,
    env: Env,
    served: Option<(Vec<u8>, Vec<u8>)>,
    /// The last logged error, so that it is logged once.
    last_error: Option<String>,
}

impl FileReader {
    pub(super) fn new(
        certificate: PathBuf,
        key: PathBuf,
        identity: ServingIdentity,
        metrics: CertificateMetrics,
        env: Env,
    ) -> Self {
        Self { certificate, key, identity, metrics, env, served: None, last_error: None }
    }

    pub(super) async fn run(mut self) {
        loop {
            match self.read() {
                Ok(()) => self.last_error = None,
                Err(error) => {
                    self.metrics.failed(Stage::Files);
                    let error = with_causes(&error);
                    if self.last_error.as_ref() != Some(&error) {
                        tracing::warn!(error, "reading the certificate failed; keeping the last valid one");
                        self.last_error = Some(error);
                    }
                }
            }
            self.env.sleep(PERIOD).await;
        }
    }

    fn read(&mut self) -> Result<(), FilesError> {
        // A mounted Secret is in a tmpfs, so reading a few kilobytes does not block.
        let pair = (read_file(&self.certificate)?, read_file(&self.key)?);
        if self.served.as_ref() == Some(&pair) {
            return Ok(());
        }
        // If the files change between the two reads, they do not belong together, and the next read succeeds.
        self.identity
            .replace(&pair.0, &pair.1)
            .map_err(|source| FilesError::Use { path: self.certificate.clone(), source })?;
        self.served = Some(pair);
        self.metrics.rotated(Rotated::Files);
        let expires = self.identity.expires();
        self.metrics.expiries(expires, None);
        let expires = expires.map(|expires| expires.to_string());
        tracing::info!(file = %self.certificate.display(), expires, "serving a new certificate");
        Ok(())
    }
}

fn read_file(path: &Path) -> Result<Vec<u8>, FilesError> {
    std::fs::read(path).map_err(|source| FilesError::Read { path: path.to_owned(), source })
}
