//! Controllers that die at a chosen write.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use vmpool_e2e::choke::{Asked, Choke, Moment, View};
use vmpool_e2e::poll;
use vmpool_e2e::programs::{Controller, ControllerOptions};
use vmpool_e2e::world::{DEADLINE, World};

use crate::story::work;

/// How long nobody writes who has nothing more to write: several times the time that changes are collected for.
const QUIET: Duration = Duration::from_millis(600);

/// Who goes on when a leader dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Successor {
    /// The same program, started again with empty caches, when the lease has run out.
    Restarted,
    /// A standby, when the lease has run out. The dead one comes back when the story is at its end.
    Standby,
}

impl Successor {
    /// Both.
    pub(crate) const BOTH: [Self; 2] = [Self::Restarted, Self::Standby];

    /// What it is called in reports.
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

/// The controllers of one world, each behind a choke of its own.
pub(crate) struct Troupe {
    successor: Successor,
    mortals: Vec<Mortal>,
    /// Whether one of them has died of the doom that was set last.
    dead: Arc<AtomicBool>,
}

impl Troupe {
    /// Starts them. Their lease is short, so that nobody waits long for a successor.
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

    /// Whoever sends the next of these requests, after `passing` others, dies at it. Only a leader writes.
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

    /// Whether somebody has died.
    pub(crate) fn has_lost_one(&self) -> bool {
        self.dead.load(Ordering::SeqCst)
    }

    /// Nobody else dies.
    pub(crate) fn spare(&self) {
        for mortal in &self.mortals {
            mortal.choke.disarm();
        }
    }

    /// Starts who is dead again, if nobody else takes over.
    pub(crate) async fn go_on(&self) -> anyhow::Result<()> {
        if self.successor == Successor::Restarted { self.revive().await } else { Ok(()) }
    }

    /// Starts who is dead again.
    pub(crate) async fn revive(&self) -> anyhow::Result<()> {
        for Mortal { controller, .. } in &self.mortals {
            if controller.pid().is_none() {
                controller.restart().await?;
            }
        }
        Ok(())
    }

    /// What all of them see of these resources.
    pub(crate) fn show(&self, resources: &[&str], view: View) {
        self.mortals.iter().for_each(|mortal| mortal.choke.show(resources, view));
    }

    /// They see everything again.
    pub(crate) fn release(&self) {
        self.mortals.iter().for_each(|mortal| mortal.choke.release());
    }

    /// Which of these resources nobody has listed who was told to.
    pub(crate) fn unlisted<'a>(&self, resources: &[&'a str]) -> Vec<&'a str> {
        let refused = |resource: &&&str| self.mortals.iter().any(|mortal| mortal.choke.refuses(resource));
        resources.iter().filter(refused).copied().collect()
    }

    /// Begins to count writes anew.
    pub(crate) fn forget(&self) {
        self.mortals.iter().for_each(|mortal| mortal.choke.forget());
    }

    /// The writes since then, in their order as long as there is one leader.
    pub(crate) fn writes(&self) -> Vec<Asked> {
        let all = self.mortals.iter().flat_map(|mortal| mortal.choke.seen());
        all.filter(work).collect()
    }

    /// Waits until somebody leads who has nothing more to write. While a successor waits for the lease, silence says
    /// nothing: what the dead one left undone is still to come.
    pub(crate) async fn rests(&self) -> anyhow::Result<()> {
        let mut before = self.written().await;
        poll::until(
            || "the controllers have nothing more to write".to_owned(),
            DEADLINE,
            async || {
                tokio::time::sleep(QUIET).await;
                let now = self.written().await;
                let known = std::mem::replace(&mut before, now);
                Ok(if now.is_some() && known == now {
                    Ok(())
                } else {
                    Err(format!("writes under a leader: {now:?}, and {known:?} a moment ago"))
                })
            },
        )
        .await?;
        Ok(())
    }

    /// How many writes there were, if somebody leads.
    async fn written(&self) -> Option<usize> {
        for Mortal { controller, .. } in &self.mortals {
            if controller.leads().await == Some(true) {
                return Some(self.writes().len());
            }
        }
        None
    }
}
