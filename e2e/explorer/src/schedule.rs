//! A fault schedule and its verdict.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use vmpool_runtime::client::READ_TIMEOUT;
use vmpool_runtime::testing::Idle;

use crate::admission_policy::{AdmissionPolicyEffect, set_policy};
use crate::checks::{SETTLED_AFTER, creates_machines, invariant_violations, settled_violations};
use crate::checks_images::without_evidence;
use crate::fault::{InjectedFaults, ReadFault, WriteFault};
use crate::operation::ScheduleOperation;
use crate::operation_health::{machines_of_lost_nodes, return_nodes};
use crate::webhook::WebhookState;
use crate::world::{SimulatedWorld, SimulatedWorldOptions};

/// Longest time until a world must have settled after the last fault.
const TIMEOUT: Duration = Duration::from_mins(20);

/// How long nodes that are lost at the end of a schedule stay lost without other faults.
const NODES_LOST_FOR: Duration = Duration::from_mins(1);

/// The steps of a run. Each time is in milliseconds after the previous step.
#[derive(Clone, Debug, Default)]
pub struct Schedule {
    /// How the world is created.
    pub options: SimulatedWorldOptions,
    /// The steps.
    pub steps: Vec<(u64, ScheduleOperation)>,
    /// Planned faults of writes.
    pub write_faults: Vec<(usize, WriteFault)>,
    /// Planned faults of reads.
    pub read_faults: Vec<(usize, ReadFault)>,
}

/// The result of a schedule.
#[derive(Debug)]
pub struct ScheduleResult {
    /// The violations; empty if there are none.
    pub violations: Vec<String>,
    /// The transcript, if it was requested.
    pub transcript: Vec<String>,
    /// Number of writes of the project's processes, without leases and events.
    pub writes: usize,
    /// Number of reads of the project's processes, without leases.
    pub reads: usize,
    /// Number of changes of each resource that the controllers watch.
    pub events: Vec<usize>,
    /// Whether a replaced leader resumed.
    pub former_leader_resumed: bool,
    /// The injected faults, planned and random.
    pub injected: InjectedFaults,
}

impl Schedule {
    /// Runs the schedule on its own runtime.
    ///
    /// # Panics
    /// If the runtime cannot be created.
    pub fn run(&self) -> ScheduleResult {
        self.run_on_own_runtime(false)
    }

    /// Runs the schedule and records a transcript.
    ///
    /// # Panics
    /// If the runtime cannot be created.
    pub fn run_with_transcript(&self) -> ScheduleResult {
        self.run_on_own_runtime(true)
    }

    fn run_on_own_runtime(&self, with_transcript: bool) -> ScheduleResult {
        let (runtime, idle) =
            Idle::runtime().expect("a runtime without threads and sockets uses no system resources");
        runtime.block_on(self.execute(idle, with_transcript))
    }

    async fn execute(&self, idle: Idle, with_transcript: bool) -> ScheduleResult {
        let mut world = SimulatedWorld::new(self.options, idle, with_transcript).await;
        {
            let injector = &mut *world.injector.lock();
            injector.write_faults = self.write_faults.iter().copied().collect();
            injector.read_faults = self.read_faults.iter().copied().collect();
        }
        for (pause, op) in &self.steps {
            world.advance(Duration::from_millis(*pause)).await;
            world.log(|| format!("── {op:?}"));
            op.perform(&mut world).await;
        }
        let mut violations = settle(&mut world).await;
        violations.append(&mut world.loops);
        violations.extend(invariant_violations(&world));
        if violations.is_empty() {
            violations = settled_violations(&world);
        }
        let transcript = world.transcript.take().unwrap_or_default();
        let (events, former_leader_resumed) = (world.events(), world.former_leader_resumed);
        let injector = &mut *world.injector.lock();
        let injected = std::mem::take(&mut injector.injected);
        ScheduleResult {
            violations,
            transcript,
            writes: injector.writes,
            reads: injector.reads,
            events,
            former_leader_resumed,
            injected,
        }
    }
}

/// Ends all faults and lets time pass until the world has settled.
async fn settle(world: &mut SimulatedWorld) -> Vec<String> {
    world.log(|| "── all faults end".to_owned());
    world.resume();
    world.server.release();
    *world.webhook.lock() = WebhookState::Works;
    set_policy(world, AdmissionPolicyEffect::None);
    let hanging = {
        let injector = &mut *world.injector.lock();
        // Faults that were planned for a certain request still occur, once.
        (injector.write_faults_per_mille, injector.read_faults_per_mille) = (0, 0);
        injector.admission = Duration::ZERO;
        injector.injected.read_faults.iter().any(|(_, read_fault)| *read_fault == ReadFault::Hang)
    };
    if !machines_of_lost_nodes(world).is_empty() {
        // Healing replaces their machines first.
        world.advance(NODES_LOST_FOR).await;
        return_nodes(world).await;
    }
    let begun = world.now();
    // The sender of a request without response waits for this long.
    let patience = if hanging { READ_TIMEOUT } else { Duration::ZERO };
    let mut found = Vec::new();
    if world.injector.lock().snapshot_quota {
        // The images that need another snapshot do not become ready, and say so.
        world.advance(SETTLED_AFTER + patience).await;
        found = without_evidence(world);
        world.injector.lock().snapshot_quota = false;
    }
    let patient = world.now() + patience;
    loop {
        world.advance(Duration::from_secs(5)).await;
        let since = |time: Timestamp| world.now().duration_since(time);
        if since(world.quiet_since(creates_machines(world)).max(patient)) > seconds(SETTLED_AFTER) {
            return found;
        }
        if since(begun) > seconds(TIMEOUT) {
            found.push(format!("I8: still changing {TIMEOUT:?} after the last fault"));
            return found;
        }
    }
}

fn seconds(time: Duration) -> SignedDuration {
    SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX)
}
