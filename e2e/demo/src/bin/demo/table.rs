//! The live table of the demo.

use std::fmt::Write;

use vmpool_demo::screen::SharedScreen;
use vmpool_invariants::object::{JsonObject, TestedKind};
use vmpool_invariants::recorder::{RecordedState, Recorder};

/// The machines of one pool and their disks.
pub(crate) struct MachineTable {
    pool: &'static str,
    screen: SharedScreen,
}

impl MachineTable {
    pub(crate) fn new(pool: &'static str, screen: SharedScreen) -> Self {
        Self { pool, screen }
    }

    /// Shows the current state, once the pool exists.
    pub(crate) fn show(&self, recorder: &Recorder) {
        let state = recorder.state();
        if let Some(pool) = state.named(TestedKind::Pool, self.pool) {
            self.screen.lock().show_table(&self.render(pool, &state));
        }
    }

    /// The pool in one line.
    pub(crate) fn summary(&self, recorder: &Recorder) -> String {
        let state = recorder.state();
        let pool = state.named(TestedKind::Pool, self.pool);
        let number = |path| pool.and_then(|pool| pool.number(path)).unwrap_or_default();
        format!("pool {} {}/{} ready", self.pool, number("/status/readyReplicas"), number("/spec/replicas"))
    }

    fn render(&self, pool: &JsonObject, state: &RecordedState) -> String {
        let number = |path| pool.number(path).unwrap_or_default();
        let mut text = format!(
            "pool {}: desired {}, replicas {}, ready {}\n",
            self.pool,
            number("/spec/replicas"),
            number("/status/replicas"),
            number("/status/readyReplicas"),
        );
        for machine in state.machines_of_pool(pool.uid()) {
            let disk = machine.disk_references().next().unwrap_or_default();
            let phase = state.named(TestedKind::Disk, disk).map_or("-", |disk| or_dash(disk.phase()));
            let _ = writeln!(
                text,
                "  {:<18} {:<12} {:<12} {disk:<24} {phase}",
                machine.name(),
                state_of(machine),
                or_dash(machine.text("/status/nodeName")),
            );
        }
        text.pop();
        text
    }
}

fn state_of(machine: &JsonObject) -> &str {
    match machine.text("/status/printableStatus") {
        _ if machine.is_terminating() => "Terminating",
        // Machines of DVP have a phase.
        "" => or_dash(machine.phase()),
        status => status,
    }
}

fn or_dash(text: &str) -> &str {
    if text.is_empty() { "-" } else { text }
}
