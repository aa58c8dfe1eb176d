//! Decides for each request how long it takes and which fault it meets.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use vmpool_model::{Call, Handling, RequestOutcome, Verb};
use vmpool_runtime::client::READ_TIMEOUT;
use vmpool_runtime::testing::SeededRandom;

use crate::fault::{InjectedFaults, LATE, ReadFault, SLOW, WriteFault};
use crate::instance::is_tested;

/// State that the world and its referee share.
#[derive(Debug, Default)]
pub struct InjectorState {
    /// Number of writes of the project's processes so far, without leases and events.
    pub writes: usize,
    /// Planned faults: number of the write and fault, in this order.
    pub write_faults: VecDeque<(usize, WriteFault)>,
    /// Random faults: this many of 1000 writes.
    pub write_faults_per_mille: u64,
    /// Number of reads of the project's processes so far, without leases.
    pub reads: usize,
    /// Planned faults of reads: number of the read and fault, in this order.
    pub read_faults: VecDeque<(usize, ReadFault)>,
    /// Random faults: this many of 1000 reads.
    pub read_faults_per_mille: u64,
    /// The faults that were injected so far.
    pub injected: InjectedFaults,
    /// Whether a quota forbids new snapshots.
    pub snapshot_quota: bool,
    /// Senders that are cut off: none of their requests arrives.
    pub disconnected: BTreeSet<String>,
    /// Processes to kill now.
    pub to_kill: Vec<String>,
    /// Processes to pause now, for a while.
    pub to_pause: Vec<String>,
    /// Writes that arrive long after their sender has given up. Their effect may contradict the spec at that
    /// moment, which is no violation.
    pub late: Vec<Call>,
    /// How long admission of each write takes.
    pub admission: Duration,
    /// Writes that admission delays. Their effect may contradict the spec at the moment at which they take
    /// effect.
    pub slow: Vec<Call>,
    /// Lines for the transcript.
    pub lines: Vec<String>,
}

/// The referee of a simulated world.
pub struct ScheduleFaultInjector {
    injector: Arc<Mutex<InjectorState>>,
    /// Decides how long requests and responses take. It is separate from `faults`, so that a schedule whose
    /// random faults are replaced by the same planned faults gives the same run.
    delays: SeededRandom,
    /// Decides about random faults.
    faults: SeededRandom,
    /// Longest time that a request or a response takes, in milliseconds.
    latency: u64,
}

impl ScheduleFaultInjector {
    /// A referee whose decisions derive from the seed.
    pub fn new(injector: Arc<Mutex<InjectorState>>, seed: u64, latency: u64) -> Self {
        Self {
            injector,
            delays: SeededRandom::new(seed ^ 0xfa17),
            faults: SeededRandom::new(seed ^ 0x0bad),
            latency,
        }
    }

    /// The fault of a write, if any.
    fn write_fault(&self, injector: &mut InjectorState, call: &Call) -> Option<WriteFault> {
        let number = injector.writes;
        injector.writes += 1;
        let planned =
            injector.write_faults.pop_front_if(|(at, _)| *at <= number).map(|(_, write_fault)| write_fault);
        let random_fault = || {
            let write_fault = self.faults.one(&WriteFault::ALL).copied();
            write_fault.filter(|_| self.faults.per_mille(injector.write_faults_per_mille))
        };
        let write_fault = planned.or_else(random_fault)?;
        injector.injected.write_faults.push((number, write_fault));
        injector.lines.push(format!("write {number}, {call}: {write_fault:?}"));
        if write_fault.kills() {
            injector.to_kill.push(call.sender.clone());
        }
        if write_fault.stalls() {
            injector.to_pause.push(call.sender.clone());
        }
        if write_fault.is_late() {
            injector.late.push(call.clone());
        }
        if write_fault.is_slow() {
            injector.slow.push(call.clone());
        }
        Some(write_fault)
    }

    /// The fault of a read, if any.
    fn read_fault(&self, injector: &mut InjectorState, call: &Call) -> Option<ReadFault> {
        let number = injector.reads;
        injector.reads += 1;
        let planned =
            injector.read_faults.pop_front_if(|(at, _)| *at <= number).map(|(_, read_fault)| read_fault);
        let random_fault = || {
            let read_fault = self.faults.one(&ReadFault::ALL).copied();
            read_fault.filter(|_| self.faults.per_mille(injector.read_faults_per_mille))
        };
        let read_fault = planned.or_else(random_fault)?;
        injector.injected.read_faults.push((number, read_fault));
        injector.lines.push(format!("read {number}, {call}: {read_fault:?}"));
        if read_fault == ReadFault::Crash {
            injector.to_kill.push(call.sender.clone());
        }
        Some(read_fault)
    }
}

impl vmpool_model::FaultInjector for ScheduleFaultInjector {
    fn decide(&mut self, call: &Call) -> Handling {
        let (before, after) = (self.delays.delay(self.latency), self.delays.delay(self.latency));
        let injector = &mut *self.injector.lock();
        if injector.disconnected.contains(&call.sender) {
            // The sender of a write gives up. A read ends with its connection.
            return if call.is_write() {
                Handling { before, outcome: RequestOutcome::Hang, after }
            } else {
                Handling { before: READ_TIMEOUT, outcome: RequestOutcome::Unreachable, after }
            };
        }
        let served = Handling { before, outcome: RequestOutcome::Serve, after };
        if !is_tested(&call.sender) || ["leases", "events"].contains(&call.resource.as_str()) {
            return served;
        }
        if matches!(call.verb, Verb::Get | Verb::List | Verb::Watch) {
            return match self.read_fault(injector, call) {
                Some(ReadFault::Hang) => {
                    Handling { before: READ_TIMEOUT, outcome: RequestOutcome::Unreachable, after }
                }
                Some(read_fault) => Handling { outcome: read_fault.outcome(call.verb), ..served },
                None => served,
            };
        }
        if !call.is_write() {
            return served;
        }
        if injector.snapshot_quota && call.is(Verb::Create, "volumesnapshots") {
            return Handling { outcome: WriteFault::Quota.outcome(), ..served };
        }
        match self.write_fault(injector, call) {
            Some(write_fault) if write_fault.is_late() => {
                Handling { before: LATE, outcome: RequestOutcome::Serve, after }
            }
            Some(write_fault) if write_fault.is_slow() => {
                Handling { before: SLOW, outcome: RequestOutcome::Serve, after }
            }
            Some(write_fault) => Handling { outcome: write_fault.outcome(), ..served },
            // Webhooks do not see the status.
            None if !injector.admission.is_zero() && call.subresource != "status" => {
                injector.slow.push(call.clone());
                Handling { before: injector.admission, outcome: RequestOutcome::Serve, after }
            }
            None => served,
        }
    }
}
