//! What becomes of requests: how long they are under way, and what goes wrong.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use vmpool_model::{Call, Conduct, Fate, Verb};
use vmpool_runtime::client::READ_TIMEOUT;

use crate::cast::is_ours;
use crate::chance::Chance;
use crate::trouble::{Happened, LATE, Trouble, Unread};

/// What the world and its referee tell each other.
#[derive(Debug, Default)]
pub struct Notes {
    /// Writes of ours on pools, machines, disks and revisions so far, leases and events apart.
    pub writes: usize,
    /// What shall happen to which of these writes, in their order.
    pub troubles: VecDeque<(usize, Trouble)>,
    /// Troubles that come by chance: to how many of a thousand writes.
    pub per_mille: u64,
    /// Reads of ours so far, those of leases apart.
    pub reads: usize,
    /// What shall happen to which of these reads, in their order.
    pub unread: VecDeque<(usize, Unread)>,
    /// The same by chance: to how many of a thousand reads.
    pub unread_per_mille: u64,
    /// What has happened to writes and to reads so far.
    pub happened: Happened,
    /// Whose requests do not arrive, whatever they are.
    pub cut: BTreeSet<String>,
    /// Processes that shall die now.
    pub dying: Vec<String>,
    /// Processes that shall stand still now, for a while.
    pub stalling: Vec<String>,
    /// Writes that come long after their sender has given them up. What they do may be against what is wanted by then,
    /// and is nobody's fault.
    pub late: Vec<Call>,
    /// What happened, for the transcript.
    pub told: Vec<String>,
}

/// The referee of a simulated world.
pub struct Referee {
    notes: Arc<Mutex<Notes>>,
    /// How long requests and answers take. Apart from the troubles, so that a schedule in which the same ones are planned
    /// that came by chance before is the same run.
    ways: Chance,
    /// What comes by chance.
    troubles: Chance,
    /// Longest time that a request or an answer is under way, in milliseconds.
    latency: u64,
}

impl Referee {
    /// A referee whose decisions hang on the seed.
    pub fn new(notes: Arc<Mutex<Notes>>, seed: u64, latency: u64) -> Self {
        Self { notes, ways: Chance::new(seed ^ 0xfa17), troubles: Chance::new(seed ^ 0x0bad), latency }
    }

    /// What happens to a write, if anything.
    fn trouble(&self, notes: &mut Notes, call: &Call) -> Option<Trouble> {
        let number = notes.writes;
        notes.writes += 1;
        let planned = notes.troubles.pop_front_if(|(at, _)| *at <= number).map(|(_, trouble)| trouble);
        let by_chance = || {
            let trouble = self.troubles.one(&Trouble::ALL).copied();
            trouble.filter(|_| self.troubles.per_mille(notes.per_mille))
        };
        let trouble = planned.or_else(by_chance)?;
        notes.happened.troubles.push((number, trouble));
        notes.told.push(format!("write {number}, {call}: {trouble:?}"));
        if trouble.kills() {
            notes.dying.push(call.who.clone());
        }
        if trouble.stalls() {
            notes.stalling.push(call.who.clone());
        }
        if trouble.is_late() {
            notes.late.push(call.clone());
        }
        Some(trouble)
    }

    /// What happens to a read, if anything.
    fn unread(&self, notes: &mut Notes, call: &Call) -> Option<Unread> {
        let number = notes.reads;
        notes.reads += 1;
        let planned = notes.unread.pop_front_if(|(at, _)| *at <= number).map(|(_, unread)| unread);
        let by_chance = || {
            let unread = self.troubles.one(&Unread::ALL).copied();
            unread.filter(|_| self.troubles.per_mille(notes.unread_per_mille))
        };
        let unread = planned.or_else(by_chance)?;
        notes.happened.unread.push((number, unread));
        notes.told.push(format!("read {number}, {call}: {unread:?}"));
        if unread == Unread::Crash {
            notes.dying.push(call.who.clone());
        }
        Some(unread)
    }
}

impl vmpool_model::Referee for Referee {
    fn judge(&mut self, call: &Call) -> Conduct {
        let (before, after) = (self.ways.delay(self.latency), self.ways.delay(self.latency));
        let notes = &mut *self.notes.lock();
        if notes.cut.contains(&call.who) {
            // A write is given up by its sender; what a read waits for ends with the connection.
            return if call.is_write() {
                Conduct { before, fate: Fate::Hang, after }
            } else {
                Conduct { before: READ_TIMEOUT, fate: Fate::Unreachable, after }
            };
        }
        let served = Conduct { before, fate: Fate::Serve, after };
        if !is_ours(&call.who) || ["leases", "events"].contains(&call.resource.as_str()) {
            return served;
        }
        if matches!(call.verb, Verb::Get | Verb::List | Verb::Watch) {
            return match self.unread(notes, call) {
                Some(Unread::Hang) => Conduct { before: READ_TIMEOUT, fate: Fate::Unreachable, after },
                Some(unread) => Conduct { fate: unread.fate(call.verb), ..served },
                None => served,
            };
        }
        if !call.is_write() {
            return served;
        }
        match self.trouble(notes, call) {
            Some(trouble) if trouble.is_late() => Conduct { before: LATE, fate: Fate::Serve, after },
            Some(trouble) => Conduct { fate: trouble.fate(), ..served },
            None => served,
        }
    }
}
