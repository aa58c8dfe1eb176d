//! What can happen to etcd: it goes and comes back, it stalls, its disk is full.

use serde_json::{Value, json};

use super::{Cluster, Restart, STOP_DEADLINE, components};
use crate::error::{Error, Result};
use crate::process::Process;
use crate::programs::probe;

/// Less than any store takes: the next write finds no space.
const NO_SPACE: u64 = 1;

/// What an operator does to alarms.
const ALARMS: &str = "/v3/maintenance/alarm";

impl Cluster {
    /// Stops etcd and starts it again on the same ports and data, until it listens. The API server notices by itself.
    ///
    /// # Errors
    /// [`Error::Exited`] and [`Error::NotInTime`] with the end of its log.
    pub async fn restart_etcd(&self, how: Restart) -> Result<()> {
        self.renew_etcd(how, None).await
    }

    /// Leaves etcd without space, as a disk does that is full: it takes no write but deletions, until
    /// [`Cluster::clear_disk`]. etcd is restarted for it.
    ///
    /// # Errors
    /// As [`Cluster::restart_etcd`].
    pub async fn fill_disk(&self) -> Result<()> {
        self.renew_etcd(Restart::Killed, Some(NO_SPACE)).await
    }

    /// Does what an operator does after the disk was full: gives etcd space, and takes its alarm back. Returns how
    /// many alarms there were: none, if nobody wrote while there was no space.
    ///
    /// # Errors
    /// As [`Cluster::restart_etcd`], and [`Error::Unexpected`] if etcd keeps its alarm.
    pub async fn clear_disk(&self) -> Result<usize> {
        self.renew_etcd(Restart::Killed, None).await?;
        let raised = self.alarms(&json!({ "action": "GET" })).await?;
        for alarm in &raised {
            // The one that was raised, by the member that raised it.
            let mut disarm = alarm.clone();
            disarm["action"] = json!("DEACTIVATE");
            self.alarms(&disarm).await?;
        }
        let left = self.alarms(&json!({ "action": "GET" })).await?;
        if left.is_empty() {
            Ok(raised.len())
        } else {
            Err(unexpected("no alarm is left", format!("{left:?}")))
        }
    }

    /// Stops etcd where it stands, so that whoever asks waits. [`Cluster::resume_etcd`] lets it go on.
    ///
    /// # Errors
    /// [`Error::Signal`].
    pub fn pause_etcd(&self) -> Result<()> {
        self.etcd.lock().as_ref().map_or(Ok(()), Process::pause)
    }

    /// Lets etcd go on.
    ///
    /// # Errors
    /// [`Error::Signal`].
    pub fn resume_etcd(&self) -> Result<()> {
        self.etcd.lock().as_ref().map_or(Ok(()), Process::resume)
    }

    async fn renew_etcd(&self, how: Restart, space: Option<u64>) -> Result<()> {
        let running = self.etcd.lock().take();
        if let Some(running) = running {
            match how {
                Restart::Graceful => {
                    running.stop(STOP_DEADLINE).await?;
                }
                Restart::Killed => running.kill(),
            }
        }
        let command = components::etcd(self.namespaces(), &self.tools, &self.directory, self.ports, space);
        let etcd = Process::spawn("etcd", command, self.directory.join("etcd.log"))?;
        *self.etcd.lock() = Some(etcd);
        self.until_etcd_listens().await
    }

    /// Asks etcd something about alarms, and returns those that it answers with.
    async fn alarms(&self, request: &Value) -> Result<Vec<Value>> {
        let answer = probe::post(self.ports.etcd, ALARMS, &request.to_string()).await;
        let refused = |last: String| unexpected("etcd answers about its alarms", last);
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
