//! The simulated processes of this project, and their identities.

use jiff::Timestamp;
use vmpool_runtime::env::Task;
use vmpool_runtime::testing::ManualClock;

use crate::process::SimulatedProcess;

/// Name prefix of the controllers, and their user in the audit log.
pub const CONTROLLER: &str = "controller";
/// Name prefix of the replicas of the aggregated API.
pub const APISERVER: &str = "apiserver";
/// The namespace of the project's programs.
pub const SYSTEM: &str = "vmpool-system";

/// Whether the sender of a request is one of the project's processes. Faults are injected only into their
/// requests.
pub fn is_tested(sender: &str) -> bool {
    sender.starts_with(CONTROLLER) || sender.starts_with(APISERVER)
}

/// The user name of a sender. All controllers share one user, and so do all replicas of the aggregated API.
pub fn sender_user_name(sender: &str) -> String {
    let program = [CONTROLLER, APISERVER].into_iter().find(|program| sender.starts_with(program));
    program.map_or_else(
        || sender.to_owned(),
        |program| format!("system:serviceaccount:{SYSTEM}:vmpool-{program}"),
    )
}

/// The program that a process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimulatedProgram {
    /// The controller.
    Controller,
    /// The aggregated API.
    Apiserver,
}

/// One simulated process.
pub(crate) struct ProgramInstance {
    pub(crate) name: String,
    pub(crate) program: SimulatedProgram,
    pub(crate) process: SimulatedProcess,
    pub(crate) clock: ManualClock,
    /// When a paused process resumes without a `Resume` step.
    pub(crate) until: Option<Timestamp>,
    /// Whether the process was the leader when it was paused or cut off.
    pub(crate) led: bool,
    /// Only [`SimulatedProcess::kill`] ends the tasks here. Outside the simulation, dropping this handle
    /// would end them.
    pub(crate) main: Task,
}
