//! Faults of etcd: restarts, stalls, a full disk.

use serde_json::{Value, json};

use super::components;
use super::running::{ControlPlane, STOP_DEADLINE};
use super::server::RestartMethod;
use crate::error::{Error, Result};
use crate::http_probe;
use crate::process::ChildProcess;

/// Less than the size of any store, so that the next write fails.
const NO_SPACE: u64 = 1;

/// The etcd endpoint for alarms.
const ALARMS: &str = "/v3/maintenance/alarm";

impl ControlPlane {
    /// Restarts etcd with the same ports and data, and waits until it listens. The API server reconnects on
    /// its own.
    ///
    /// # Errors
    /// [`Error::Exited`] and [`Error::NotInTime`] with the end of its log.
    pub async fn restart_etcd(&self, how: RestartMethod) -> Result<()> {
        self.renew_etcd(how, None).await
    }

    /// Makes etcd behave as with a full disk: it refuses all writes except deletions until
    /// [`ControlPlane::clear_disk`]. This restarts etcd.
    ///
    /// # Errors
    /// As [`ControlPlane::restart_etcd`].
    pub async fn fill_disk(&self) -> Result<()> {
        self.renew_etcd(RestartMethod::Killed, Some(NO_SPACE)).await
    }

    /// Performs an operator's steps after a full disk: gives etcd space, and disarms its alarms. Returns the
    /// number of alarms, which is 0 if there was no write while the disk was full.
    ///
    /// # Errors
    /// As [`ControlPlane::restart_etcd`], and [`Error::Unexpected`] if an alarm remains.
    pub async fn clear_disk(&self) -> Result<usize> {
        self.renew_etcd(RestartMethod::Killed, None).await?;
        let raised = self.alarms(&json!({ "action": "GET" })).await?;
        for alarm in &raised {
            // The alarm of the member that raised it.
            let mut disarm = alarm.clone();
            disarm["action"] = json!("DEACTIVATE");
            self.alarms(&disarm).await?;
        }
        let left = self.alarms(&json!({ "action": "GET" })).await?;
        if left.is_empty() {
            Ok(raised.len())
        } else {
            Err(unexpected("no alarm remains", format!("{left:?}")))
        }
    }

    /// Pauses etcd, so that its requests wait until [`ControlPlane::resume_etcd`].
    ///
    /// # Errors
    /// [`Error::Signal`].
    pub fn pause_etcd(&self) -> Result<()> {
        self.etcd.lock().as_ref().map_or(Ok(()), ChildProcess::pause)
    }

    /// Resumes etcd.
    ///
    /// # Errors
    /// [`Error::Signal`].
    pub fn resume_etcd(&self) -> Result<()> {
        self.etcd.lock().as_ref().map_or(Ok(()), ChildProcess::resume)
    }

    async fn renew_etcd(&self, how: RestartMethod, space: Option<u64>) -> Result<()> {
        let running = self.etcd.lock().take();
        if let Some(running) = running {
            match how {
                RestartMethod::Graceful => {
                    running.stop(STOP_DEADLINE).await?;
                }
                RestartMethod::Killed => running.kill(),
            }
        }
        let command =
            components::etcd_command(self.namespaces(), &self.tools, &self.directory, self.ports, space);
        let etcd = ChildProcess::spawn("etcd", command, self.directory.join("etcd.log"))?;
        *self.etcd.lock() = Some(etcd);
        self.until_etcd_listens().await
    }

    /// Sends an alarm request to etcd, and returns the alarms in the response.
    async fn alarms(&self, request: &Value) -> Result<Vec<Value>> {
        let answer = http_probe::post_to_port(self.ports.etcd, ALARMS, &request.to_string()).await;
        let refused = |last: String| unexpected("etcd responds to an alarm request", last);
        match answer {
            Ok((200, body)) => {
                let body: Value =
                    serde_json::from_str(&body).map_err(Error::json("reading etcd's alarms"))?;
                Ok(body["alarms"].as_array().cloned().unwrap_or_default())
            }
            Ok((code, body)) => Err(refused(format!("{code} {body}"))),
            Err(reason) => Err(refused(reason)),
        }
    }
}

fn unexpected(what: &str, last: String) -> Error {
    Error::Unexpected { what: what.to_owned(), last }
}
