//! The status of machines.

use std::sync::Arc;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use vmpool_api::kubevirt::values::PrintableStatus;
use vmpool_engine::limits;
use vmpool_platform::decode::{lenient_list, lenient_value};
use vmpool_platform::intern::intern_text;

/// The condition of a machine whose instance KubeVirt cannot create.
const FAILURE: &str = "Failure";

/// The condition of a machine whose guest is paused.
const PAUSED: &str = "Paused";

/// The condition of a machine for which a node was found, or none.
const SCHEDULED: &str = "PodScheduled";

/// The condition `Ready` of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// It is True.
    Ready,
    /// It is False.
    NotReady {
        /// When it became False; `None` if KubeVirt did not record the time, which it omits in a condition
        /// that it copied from a pod.
        since: Option<Timestamp>,
    },
    /// It is missing or Unknown.
    Unknown,
}

/// What KubeVirt reports about a machine.
#[derive(Clone, Debug)]
pub(crate) struct KubeVirtMachineStatus {
    /// Whether its guest is ready.
    pub(crate) readiness: Readiness,
    /// Since when its guest is ready.
    pub(crate) ready_since: Option<Timestamp>,
    /// Whether a change of its template needs a restart.
    pub(crate) restart_required: bool,
    /// Its state in one word; `None` if there is none or if vmpool does not know it.
    pub(crate) printable_status: Option<PrintableStatus>,
    /// Why it is not ready and does not become ready by itself: the message of its condition `Failure`, or
    /// its state. A machine that is stopped has none.
    pub(crate) problem: Option<Arc<str>>,
    /// How many starts have failed one after another.
    pub(crate) start_failures: u64,
    /// Whether a requested start or stop is not done yet.
    pub(crate) state_change_requested: bool,
    /// Whether a VirtualMachineSnapshot is being taken of it.
    pub(crate) snapshotting: bool,
    /// Name of the VirtualMachineRestore that replaces its volumes. KubeVirt does not start it before the
    /// end.
    pub(crate) restore: Option<Arc<str>>,
}

/// The fields of the status.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct WireMachineStatus {
    #[serde(deserialize_with = "lenient_value")]
    printable_status: Option<String>,
    #[serde(deserialize_with = "lenient_value")]
    start_failure: StartFailure,
    #[serde(deserialize_with = "lenient_list")]
    conditions: Vec<MachineCondition>,
    #[serde(deserialize_with = "lenient_list")]
    state_change_requests: Vec<StartStopRequest>,
    /// Name of the VirtualMachineSnapshot that is being taken.
    #[serde(deserialize_with = "lenient_value")]
    snapshot_in_progress: Option<String>,
    /// Name of the VirtualMachineRestore that replaces its volumes.
    #[serde(deserialize_with = "lenient_value")]
    restore_in_progress: Option<String>,
    /// The instance type, with the copy that KubeVirt recorded.
    pub(super) instancetype_ref: Value,
    /// The same of the preference.
    pub(super) preference_ref: Value,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StartFailure {
    #[serde(deserialize_with = "lenient_value")]
    consecutive_fail_count: u64,
}

/// A start or stop that a client requested. Only the number of requests is read.
#[derive(Default, Deserialize)]
struct StartStopRequest {}

/// A condition of a machine or an instance.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct MachineCondition {
    #[serde(rename = "type", deserialize_with = "lenient_value")]
    pub(super) kind: String,
    #[serde(deserialize_with = "lenient_value")]
    pub(super) status: String,
    #[serde(deserialize_with = "lenient_value")]
    last_transition_time: Option<Timestamp>,
    #[serde(deserialize_with = "lenient_value")]
    pub(super) message: String,
}

impl From<WireMachineStatus> for KubeVirtMachineStatus {
    fn from(status: WireMachineStatus) -> Self {
        Self {
            readiness: read_readiness(status.condition("Ready")),
            ready_since: status
                .condition("Ready")
                .and_then(|known| known.last_transition_time.filter(|_| known.status == "True")),
            restart_required: status.condition("RestartRequired").is_some_and(|known| known.status == "True"),
            printable_status: status.printable_status.as_deref().and_then(|text| text.parse().ok()),
            problem: not_ready_problem(&status),
            start_failures: status.start_failure.consecutive_fail_count,
            state_change_requested: !status.state_change_requests.is_empty(),
            snapshotting: status.snapshot_in_progress.as_ref().is_some_and(|name| !name.is_empty()),
            restore: status
                .restore_in_progress
                .as_deref()
                .filter(|name| !name.is_empty())
                .map(|name| intern_text(limits::clip_name(name))),
        }
    }
}

impl WireMachineStatus {
    fn condition(&self, kind: &str) -> Option<&MachineCondition> {
        self.conditions.iter().find(|condition| condition.kind == kind)
    }

    /// The message of a condition, if it says why the machine is not ready.
    fn message(&self, kind: &str) -> Option<String> {
        let condition = self.condition(kind).filter(|condition| explains_unreadiness(condition))?;
        Some(limits::shorten_message(condition.message.clone())).filter(|message| !message.is_empty())
    }
}

/// Whether the message of a condition says why the machine is not ready.
fn explains_unreadiness(condition: &MachineCondition) -> bool {
    match condition.kind.as_str() {
        FAILURE | PAUSED => condition.status == "True",
        SCHEDULED => condition.status == "False",
        _ => false,
    }
}

/// What KubeVirt reports: the message of the condition `Failure`, or the state, with its message if KubeVirt
/// gives one.
fn not_ready_problem(status: &WireMachineStatus) -> Option<Arc<str>> {
    if let Some(failure) = status.message(FAILURE) {
        return Some(intern_text(&failure));
    }
    let state = status.printable_status.as_deref()?;
    let known: PrintableStatus = state.parse().ok()?;
    let detail = match known {
        PrintableStatus::Paused => status.message(PAUSED),
        PrintableStatus::ErrorUnschedulable => status.message(SCHEDULED),
        // The node of the guest does not respond.
        PrintableStatus::Unknown => None,
        known if known.is_start_failure() => None,
        _ => return None,
    };
    Some(match detail {
        Some(detail) => intern_text(&format!("{state}: {detail}")),
        None => intern_text(state),
    })
}

fn read_readiness(condition: Option<&MachineCondition>) -> Readiness {
    match condition {
        Some(condition) if condition.status == "True" => Readiness::Ready,
        Some(condition) if condition.status == "False" => {
            Readiness::NotReady { since: condition.last_transition_time }
        }
        _ => Readiness::Unknown,
    }
}
