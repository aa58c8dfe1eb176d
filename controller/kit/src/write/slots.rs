//! The slots of writes in flight, which collections share fairly.
//!
//! ```text
//!                 ordinary slots                    slow slots: as many, at most a quarter for one collection
//!  collection ──> ─────────────── ── no answer ──> ───────────────────────────────────────────────────────────
//!    (queue)      round robin        in time                                 ^
//!       └──────── the collection was slow in the last minutes ──────────────┘
//! ```
//!
//! A slow admission webhook delays the writes of some collections, for example all objects of one kind in
//! a namespace. Such a write gives its slot to the others, so writes of other collections wait no longer than
//! it takes to notice that a write is slow.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures::channel::oneshot;
use parking_lot::Mutex;
use vmpool_runtime::Env;

/// How long a collection counts as slow after its last slow write.
pub(super) const SLOW_MEMORY: Duration = Duration::from_mins(10);

/// The part of the slow slots that one collection gets.
const PARTS: usize = 4;

/// The slots. Clones share them.
#[derive(Clone)]
pub(super) struct WriteSlots {
    env: Env,
    /// The number of ordinary slots, and of slow ones.
    limit: usize,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    lanes: BTreeMap<Arc<str>, Lane>,
    /// The collections with waiting writes. The first one is asked first.
    turns: VecDeque<Arc<str>>,
    used: Used,
    tickets: u64,
}

/// The writes of one collection.
#[derive(Default)]
struct Lane {
    waiting: VecDeque<(u64, oneshot::Sender<SlotKind>)>,
    used: Used,
    /// The uptime until which new writes get slow slots.
    slow_until: Duration,
}

/// The used slots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Used {
    ordinary: usize,
    slow: usize,
}

/// The kind of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlotKind {
    /// An ordinary slot.
    Ordinary,
    /// A slow slot.
    Slow,
}

/// A slot of a write. It is free again when this value is dropped.
pub(super) struct WriteSlot {
    slots: WriteSlots,
    lane: Arc<str>,
    place: SlotKind,
}

/// A write that waits for a slot.
struct Waiting {
    slots: WriteSlots,
    lane: Arc<str>,
    ticket: u64,
    granted: oneshot::Receiver<SlotKind>,
}

impl WriteSlots {
    pub(super) fn new(env: Env, limit: usize) -> Self {
        Self { env, limit, state: Arc::default() }
    }

    /// Waits for a slot for a write of this collection.
    pub(super) async fn acquire(&self, lane: &str) -> WriteSlot {
        let lane: Arc<str> = lane.into();
        let mut waiting = self.enqueue(&lane);
        // The sender is in the state until it sends, and the state exists as long as this value.
        let place = (&mut waiting.granted).await.unwrap_or(SlotKind::Ordinary);
        WriteSlot { slots: self.clone(), lane, place }
    }

    /// How many writes of a collection can start without waiting for each other. Without slow writes there is
    /// no limit.
    pub(super) fn available_slots(&self, lane: &str) -> usize {
        let state = self.state.lock();
        let Some(lane) = state.lanes.get(lane) else { return usize::MAX };
        if !lane.is_slow(self.env.uptime()) {
            return usize::MAX;
        }
        self.share().saturating_sub(lane.used.total() + lane.waiting.len())
    }

    /// The slow slots that one collection may use.
    fn share(&self) -> usize {
        (self.limit / PARTS).max(1)
    }

    fn enqueue(&self, lane: &Arc<str>) -> Waiting {
        let mut state = self.state.lock();
        state.tickets += 1;
        let ticket = state.tickets;
        let (grant, granted) = oneshot::channel();
        state.lanes.entry(lane.clone()).or_default().waiting.push_back((ticket, grant));
        if !state.turns.contains(lane) {
            state.turns.push_back(lane.clone());
        }
        self.grant(&mut state);
        Waiting { slots: self.clone(), lane: lane.clone(), ticket, granted }
    }

    /// Gives the free slots to the collections in turn, one slot for each turn.
    fn grant(&self, state: &mut State) {
        let uptime = self.env.uptime();
        let mut refused = 0;
        while refused < state.turns.len() {
            let Some(name) = state.turns.pop_front() else { return };
            let State { lanes, turns, used, .. } = &mut *state;
            let Some(lane) = lanes.get_mut(&name).filter(|lane| !lane.waiting.is_empty()) else { continue };
            match self.free_place(*used, lane, uptime) {
                Some(place) => {
                    refused = 0;
                    if let Some((_, grant)) = lane.waiting.pop_front() {
                        lane.used.add(place);
                        used.add(place);
                        // The write still waits: otherwise it would have left the queue.
                        _ = grant.send(place);
                    }
                }
                None => refused += 1,
            }
            if !lane.waiting.is_empty() {
                turns.push_back(name);
            }
        }
    }

    fn free_place(&self, used: Used, lane: &Lane, uptime: Duration) -> Option<SlotKind> {
        if lane.is_slow(uptime) {
            return (used.slow < self.limit && lane.used.total() < self.share()).then_some(SlotKind::Slow);
        }
        (used.ordinary < self.limit).then_some(SlotKind::Ordinary)
    }

    fn leave(&self, name: &Arc<str>, place: SlotKind) {
        let mut state = self.state.lock();
        state.used.remove(place);
        if let Some(lane) = state.lanes.get_mut(name) {
            lane.used.remove(place);
        }
        self.forget_idle(&mut state);
        self.grant(&mut state);
    }

    /// Forgets collections without writes, unless they are slow.
    fn forget_idle(&self, state: &mut State) {
        let uptime = self.env.uptime();
        state.lanes.retain(|_, lane| {
            lane.is_slow(uptime) || !lane.waiting.is_empty() || lane.used != Used::default()
        });
    }
}

impl WriteSlot {
    /// Whether the collection was slow before this write.
    pub(super) fn is_slow(&self) -> bool {
        self.place == SlotKind::Slow
    }

    /// Records that the write is slow. If a slow slot is free, it gives its ordinary slot to another write.
    pub(super) fn record_slow(&mut self) {
        let WriteSlots { env, limit, state } = &self.slots;
        let mut state = state.lock();
        let has_room = state.used.slow < *limit;
        let Some(lane) = state.lanes.get_mut(&self.lane) else { return };
        lane.slow_until = env.uptime() + SLOW_MEMORY;
        if self.place == SlotKind::Slow || !has_room {
            return;
        }
        lane.used.remove(SlotKind::Ordinary);
        lane.used.add(SlotKind::Slow);
        state.used.remove(SlotKind::Ordinary);
        state.used.add(SlotKind::Slow);
        self.place = SlotKind::Slow;
        self.slots.grant(&mut state);
    }
}

impl Drop for WriteSlot {
    fn drop(&mut self) {
        self.slots.leave(&self.lane, self.place);
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        // It is empty if the slot was received.
        if let Ok(Some(place)) = self.granted.try_recv() {
            self.slots.leave(&self.lane, place);
            return;
        }
        let mut state = self.slots.state.lock();
        if let Some(lane) = state.lanes.get_mut(&self.lane) {
            lane.waiting.retain(|(ticket, _)| *ticket != self.ticket);
        }
    }
}

impl Lane {
    fn is_slow(&self, uptime: Duration) -> bool {
        uptime < self.slow_until
    }
}

impl Used {
    fn total(self) -> usize {
        self.ordinary + self.slow
    }

    fn add(&mut self, place: SlotKind) {
        *self.of(place) += 1;
    }

    fn remove(&mut self, place: SlotKind) {
        let used = self.of(place);
        *used = used.saturating_sub(1);
    }

    fn of(&mut self, place: SlotKind) -> &mut usize {
        match place {
            SlotKind::Ordinary => &mut self.ordinary,
            SlotKind::Slow => &mut self.slow,
        }
    }
}

#[cfg(test)]
mod tests;
