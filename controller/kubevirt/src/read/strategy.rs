//! The strategies and other settings in the spec of a pool.
//!
//! A setting that cannot be read gets its safe value, which disrupts no machine, and a message.

use std::fmt;
use std::time::Duration;

use serde_json::Value;
use vmpool_api::kubevirt::values::{SortPolicy, StatePreservation};
use vmpool_api::{GoDuration, Share};
use vmpool_engine::limits;
use vmpool_engine::model::DisruptionBudget;

use super::super::annotated_names;
use super::super::selectors::MachineSelector;

/// How surplus machines are removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScaleInMode {
    /// The controller deletes them.
    Proactive,
    /// The controller deletes those that are stopped. The controller does not replace those that users
    /// delete.
    Opportunistic,
    /// The controller deletes none.
    Unmanaged,
}

/// `spec.scaleInStrategy`.
#[derive(Clone, Debug, PartialEq)]
pub struct ScaleIn {
    /// How surplus machines are removed.
    pub mode: ScaleInMode,
    /// Which machines the controller deletes, and in which order.
    pub selection: MachineSelection,
    /// What happens to the storage of a removed machine.
    pub preservation: StatePreservation,
}

/// `spec.updateStrategy`.
#[derive(Clone, Debug, PartialEq)]
pub enum UpdateMode {
    /// Machines get the template at once, and the controller restarts those that match.
    Proactive(MachineSelection),
    /// Machines get the template at once, and run with it after their next restart.
    Opportunistic,
    /// Existing machines stay unchanged.
    Unmanaged,
}

/// A selection policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineSelection {
    /// The order in which machines are handled.
    pub order: SortPolicy,
    /// The machines that are handled.
    pub machines: MachineSelector,
}

impl Default for MachineSelection {
    fn default() -> Self {
        Self { order: SortPolicy::Random, machines: MachineSelector::All }
    }
}

/// `spec.nameGeneration`: which names in the template get the ordinal of the machine, besides those of
/// DataVolumes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent settings, as in the API")]
pub struct NameGenerationSettings {
    /// Names of ConfigMaps in volumes.
    pub config_maps: bool,
    /// Names of Secrets in volumes, also those for cloud-init.
    pub secrets: bool,
    /// Names of Secrets and ConfigMaps in sysprep volumes.
    pub sysprep: bool,
    /// Names of Secrets with the metadata of cloud-init.
    pub meta_data: bool,
    /// Names of ResourceClaims. A ResourceClaimTemplate serves all machines.
    pub resource_claims: bool,
    /// Names of the claim for the state of the machine: of its firmware and its TPM.
    pub machine_state: bool,
    /// Whether the host name of the guest is the name of its machine.
    pub hostname: bool,
}

impl NameGenerationSettings {
    /// Only the names of DataVolumes get the ordinal.
    pub const NONE: Self = Self {
        config_maps: false,
        secrets: false,
        sysprep: false,
        meta_data: false,
        resource_claims: false,
        machine_state: false,
        hostname: false,
    };
}

/// `spec.autohealing`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AutohealingSettings {
    /// After how many consecutive failed starts the controller replaces a machine, at least 1.
    pub threshold: u64,
    /// How long a machine must fail to start before the controller replaces it.
    pub failing_time: Duration,
}

impl Default for AutohealingSettings {
    fn default() -> Self {
        Self { threshold: 3, failing_time: Duration::from_mins(5) }
    }
}

/// Messages about settings that cannot be read.
pub(super) struct Messages(pub(super) Vec<String>);

impl Messages {
    fn add(&mut self, what: impl fmt::Display, instead: &str) {
        self.0.push(limits::shorten_message(format!("{what}, so {instead}; correct or remove it")));
    }
}

pub(super) fn read_paused(paused: &Value, messages: &mut Messages) -> bool {
    match paused {
        Value::Null => false,
        Value::Bool(paused) => *paused,
        other => {
            messages.add(format!("paused {other} is neither true nor false"), "the pool is paused");
            true
        }
    }
}

pub(super) fn read_disruption_budget(value: &Value, messages: &mut Messages) -> DisruptionBudget {
    if value.is_null() {
        return DisruptionBudget::Percent(100);
    }
    match Share::from_json(value) {
        Ok(Share::Machines(machines)) => {
            DisruptionBudget::Machines(usize::try_from(machines).unwrap_or(usize::MAX))
        }
        Ok(Share::Percent(percent)) => DisruptionBudget::Percent(percent),
        Err(error) => {
            messages.add(format!("maxUnavailable: {error}"), "one machine at a time is restarted");
            DisruptionBudget::Machines(1)
        }
    }
}

pub(super) fn read_name_generation(value: &Value, messages: &mut Messages) -> NameGenerationSettings {
    let mut flag = |name: &str| match &value[name] {
        Value::Null => false,
        Value::Bool(flag) => *flag,
        other => {
            messages.add(
                format!("nameGeneration.{name} {other} is neither true nor false"),
                "these names get no ordinal",
            );
            false
        }
    };
    NameGenerationSettings {
        config_maps: flag("appendIndexToConfigMapRefs"),
        secrets: flag("appendIndexToSecretRefs"),
        sysprep: flag(annotated_names::SYSPREP),
        meta_data: flag(annotated_names::META_DATA),
        resource_claims: flag(annotated_names::RESOURCE_CLAIMS),
        machine_state: flag(annotated_names::MACHINE_STATE),
        hostname: flag(annotated_names::HOSTNAME),
    }
}

pub(super) fn read_autohealing(value: &Value, messages: &mut Messages) -> Option<AutohealingSettings> {
    const OFF: &str = "the controller replaces no machine that fails to start";
    if value.is_null() {
        return None;
    }
    if !value.is_object() {
        messages.add(format!("autohealing {value} is not an object"), OFF);
        return None;
    }
    let default = AutohealingSettings::default();
    let threshold = match &value["startUpFailureThreshold"] {
        Value::Null => Some(default.threshold),
        count => count.as_u64().filter(|count| *count > 0).or_else(|| {
            let what = format!("autohealing.startUpFailureThreshold {count} is not a number from 1");
            messages.add(what, OFF);
            None
        }),
    };
    let failing_time = match &value["minFailingToStartDuration"] {
        Value::Null => Some(default.failing_time),
        text => text.as_str().and_then(|text| text.parse::<GoDuration>().ok()?.to_std()).or_else(|| {
            let what = format!("autohealing.minFailingToStartDuration {text} is not a duration from 0s");
            messages.add(what, OFF);
            None
        }),
    };
    Some(AutohealingSettings { threshold: threshold?, failing_time: failing_time? })
}

pub(super) fn read_scale_in_strategy(value: &Value, messages: &mut Messages) -> ScaleIn {
    const NONE: &str = "the controller deletes no surplus machine";
    let unmanaged = ScaleIn {
        mode: ScaleInMode::Unmanaged,
        selection: MachineSelection::default(),
        preservation: StatePreservation::Disabled,
    };
    let (mode, strategy) = match single_strategy_field(value, &["proactive", "opportunistic", "unmanaged"]) {
        Ok(None) => (ScaleInMode::Proactive, &Value::Null),
        Ok(Some(("proactive", strategy))) => (ScaleInMode::Proactive, strategy),
        Ok(Some(("opportunistic", strategy))) => (ScaleInMode::Opportunistic, strategy),
        Ok(Some(_)) => return unmanaged,
        Err(error) => {
            messages.add(format!("scaleInStrategy {error}"), NONE);
            // The strategy may ask to preserve the storage of machines that users delete.
            return ScaleIn { preservation: StatePreservation::Offline, ..unmanaged };
        }
    };
    let selection = match mode {
        ScaleInMode::Proactive => {
            read_selection_policy(&strategy["selectionPolicy"], "scaleInStrategy", NONE, messages)
        }
        ScaleInMode::Opportunistic | ScaleInMode::Unmanaged => MachineSelection::default(),
    };
    let preservation = match &strategy["statePreservation"] {
        Value::Null => StatePreservation::Disabled,
        text => text.as_str().and_then(|text| text.parse().ok()).unwrap_or_else(|| {
            messages.add(
                format!("scaleInStrategy: statePreservation {text} is none of Disabled, Offline and Online"),
                "the storage of removed machines is kept",
            );
            StatePreservation::Offline
        }),
    };
    ScaleIn { mode, selection, preservation }
}

pub(super) fn read_update_strategy(value: &Value, messages: &mut Messages) -> UpdateMode {
    const NONE: &str = "the controller updates no machine";
    match single_strategy_field(value, &["proactive", "opportunistic", "unmanaged"]) {
        Ok(None) => UpdateMode::Proactive(MachineSelection::default()),
        Ok(Some(("proactive", strategy))) => UpdateMode::Proactive(read_selection_policy(
            &strategy["selectionPolicy"],
            "updateStrategy",
            NONE,
            messages,
        )),
        Ok(Some(("opportunistic", _))) => UpdateMode::Opportunistic,
        Ok(Some(_)) => UpdateMode::Unmanaged,
        Err(error) => {
            messages.add(format!("updateStrategy {error}"), NONE);
            UpdateMode::Unmanaged
        }
    }
}

fn read_selection_policy(
    value: &Value,
    strategy: &str,
    none: &str,
    messages: &mut Messages,
) -> MachineSelection {
    // Pools and revisions that KubeVirt 1.6 stored contain `basePolicy` in place of `sortPolicy`.
    let policy = match &value["sortPolicy"] {
        Value::Null => &value["basePolicy"],
        policy => policy,
    };
    let order = match policy {
        Value::Null => SortPolicy::Random,
        policy => policy.as_str().and_then(|text| text.parse().ok()).unwrap_or_else(|| {
            let what = format!("{strategy}: sortPolicy {policy} is unknown");
            messages.add(what, "the controller selects machines at random");
            SortPolicy::Random
        }),
    };
    let machines = MachineSelector::read(&value["selectors"]).unwrap_or_else(|error| {
        messages.add(format!("{strategy}: selectors: {error}"), none);
        MachineSelector::Nothing
    });
    MachineSelection { order, machines }
}

/// Why a strategy cannot be read. The text continues the path of the strategy.
#[derive(Debug, thiserror::Error)]
enum StrategyError<'a> {
    #[error("{0} is not an object")]
    NoObject(&'a Value),
    #[error("has a member {0} that is not an object")]
    FieldNoObject(&'a str),
    #[error("has the unknown member {0}")]
    UnknownField(&'a str),
    #[error("has more than one member")]
    SeveralFields,
}

/// The only member of a strategy, of which at most one may be set.
fn single_strategy_field<'a>(
    strategy: &'a Value,
    known: &[&'static str],
) -> Result<Option<(&'static str, &'a Value)>, StrategyError<'a>> {
    let Some(fields) = strategy.as_object() else {
        return if strategy.is_null() { Ok(None) } else { Err(StrategyError::NoObject(strategy)) };
    };
    let mut present = fields.iter().filter(|(_, value)| !value.is_null());
    match (present.next(), present.next()) {
        (None, _) => Ok(None),
        (Some((name, value)), None) => match known.iter().find(|known| *known == name) {
            Some(_) if !value.is_object() => Err(StrategyError::FieldNoObject(name)),
            Some(name) => Ok(Some((*name, value))),
            None => Err(StrategyError::UnknownField(name)),
        },
        (Some(_), Some(_)) => Err(StrategyError::SeveralFields),
    }
}
