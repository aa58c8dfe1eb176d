//! Files mode: the certificate is somebody else's, and follows its files.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::metrics::{CertificateMetrics, Rotated, Stage};
use crate::env::Env;
use crate::telemetry::with_causes;
use crate::tls::{Identity, TlsError};

/// How often the files are read. By content, because a mounted Secret changes by renaming a link that is not the file.
pub(super) const PERIOD: Duration = Duration::from_secs(5);

/// Why the files are no use now.
#[derive(Debug, thiserror::Error)]
enum FilesError {
    #[error("reading {}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("serving the certificate of {}", path.display())]
    Use { path: PathBuf, source: TlsError },
}

/// Follows two files.
pub(super) struct Follower {
    certificate: PathBuf,
    key: PathBuf,
    identity: Identity,
    metrics: CertificateMetrics,
    env: Env,
    shown: Option<(Vec<u8>, Vec<u8>)>,
    /// The last complaint, so that it is said once.
    complaint: Option<String>,
}

impl Follower {
    pub(super) fn new(
        certificate: PathBuf,
        key: PathBuf,
        identity: Identity,
        metrics: CertificateMetrics,
        env: Env,
    ) -> Self {
        Self { certificate, key, identity, metrics, env, shown: None, complaint: None }
    }

    pub(super) async fn run(mut self) {
        loop {
            match self.follow() {
                Ok(()) => self.complaint = None,
                Err(error) => {
                    self.metrics.failed(Stage::Files);
                    let complaint = with_causes(&error);
                    if self.complaint.as_ref() != Some(&complaint) {
                        tracing::warn!(error = complaint, "the certificate stays as it is");
                        self.complaint = Some(complaint);
                    }
                }
            }
            self.env.sleep(PERIOD).await;
        }
    }

    fn follow(&mut self) -> Result<(), FilesError> {
        // A few kilobytes from memory: mounted Secrets are in a tmpfs. Not worth a thread.
        let pair = (read(&self.certificate)?, read(&self.key)?);
        if self.shown.as_ref() == Some(&pair) {
            return Ok(());
        }
        // The files may change between the two reads: then they do not belong together, and the next look helps.
        self.identity
            .replace(&pair.0, &pair.1)
            .map_err(|source| FilesError::Use { path: self.certificate.clone(), source })?;
        self.shown = Some(pair);
        self.metrics.rotated(Rotated::Files);
        let expires = self.identity.expires();
        self.metrics.expiries(expires, None);
        let expires = expires.map(|expires| expires.to_string());
        tracing::info!(file = %self.certificate.display(), expires, "serving a new certificate");
        Ok(())
    }
}

fn read(path: &Path) -> Result<Vec<u8>, FilesError> {
    std::fs::read(path).map_err(|source| FilesError::Read { path: path.to_owned(), source })
}
