//! An external command-line tool.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use vmpool_test_cluster::error::{Error, Result};
use vmpool_test_cluster::process;

use crate::Environment;

/// Longer than pulling an image takes over a slow connection.
const DEADLINE: Duration = Duration::from_mins(10);

/// Timeout for the deletion of a cluster during drop.
const REMOVAL: Duration = Duration::from_mins(1);

/// A tool that was found on `PATH`.
#[derive(Debug, Clone)]
pub(crate) struct CommandLineTool {
    name: &'static str,
    program: PathBuf,
}

impl CommandLineTool {
    /// Searches `PATH` for the tool.
    pub(crate) fn find(name: &'static str, environment: &Environment) -> Option<Self> {
        let mut folders = std::env::split_paths(&environment.path);
        let program =
            folders.find_map(|folder| Some(folder.join(name)).filter(|program| program.is_file()))?;
        Some(Self { name, program })
    }

    /// Runs the tool and returns its output.
    ///
    /// # Errors
    /// [`Error::Command`] with its error output if it fails, [`Error::Spawn`] if it cannot be started or does
    /// not exit.
    pub(crate) async fn run(&self, arguments: &[&str]) -> Result<String> {
        let output = process::command_output(self.name, self.command(arguments), DEADLINE).await?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        Err(Error::Command {
            command: format!("{} {}", self.name, arguments.join(" ")),
            status: output.status,
            stderr: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        })
    }

    /// Runs the tool during drop, where it cannot be awaited and errors cannot be returned.
    pub(crate) fn run_in_drop(&self, arguments: &[&str]) {
        let command = self.command(arguments);
        let removed = std::thread::scope(|scope| {
            let run = scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                runtime.is_ok_and(|runtime| {
                    let output = runtime.block_on(process::command_output(self.name, command, REMOVAL));
                    output.is_ok_and(|output| output.status.success())
                })
            });
            run.join().unwrap_or_default()
        });
        if !removed {
            eprintln!("this command failed, run it manually: {} {}", self.name, arguments.join(" "));
        }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(arguments);
        command
    }
}
