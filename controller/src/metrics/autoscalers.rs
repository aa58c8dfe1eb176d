//! The metrics of autoscalers. Gauges are read from the leader at each scrape.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use vmpool_api::ObjectKey;
use vmpool_api::autoscaler::PoolAutoscalerStatus;
use vmpool_api::conditions::autoscaler::ACTIVE;
use vmpool_api::conditions::find_condition;
use vmpool_runtime::metrics::{Values, Word, family_with_series};
use vmpool_runtime::{label_set, metric_table, words};

use super::followed::Followed;
use super::pool_series::label;

/// The most autoscalers that have series of their own.
const MOST: usize = 100;

/// From a second to an hour: a machine may have to be created first.
const BUCKETS: [f64; 11] = [1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3600.0];

label!(
    /// The namespace of an autoscaler.
    AutoscalerNamespace, "the namespace of the autoscaler"
);
label!(
    /// The name of an autoscaler.
    AutoscalerName, "the name of the autoscaler"
);

words!(
    /// A number in the status of an autoscaler.
    pub(crate) AutoscalerNumber {
        /// Machines that the demand needs.
        Desired => "desired",
        /// Machines that the pool requests.
        Replicas => "replicas",
        /// Protected machines.
        Busy => "busy",
        /// Machines that can be claimed.
        Free => "free",
        /// Claims without a machine.
        Waiting => "waiting",
        /// Machines that have not been ready yet.
        Provisioning => "provisioning",
        /// Standby machines.
        Standby => "standby",
    }
);

words!(
    /// The direction of a change of the replicas.
    pub(crate) ScaleDirection {
        /// More machines.
        Raise => "raise",
        /// Fewer machines.
        Lower => "lower",
    }
);

words!(
    /// Why the controller does not scale the pool of an autoscaler: the reason of the condition Active.
    pub(crate) InactiveReason {
        /// The limits of the autoscaler cannot be read.
        InvalidSpec => "InvalidSpec",
        /// The pool does not exist.
        PoolNotFound => "PoolNotFound",
        /// The controller does not reconcile pools of this kind.
        PoolNotServed => "PoolNotServed",
        /// The autoscaler is paused.
        Paused => "Paused",
        /// The pool is paused.
        PoolPaused => "PoolPaused",
        /// The pool is being deleted.
        PoolDeleting => "PoolDeleting",
        /// Another object scales the pool.
        Conflict => "Conflict",
        /// The last write failed. The controller tries again.
        FailedScale => "FailedScale",
    }
);

label_set!(AutoscalerLabels {
    namespace: AutoscalerNamespace,
    autoscaler: AutoscalerName,
    state: AutoscalerNumber
});
label_set!(InactiveLabels {
    namespace: AutoscalerNamespace,
    autoscaler: AutoscalerName,
    reason: InactiveReason
});
label_set!(ScaleLabels { direction: ScaleDirection });

/// An autoscaler at a scrape.
#[derive(Clone, Debug)]
pub(crate) struct ShownAutoscaler {
    namespace: Arc<str>,
    name: Arc<str>,
    numbers: Vec<(AutoscalerNumber, i32)>,
    inactive: Option<InactiveReason>,
}

impl ShownAutoscaler {
    /// Reads the numbers in a status. Without a pool there are none.
    pub(crate) fn read(key: &ObjectKey, status: Option<&PoolAutoscalerStatus>) -> Self {
        let number = |number: AutoscalerNumber| {
            let status = status?;
            let value = match number {
                AutoscalerNumber::Desired => status.desired_replicas,
                AutoscalerNumber::Replicas => status.replicas,
                AutoscalerNumber::Busy => status.busy,
                AutoscalerNumber::Free => status.free,
                AutoscalerNumber::Waiting => status.waiting,
                AutoscalerNumber::Provisioning => status.provisioning,
                AutoscalerNumber::Standby => status.standby,
            };
            Some((number, value?))
        };
        let numbers = AutoscalerNumber::ALL.iter().filter_map(|known| number(*known)).collect();
        let inactive = status.and_then(read_inactive_reason);
        Self { namespace: key.namespace.as_str().into(), name: key.name.as_str().into(), numbers, inactive }
    }
}

/// Why the controller does not scale the pool; `None` if it does.
fn read_inactive_reason(status: &PoolAutoscalerStatus) -> Option<InactiveReason> {
    let active = find_condition(status.conditions.as_deref().unwrap_or_default(), ACTIVE)?;
    let known = InactiveReason::ALL.iter().copied();
    known.filter(|_| active.status == "False").find(|known| known.as_str() == active.reason)
}

metric_table!(
    /// The metrics of autoscalers.
    #[derive(Debug)]
    pub(crate) struct AutoscalerMetrics {
        /// Machines and claims of the pool of an autoscaler, as its status has them. The first 100
        /// autoscalers have series.
        machines: Family<AutoscalerLabels, Gauge> = "vmpool_autoscaler_machines" in "machines";
        /// Autoscalers whose pool the controller does not scale, with the reason of the condition Active. The
        /// first 100 autoscalers have series.
        inactive: Family<InactiveLabels, Gauge> = "vmpool_autoscaler_inactive" in "autoscalers";
        /// Changes of the replicas of pools by autoscalers.
        scales: Family<ScaleLabels, Counter> = "vmpool_autoscaler_scales_total" in "changes",
            family_with_series();
        /// Time from the first pass that sees a waiting claim until a machine has the claim.
        demand: Histogram = "vmpool_autoscaler_demand_duration_seconds" in "seconds", Histogram::new(BUCKETS);
        /// Waiting claims that ended without a machine: their clients do not repeat them any more.
        unanswered: Counter = "vmpool_autoscaler_unanswered_claims_total" in "claims";
    } with { shown: Followed<Vec<ShownAutoscaler>> }
);

impl AutoscalerMetrics {
    /// Reads the autoscalers from `source` from now on.
    pub(crate) fn follow(&self, source: impl Fn() -> Option<Vec<ShownAutoscaler>> + Send + Sync + 'static) {
        self.shown.follow(source);
    }

    /// Counts a change of the replicas of a pool.
    pub(crate) fn scaled(&self, direction: ScaleDirection) {
        self.scales.get_or_create(&ScaleLabels { direction }).inc();
    }

    /// Observes how long a claim waited until it had a machine.
    pub(crate) fn claim_answered(&self, waited: Duration) {
        self.demand.observe(waited.as_secs_f64());
    }

    /// Counts waiting claims that ended without a machine.
    pub(crate) fn claims_unanswered(&self, claims: u64) {
        self.unanswered.inc_by(claims);
    }

    pub(super) fn refresh(&self) {
        self.machines.clear();
        self.inactive.clear();
        for shown in self.shown.read().unwrap_or_default().into_iter().take(MOST) {
            if let Some(reason) = shown.inactive {
                let labels = InactiveLabels {
                    namespace: AutoscalerNamespace(shown.namespace.clone()),
                    autoscaler: AutoscalerName(shown.name.clone()),
                    reason,
                };
                self.inactive.get_or_create(&labels).set(1);
            }
            for (state, value) in shown.numbers {
                let labels = AutoscalerLabels {
                    namespace: AutoscalerNamespace(shown.namespace.clone()),
                    autoscaler: AutoscalerName(shown.name.clone()),
                    state,
                };
                self.machines.get_or_create(&labels).set(i64::from(value));
            }
        }
    }
}

#[cfg(test)]
mod tests;
