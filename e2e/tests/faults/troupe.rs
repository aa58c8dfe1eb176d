//! Controllers that are killed at a selected write.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use vmpool_e2e::choke::{Asked, Choke, Moment, View};
use vmpool_e2e::poll;
use vmpool_e2e::programs::{Controller, ControllerOptions};
use vmpool_e2e::world::{DEADLINE, World};

use crate::story::work;

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

struct Mortal {
    controller: Arc<Controller>,
    choke: Choke,
}

/// The controllers of one world, each with its own fault proxy.
pub(crate) struct Troupe {
    successor: Successor,
    mortals: Vec<Mortal>,
    /// Whether a controller was killed since the last call of [`Troupe::doom`].
    dead: Arc<AtomicBool>,
}

impl Troupe {
    /// Starts the controllers with a short lease, so that a successor takes over soon.
    pub(crate) async fn start(world: &World, successor: Successor) -> anyhow::Result<Self> {
        let mut mortals = Vec::new();
        let count = if successor == Successor::Standby { 2 } else { 1 };
        for place in 0..count {
            let mut options = ControllerOptions::short_lease(world.namespace(), format!("mortal-{place}"));
            options.extra =
                vec!["--request-deadline=1900ms".to_owned(), "--disk-collection-grace=1s".to_owned()];
            let (controller, choke) = world.add_choked(options).await?;
            mortals.push(Mortal { controller, choke });
        }
        Ok(Self { successor, mortals, dead: Arc::default() })
    }

    /// Kills the controller that sends the next matching write, after `passing` others. Only a leader writes.
    pub(crate) fn doom(
        &self,
        which: impl Fn(&Asked) -> bool + Clone + Send + 'static,
        passing: usize,
        moment: Moment,
    ) {
        self.dead.store(false, Ordering::SeqCst);
        for Mortal { controller, choke } in &self.mortals {
            let (mortal, dead) = (controller.clone(), self.dead.clone());
            choke.trap(which.clone(), passing, moment, move || {
                mortal.kill();
                dead.store(true, Ordering::SeqCst);
            });
        }
    }

    /// Whether a controller was killed.
    pub(crate) fn has_lost_one(&self) -> bool {
        self.dead.load(Ordering::SeqCst)
    }

    /// Removes all traps.
    pub(crate) fn spare(&self) {
        for mortal in &self.mortals {
            mortal.choke.disarm();
        }
    }

    /// Restarts the killed controller, unless a standby takes over.
    pub(crate) async fn go_on(&self) -> anyhow::Result<()> {
        if self.successor == Successor::Restarted { self.revive().await } else { Ok(()) }
    }

    /// Restarts the killed controller.
    pub(crate) async fn revive(&self) -> anyhow::Result<()> {
        for Mortal { controller, .. } in &self.mortals {
            if controller.pid().is_none() {
                controller.restart().await?;
            }
        }
        Ok(())
    }

    /// Sets the view of these resources for all controllers.
    pub(crate) fn show(&self, resources: &[&str], view: View) {
        self.mortals.iter().for_each(|mortal| mortal.choke.show(resources, view));
    }

    /// Resets all views.
    pub(crate) fn release(&self) {
        self.mortals.iter().for_each(|mortal| mortal.choke.release());
    }

    /// The refused resources that have not been listed again.
    pub(crate) fn unlisted<'a>(&self, resources: &[&'a str]) -> Vec<&'a str> {
        let refused = |resource: &&&str| self.mortals.iter().any(|mortal| mortal.choke.refuses(resource));
        resources.iter().filter(refused).copied().collect()
    }

    /// Clears the recorded writes.
    pub(crate) fn forget(&self) {
        self.mortals.iter().for_each(|mortal| mortal.choke.forget());
    }

    /// The recorded writes. They are in order while there is only one leader.
    pub(crate) fn writes(&self) -> Vec<Asked> {
        let all = self.mortals.iter().flat_map(|mortal| mortal.choke.seen());
        all.filter(work).collect()
    }

    /// Waits until there is a leader that has stopped writing. While a standby waits for the lease, silence means
    /// nothing: the work of the killed leader is still to be done.
    pub(crate) async fn rests(&self) -> anyhow::Result<()> {
        let mut before = self.written().await;
        poll::until(
            || "the controllers have stopped writing".to_owned(),
            DEADLINE,
            async || {
                tokio::time::sleep(QUIET).await;
                let now = self.written().await;
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
    async fn written(&self) -> Option<usize> {
        for Mortal { controller, .. } in &self.mortals {
            if controller.leads().await == Some(true) {
                return Some(self.writes().len());
            }
        }
        None
    }
}
