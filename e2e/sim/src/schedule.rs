//! A fault schedule and its verdict.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use vmpool_runtime::client::READ_TIMEOUT;
use vmpool_runtime::testing::Idle;

use crate::judge::{QUIET, broken, unsettled};
use crate::op::{Op, WATCHED};
use crate::trouble::{Happened, Trouble, Unread};
use crate::webhook::Service;
use crate::world::{Options, World};

/// Longest time until a world must have settled after the last fault.
const PATIENCE: Duration = Duration::from_mins(20);

/// The steps of a run. Each time is in milliseconds after the previous step.
#[derive(Clone, Debug, Default)]
pub struct Schedule {
    /// How the world is created.
    pub options: Options,
    /// The steps.
    pub steps: Vec<(u64, Op)>,
    /// Planned faults of writes.
    pub troubles: Vec<(usize, Trouble)>,
    /// Planned faults of reads.
    pub unread: Vec<(usize, Unread)>,
}

/// The result of a schedule.
#[derive(Debug)]
pub struct Verdict {
    /// The violations; empty if there are none.
    pub wrong: Vec<String>,
    /// The transcript, if it was requested.
    pub transcript: Vec<String>,
    /// Number of writes of the project's processes, without leases and events.
    pub writes: usize,
    /// Number of reads of the project's processes, without leases.
    pub reads: usize,
    /// Number of changes of each resource in [`crate::op::WATCHED`].
    pub events: [usize; WATCHED.len()],
    /// Whether a replaced leader resumed.
    pub rivals: bool,
    /// The injected faults, planned and random.
    pub happened: Happened,
}

impl Schedule {
    /// Runs the schedule on its own runtime.
    ///
    /// # Panics
    /// If the runtime cannot be created.
    pub fn run(&self) -> Verdict {
        self.run_and(false)
    }

    /// Runs the schedule and records a transcript.
    ///
    /// # Panics
    /// If the runtime cannot be created.
    pub fn told(&self) -> Verdict {
        self.run_and(true)
    }

    fn run_and(&self, tell: bool) -> Verdict {
        let (runtime, idle) =
            Idle::runtime().expect("a runtime without threads and sockets uses no system resources");
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

/// Ends all faults and lets time pass until the world has settled.
async fn settle(world: &mut World) -> Vec<String> {
    world.tell(|| "── all faults end".to_owned());
    world.resume();
    world.server.release();
    *world.webhook.lock() = Service::Works;
    let hanging = {
        let notes = &mut *world.notes.lock();
        // Faults that were planned for a certain request still occur, once.
        (notes.per_mille, notes.unread_per_mille) = (0, 0);
        notes.happened.unread.iter().any(|(_, unread)| *unread == Unread::Hang)
    };
    let begun = world.now();
    // The sender of a request without response waits for this long.
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
