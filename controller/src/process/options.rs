//! The command line, which is validated before anything starts.

mod images;
mod platforms;

use std::collections::BTreeSet;
use std::time::Duration;

use clap::Parser;
use vmpool_feature_gates::Feature;
pub use vmpool_platforms::PlatformName;
use vmpool_platforms::instancetype::copies::CopyPolicy;
use vmpool_runtime::args::{ArgsError, GateArgs, InstancetypeMode, LeaseArgs, ProgramArgs, ReservationArgs};

pub use self::images::{ImageArgs, ImageArgsError};
pub use self::platforms::PlatformChoice;
use self::platforms::platform_parser;
use crate::settings::{ControllerSettings, ImageRefreshSettings, KubevirtConditions, KubevirtMetrics};

/// The maximum of `--slow-write-deadline`. The client closes a connection without data after
/// [`vmpool_runtime::client::READ_TIMEOUT`].
const MAX_SLOW_WRITE_DEADLINE: Duration = Duration::from_secs(70);

/// Controller for pools of identical virtual machines: creates, updates and deletes machines and their disks
/// until each pool matches its spec.
///
/// Run two replicas: one leads, and the other replaces it when the lease ends. Each flag can also be set by
/// the environment variable shown with it.
#[derive(Debug, Parser)]
// If a flag is repeated, the last one counts, so that users of the chart can override flags.
#[command(name = "vmpool-controller", version, args_override_self = true)]
#[command(after_long_help = vmpool_feature_gates::help_text())]
pub struct ControllerArgs {
    /// Feature gates.
    #[command(flatten)]
    pub gates: GateArgs,

    /// Platforms whose pools to reconcile, each while the cluster has its definitions. With auto, all
    /// platforms whose pools the account may list. A platform that is named here requires its rights.
    #[arg(
        long,
        env = "VMPOOL_PLATFORMS",
        value_parser = platform_parser(),
        value_delimiter = ',',
        // A list of values is otherwise extended by a repeated flag.
        action = clap::ArgAction::Set,
        default_value = "auto",
        value_name = "NAMES"
    )]
    pub platforms: Vec<PlatformChoice>,

    /// Remove the finalizers of vmpool, and exit: from all pools and machines of the platforms, with the
    /// platform kubevirt also from all instance types and preferences, and with the feature gate DiskImages
    /// from all disk images and grants. The program takes the lease first, so that running replicas stop. No
    /// replica leads for two minutes afterwards. For use before vmpool is uninstalled.
    #[arg(long, env = "VMPOOL_REMOVE_FINALIZERS")]
    pub remove_finalizers: bool,

    /// Reconcile only the pools of this namespace. Default: all namespaces.
    #[arg(long, env = "VMPOOL_WATCH_NAMESPACE", value_name = "NAMESPACE")]
    pub watch_namespace: Option<String>,

    /// Number of pools to reconcile in parallel.
    #[arg(long, env = "VMPOOL_WORKERS", default_value_t = 4, value_name = "COUNT")]
    pub workers: usize,

    /// Maximum number of writes to the API server in flight, for all pools together. As many slow writes can
    /// be in flight in addition.
    #[arg(long, env = "VMPOOL_MAX_IN_FLIGHT_WRITES", default_value_t = 64, value_name = "COUNT")]
    pub max_in_flight_writes: usize,

    /// Deadline of a request. After it, the controller determines the effect of the request with live reads.
    /// A write starts only if the lease lasts for this time. Must be shorter than the lease duration minus
    /// two renewal intervals.
    #[arg(long, env = "VMPOOL_REQUEST_DEADLINE", default_value = "8s", value_name = "DURATION",
          value_parser = vmpool_runtime::duration::parse_duration)]
    pub request_deadline: Duration,

    /// Deadline of a write, if a write of the same resource and namespace was slow in the last ten minutes.
    /// At least the time that a request can take in the API server; at most 70s.
    #[arg(long, env = "VMPOOL_SLOW_WRITE_DEADLINE", default_value = "60s", value_name = "DURATION",
          value_parser = vmpool_runtime::duration::parse_duration)]
    pub slow_write_deadline: Duration,

    /// Minimum time between two passes of a pool that events cause.
    #[arg(long, env = "VMPOOL_DEBOUNCE", default_value = "100ms", value_name = "DURATION",
          value_parser = vmpool_runtime::duration::parse_duration)]
    pub debounce: Duration,

    /// Reservations of targeted removals.
    #[command(flatten)]
    pub reservations: ReservationArgs,

    /// Time between the mark and the deletion of a free disk. In this time, a use that has just begun becomes
    /// visible.
    #[arg(long, env = "VMPOOL_DISK_COLLECTION_GRACE", default_value = "30s", value_name = "DURATION",
          value_parser = vmpool_runtime::duration::parse_duration)]
    pub disk_collection_grace: Duration,

    /// Maximum number of machines over all pools that may exist, have disks of the same storage class, and
    /// have not been ready yet. A machine counts for at most five minutes. With 0, there is no limit. It
    /// requires the feature gate ProvisioningLimit.
    #[arg(
        long,
        env = "VMPOOL_MAX_PROVISIONING_PER_STORAGE_CLASS",
        default_value_t = 0,
        value_name = "COUNT"
    )]
    pub max_provisioning_per_storage_class: usize,

    /// Namespaces whose images and claims pools of other namespaces follow, with commas. It requires the
    /// feature gate ImageRefresh.
    #[arg(
        long,
        env = "VMPOOL_IMAGE_NAMESPACES",
        value_delimiter = ',',
        // A list of values is otherwise extended by a repeated flag.
        action = clap::ArgAction::Set,
        value_name = "NAMESPACES"
    )]
    pub image_namespaces: Vec<String>,

    /// Maximum number of pools with metrics of their own, which have the labels `namespace`, `pool` and
    /// `platform`. All other pools are summed in one series, in which these labels are `(others)`. With 0, no
    /// metric names a pool.
    #[arg(long, env = "VMPOOL_MAX_POOL_SERIES", default_value_t = 1000, value_name = "COUNT")]
    pub max_pool_series: usize,

    /// Whether KubeVirt pools have metrics under the names of KubeVirt, too: `kubevirt_vmpool_*`. With auto,
    /// they do unless a ClusterRole shows that KubeVirt's observability controller exports these names,
    /// because dashboards would count each pool twice.
    #[arg(
        long,
        env = "VMPOOL_KUBEVIRT_METRICS",
        value_enum,
        default_value_t,
        ignore_case = true,
        value_name = "POLICY"
    )]
    pub kubevirt_metrics: KubevirtMetrics,

    /// Whether KubeVirt pools have the conditions Ready, Reconciling and Stalled. With auto, they do if the
    /// definition of pools is that of vmpool. Clients of KubeVirt's own definition expect only its two
    /// conditions.
    #[arg(
        long,
        env = "VMPOOL_KUBEVIRT_CONDITIONS",
        value_enum,
        default_value_t,
        ignore_case = true,
        value_name = "POLICY"
    )]
    pub kubevirt_conditions: KubevirtConditions,

    /// Which program makes copies of instance types and preferences for machines that belong to no pool. With
    /// Coexist, KubeVirt does. With Standalone, the controller does. Use Standalone only in a cluster without
    /// a KubeVirt object.
    #[arg(
        long,
        env = "VMPOOL_INSTANCETYPE_MODE",
        value_enum,
        default_value_t,
        ignore_case = true,
        value_name = "MODE"
    )]
    pub instancetype_mode: InstancetypeMode,

    /// In mode Standalone: what happens to machines that name an instance type or a preference
    #[arg(
        long,
        env = "VMPOOL_INSTANCETYPE_REFERENCE_POLICY",
        value_enum,
        default_value_t,
        value_name = "POLICY"
    )]
    pub instancetype_reference_policy: ReferencePolicy,

    /// Disk images.
    #[command(flatten)]
    pub images: ImageArgs,

    /// The lease of the leader.
    #[command(flatten)]
    pub lease: LeaseArgs,

    /// Flags that all programs share.
    #[command(flatten)]
    pub program: ProgramArgs,
}

/// What happens to machines that name an instance type or a preference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "camelCase")]
pub enum ReferencePolicy {
    /// They name it
    #[default]
    Reference,
    /// It is written into new machines
    Expand,
    /// It is written into all machines
    ExpandAll,
}

impl From<ReferencePolicy> for CopyPolicy {
    fn from(policy: ReferencePolicy) -> Self {
        match policy {
            ReferencePolicy::Reference => Self::Reference,
            ReferencePolicy::Expand => Self::Expand,
            ReferencePolicy::ExpandAll => Self::ExpandAll,
        }
    }
}

/// An option is invalid.
#[derive(Debug, thiserror::Error)]
pub enum ControllerArgsError {
    /// A count is zero.
    #[error("--{0} must be at least 1")]
    Zero(&'static str),
    /// A write could outlast the lease.
    #[error(
        "--request-deadline {deadline:?} must be shorter than --lease-duration minus two renewals ({limit:?}), \
         otherwise no write could start"
    )]
    DeadlineBeyondLease {
        /// The given deadline.
        deadline: Duration,
        /// The limit.
        limit: Duration,
    },
    /// The deadline of slow writes is outside its range.
    #[error(
        "--slow-write-deadline must be between --request-deadline, which is {least:?}, and {MAX_SLOW_WRITE_DEADLINE:?}, not \
         {deadline:?}"
    )]
    SlowWriteDeadline {
        /// The given deadline.
        deadline: Duration,
        /// The minimum.
        least: Duration,
    },
    /// The gate of wrappers is on without that of images.
    #[error("the feature gate MachineWrapper requires the feature gate DiskImages")]
    WrapperWithoutImages,
    /// The limit of storage classes is set, and its gate is off.
    #[error("--max-provisioning-per-storage-class requires the feature gate ProvisioningLimit")]
    ClassLimitWithoutGate,
    /// Namespaces of images are set, and their gate is off.
    #[error("--image-namespaces requires the feature gate ImageRefresh")]
    ImageNamespacesWithoutGate,
    /// A flag of disk images is invalid.
    #[error(transparent)]
    Images(#[from] ImageArgsError),
    /// An option that several programs share is invalid.
    #[error(transparent)]
    Shared(#[from] ArgsError),
}

impl ControllerArgs {
    /// The platforms whose pools to reconcile, in the order of the registry.
    pub fn platforms(&self) -> Vec<PlatformName> {
        let is_chosen = |name: &PlatformName| self.platforms.iter().any(|choice| choice.includes(*name));
        PlatformName::ALL.into_iter().filter(is_chosen).collect()
    }

    /// The settings of image refresh; `None` if its feature gate is off.
    ///
    /// # Errors
    /// The namespaces are set without the gate, or the gates are invalid.
    pub fn image_refresh(&self) -> Result<Option<ImageRefreshSettings>, ControllerArgsError> {
        let named = self.image_namespaces.iter().filter(|namespace| !namespace.is_empty());
        let namespaces: BTreeSet<String> = named.cloned().collect();
        if self.gates.gates()?.enabled(Feature::ImageRefresh) {
            Ok(Some(ImageRefreshSettings { namespaces }))
        } else if namespaces.is_empty() {
            Ok(None)
        } else {
            Err(ControllerArgsError::ImageNamespacesWithoutGate)
        }
    }

    /// The validated settings.
    ///
    /// # Errors
    /// An error that names the flag and the valid values.
    pub fn settings(&self) -> Result<ControllerSettings, ControllerArgsError> {
        if self.workers == 0 {
            return Err(ControllerArgsError::Zero("workers"));
        }
        if self.max_in_flight_writes == 0 {
            return Err(ControllerArgsError::Zero("max-in-flight-writes"));
        }
        let limit = self.lease.lease_duration.saturating_sub(self.lease.lease_renew_interval * 2);
        if self.request_deadline >= limit {
            return Err(ControllerArgsError::DeadlineBeyondLease { deadline: self.request_deadline, limit });
        }
        if !(self.request_deadline..=MAX_SLOW_WRITE_DEADLINE).contains(&self.slow_write_deadline) {
            let (deadline, least) = (self.slow_write_deadline, self.request_deadline);
            return Err(ControllerArgsError::SlowWriteDeadline { deadline, least });
        }
        let limits_provisioning = self.gates.gates()?.enabled(Feature::ProvisioningLimit);
        if self.max_provisioning_per_storage_class > 0 && !limits_provisioning {
            return Err(ControllerArgsError::ClassLimitWithoutGate);
        }
        Ok(ControllerSettings {
            limits_provisioning,
            keeps_standby: self.gates.gates()?.enabled(Feature::StandbyMachines),
            max_provisioning_per_class: self.max_provisioning_per_storage_class,
            workers: self.workers,
            writes_in_flight: self.max_in_flight_writes,
            request_deadline: self.request_deadline,
            slow_write_deadline: self.slow_write_deadline,
            debounce: self.debounce,
            max_pool_series: self.max_pool_series,
            kubevirt_metrics: self.kubevirt_metrics,
            kubevirt_conditions: self.kubevirt_conditions,
            skips_forbidden_platforms: self.platforms.contains(&PlatformChoice::Auto),
            copies: (self.instancetype_mode == InstancetypeMode::Standalone)
                .then(|| self.instancetype_reference_policy.into()),
            collection_grace: self.disk_collection_grace,
            reservation_timeout: self.reservations.timeout()?,
            ..ControllerSettings::default()
        })
    }
}

#[cfg(test)]
mod tests;
