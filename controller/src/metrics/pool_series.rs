//! The metrics of single pools. Their number is limited, because users decide how many pools exist.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use prometheus_client::encoding::{EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use vmpool_runtime::label_set;
use vmpool_runtime::metrics::{Registry, Values, Word};

use super::label_values::{Failed, MachineState};
use super::labels::gauge;

/// The value of both labels in the series that sums the pools beyond the limit. No object can have this name.
pub(super) const OTHERS: &str = "(others)";

/// The namespace of a pool.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Namespace(Arc<str>);

/// The name of a pool.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Name(Arc<str>);

impl EncodeLabelValue for Namespace {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        encoder.write_str(&self.0)
    }
}

impl Word for Namespace {
    fn values() -> Values {
        Values::Open("the namespace of the pool, or `(others)`")
    }
}

impl EncodeLabelValue for Name {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        encoder.write_str(&self.0)
    }
}

impl Word for Name {
    fn values() -> Values {
        Values::Open("the name of the pool, or `(others)`")
    }
}

label_set!(pub(super) PoolMachineLabels { namespace: Namespace, pool: Name, state: MachineState });
label_set!(pub(super) PoolDiskLabels { namespace: Namespace, pool: Name });
label_set!(pub(super) PoolBlockedLabels { namespace: Namespace, pool: Name, reason: Failed });

/// The numbers of one or several pools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PoolNumbers {
    pub(super) machines: [usize; MachineState::ALL.len()],
    pub(super) free_disks: usize,
    /// Number of pools that are blocked for each reason.
    pub(super) blocked: [usize; Failed::ALL.len()],
}

impl PoolNumbers {
    fn add(&mut self, other: &Self) {
        self.machines.iter_mut().zip(other.machines).for_each(|(sum, count)| *sum += count);
        self.free_disks += other.free_disks;
        self.blocked.iter_mut().zip(other.blocked).for_each(|(sum, count)| *sum += count);
    }
}

/// Namespaces and names of pools with their numbers.
pub(crate) type PoolSeries = Vec<(Arc<str>, Arc<str>, PoolNumbers)>;

/// The series of all pools: the first `limit` by namespace and name, so that all replicas select the same ones, and one
/// with the sum of the rest.
pub(super) fn capped(mut pools: PoolSeries, limit: usize) -> PoolSeries {
    if pools.len() > limit {
        let by_name =
            |(namespace, name, _): &(Arc<str>, Arc<str>, PoolNumbers)| (namespace.clone(), name.clone());
        pools.sort_by_cached_key(by_name);
        let mut rest = PoolNumbers::default();
        pools.drain(limit..).for_each(|(_, _, numbers)| rest.add(&numbers));
        pools.push((OTHERS.into(), OTHERS.into(), rest));
    }
    pools
}

/// The gauges of single pools.
#[derive(Debug)]
pub(super) struct PoolSeriesGauges {
    machines: Family<PoolMachineLabels, Gauge>,
    free_disks: Family<PoolDiskLabels, Gauge>,
    blocked: Family<PoolBlockedLabels, Gauge>,
}

impl PoolSeriesGauges {
    pub(super) fn new(registry: &mut Registry) -> Self {
        Self {
            machines: registry.register(
                "vmpool_pool_machines",
                "machines",
                "Machines of each pool, as of the last pass. The states overlap: ready machines are also replicas",
                Family::default(),
            ),
            free_disks: registry.register(
                "vmpool_pool_free_disks",
                "disks",
                "Free disks of each pool, as of the last pass",
                Family::default(),
            ),
            blocked: registry.register(
                "vmpool_pool_blocked",
                "pools",
                "Whether the pool has the condition ReplicaFailure with this reason: 1, or no series",
                Family::default(),
            ),
        }
    }

    /// Replaces all series.
    pub(super) fn show(&self, pools: &PoolSeries) {
        self.machines.clear();
        self.free_disks.clear();
        self.blocked.clear();
        for (namespace, name, numbers) in pools {
            let (namespace, pool) = (Namespace(namespace.clone()), Name(name.clone()));
            for (&state, count) in MachineState::ALL.iter().zip(numbers.machines) {
                let labels = PoolMachineLabels { namespace: namespace.clone(), pool: pool.clone(), state };
                self.machines.get_or_create(&labels).set(gauge(count));
            }
            for (reason, count) in
                Failed::ALL.into_iter().zip(numbers.blocked).filter(|(_, count)| *count > 0)
            {
                let labels = PoolBlockedLabels { namespace: namespace.clone(), pool: pool.clone(), reason };
                self.blocked.get_or_create(&labels).set(gauge(count));
            }
            self.free_disks.get_or_create(&PoolDiskLabels { namespace, pool }).set(gauge(numbers.free_disks));
        }
    }
}
