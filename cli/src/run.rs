//! The program: reads the arguments, runs the command, and reports its error.

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Parser as _;
use clap_complete::CompleteEnv;
use vmpool_platforms::with_platform;
use vmpool_runtime::Env;

use crate::arguments::{Arguments, AutoscalerArguments, AutoscalerCommand, Command};
use crate::cluster::UserClusterClient;
use crate::commands::{
    adopt, autoscaler, claim, completion, convert, create, dashboard, doctor, drain, list, plan, protect,
    remove, report, restart, revisions, scale, status, version,
};
use crate::exit::exit_code_of;
use crate::explain::describe_chain;
use crate::output::print_text;
use crate::pool::{PoolReference, StoredPool};
use crate::table::Tone;
use crate::visible::escape_except_lines;

/// Runs the program.
pub fn main() -> ExitCode {
    CompleteEnv::with_factory(completion::completed_command).var(completion::VARIABLE).complete();
    match run_program() {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of a pipe, for example `head`, has enough.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let why = describe_chain(&error);
            let text = format!("{} {}\n", Tone::Bad.paint("error:"), escape_except_lines(&why));
            // If stderr is closed, nothing can be reported.
            let _ = anstream::stderr().write_all(text.as_bytes());
            exit_code_of(&error)
        }
    }
}

fn run_program() -> Result<()> {
    let mut words = std::env::args_os().skip(1);
    if words.next().is_some_and(|word| word == completion::HIDDEN) {
        return print_text(&completion::complete_command_line(words)?);
    }
    let arguments = Arguments::parse();
    if let Command::Completion(arguments) = &arguments.command {
        return completion::print_completion_script(arguments);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("starting the runtime")?.block_on(run_command(arguments))
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = error.chain().find_map(|cause| cause.downcast_ref::<std::io::Error>());
    io.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

async fn run_command(arguments: Arguments) -> Result<()> {
    let Arguments { connection, command } = arguments;
    if let Command::Version(arguments) = &command {
        // The version of the plugin needs no kubeconfig.
        return version::print_versions(&connection, arguments).await;
    }
    if let Command::Autoscaler(AutoscalerArguments { command: AutoscalerCommand::Simulate(arguments) }) =
        &command
    {
        // A simulation needs no kubeconfig either.
        return autoscaler::simulate_autoscaler(arguments);
    }
    let cluster = UserClusterClient::connect(&connection, Env::system()).await?;
    let find =
        async |reference: &PoolReference| StoredPool::find(&cluster, reference, connection.platform).await;
    /// Runs a command for the platform of its pool.
    macro_rules! on {
        ($arguments:expr, $command:path) => {{
            let mut arguments = $arguments;
            let reference = PoolReference::parse(&arguments.pool)?;
            let pool = find(&reference).await?;
            arguments.pool = reference.name;
            with_platform!(pool.platform, P => $command(&cluster, P {}, pool.object, &arguments).await)
        }};
    }
    match command {
        Command::List(arguments) => list::print_pool_list(&cluster, connection.platform, &arguments).await,
        Command::Status(arguments) => on!(arguments, status::print_pool_status),
        Command::Plan(arguments) => on!(arguments, plan::print_plan),
        Command::Remove(arguments) => on!(arguments, remove::remove_machines),
        Command::Scale(arguments) => on!(arguments, scale::scale_pool),
        Command::Pause(arguments) => on!(arguments, scale::pause_pool),
        Command::Resume(arguments) => on!(arguments, scale::resume_pool),
        Command::History(arguments) => on!(arguments, revisions::print_revision_history),
        Command::Diff(arguments) => on!(arguments, revisions::print_revision_diff),
        Command::Rollback(arguments) => on!(arguments, revisions::roll_back_pool),
        Command::Restart(arguments) => on!(arguments, restart::restart_machines),
        Command::Drain(arguments) => on!(arguments, drain::drain_machines),
        Command::Protect(arguments) => on!(arguments, protect::protect_machines),
        Command::Unprotect(arguments) => on!(arguments, protect::unprotect_machines),
        Command::Claim(arguments) => on!(arguments, claim::claim_machine),
        Command::Release(arguments) => on!(arguments, claim::release_machine),
        Command::Adopt(arguments) => on!(arguments, adopt::adopt_pool_objects),
        Command::AdoptImage(arguments) => adopt::image::adopt_image_objects(&cluster, &arguments).await,
        Command::ConvertImages(arguments) => convert::print_converted_images(&cluster, &arguments).await,
        Command::Create(arguments) => create::create_pool(&cluster, &arguments).await,
        Command::Autoscaler(arguments) => autoscaler::run_autoscaler_command(&cluster, &arguments).await,
        Command::Doctor(arguments) => doctor::print_check_findings(&cluster, &arguments).await,
        Command::Report(arguments) => report::write_report(&cluster, connection.platform, &arguments).await,
        Command::Dashboard(arguments) => {
            dashboard::serve_dashboard(&cluster, connection.platform, &arguments).await
        }
        Command::Completion(arguments) => completion::print_completion_script(&arguments),
        Command::Version(arguments) => version::print_versions(&connection, &arguments).await,
    }
}
