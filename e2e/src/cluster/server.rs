//! Starting and restarting the API server.

use std::time::Duration;

use parking_lot::Mutex;

use super::accounts::get_text;
use super::{Cluster, READY_DEADLINE, STOP_DEADLINE, components};
use crate::deadline::Deadline;
use crate::error::{Error, Result, chain};
use crate::process::Process;
use crate::programs::probe;

/// How often readiness is asked for.
const POLL: Duration = Duration::from_millis(50);

/// How the API server goes before it comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restart {
    /// With SIGTERM: it finishes what it has begun.
    Graceful,
    /// With SIGKILL: connections break, requests in flight get no answer.
    Killed,
}

impl Cluster {
    /// Stops the API server and starts it again on the same port and data, until it is ready.
    ///
    /// # Errors
    /// [`Error::Exited`] and [`Error::NotInTime`] with the end of its log.
    pub async fn restart_api_server(&self, how: Restart) -> Result<()> {
        let running = self.api_server.lock().take();
        if let Some(running) = running {
            match how {
                Restart::Graceful => {
                    running.stop(STOP_DEADLINE).await?;
                }
                Restart::Killed => running.kill(),
            }
        }
        self.start_api_server().await
    }

    /// Starts the API server and waits for its readiness.
    pub(super) async fn start_api_server(&self) -> Result<()> {
        let command = components::api_server(
            self.namespaces(),
            &self.tools,
            &self.directory,
            &self.pki,
            self.ports,
            self.audit,
        );
        let server = Process::spawn("kube-apiserver", command, self.directory.join("kube-apiserver.log"))?;
        *self.api_server.lock() = Some(server);
        let deadline = Deadline::after(READY_DEADLINE);
        loop {
            let last = match get_text(&self.admin, "/readyz").await {
                Ok(_) => return Ok(()),
                Err(error) => chain(&error),
            };
            check_running(&self.etcd)?;
            check_begun(&self.api_server, &deadline, last)?;
            tokio::time::sleep(POLL).await;
        }
    }

    pub(super) async fn until_etcd_listens(&self) -> Result<()> {
        let deadline = Deadline::after(READY_DEADLINE);
        loop {
            // A connection alone proves nothing where a forwarder takes it.
            let last = match probe::get(self.ports.etcd, "/version").await {
                Ok((200, _)) => return Ok(()),
                Ok((code, body)) => format!("/version answered {code} {body}"),
                Err(reason) => reason,
            };
            check_begun(&self.etcd, &deadline, last)?;
            tokio::time::sleep(POLL).await;
        }
    }
}

/// Fails if a part has ended by itself.
pub(super) fn check_running(part: &Mutex<Option<Process>>) -> Result<()> {
    part.lock().as_ref().map_or(Ok(()), Process::check)
}

/// Fails if a part has ended before it was ready, or the deadline for its start is over; `last` is what was seen of it.
pub(super) fn check_begun(part: &Mutex<Option<Process>>, deadline: &Deadline, last: String) -> Result<()> {
    check_running(part)?;
    if !deadline.is_over() {
        return Ok(());
    }
    Err(match &*part.lock() {
        Some(part) => part.not_in_time("ready", deadline.elapsed(), last),
        // The scenario has stopped it meanwhile.
        None => Error::Deadline {
            what: "a part of the control plane is ready".to_owned(),
            after: deadline.elapsed(),
            last,
        },
    })
}
