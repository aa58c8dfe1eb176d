//! A run: what happens when, and what came of it.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use vmpool_runtime::client::READ_TIMEOUT;
use vmpool_runtime::testing::Idle;

use crate::judge::{QUIET, broken, unsettled};
use crate::op::{Op, WATCHED};
use crate::trouble::{Happened, Trouble, Unread};
use crate::webhook::Service;
use crate::world::{Options, World};

/// The longest that a world may take to settle once nothing breaks any more.
const PATIENCE: Duration = Duration::from_mins(20);

/// What happens, and when: milliseconds since the step before.
#[derive(Clone, Debug, Default)]
pub struct Schedule {
    /// How the world is made.
    pub options: Options,
    /// The steps.
    pub steps: Vec<(u64, Op)>,
    /// What happens to which write of ours.
    pub troubles: Vec<(usize, Trouble)>,
    /// What happens to which read of ours.
    pub unread: Vec<(usize, Unread)>,
}

/// What came of a schedule.
#[derive(Debug)]
pub struct Verdict {
    /// What is wrong; empty if all is well.
    pub wrong: Vec<String>,
    /// What happened, if it was to be told.
    pub transcript: Vec<String>,
    /// Writes of ours, leases and events apart.
    pub writes: usize,
    /// Reads of ours, leases apart.
    pub reads: usize,
    /// How many changes there were of each of [`crate::op::WATCHED`].
    pub events: [usize; WATCHED.len()],
    /// Whether a leader went on after it was replaced.
    pub rivals: bool,
    /// What has happened to which writes and reads, planned or by chance.
    pub happened: Happened,
}

impl Schedule {
    /// Runs it on a runtime of its own.
    ///
    /// # Panics
    /// If the system has nothing left for a runtime.
    pub fn run(&self) -> Verdict {
        self.run_and(false)
    }

    /// The same, with a transcript.
    ///
    /// # Panics
    /// If the system has nothing left for a runtime.
    pub fn told(&self) -> Verdict {
        self.run_and(true)
    }

    fn run_and(&self, tell: bool) -> Verdict {
        let (runtime, idle) =
            Idle::runtime().expect("a runtime without threads and sockets needs nothing of the system");
        runtime.block_on(self.play(idle, tell))
    }

    async fn play(&self, idle: Idle, tell: bool) -> Verdict {
        let mut world = World::new(self.options, idle, tell).await;
        {
            let notes = &mut *world.notes.lock();
            notes.troubles = self.troubles.iter().copied().collect();
            notes.unread = self.unread.iter().copied().collect();
        }
        for (pause, op) in &self.steps {
            world.advance(Duration::from_millis(*pause)).await;
            world.tell(|| format!("── {op:?}"));
            op.perform(&mut world).await;
        }
        let mut wrong = settle(&mut world).await;
        wrong.append(&mut world.loops);
        wrong.extend(broken(&world));
        if wrong.is_empty() {
            wrong = unsettled(&world);
        }
        let transcript = world.transcript.take().unwrap_or_default();
        let (events, rivals) = (world.events(), world.rivals);
        let notes = &mut *world.notes.lock();
        let happened = std::mem::take(&mut notes.happened);
        Verdict { wrong, transcript, writes: notes.writes, reads: notes.reads, events, rivals, happened }
    }
}

/// Everything that is broken is mended, and the world gets the time that it needs.
async fn settle(world: &mut World) -> Vec<String> {
    world.tell(|| "── nothing breaks any more".to_owned());
    world.resume();
    world.server.release();
    *world.webhook.lock() = Service::Works;
    let hanging = {
        let notes = &mut *world.notes.lock();
        // What was planned for a certain request still happens to it: once.
        (notes.per_mille, notes.unread_per_mille) = (0, 0);
        notes.happened.unread.iter().any(|(_, unread)| *unread == Unread::Hang)
    };
    let begun = world.now();
    // Whoever waits for an answer that does not come waits for so long.
    let patient = begun + if hanging { READ_TIMEOUT } else { Duration::ZERO };
    loop {
        world.advance(Duration::from_secs(5)).await;
        let since = |time: Timestamp| world.now().duration_since(time);
        if since(world.quiet_since().max(patient)) > seconds(QUIET) {
            return Vec::new();
        }
        if since(begun) > seconds(PATIENCE) {
            return vec![format!("I8: still changing {PATIENCE:?} after the last fault")];
        }
    }
}

fn seconds(time: Duration) -> SignedDuration {
    SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX)
}
