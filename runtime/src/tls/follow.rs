//! Certificate authorities of clients from a file.

use std::path::PathBuf;
use std::time::Duration;

use super::clients::ClientCas;
use crate::env::Env;
use crate::telemetry::with_causes;

/// The interval between reads of the file. The content is compared, because a mounted ConfigMap changes by
/// renaming a link to its directory.
const PERIOD: Duration = Duration::from_secs(5);

impl ClientCas {
    /// Reads the authorities from a PEM file periodically and never returns. If the file is unusable, the
    /// last valid authorities stay in use, and the error is logged once.
    pub async fn follow(self, file: PathBuf, env: Env) {
        let mut last_error = None;
        loop {
            // A mounted ConfigMap is in a tmpfs, so reading a few kilobytes does not block.
            let read = std::fs::read(&file).map_err(|error| with_causes(&error));
            match read.and_then(|pem| self.replace(&pem).map_err(|error| with_causes(&error))) {
                Ok(changed) => {
                    if changed {
                        tracing::info!(file = %file.display(), "client certificate authorities replaced");
                    }
                    last_error = None;
                }
                Err(error) => {
                    if last_error.as_ref() != Some(&error) {
                        tracing::warn!(file = %file.display(), error, "reading client certificate authorities failed; keeping the last valid ones");
                        last_error = Some(error);
                    }
                }
            }
            env.sleep(PERIOD).await;
        }
    }
}
