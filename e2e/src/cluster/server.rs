//! Starting and restarting the API server.

use std::time::{Duration, Instant};

use http::Request;

use super::{Cluster, READY_DEADLINE, STOP_DEADLINE, components};
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
        let begin = Instant::now();
        loop {
            let last = match self.readyz().await {
                Ok(()) => return Ok(()),
                Err(error) => chain(&error),
            };
            self.check_running(begin, last)?;
            tokio::time::sleep(POLL).await;
        }
    }

    async fn readyz(&self) -> Result<()> {
        const PATH: &str = "/readyz";
        let request = Request::get(PATH).body(Vec::new()).map_err(kube::Error::HttpError);
        let request = request.map_err(Error::api("asking /readyz"))?;
        self.admin.request_text(request).await.map(drop).map_err(Error::api("asking /readyz"))
    }

    /// Fails if etcd or the API server ended, or the deadline has passed.
    fn check_running(&self, begin: Instant, last: String) -> Result<()> {
        for slot in [&self.etcd, &self.api_server] {
            if let Some(part) = &*slot.lock()
                && let Some(status) = part.exit_status()
            {
                return Err(part.exited(status));
            }
        }
        if begin.elapsed() > READY_DEADLINE {
            let slot = self.api_server.lock();
            if let Some(part) = &*slot {
                return Err(part.not_in_time("ready", READY_DEADLINE, last));
            }
        }
        Ok(())
    }

    pub(super) async fn until_etcd_listens(&self) -> Result<()> {
        let begin = Instant::now();
        loop {
            // A connection alone proves nothing where a forwarder takes it.
            let last = match probe::get(self.ports.etcd, "/version").await {
                Ok((200, _)) => return Ok(()),
                Ok((code, body)) => format!("/version answered {code} {body}"),
                Err(reason) => reason,
            };
            if let Some(etcd) = &*self.etcd.lock() {
                if let Some(status) = etcd.exit_status() {
                    return Err(etcd.exited(status));
                }
                if begin.elapsed() > READY_DEADLINE {
                    return Err(etcd.not_in_time("ready", READY_DEADLINE, last));
                }
            }
            tokio::time::sleep(POLL).await;
        }
    }
}
