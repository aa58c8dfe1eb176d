//! Controllers that are killed at a selected write, and which of the trials run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use vmpool_installation::fault_proxy::{DropPoint, FaultProxy, RequestLine, WatchFault};
use vmpool_installation::programs::ControllerProgram;
use vmpool_test_cluster::error::Result;
use vmpool_test_cluster::poll;

use crate::world::DEADLINE;

/// A controller without further writes is quiet for this long. It is several times the period for which it
/// collects changes.
const QUIET: Duration = Duration::from_millis(600);

/// Which trials run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coverage {
    /// One crash and one watch fault for each scenario, always the same.
    Sample,
    /// Every crash and every watch fault.
    All,
}

impl Coverage {
    /// The coverage from the environment.
    pub fn from_environment() -> Self {
        if std::env::var("VMPOOL_CRASHES").is_ok_and(|coverage| coverage == "all") {
            Self::All
        } else {
            Self::Sample
        }
    }
}

/// Whether the trial with this name runs: `VMPOOL_ONLY` is a part of its name, or empty.
pub fn is_selected(trial: &str) -> bool {
    trial.contains(&std::env::var("VMPOOL_ONLY").unwrap_or_default())
}

/// Which process continues after the leader was killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Successor {
    /// The same controller, restarted with empty caches, after the lease has expired.
    Restarted,
    /// A standby, after the lease has expired. The killed controller restarts at the end of the scenario.
    Standby,
}

impl Successor {
    /// Both kinds.
    pub const BOTH: [Self; 2] = [Self::Restarted, Self::Standby];

    /// The number of controllers that it needs.
    pub fn controllers(self) -> usize {
        match self {
            Self::Restarted => 1,
            Self::Standby => 2,
        }
    }

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Restarted => "restart",
            Self::Standby => "standby",
        }
    }
}

/// A controller whose requests go through a fault proxy of its own.
type Proxied = (Arc<ControllerProgram>, FaultProxy);

/// The controllers of one world, each with its own fault proxy.
pub struct Controllers {
    successor: Successor,
    proxied: Vec<Proxied>,
    /// Selects the writes that are recorded.
    counts: fn(&RequestLine) -> bool,
    /// Whether a controller was killed since the last call of [`Controllers::kill_at`].
    killed: Arc<AtomicBool>,
}

impl Controllers {
    /// These controllers: one, or with a standby two. `counts` selects the writes that are recorded.
    pub fn new(successor: Successor, proxied: Vec<Proxied>, counts: fn(&RequestLine) -> bool) -> Self {
        Self { successor, proxied, counts, killed: Arc::default() }
    }

    /// Kills the controller that sends the next matching write, after `skip` others. Only a leader writes.
    pub fn kill_at(
        &self,
        filter: impl Fn(&RequestLine) -> bool + Clone + Send + 'static,
        skip: usize,
        drop_point: DropPoint,
    ) {
        self.killed.store(false, Ordering::SeqCst);
        for (controller, proxy) in &self.proxied {
            let (controller, killed) = (controller.clone(), self.killed.clone());
            proxy.trap(filter.clone(), skip, drop_point, move || {
                controller.kill();
                killed.store(true, Ordering::SeqCst);
            });
        }
    }

    /// Whether a controller was killed.
    pub fn has_killed(&self) -> bool {
        self.killed.load(Ordering::SeqCst)
    }

    /// Removes all traps.
    pub fn remove_traps(&self) {
        for (_, proxy) in &self.proxied {
            proxy.disarm();
        }
    }

    /// Restarts the killed controller, unless a standby takes over.
    ///
    /// # Errors
    /// As [`ControllerProgram::start`].
    pub async fn start_successor(&self) -> Result<()> {
        if self.successor == Successor::Restarted { self.restart_killed().await } else { Ok(()) }
    }

    /// Restarts the killed controller.
    ///
    /// # Errors
    /// As [`ControllerProgram::start`].
    pub async fn restart_killed(&self) -> Result<()> {
        for (controller, _) in &self.proxied {
            if controller.pid().is_none() {
                controller.restart().await?;
            }
        }
        Ok(())
    }

    /// Sets the watch fault of these resources for all controllers.
    pub fn set_watch_fault(&self, resources: &[&str], fault: WatchFault) {
        self.proxied.iter().for_each(|(_, proxy)| proxy.set_watch_fault(resources, fault));
    }

    /// Ends all watch faults.
    pub fn release(&self) {
        self.proxied.iter().for_each(|(_, proxy)| proxy.release());
    }

    /// The refused resources that have not been listed again.
    pub fn unlisted<'a>(&self, resources: &[&'a str]) -> Vec<&'a str> {
        let refused = |resource: &&&str| self.proxied.iter().any(|(_, proxy)| proxy.refuses(resource));
        resources.iter().filter(refused).copied().collect()
    }

    /// Clears the recorded writes.
    pub fn clear_requests(&self) {
        self.proxied.iter().for_each(|(_, proxy)| proxy.clear_requests());
    }

    /// The recorded writes. They are in order while there is only one leader.
    pub fn writes(&self) -> Vec<RequestLine> {
        let all = self.proxied.iter().flat_map(|(_, proxy)| proxy.requests());
        all.filter(self.counts).collect()
    }

    /// Waits until there is a leader that has stopped writing. While a standby waits for the lease, silence
    /// means nothing: the work of the killed leader is still to be done.
    ///
    /// # Errors
    /// [`vmpool_test_cluster::Error::Deadline`].
    pub async fn until_quiet(&self) -> Result<()> {
        let mut before = self.leader_writes().await;
        poll::poll_until(
            || "the controllers have stopped writing".to_owned(),
            DEADLINE,
            async || {
                tokio::time::sleep(QUIET).await;
                let now = self.leader_writes().await;
                let known = std::mem::replace(&mut before, now);
                Ok(if now.is_some() && known == now {
                    Ok(())
                } else {
                    Err(format!("writes of the leader: {now:?}, earlier {known:?}"))
                })
            },
        )
        .await
    }

    /// The number of recorded writes, if there is a leader.
    async fn leader_writes(&self) -> Option<usize> {
        for (controller, _) in &self.proxied {
            if controller.leads().await == Some(true) {
                return Some(self.writes().len());
            }
        }
        None
    }
}
