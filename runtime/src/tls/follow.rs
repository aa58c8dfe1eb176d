//! Authorities of clients that are kept in a file.

use std::path::PathBuf;
use std::time::Duration;

use super::ClientCas;
use crate::env::Env;
use crate::telemetry::with_causes;

/// How often the file is read. By content, because a mounted ConfigMap changes by renaming a link that is not the file.
const PERIOD: Duration = Duration::from_secs(5);

impl ClientCas {
    /// Accepts the clients of the authorities in a PEM file, for ever. What cannot be read changes nothing: the last good ones
    /// stay, and it is logged once.
    pub async fn follow(self, file: PathBuf, env: Env) {
        let mut complaint = None;
        loop {
            // A few kilobytes from memory: mounted ConfigMaps are in a tmpfs. Not worth a thread.
            let read = std::fs::read(&file).map_err(|error| with_causes(&error));
            match read.and_then(|pem| self.replace(&pem).map_err(|error| with_causes(&error))) {
                Ok(changed) => {
                    if changed {
                        tracing::info!(file = %file.display(), "accepting clients of new authorities");
                    }
                    complaint = None;
                }
                Err(error) => {
                    if complaint.as_ref() != Some(&error) {
                        tracing::warn!(file = %file.display(), error, "the authorities of clients stay as they are");
                        complaint = Some(error);
                    }
                }
            }
            env.sleep(PERIOD).await;
        }
    }
}
