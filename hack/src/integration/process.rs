//! Programs that run while an integration does.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};

/// A running program, with its output in a file. Dropping it ends it.
#[derive(Debug)]
pub(super) struct RunningProgram {
    child: Child,
}

impl RunningProgram {
    /// # Errors
    /// The log cannot be created, or the program cannot be started.
    pub(super) fn start(command: &mut Command, log: &Path) -> Result<Self> {
        let output = File::create(log).with_context(|| format!("creating {}", log.display()))?;
        let errors = output.try_clone().with_context(|| format!("opening {}", log.display()))?;
        command.stdin(Stdio::null()).stdout(output).stderr(errors);
        let program = command.get_program().to_string_lossy().into_owned();
        let child = command.spawn().with_context(|| format!("starting {program}"))?;
        Ok(Self { child })
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Processes that are paused until this is dropped.
#[derive(Debug)]
pub(super) struct PausedProcesses(Vec<Pid>);

impl PausedProcesses {
    /// # Errors
    /// A process does not exist.
    pub(super) fn pause(ids: &[i32]) -> Result<Self> {
        let mut paused = Self(Vec::new());
        for pid in ids.iter().filter_map(|id| Pid::from_raw(*id)) {
            kill_process(pid, Signal::STOP).with_context(|| format!("pausing process {pid:?}"))?;
            paused.0.push(pid);
        }
        Ok(paused)
    }
}

impl Drop for PausedProcesses {
    fn drop(&mut self) {
        for pid in &self.0 {
            // A process that has ended needs no signal.
            let _ = kill_process(*pid, Signal::CONT);
        }
    }
}
