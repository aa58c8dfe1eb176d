//! Starting and restarting the API server.

use std::time::Duration;

use parking_lot::Mutex;

use super::accounts::get_text;
use super::components;
use super::running::{ControlPlane, READY_DEADLINE, STOP_DEADLINE, check_running};
use crate::deadline::Deadline;
use crate::error::{Error, Result, error_with_causes};
use crate::http_probe;
use crate::process::ChildProcess;

/// Poll interval for readiness.
const POLL: Duration = Duration::from_millis(50);

/// How the API server is stopped before it restarts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestartMethod {
    /// With SIGTERM: it completes open requests.
    Graceful,
    /// With SIGKILL: connections break, and open requests get no response.
    Killed,
}

impl ControlPlane {
    /// Restarts the API server with the same port and data, and waits until it is ready.
    ///
    /// # Errors
    /// [`Error::Exited`] and [`Error::NotInTime`] with the end of its log.
    pub async fn restart_api_server(&self, how: RestartMethod) -> Result<()> {
        let running = self.api_server.lock().take();
        if let Some(running) = running {
            match how {
                RestartMethod::Graceful => {
                    running.stop(STOP_DEADLINE).await?;
                }
                RestartMethod::Killed => running.kill(),
            }
        }
        self.start_api_server().await
    }

    /// Starts the API server and waits until it is ready.
    pub(super) async fn start_api_server(&self) -> Result<()> {
        let command = components::api_server_command(
            self.namespaces(),
            &self.tools,
            &self.directory,
            &self.pki,
            self.ports,
            &self.audit,
        );
        let server =
            ChildProcess::spawn("kube-apiserver", command, self.directory.join("kube-apiserver.log"))?;
        *self.api_server.lock() = Some(server);
        let deadline = Deadline::after(READY_DEADLINE);
        loop {
            let last = match get_text(&self.admin, "/readyz").await {
                Ok(_) => return Ok(()),
                Err(error) => error_with_causes(&error),
            };
            check_running(&self.etcd)?;
            check_begun(&self.api_server, &deadline, last)?;
            tokio::time::sleep(POLL).await;
        }
    }

    pub(super) async fn until_etcd_listens(&self) -> Result<()> {
        let deadline = Deadline::after(READY_DEADLINE);
        loop {
            // A connection alone is not enough, because a forwarder may accept it.
            let last = match http_probe::get_from_port(self.ports.etcd, "/version").await {
                Ok((200, _)) => return Ok(()),
                Ok((code, body)) => format!("/version returned {code} {body}"),
                Err(reason) => reason,
            };
            check_begun(&self.etcd, &deadline, last)?;
            tokio::time::sleep(POLL).await;
        }
    }
}

/// Fails if a part exited before it was ready, or if its start timed out; `last` is the last observation.
pub(super) fn check_begun(
    part: &Mutex<Option<ChildProcess>>,
    deadline: &Deadline,
    last: String,
) -> Result<()> {
    check_running(part)?;
    if !deadline.is_over() {
        return Ok(());
    }
    Err(match &*part.lock() {
        Some(part) => part.not_in_time("ready", deadline.elapsed(), last),
        // The scenario has stopped the part meanwhile.
        None => Error::Deadline {
            what: "a part of the control plane is ready".to_owned(),
            after: deadline.elapsed(),
            last,
        },
    })
}
