//! Mutation tests: removes one guard at a time from the programs and verifies that the checks detect it.
//!
//! `hack/mutations.yaml` lists the guards. For each, a copy of the working tree below `target/mutations` is
//! changed and built. Then the schedules of `make faults` run until one of them finds a violation. If a
//! second guard prevents that, a test of the changed package must fail. The working tree itself is not
//! changed.

mod copy;
mod list;
#[cfg(test)]
mod tests;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use self::copy::WorkingCopy;
pub(crate) use self::list::CodeGuard;
use crate::workspace::{Workspace, run_command};

/// Options of a run.
#[derive(Debug, clap::Args)]
pub(crate) struct MutationOptions {
    /// Only guards whose names contain one of these texts, separated by commas
    #[arg(long, env = "ONLY", value_delimiter = ',')]
    only: Vec<String>,
    /// Random schedules that run against each mutation
    #[arg(long, env = "SEEDS", default_value_t = 600)]
    seeds: u64,
    /// Schedules to run in parallel; 0 means one per CPU
    #[arg(long, env = "JOBS", default_value_t = 0)]
    jobs: usize,
}

/// After this time without output, the schedules count as stuck. They report their progress after every 1000
/// schedules.
const OUTPUT_TIMEOUT: Duration = Duration::from_mins(3);

/// The result of one mutation.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// A schedule found this violation.
    Caught(String),
    /// No schedule found a violation, and this test failed.
    Failed(String),
    /// Neither a schedule nor a test detected the mutation.
    Missed,
}

/// Removes one guard after the other.
///
/// # Errors
/// A mutation was not detected, a violation was found without a mutation, or a build failed.
pub(crate) fn run_mutation_tests(workspace: &Workspace, options: &MutationOptions) -> Result<()> {
    let guards = list::read_code_guards(workspace.root())?;
    let is_selected = |guard: &&CodeGuard| {
        options.only.is_empty() || options.only.iter().any(|part| guard.name.contains(part.trim()))
    };
    let selected: Vec<&CodeGuard> = guards.iter().filter(is_selected).collect();
    if selected.is_empty() {
        bail!("no guard has {:?} in its name", options.only);
    }
    let mutations = workspace.mutations();
    let copy = WorkingCopy::of(workspace.root(), &mutations.join("tree"))?;
    eprintln!("==> Without a mutation");
    if let Verdict::Caught(violation) = run_all_schedules(workspace, &copy, &mutations, options)? {
        bail!("there is a violation without a mutation: {violation}");
    }
    let (mut missed, mut by_schedules) = (Vec::new(), 0);
    for (index, guard) in selected.iter().enumerate() {
        eprintln!("==> {} of {}: without {} ({})", index + 1, selected.len(), guard.name, guard.why);
        let started = Instant::now();
        let mutated = copy.change(guard)?;
        let verdict = match run_all_schedules(workspace, &copy, &mutations, options) {
            Ok(Verdict::Missed) => tests(workspace, &copy, &mutations, guard),
            verdict => verdict,
        };
        drop(mutated);
        let seconds = started.elapsed().as_secs();
        match verdict {
            Ok(Verdict::Caught(violation)) => {
                println!("caught  {:<42} {seconds:>4} s  {violation}", guard.name);
                by_schedules += 1;
            }
            Ok(Verdict::Failed(test)) => println!("caught  {:<42} {seconds:>4} s  test {test}", guard.name),
            // The remaining guards are checked even if the entry of this one is outdated.
            Err(error) => {
                println!("ERROR   {:<42} {seconds:>4} s  {error:#}", guard.name);
                missed.push(guard.name.as_str());
            }
            Ok(Verdict::Missed) => {
                println!("MISSED  {:<42} {seconds:>4} s", guard.name);
                missed.push(guard.name.as_str());
            }
        }
    }
    let detected = selected.len() - missed.len();
    println!(
        "mutations: {} guards removed, {detected} detected: {by_schedules} by schedules, {} by tests alone",
        selected.len(),
        detected - by_schedules
    );
    if !missed.is_empty() {
        bail!("no check detected the removal of: {}", missed.join(", "));
    }
    Ok(())
}

/// The build folder of mutations.
fn build_directory(mutations: &Path) -> PathBuf {
    mutations.join("build")
}

/// A cargo command for mutations.
fn cargo(workspace: &Workspace, mutations: &Path, command: &str) -> Command {
    let mut cargo = workspace.cargo();
    cargo
        .args([command, "--locked", "--profile", "mutations"])
        .env("CARGO_TARGET_DIR", build_directory(mutations))
        // Removing a guard leaves unused code behind.
        .env("RUSTFLAGS", "--allow=warnings");
    cargo
}

/// Runs the tests of the guard's packages until one test fails.
fn tests(workspace: &Workspace, copy: &WorkingCopy, mutations: &Path, guard: &CodeGuard) -> Result<Verdict> {
    for package in copy.packages(guard)? {
        let mut command = cargo(workspace, mutations, "test");
        command.args(["--lib", "--manifest-path"]).arg(&package).env("RUST_BACKTRACE", "0");
        let output = command.output().context("starting cargo")?;
        if output.status.success() {
            continue;
        }
        let sender = String::from_utf8_lossy(&output.stdout);
        let failed = sender.lines().find_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"));
        let Some(failed) = failed else {
            let errors = String::from_utf8_lossy(&output.stderr);
            bail!("the tests of {} failed, but no failed test was reported: {errors}", package.display());
        };
        return Ok(Verdict::Failed(failed.to_owned()));
    }
    Ok(Verdict::Missed)
}

/// Builds the copy, then runs random and exhaustive schedules until one finds a violation.
fn run_all_schedules(
    workspace: &Workspace,
    copy: &WorkingCopy,
    mutations: &Path,
    options: &MutationOptions,
) -> Result<Verdict> {
    let mut build = cargo(workspace, mutations, "build");
    run_command(build.args(["--quiet", "--package", "vmpool-explorer"]).current_dir(copy.root()))?;
    let program = build_directory(mutations).join("mutations/faults");
    let mut random = Command::new(&program);
    random.arg(format!("--seeds={}", options.seeds));
    let mut exhaustive = Command::new(&program);
    exhaustive.arg("--exhaustive");
    for mut command in [random, exhaustive] {
        command.arg(format!("--jobs={}", options.jobs)).env_remove("SEED").env_remove("ONLY");
        if let Verdict::Caught(violation) = run_schedules(command)? {
            return Ok(Verdict::Caught(violation));
        }
    }
    Ok(Verdict::Missed)
}

/// Runs schedules until one of them reports a violation.
fn run_schedules(mut command: Command) -> Result<Verdict> {
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().context("starting the schedules")?;
    let (sender, receiver) = mpsc::channel();
    let output = child.stdout.take().context("the schedules have no output")?;
    let errors = child.stderr.take().context("the schedules have no output")?;
    let outputs: [Box<dyn std::io::Read + Send>; 2] = [Box::new(output), Box::new(errors)];
    for output in outputs {
        let sender = sender.clone();
        thread::spawn(move || {
            let lines = BufReader::new(output).lines().map_while(Result::ok);
            lines.for_each(|line| drop(sender.send(line)));
        });
    }
    drop(sender);
    let verdict = loop {
        match receiver.recv_timeout(OUTPUT_TIMEOUT) {
            Ok(line) => {
                if let Some(violation) = list::violation_in_line(&line) {
                    break Some(Verdict::Caught(violation));
                }
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {
                break Some(Verdict::Caught("the schedules are stuck".to_owned()));
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => break None,
        }
    };
    if let Some(verdict) = verdict {
        child.kill().context("ending the schedules")?;
        child.wait().context("waiting for the schedules")?;
        return Ok(verdict);
    }
    let status = child.wait().context("waiting for the schedules")?;
    if !status.success() {
        bail!("the schedules ended with {status} and without a violation");
    }
    Ok(Verdict::Missed)
}
