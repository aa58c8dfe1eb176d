//! The program: reads the arguments, runs the command, and reports its error.

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::{CommandFactory as _, Parser as _};
use clap_complete::CompleteEnv;
use vmpool_platforms::{Dvp, KubeVirt};
use vmpool_runtime::Env;

use crate::arguments::{Arguments, Command};
use crate::cluster::Cluster;
use crate::commands::{
    adopt, claim, completion, doctor, plan, protect, remove, restart, revisions, scale, status,
};
use crate::connection::PlatformName;
use crate::output::write;
use crate::pool::StoredPool;
use crate::table::Tone;
use crate::visible::visible_lines;

/// Runs the program.
pub fn main() -> ExitCode {
    CompleteEnv::with_factory(Arguments::command).var(completion::VARIABLE).complete();
    match start() {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of a pipe, for example `head`, has enough.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let why = format!("{error:#}");
            let text = format!("{} {}\n", Tone::Bad.paint("error:"), visible_lines(&why));
            // If stderr is closed, nothing can be reported.
            let _ = anstream::stderr().write_all(text.as_bytes());
            ExitCode::FAILURE
        }
    }
}

fn start() -> Result<()> {
    let mut words = std::env::args_os().skip(1);
    if words.next().is_some_and(|word| word == completion::HIDDEN) {
        return write(&completion::complete(words)?);
    }
    let arguments = Arguments::parse();
    if let Command::Completion(arguments) = &arguments.command {
        return completion::run(arguments);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("starting the runtime")?.block_on(run(arguments))
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = error.chain().find_map(|cause| cause.downcast_ref::<std::io::Error>());
    io.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

async fn run(arguments: Arguments) -> Result<()> {
    let Arguments { connection, command } = arguments;
    let cluster = Cluster::connect(&connection, Env::system()).await?;
    let find = async |name: &str| StoredPool::find(&cluster, name, connection.platform).await;
    /// Runs a command for the platform of its pool.
    macro_rules! on {
        ($arguments:expr, $command:path) => {{
            let pool = find(&$arguments.pool).await?;
            match pool.platform {
                PlatformName::Dvp => $command(&cluster, Dvp, pool.object, &$arguments).await,
                PlatformName::Kubevirt => $command(&cluster, KubeVirt, pool.object, &$arguments).await,
            }
        }};
    }
    match command {
        Command::Status(arguments) => on!(arguments, status::run),
        Command::Plan(arguments) => on!(arguments, plan::run),
        Command::Remove(arguments) => on!(arguments, remove::run),
        Command::Scale(arguments) => on!(arguments, scale::scale),
        Command::Pause(arguments) => on!(arguments, scale::pause),
        Command::Resume(arguments) => on!(arguments, scale::resume),
        Command::History(arguments) => on!(arguments, revisions::history),
        Command::Diff(arguments) => on!(arguments, revisions::diff),
        Command::Rollback(arguments) => on!(arguments, revisions::rollback),
        Command::Restart(arguments) => on!(arguments, restart::run),
        Command::Protect(arguments) => on!(arguments, protect::protect),
        Command::Unprotect(arguments) => on!(arguments, protect::unprotect),
        Command::Claim(arguments) => on!(arguments, claim::claim),
        Command::Release(arguments) => on!(arguments, claim::release),
        Command::Adopt(arguments) => on!(arguments, adopt::run),
        Command::AdoptImage(arguments) => adopt::image::run(&cluster, &arguments).await,
        Command::Doctor(arguments) => doctor::run(&cluster, &arguments).await,
        Command::Completion(arguments) => completion::run(&arguments),
    }
}
