//! The metrics of single pools. Their number is limited, because users decide how many pools exist.

use std::fmt;
use std::sync::Arc;

use prometheus_client::encoding::{EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use vmpool_engine::standby::StandbyCounts;
use vmpool_runtime::metrics::{Values, Word};
use vmpool_runtime::{label_set, metric_table};

use super::label_values::{DelayingLimit, FailureReasonLabel, HealingState, MachineState, TemplateProblem};
use super::labels::gauge_value;

/// The value of the labels in the series that sums the pools beyond the limit. No object can have this name.
const OTHERS: &str = "(others)";

/// A label whose values users choose, such as the name of an object.
macro_rules! label {
    ($(#[doc = $doc:literal])* $name:ident, $values:literal) => {
        $(#[doc = $doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub(crate) struct $name(pub(super) Arc<str>);

        impl EncodeLabelValue for $name {
            fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
                fmt::Write::write_str(encoder, &self.0)
            }
        }

        impl Word for $name {
            fn values() -> Values {
                Values::Open($values)
            }
        }
    };
}

pub(super) use label;

label!(
    /// The namespace of a pool.
    Namespace, "the namespace of the pool, or `(others)`"
);
label!(
    /// The name of a pool.
    Name, "the name of the pool, or `(others)`"
);
label!(
    /// The platform of a pool. Pools of two platforms can have the same name.
    PlatformName, "the platform, such as `dvp`, or `(others)`"
);

label_set!(pub(super) PoolMachineLabels {
    namespace: Namespace,
    pool: Name,
    platform: PlatformName,
    state: MachineState
});
label_set!(pub(super) PoolDiskLabels { namespace: Namespace, pool: Name, platform: PlatformName });
label_set!(pub(super) PoolBlockedLabels {
    namespace: Namespace,
    pool: Name,
    platform: PlatformName,
    reason: FailureReasonLabel
});

label_set!(pub(super) PoolProvisioningLabels {
    namespace: Namespace,
    pool: Name,
    platform: PlatformName,
    limit: DelayingLimit
});

label_set!(pub(super) PoolHealingLabels {
    namespace: Namespace,
    pool: Name,
    platform: PlatformName,
    healing: HealingState
});

label_set!(pub(super) PoolTemplateLabels {
    namespace: Namespace,
    pool: Name,
    platform: PlatformName,
    condition: TemplateProblem
});

// Only one platform has instance types, so namespace and name identify the pool.
label_set!(pub(super) PoolTypeLabels { namespace: Namespace, pool: Name });

/// How many machines of a pool the controller created and deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MachineActions {
    /// Created machines.
    pub(crate) created: usize,
    /// Deleted machines.
    pub(crate) deleted: usize,
    /// Those of them that did not start, and are replaced.
    pub(crate) healed: usize,
}

impl MachineActions {
    pub(super) fn add(&mut self, other: Self) {
        self.created += other.created;
        self.deleted += other.deleted;
        self.healed += other.healed;
    }
}

/// The numbers of one or several pools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PoolNumbers {
    pub(super) machines: [usize; MachineState::ALL.len()],
    pub(super) draining: usize,
    pub(super) standby: StandbyCounts,
    pub(super) image_outdated: usize,
    pub(super) free_disks: usize,
    pub(super) preserved_volumes: usize,
    /// Number of pools that are blocked for each reason.
    pub(super) blocked: [usize; FailureReasonLabel::ALL.len()],
    /// Machines that provision, by the limit that delays further ones. `None` if pools have no limits.
    pub(super) provisioning: Option<[usize; DelayingLimit::ALL.len()]>,
    /// Unhealthy machines, by whether healing replaces them. `None` if healing is off.
    pub(super) unhealthy: Option<[usize; HealingState::ALL.len()]>,
    /// Number of pools with each condition about the template.
    pub(super) template: [usize; TemplateProblem::ALL.len()],
    /// Whether pools can have copies of instance types and preferences. Other pools have no series about
    /// them.
    pub(super) has_copies: bool,
    /// Number of pools with outdated copies.
    pub(super) outdated: usize,
    /// Number of restored copies.
    pub(super) repairs: usize,
    /// Number of paused pools.
    pub(super) paused: usize,
    /// What the controller did to machines.
    pub(super) actions: MachineActions,
}

impl PoolNumbers {
    fn add(&mut self, other: &Self) {
        self.machines.iter_mut().zip(other.machines).for_each(|(sum, count)| *sum += count);
        self.draining += other.draining;
        self.standby.total += other.standby.total;
        self.standby.ready += other.standby.ready;
        self.image_outdated += other.image_outdated;
        self.free_disks += other.free_disks;
        self.preserved_volumes += other.preserved_volumes;
        self.blocked.iter_mut().zip(other.blocked).for_each(|(sum, count)| *sum += count);
        if let Some(other) = other.provisioning {
            let own = self.provisioning.get_or_insert_default();
            own.iter_mut().zip(other).for_each(|(sum, count)| *sum += count);
        }
        if let Some(other) = other.unhealthy {
            let own = self.unhealthy.get_or_insert_default();
            own.iter_mut().zip(other).for_each(|(sum, count)| *sum += count);
        }
        self.template.iter_mut().zip(other.template).for_each(|(sum, count)| *sum += count);
        self.has_copies |= other.has_copies;
        self.outdated += other.outdated;
        self.repairs += other.repairs;
        self.paused += other.paused;
        self.actions.add(other.actions);
    }
}

/// Pools with their numbers.
pub(crate) type PoolSeries = Vec<((Namespace, Name, PlatformName), PoolNumbers)>;

/// The series of all pools: the first `limit` by namespace and name, so that all replicas select the same
/// ones, and one with the sum of the rest.
pub(super) fn cap_pool_series(pools: PoolSeries, limit: usize) -> PoolSeries {
    let (mut rest, mut pools): (PoolSeries, PoolSeries) =
        pools.into_iter().partition(|(pool, _)| *pool == other_pools_labels());
    if pools.len() > limit {
        pools.sort_by(|(one, _), (other, _)| one.cmp(other));
        rest.extend(pools.drain(limit..));
    }
    if !rest.is_empty() {
        let mut sum = PoolNumbers::default();
        for (_, numbers) in &rest {
            sum.add(numbers);
        }
        pools.push((other_pools_labels(), sum));
    }
    pools
}

/// The series of the pools without one of their own.
pub(super) fn other_pools_labels() -> (Namespace, Name, PlatformName) {
    let others = || OTHERS.into();
    (Namespace(others()), Name(others()), PlatformName(others()))
}

metric_table!(
    /// The gauges of single pools.
    #[derive(Debug)]
    pub(super) struct PoolSeriesGauges {
        /// Machines of each pool, as of the last pass. The states overlap: ready machines are also replicas.
        machines: Family<PoolMachineLabels, Gauge> = "vmpool_pool_machines" in "machines";
        /// Machines of the pool that drain, as of the last pass; no series without any.
        draining: Family<PoolDiskLabels, Gauge> = "vmpool_pool_draining" in "machines";
        /// Standby machines of the pool, as of the last pass; no series without any.
        standby: Family<PoolDiskLabels, Gauge> = "vmpool_pool_standby" in "machines";
        /// Standby machines of the pool that are stopped and have their disks, as of the last pass; no series
        /// without standby machines.
        ready_standby: Family<PoolDiskLabels, Gauge> = "vmpool_pool_ready_standby" in "machines";
        /// Machines of the pool with disks from earlier content of their source, as of the last pass; no
        /// series without any. Only with the feature gate ImageRefresh.
        image_outdated: Family<PoolDiskLabels, Gauge> = "vmpool_pool_image_outdated" in "machines";
        /// Free disks of each pool, as of the last pass.
        free_disks: Family<PoolDiskLabels, Gauge> = "vmpool_pool_free_disks" in "disks";
        /// Volumes and claims that machines of the pool left behind and that no machine uses; no series
        /// without any. Those of deleted pools are in the series `(others)`.
        preserved_volumes: Family<PoolDiskLabels, Gauge> = "vmpool_pool_preserved_volumes" in "volumes";
        /// Whether the pool has the condition ReplicaFailure with this reason: 1, or no series.
        blocked: Family<PoolBlockedLabels, Gauge> = "vmpool_pool_blocked" in "pools";
        /// Machines of each pool that have not been ready yet and count for the limits on provisioning, as of
        /// the last pass, with the limit that delays further creates. Only with the feature gate
        /// ProvisioningLimit.
        provisioning: Family<PoolProvisioningLabels, Gauge> = "vmpool_pool_provisioning" in "machines";
        /// Machines of each pool with healing that have not been ready for too long, as of the last pass, and
        /// whether healing is active or blocked, because there are too many.
        unhealthy: Family<PoolHealingLabels, Gauge> = "vmpool_pool_unhealthy" in "machines";
        /// Whether the pool has this condition about what its template refers to: 1, or no series.
        template: Family<PoolTemplateLabels, Gauge> = "vmpool_pool_template_condition" in "pools";
        /// Whether the copies that machines of the pool use differ from the instance type or the preference
        /// as it is now: condition InstancetypeOutdated. Only pools of platforms with instance types have a
        /// series.
        outdated: Family<PoolTypeLabels, Gauge> = "vmpool_pool_instancetype_outdated" in "0 or 1";
        /// Copies of instance types and preferences that another client had deleted or taken from the pool,
        /// and that this process restored since it became the leader. Only pools of platforms with instance
        /// types have a series.
        repairs: Family<PoolTypeLabels, Counter> = "vmpool_pool_pin_repairs_total" in "copies";
    }
);

impl PoolSeriesGauges {
    /// Replaces all series.
    pub(super) fn show(&self, pools: PoolSeries) {
        self.machines.clear();
        self.draining.clear();
        self.standby.clear();
        self.ready_standby.clear();
        self.image_outdated.clear();
        self.free_disks.clear();
        self.preserved_volumes.clear();
        self.blocked.clear();
        self.provisioning.clear();
        self.unhealthy.clear();
        self.template.clear();
        self.outdated.clear();
        self.repairs.clear();
        for ((namespace, pool, platform), numbers) in pools {
            for (&state, count) in MachineState::ALL.iter().zip(numbers.machines) {
                let (namespace, pool, platform) = (namespace.clone(), pool.clone(), platform.clone());
                let labels = PoolMachineLabels { namespace, pool, platform, state };
                self.machines.get_or_create(&labels).set(gauge_value(count));
            }
            for (reason, count) in
                FailureReasonLabel::ALL.into_iter().zip(numbers.blocked).filter(|(_, count)| *count > 0)
            {
                let (namespace, pool, platform) = (namespace.clone(), pool.clone(), platform.clone());
                let labels = PoolBlockedLabels { namespace, pool, platform, reason };
                self.blocked.get_or_create(&labels).set(gauge_value(count));
            }
            let provisioning = numbers.provisioning.map(|counts| DelayingLimit::ALL.iter().zip(counts));
            for (&limit, count) in provisioning.into_iter().flatten() {
                let (namespace, pool, platform) = (namespace.clone(), pool.clone(), platform.clone());
                let labels = PoolProvisioningLabels { namespace, pool, platform, limit };
                self.provisioning.get_or_create(&labels).set(gauge_value(count));
            }
            let unhealthy = numbers.unhealthy.map(|counts| HealingState::ALL.iter().zip(counts));
            for (&healing, count) in unhealthy.into_iter().flatten() {
                let (namespace, pool, platform) = (namespace.clone(), pool.clone(), platform.clone());
                let labels = PoolHealingLabels { namespace, pool, platform, healing };
                self.unhealthy.get_or_create(&labels).set(gauge_value(count));
            }
            let problems = TemplateProblem::ALL.iter().zip(numbers.template);
            for (&condition, count) in problems.filter(|(_, count)| *count > 0) {
                let (namespace, pool, platform) = (namespace.clone(), pool.clone(), platform.clone());
                let labels = PoolTemplateLabels { namespace, pool, platform, condition };
                self.template.get_or_create(&labels).set(gauge_value(count));
            }
            if numbers.has_copies {
                let labels = PoolTypeLabels { namespace: namespace.clone(), pool: pool.clone() };
                self.outdated.get_or_create(&labels).set(gauge_value(numbers.outdated));
                self.repairs.get_or_create(&labels).inc_by(numbers.repairs as u64);
            }
            let labels = PoolDiskLabels { namespace, pool, platform };
            if numbers.draining > 0 {
                self.draining.get_or_create(&labels).set(gauge_value(numbers.draining));
            }
            if numbers.standby.total > 0 {
                self.standby.get_or_create(&labels).set(gauge_value(numbers.standby.total));
                self.ready_standby.get_or_create(&labels).set(gauge_value(numbers.standby.ready));
            }
            if numbers.image_outdated > 0 {
                self.image_outdated.get_or_create(&labels).set(gauge_value(numbers.image_outdated));
            }
            self.free_disks.get_or_create(&labels).set(gauge_value(numbers.free_disks));
            if numbers.preserved_volumes > 0 {
                self.preserved_volumes.get_or_create(&labels).set(gauge_value(numbers.preserved_volumes));
            }
        }
    }
}
