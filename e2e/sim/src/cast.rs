//! Who acts in a world under our name.

use jiff::Timestamp;
use vmpool_runtime::env::Task;
use vmpool_runtime::testing::ManualClock;

use crate::process::Process;

/// How the names of controllers begin, and who they are in the audit log.
pub const CONTROLLER: &str = "controller";
/// How the names of replicas of the aggregated API begin.
pub const APISERVER: &str = "apiserver";
/// The namespace in which our programs live.
pub const SYSTEM: &str = "vmpool-system";

/// Whether a request comes from a process of ours, whose requests are disturbed.
pub fn is_ours(who: &str) -> bool {
    who.starts_with(CONTROLLER) || who.starts_with(APISERVER)
}

/// The user that a sender is to the API server: all controllers are one, and so are all replicas of the aggregated API.
pub fn user(who: &str) -> String {
    let program = [CONTROLLER, APISERVER].into_iter().find(|program| who.starts_with(program));
    program
        .map_or_else(|| who.to_owned(), |program| format!("system:serviceaccount:{SYSTEM}:vmpool-{program}"))
}

/// What a process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// The controller.
    Controller,
    /// The aggregated API.
    Apiserver,
}

/// One process.
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) program: Program,
    pub(crate) process: Process,
    pub(crate) clock: ManualClock,
    /// When it goes on by itself, if it stands still for a while.
    pub(crate) until: Option<Timestamp>,
    /// Whether it led when it was stopped or cut off.
    pub(crate) led: bool,
    /// Dropping it would end the process's tasks; killing is what ends them here.
    pub(crate) main: Task,
}
