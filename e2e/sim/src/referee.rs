//! Decides for each request how long it takes and which fault it meets.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use vmpool_model::{Call, Conduct, Fate, Verb};
use vmpool_runtime::client::READ_TIMEOUT;

use crate::cast::is_ours;
use crate::chance::Chance;
use crate::trouble::{Happened, LATE, Trouble, Unread};

/// State that the world and its referee share.
#[derive(Debug, Default)]
pub struct Notes {
    /// Number of writes of the project's processes so far, without leases and events.
    pub writes: usize,
    /// Planned faults: number of the write and fault, in this order.
    pub troubles: VecDeque<(usize, Trouble)>,
    /// Random faults: this many of 1000 writes.
    pub per_mille: u64,
    /// Number of reads of the project's processes so far, without leases.
    pub reads: usize,
    /// Planned faults of reads: number of the read and fault, in this order.
    pub unread: VecDeque<(usize, Unread)>,
    /// Random faults: this many of 1000 reads.
    pub unread_per_mille: u64,
    /// The faults that were injected so far.
    pub happened: Happened,
    /// Senders that are cut off: none of their requests arrives.
    pub cut: BTreeSet<String>,
    /// Processes to kill now.
    pub dying: Vec<String>,
    /// Processes to pause now, for a while.
    pub stalling: Vec<String>,
    /// Writes that arrive long after their sender has given up. Their effect may contradict the spec at that moment,
    /// which is no violation.
    pub late: Vec<Call>,
    /// Lines for the transcript.
    pub told: Vec<String>,
}

/// The referee of a simulated world.
pub struct Referee {
    notes: Arc<Mutex<Notes>>,
    /// Decides how long requests and responses take. It is separate from `troubles`, so that a schedule whose random
    /// faults are replaced by the same planned faults gives the same run.
    ways: Chance,
    /// Decides about random faults.
    troubles: Chance,
    /// Longest time that a request or a response takes, in milliseconds.
    latency: u64,
}

impl Referee {
    /// A referee whose decisions derive from the seed.
    pub fn new(notes: Arc<Mutex<Notes>>, seed: u64, latency: u64) -> Self {
        Self { notes, ways: Chance::new(seed ^ 0xfa17), troubles: Chance::new(seed ^ 0x0bad), latency }
    }

    /// The fault of a write, if any.
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

    /// The fault of a read, if any.
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
            // The sender of a write gives up. A read ends with its connection.
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
