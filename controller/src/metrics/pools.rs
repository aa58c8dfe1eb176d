//! Pools, machines and ledgers after the last pass over each pool. The sums are computed for each scrape.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use vmpool_engine::condition::ConditionType;
use vmpool_engine::failure::FailureReason;
use vmpool_engine::ledger::{Ledger, LedgerFacts};
use vmpool_engine::standby::StandbyCounts;
use vmpool_engine::status::{Availability, StatusSummary};
use vmpool_engine::{ComputedStatus, PassMemory, Pool};
use vmpool_runtime::Env;
use vmpool_runtime::metric_table;
use vmpool_runtime::metrics::{FloatGauge, MetricsRegistry, family_with_series};

use super::disks::{DiskCounts, DiskGauges};
use super::label_values::{
    DelayingLimit, FailureReasonLabel, HealingState, LedgerResource, MachineState, PoolState, RemovalState,
    TemplateProblem,
};
use super::labels::{LedgerLabels, MachineLabels, PoolLabels, RemovalLabels, gauge_value};
use super::pool_series::{
    MachineActions, Name, Namespace, PlatformName, PoolNumbers, PoolSeries, other_pools_labels,
};
use crate::pools::pool_key::PoolKey;

/// The counts of one pool after a pass.
#[derive(Clone, Debug)]
pub(crate) struct PoolReport {
    namespace: Arc<str>,
    name: Arc<str>,
    state: PoolState,
    /// The reason of its condition ReplicaFailure.
    blocked: Option<FailureReasonLabel>,
    machines: [usize; MachineState::ALL.len()],
    draining: usize,
    standby: StandbyCounts,
    image_outdated: usize,
    removals: [usize; RemovalState::ALL.len()],
    disks: DiskCounts,
    /// Machines that provision, by the limit that delays further ones. `None` if pools have no limits.
    provisioning: Option<[usize; DelayingLimit::ALL.len()]>,
    /// Unhealthy machines, by whether healing replaces them. `None` if healing is off.
    unhealthy: Option<[usize; HealingState::ALL.len()]>,
    /// Whether it has each of these conditions.
    template: [bool; TemplateProblem::ALL.len()],
    /// Whether it has the condition that its copies are outdated.
    is_outdated: bool,
    is_paused: bool,
    ledger: [usize; LedgerResource::ALL.len()],
    /// Uptime of the oldest entry.
    oldest: Option<Duration>,
}

impl PoolReport {
    /// The counts of a pool. `terminating` is the number of terminating machines.
    pub(crate) fn served(
        pool: &Pool,
        status: &ComputedStatus,
        terminating: usize,
        availability: Availability,
        disks: DiskCounts,
        memory: &PassMemory,
    ) -> Self {
        let summary = &status.summary;
        let failure = status
            .conditions
            .iter()
            .find(|condition| condition.is(ConditionType::ReplicaFailure) && condition.status == "True");
        let state = if failure.is_some_and(|failure| failure.reason == FailureReason::StatusDisputed.as_str())
        {
            PoolState::Disputed
        } else if failure.is_some() {
            PoolState::Failing
        } else if summary.replicas != pool.desired {
            PoolState::Progressing
        } else if summary.ready < pool.desired {
            PoolState::Unready
        } else {
            PoolState::Ready
        };
        let machines = MachineState::ALL.iter().map(|state| match state {
            MachineState::Desired => pool.desired,
            MachineState::Replicas => summary.replicas,
            MachineState::Ready => summary.ready,
            MachineState::Updated => summary.updated,
            MachineState::RestartPending => summary.restart_pending,
            MachineState::Terminating => terminating,
            MachineState::Free => availability.free,
            MachineState::Claimed => availability.claimed,
            MachineState::Protected => availability.protected,
        });
        let is_reason =
            |known: &FailureReasonLabel| failure.is_some_and(|failure| failure.reason == known.0.as_str());
        let blocked = FailureReasonLabel::ALL.into_iter().find(is_reason);
        let has = |kind: ConditionType| status.conditions.iter().any(|condition| condition.is(kind));
        let mut template = [false; TemplateProblem::ALL.len()];
        let problems = template.iter_mut().zip(TemplateProblem::ALL);
        problems.for_each(|(place, problem)| *place = has(problem.condition()));
        let is_outdated = has(ConditionType::InstancetypeOutdated);
        let StatusSummary { draining, standby, image_outdated, .. } = *summary;
        Self {
            blocked,
            draining,
            standby,
            image_outdated,
            disks,
            template,
            is_outdated,
            ..Self::new(state, machines, pool, memory)
        }
    }

    /// The counts of a pool that is being deleted. Its machines are not reconciled any more.
    pub(crate) fn deleting(
        pool: &Pool,
        replicas: usize,
        terminating: usize,
        disks: DiskCounts,
        memory: &PassMemory,
    ) -> Self {
        let machines = MachineState::ALL.iter().map(|state| match state {
            MachineState::Replicas => replicas,
            MachineState::Terminating => terminating,
            _ => 0,
        });
        Self { disks, ..Self::new(PoolState::Deleting, machines, pool, memory) }
    }

    fn new(state: PoolState, counted: impl Iterator<Item = usize>, pool: &Pool, memory: &PassMemory) -> Self {
        let mut machines = [0; MachineState::ALL.len()];
        machines.iter_mut().zip(counted).for_each(|(place, count)| *place = count);
        let (of_machines, of_disks) = (ledger_extent(&memory.machines), ledger_extent(&memory.disks));
        let oldest = [of_machines.1, of_disks.1].into_iter().flatten().min();
        let removals = [pool.record.reserved().count(), pool.record.accepted().count()];
        Self {
            namespace: pool.namespace.clone(),
            name: pool.id.name.clone(),
            state,
            blocked: None,
            machines,
            draining: 0,
            standby: StandbyCounts::default(),
            image_outdated: 0,
            removals,
            disks: DiskCounts::default(),
            provisioning: None,
            unhealthy: None,
            template: [false; TemplateProblem::ALL.len()],
            is_outdated: false,
            is_paused: pool.paused,
            ledger: [of_machines.0, of_disks.0],
            oldest,
        }
    }
}

impl PoolReport {
    /// The same report with the number of machines that provision, and the limit that delays further ones.
    pub(crate) fn with_provisioning(self, machines: usize, limit: DelayingLimit) -> Self {
        let mut counts = [0; DelayingLimit::ALL.len()];
        counts[limit as usize] = machines;
        Self { provisioning: Some(counts), ..self }
    }

    /// The same report with the number of unhealthy machines, and whether healing replaces no further ones.
    pub(crate) fn with_health(self, machines: usize, is_blocked: bool) -> Self {
        let state = if is_blocked { HealingState::Blocked } else { HealingState::Active };
        let mut counts = [0; HealingState::ALL.len()];
        counts[state as usize] = machines;
        Self { unhealthy: Some(counts), ..self }
    }

    fn numbers(&self) -> PoolNumbers {
        let blocked = FailureReasonLabel::ALL.map(|reason| usize::from(self.blocked == Some(reason)));
        let template = self.template.map(usize::from);
        let free_disks = self.disks.free();
        PoolNumbers {
            machines: self.machines,
            draining: self.draining,
            standby: self.standby,
            image_outdated: self.image_outdated,
            free_disks,
            blocked,
            provisioning: self.provisioning,
            unhealthy: self.unhealthy,
            template,
            outdated: usize::from(self.is_outdated),
            paused: usize::from(self.is_paused),
            ..PoolNumbers::default()
        }
    }
}

fn ledger_extent<T: LedgerFacts>(ledger: &Ledger<T>) -> (usize, Option<Duration>) {
    (ledger.len(), ledger.oldest())
}

/// The counts of all pools of a leader.
#[derive(Debug, Default)]
pub(crate) struct PoolCounts {
    reports: Mutex<BTreeMap<PoolKey, PoolReport>>,
    /// How many copies were restored for each pool. Most pools have none.
    repairs: Mutex<BTreeMap<PoolKey, usize>>,
    /// What the controller did to the machines of each pool.
    actions: Mutex<BTreeMap<PoolKey, MachineActions>>,
}

/// The sums of all pools.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pools: [usize; PoolState::ALL.len()],
    machines: [usize; MachineState::ALL.len()],
    removals: [usize; RemovalState::ALL.len()],
    disks: DiskCounts,
    ledger: [usize; LedgerResource::ALL.len()],
    oldest: Option<Duration>,
}

impl PoolCounts {
    /// Records the counts of a pool after a pass.
    pub(crate) fn record(&self, pool: &PoolKey, facts: PoolReport) {
        let mut all = self.reports.lock();
        match all.get_mut(pool) {
            Some(place) => *place = facts,
            None => drop(all.insert(pool.clone(), facts)),
        }
    }

    /// Removes a pool.
    pub(crate) fn forget(&self, pool: &PoolKey) {
        self.reports.lock().remove(pool);
        self.repairs.lock().remove(pool);
        self.actions.lock().remove(pool);
    }

    /// Counts restored copies of a pool.
    pub(crate) fn repaired(&self, pool: &PoolKey, copies: usize) {
        if copies > 0 {
            *self.repairs.lock().entry(pool.clone()).or_default() += copies;
        }
    }

    /// Counts created and deleted machines of a pool.
    pub(crate) fn count_actions(&self, pool: &PoolKey, actions: MachineActions) {
        self.actions.lock().entry(pool.clone()).or_default().add(actions);
    }

    /// The numbers of each pool of this platform. `preserved` counts preserved volumes by the namespace and
    /// the name of their pool. Those of pools that do not exist are in the series of the other pools, because
    /// the names come from labels that users can write. `has_copies` is whether pools of the platform have
    /// copies of what they refer to.
    pub(crate) fn series(
        &self,
        platform: &'static str,
        has_copies: bool,
        mut preserved: BTreeMap<(Arc<str>, Arc<str>), usize>,
    ) -> PoolSeries {
        let platform = PlatformName(platform.into());
        let key = |pool: &PoolReport| {
            (Namespace(pool.namespace.clone()), Name(pool.name.clone()), platform.clone())
        };
        let (all, repairs, actions) = (self.reports.lock(), self.repairs.lock(), self.actions.lock());
        let numbers = |(id, pool): (&PoolKey, &PoolReport)| {
            let repairs = repairs.get(id).copied().unwrap_or_default();
            let actions = actions.get(id).copied().unwrap_or_default();
            (key(pool), PoolNumbers { has_copies, repairs, actions, ..pool.numbers() })
        };
        let mut series: PoolSeries = all.iter().map(numbers).collect();
        for ((namespace, name, _), numbers) in &mut series {
            numbers.preserved_volumes =
                preserved.remove(&(namespace.0.clone(), name.0.clone())).unwrap_or_default();
        }
        let preserved_volumes: usize = preserved.into_values().sum();
        if preserved_volumes > 0 {
            series.push((other_pools_labels(), PoolNumbers { preserved_volumes, ..PoolNumbers::default() }));
        }
        series
    }

    /// The current sums.
    pub(crate) fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for facts in self.reports.lock().values() {
            let mut pools = [0; PoolState::ALL.len()];
            pools[facts.state as usize] = 1;
            let PoolReport { machines, removals, disks, ledger, oldest, .. } = facts.clone();
            totals.add(&Totals { pools, machines, removals, disks, ledger, oldest });
        }
        totals
    }
}

impl Totals {
    /// Adds other sums.
    pub(super) fn add(&mut self, other: &Self) {
        self.pools.iter_mut().zip(other.pools).for_each(|(sum, count)| *sum += count);
        self.machines.iter_mut().zip(other.machines).for_each(|(sum, count)| *sum += count);
        self.removals.iter_mut().zip(other.removals).for_each(|(sum, count)| *sum += count);
        self.disks.add(&other.disks);
        self.ledger.iter_mut().zip(other.ledger).for_each(|(sum, count)| *sum += count);
        self.oldest = [self.oldest, other.oldest].into_iter().flatten().min();
    }
}

/// The gauges that show the sums.
#[derive(Debug)]
pub(super) struct PoolGauges {
    env: Env,
    sums: SumGauges,
    disks: DiskGauges,
    ledger: LedgerGauges,
}

metric_table!(
    /// The sums over all pools.
    #[derive(Debug)]
    struct SumGauges {
        /// Pools by state. Each pool counts once, in the last of these states that applies. Pools without a
        /// pass are omitted.
        pools: Family<PoolLabels, Gauge> = "vmpool_pools" in "pools", family_with_series();
        /// Machines of all pools. The states overlap: ready machines are also replicas.
        machines: Family<MachineLabels, Gauge> = "vmpool_members" in "machines", family_with_series();
        /// Targets of targeted removals of all pools, as of the last pass of each pool.
        removals: Family<RemovalLabels, Gauge> = "vmpool_removal_targets" in "targets", family_with_series();
    }
);

metric_table!(
    /// The pending writes of all pools.
    #[derive(Debug)]
    struct LedgerGauges {
        /// Pending writes that the cache did not show at the end of the last pass of their pool.
        entries: Family<LedgerLabels, Gauge> = "vmpool_ledger_entries" in "entries", family_with_series();
        /// Age of the oldest pending write; 0 if there is none. The controller resolves writes that are 30 s
        /// old with a live read.
        oldest: FloatGauge = "vmpool_ledger_oldest_entry_age_seconds" in "seconds";
    }
);

impl PoolGauges {
    pub(super) fn new(registry: &mut MetricsRegistry, env: &Env) -> Self {
        Self {
            env: env.clone(),
            sums: SumGauges::new(registry),
            disks: DiskGauges::new(registry),
            ledger: LedgerGauges::new(registry),
        }
    }

    pub(super) fn show(&self, totals: &Totals) {
        for (&state, count) in PoolState::ALL.iter().zip(totals.pools) {
            self.sums.pools.get_or_create(&PoolLabels { state }).set(gauge_value(count));
        }
        for (&state, count) in MachineState::ALL.iter().zip(totals.machines) {
            self.sums.machines.get_or_create(&MachineLabels { state }).set(gauge_value(count));
        }
        for (&state, count) in RemovalState::ALL.iter().zip(totals.removals) {
            self.sums.removals.get_or_create(&RemovalLabels { state }).set(gauge_value(count));
        }
        self.disks.show(&totals.disks);
        for (&resource, count) in LedgerResource::ALL.iter().zip(totals.ledger) {
            self.ledger.entries.get_or_create(&LedgerLabels { resource }).set(gauge_value(count));
        }
        let age = totals.oldest.map(|oldest| self.env.uptime().saturating_sub(oldest));
        self.ledger.oldest.set(age.unwrap_or_default().as_secs_f64());
    }
}
