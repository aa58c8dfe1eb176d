//! The report of a failed scenario.

use std::fmt::Write as _;

use vmpool_invariants::object::{JsonObject, TestedKind};
use vmpool_invariants::recorder::RecordedState;

use super::condition::PoolView;
use super::state::ScenarioWorld;

/// Number of printed lines of each program's log.
const LOG_LINES: usize = 40;

/// Number of printed events, the newest ones.
const EVENTS: usize = 20;

/// The stored pool, and a line for each machine and disk.
pub(super) fn summarize_pool(view: PoolView<'_>) -> String {
    let mut text = view.pool().map_or_else(|| "no such pool\n".to_owned(), brief_yaml);
    for machine in view.machines() {
        let _ = writeln!(text, "{}", machine_line(machine));
    }
    for disk in view.disks() {
        let _ = writeln!(text, "{}", disk_line(disk));
    }
    text
}

/// The pool without its template, which the scenario itself determines.
fn brief_yaml(pool: &JsonObject) -> String {
    let brief = serde_json::json!({
        "metadata": {
            "name": pool.name(), "uid": pool.uid(), "generation": pool.at("/metadata/generation"),
            "deletionTimestamp": pool.at("/metadata/deletionTimestamp"),
            "annotations": pool.at("/metadata/annotations"),
        },
        "spec": { "replicas": pool.at("/spec/replicas"), "scaleDownPolicy": pool.at("/spec/scaleDownPolicy") },
        "status": pool.at("/status"),
    });
    serde_yaml_ng::to_string(&brief).unwrap_or_else(|_| brief.to_string())
}

fn machine_line(machine: &JsonObject) -> String {
    let terminating = if machine.is_terminating() { " terminating" } else { "" };
    let disks: Vec<&str> = machine.disk_references().collect();
    format!("machine {} {}{terminating} disks {disks:?}", machine.name(), phase(machine))
}

fn disk_line(disk: &JsonObject) -> String {
    let terminating = if disk.is_terminating() { " terminating" } else { "" };
    format!("disk {} {}{terminating}", disk.name(), phase(disk))
}

fn phase(object: &JsonObject) -> &str {
    if object.phase().is_empty() { "without a phase" } else { object.phase() }
}

fn event_line(event: &JsonObject) -> String {
    format!(
        "{} {} {} {}/{}: {}",
        event.text("/metadata/creationTimestamp"),
        event.text("/type"),
        event.text("/reason"),
        event.text("/involvedObject/kind"),
        event.text("/involvedObject/name"),
        event.text("/message")
    )
}

fn everything(state: &RecordedState) -> String {
    let mut text = String::new();
    for pool in state.all(TestedKind::Pool) {
        let _ = writeln!(text, "{}", brief_yaml(pool));
    }
    for machine in state.all(TestedKind::Machine) {
        let _ = writeln!(text, "{}", machine_line(machine));
    }
    for disk in state.all(TestedKind::Disk) {
        let _ = writeln!(text, "{}", disk_line(disk));
    }
    let mut events: Vec<&JsonObject> = state.all(TestedKind::Event).collect();
    events.sort_by_key(|event| event.revision());
    let _ = writeln!(text, "-- the last events --");
    for event in &events[events.len().saturating_sub(EVENTS)..] {
        let _ = writeln!(text, "{}", event_line(event));
    }
    text
}

impl ScenarioWorld {
    /// The full report about the scenario's namespace and programs.
    pub fn report(&self) -> String {
        let mut text = format!(
            "-- namespace {} after {:.1} s --\n{}",
            self.namespace,
            self.age().as_secs_f32(),
            everything(self.recorder.history().state())
        );
        for controller in self.controllers() {
            let _ = writeln!(text, "-- the end of {} --", controller.log().display());
            let _ = writeln!(text, "{}", controller.log_tail(LOG_LINES));
            if let Some(status) = controller.exit_status() {
                let _ = writeln!(text, "{} ended: {status}", controller.identity());
            }
        }
        let installation = self.installation.as_ref();
        for (name, log) in installation.map(|installation| installation.logs(LOG_LINES)).unwrap_or_default() {
            let _ = writeln!(text, "-- the end of the log of {name} --\n{log}");
        }
        let _ = writeln!(text, "-- more in {} --", self.access.home.display());
        text
    }
}
