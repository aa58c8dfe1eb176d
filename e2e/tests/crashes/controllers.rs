//! Controllers that are killed at a selected write.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use vmpool_e2e::world::{DEADLINE, World};
use vmpool_installation::fault_proxy::{DropPoint, FaultProxy, RequestLine, WatchFault};
use vmpool_installation::programs::{Controller, ControllerOptions};
use vmpool_test_cluster::poll;

use crate::scenario::is_counted_write;

/// A controller without further writes is quiet for this long. It is several times the period for which it collects
/// changes.
const QUIET: Duration = Duration::from_millis(600);

/// Which process continues after the leader was killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Successor {
    /// The same controller, restarted with empty caches, after the lease has expired.
    Restarted,
    /// A standby, after the lease has expired. The killed controller restarts at the end of the scenario.
    Standby,
}

impl Successor {
    /// Both kinds.
    pub(crate) const BOTH: [Self; 2] = [Self::Restarted, Self::Standby];

    /// The name in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Restarted => "restart",
            Self::Standby => "standby",
        }
    }
}

struct ProxiedController {
    controller: Arc<Controller>,
    proxy: FaultProxy,
}

/// The controllers of one world, each with its own fault proxy.
pub(crate) struct Controllers {
    successor: Successor,
    proxied: Vec<ProxiedController>,
    /// Whether a controller was killed since the last call of [`Controllers::kill_at`].
    killed: Arc<AtomicBool>,
}

impl Controllers {
    /// Starts the controllers with a short lease, so that a successor takes over soon.
    pub(crate) async fn start(world: &World, successor: Successor) -> anyhow::Result<Self> {
        let mut proxied = Vec::new();
        let count = if successor == Successor::Standby { 2 } else { 1 };
        for place in 0..count {
            let mut options =
                ControllerOptions::short_lease(world.namespace(), format!("controller-{place}"));
            options.extra =
                vec!["--request-deadline=1900ms".to_owned(), "--disk-collection-grace=1s".to_owned()];
            let (controller, proxy) = world.add_controller_with_proxy(options).await?;
            proxied.push(ProxiedController { controller, proxy });
        }
        Ok(Self { successor, proxied, killed: Arc::default() })
    }

    /// Kills the controller that sends the next matching write, after `skip` others. Only a leader writes.
    pub(crate) fn kill_at(
        &self,
        filter: impl Fn(&RequestLine) -> bool + Clone + Send + 'static,
        skip: usize,
        drop_point: DropPoint,
    ) {
        self.killed.store(false, Ordering::SeqCst);
        for ProxiedController { controller, proxy } in &self.proxied {
            let (controller, killed) = (controller.clone(), self.killed.clone());
            proxy.trap(filter.clone(), skip, drop_point, move || {
                controller.kill();
                killed.store(true, Ordering::SeqCst);
            });
        }
    }

    /// Whether a controller was killed.
    pub(crate) fn has_killed(&self) -> bool {
        self.killed.load(Ordering::SeqCst)
    }

    /// Removes all traps.
    pub(crate) fn remove_traps(&self) {
        for controller in &self.proxied {
            controller.proxy.disarm();
        }
    }

    /// Restarts the killed controller, unless a standby takes over.
    pub(crate) async fn start_successor(&self) -> anyhow::Result<()> {
        if self.successor == Successor::Restarted { self.restart_killed().await } else { Ok(()) }
    }

    /// Restarts the killed controller.
    pub(crate) async fn restart_killed(&self) -> anyhow::Result<()> {
        for ProxiedController { controller, .. } in &self.proxied {
            if controller.pid().is_none() {
                controller.restart().await?;
            }
        }
        Ok(())
    }

    /// Sets the watch fault of these resources for all controllers.
    pub(crate) fn set_watch_fault(&self, resources: &[&str], fault: WatchFault) {
        self.proxied.iter().for_each(|controller| controller.proxy.set_watch_fault(resources, fault));
    }

    /// Ends all watch faults.
    pub(crate) fn release(&self) {
        self.proxied.iter().for_each(|controller| controller.proxy.release());
    }

    /// The refused resources that have not been listed again.
    pub(crate) fn unlisted<'a>(&self, resources: &[&'a str]) -> Vec<&'a str> {
        let refused =
            |resource: &&&str| self.proxied.iter().any(|controller| controller.proxy.refuses(resource));
        resources.iter().filter(refused).copied().collect()
    }

    /// Clears the recorded writes.
    pub(crate) fn clear_requests(&self) {
        self.proxied.iter().for_each(|controller| controller.proxy.clear_requests());
    }

    /// The recorded writes. They are in order while there is only one leader.
    pub(crate) fn writes(&self) -> Vec<RequestLine> {
        let all = self.proxied.iter().flat_map(|controller| controller.proxy.requests());
        all.filter(is_counted_write).collect()
    }

    /// Waits until there is a leader that has stopped writing. While a standby waits for the lease, silence means
    /// nothing: the work of the killed leader is still to be done.
    pub(crate) async fn until_quiet(&self) -> anyhow::Result<()> {
        let mut before = self.leader_writes().await;
        poll::until(
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
        .await?;
        Ok(())
    }

    /// The number of recorded writes, if there is a leader.
    async fn leader_writes(&self) -> Option<usize> {
        for ProxiedController { controller, .. } in &self.proxied {
            if controller.leads().await == Some(true) {
                return Some(self.writes().len());
            }
        }
        None
    }
}
