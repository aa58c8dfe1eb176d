//! Convenience methods of the generated types, with the defaults of absent fields.

use super::{
    Autohealing, Condition, DataVolume, KubeVirt, SelectionPolicy, VirtualMachine, VirtualMachineInstance,
    VirtualMachinePool, VirtualMachineSpec,
    values::{DataVolumePhase, InstancePhase, PrintableStatus, RunStrategy, SortPolicy},
};
use crate::{
    DurationError, GoDuration,
    conditions::{Conditions, conditions_of},
};

#[cfg(test)]
mod tests;

conditions_of!(Condition: DataVolume, KubeVirt, VirtualMachine, VirtualMachineInstance, VirtualMachinePool);

impl VirtualMachinePool {
    /// The desired number of machines. A missing value is 1, and a negative one, which the schema refuses, is
    /// 0.
    pub fn desired_replicas(&self) -> usize {
        self.spec.replicas.map_or(1, |count| usize::try_from(count).unwrap_or(0))
    }
}

impl SelectionPolicy {
    /// The order in which machines are handled. A missing or unknown value means `Random`.
    ///
    /// Revisions that KubeVirt 1.6 stored contain `basePolicy` in place of `sortPolicy`.
    pub fn order(&self) -> SortPolicy {
        let old = || self.unknown_fields.get("basePolicy").and_then(serde_json::Value::as_str);
        self.sort_policy
            .as_deref()
            .or_else(old)
            .and_then(|value| value.parse().ok())
            .unwrap_or(SortPolicy::Random)
    }
}

impl Autohealing {
    /// After how many consecutive failed starts a machine is replaced. A missing value is 3.
    pub fn threshold(&self) -> i64 {
        self.start_up_failure_threshold.unwrap_or(3)
    }

    /// How long a machine must fail to start before it is replaced. A missing value is 5 minutes.
    ///
    /// # Errors
    /// [`DurationError`]; a negative duration is not an error.
    pub fn failing_time(&self) -> Result<GoDuration, DurationError> {
        self.min_failing_to_start_duration.as_deref().unwrap_or("5m").parse()
    }
}

impl VirtualMachineSpec {
    /// When the machine runs. `running` is an older spelling of `Always` and `Halted`. `None` if neither
    /// field is set or if this crate does not know the value.
    pub fn effective_run_strategy(&self) -> Option<RunStrategy> {
        match (self.run_strategy.as_deref(), self.running) {
            (Some(strategy), _) => strategy.parse().ok(),
            (None, Some(true)) => Some(RunStrategy::Always),
            (None, Some(false)) => Some(RunStrategy::Halted),
            (None, None) => None,
        }
    }
}

impl VirtualMachine {
    /// The state of the machine; `None` if there is none or if this crate does not know its value.
    pub fn printable_status(&self) -> Option<PrintableStatus> {
        self.status.as_ref()?.printable_status.as_deref()?.parse().ok()
    }

    /// How many starts have failed one after another.
    pub fn failed_starts(&self) -> i64 {
        let failure = self.status.as_ref().and_then(|status| status.start_failure.as_ref());
        failure.and_then(|failure| failure.consecutive_fail_count).unwrap_or(0)
    }

    /// Whether the guest is ready: the condition `Ready` is True.
    pub fn is_ready(&self) -> bool {
        self.has_condition("Ready")
    }
}

impl VirtualMachineInstance {
    /// The phase; `None` if there is none or if this crate does not know its value.
    pub fn phase(&self) -> Option<InstancePhase> {
        self.status.as_ref()?.phase.as_deref()?.parse().ok()
    }

    /// Whether the guest is ready: the condition `Ready` is True.
    pub fn is_ready(&self) -> bool {
        self.has_condition("Ready")
    }
}

impl DataVolume {
    /// The phase; `None` if there is none or if this crate does not know its value.
    pub fn phase(&self) -> Option<DataVolumePhase> {
        self.status.as_ref()?.phase.as_deref()?.parse().ok()
    }
}

impl KubeVirt {
    /// The value of a flag of virt-controller that the installation sets, for example of
    /// `pool-controller-threads`.
    pub fn controller_flag(&self, name: &str) -> Option<&str> {
        let flags = self.spec.customize_components.as_ref()?.flags.as_ref()?;
        flags.controller.as_ref()?.get(name).map(String::as_str)
    }
}
