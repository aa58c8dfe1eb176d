//! Settings of the controller.

use std::collections::BTreeSet;
use std::time::Duration;

use vmpool_engine::ledger::REQUEST_TIMEOUT;
use vmpool_engine::plan::{self, COLLECTION_GRACE};
use vmpool_engine::scale_down::removal::RESERVATION_AGE;
use vmpool_kit::write::WriteLimits;
use vmpool_platforms::instancetype::copies::CopyPolicy;

/// Whether KubeVirt pools have the conditions `Ready`, `Reconciling` and `Stalled`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "camelCase")]
pub enum KubevirtConditions {
    /// They have them if the definition of pools is that of vmpool
    #[default]
    Auto,
    /// They have them
    Always,
    /// They do not have them
    Never,
}

/// Whether KubeVirt pools have metrics under the names of KubeVirt, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "camelCase")]
pub enum KubevirtMetrics {
    /// They have them unless KubeVirt's observability controller exports them
    #[default]
    Auto,
    /// They have them
    Always,
    /// They do not have them
    Never,
}

/// Settings of the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent flags: any of them may come with any other")]
pub struct ControllerSettings {
    /// Maximum number of passes in parallel, each for another pool.
    pub workers: usize,
    /// Maximum number of writes in flight for all pools.
    pub writes_in_flight: usize,
    /// Deadline of a request. After it, the request is unconfirmed.
    pub request_deadline: Duration,
    /// Deadline of a write to a collection whose writes were slow in the last minutes.
    pub slow_write_deadline: Duration,
    /// Minimum time between two passes of a pool that events cause.
    pub debounce: Duration,
    /// Age at which the controller drops a reservation that is not accepted.
    pub reservation_timeout: Duration,
    /// Time between the mark and the deletion of a disk. In this time, a use that has just begun becomes
    /// visible.
    pub collection_grace: Duration,
    /// Minimum time between two writes of a pool's status.
    pub status_interval: Duration,
    /// Maximum time between two passes of a pool.
    pub resync: Duration,
    /// Whether pools can limit how many of their machines provision at the same time.
    pub limits_provisioning: bool,
    /// Whether pools can have standby machines.
    pub keeps_standby: bool,
    /// Maximum number of machines with disks of one storage class that provision at the same time, over all
    /// pools; 0 for no limit.
    pub max_provisioning_per_class: usize,
    /// Maximum number of pools with metrics of their own. The others are summed.
    pub max_pool_series: usize,
    /// Whether KubeVirt pools have metrics under the names of KubeVirt, too.
    pub kubevirt_metrics: KubevirtMetrics,
    /// Whether KubeVirt pools have the conditions in the meaning of kstatus.
    pub kubevirt_conditions: KubevirtConditions,
    /// Whether the controller leaves out a platform whose pools its account may not list. Otherwise it waits
    /// for the rights, and is not ready.
    pub skips_forbidden_platforms: bool,
    /// What happens to single machines that name an instance type or a preference; `None` if another
    /// controller decides that.
    pub copies: Option<CopyPolicy>,
    /// Whether instance types and preferences keep a finalizer until all machines and pools that name them
    /// have copies.
    pub protects_types: bool,
    /// Whether autoscalers are reconciled.
    pub autoscales: bool,
}

/// Settings of image refresh.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageRefreshSettings {
    /// The namespaces whose images and claims pools of other namespaces follow.
    pub namespaces: BTreeSet<String>,
}

impl ControllerSettings {
    /// The settings that plans depend on.
    pub(crate) fn of_plans(&self) -> plan::PlanSettings {
        plan::PlanSettings {
            collection_grace: self.collection_grace,
            reservation_timeout: self.reservation_timeout,
            limits_provisioning: self.limits_provisioning,
            keeps_standby: self.keeps_standby,
        }
    }
}

impl From<&ControllerSettings> for WriteLimits {
    fn from(settings: &ControllerSettings) -> Self {
        Self {
            in_flight: settings.writes_in_flight,
            deadline: settings.request_deadline,
            slow_deadline: settings.slow_write_deadline,
        }
    }
}

impl Default for ControllerSettings {
    fn default() -> Self {
        Self {
            workers: 4,
            writes_in_flight: 64,
            request_deadline: Duration::from_secs(8),
            slow_write_deadline: REQUEST_TIMEOUT,
            debounce: Duration::from_millis(100),
            reservation_timeout: RESERVATION_AGE,
            collection_grace: COLLECTION_GRACE,
            status_interval: Duration::from_secs(1),
            resync: Duration::from_mins(10),
            limits_provisioning: false,
            keeps_standby: false,
            max_provisioning_per_class: 0,
            max_pool_series: 1000,
            // `Auto`, the default of the flag, reads objects of another program.
            kubevirt_metrics: KubevirtMetrics::Never,
            kubevirt_conditions: KubevirtConditions::Auto,
            skips_forbidden_platforms: false,
            copies: None,
            protects_types: true,
            autoscales: false,
        }
    }
}
