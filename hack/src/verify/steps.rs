//! The steps themselves.

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::{packages, runner};
use crate::chart;
use crate::generate;
use crate::tools::{self, Selection};
use crate::workspace::{Workspace, succeed};

/// One check.
#[derive(Debug)]
pub(super) struct Step {
    /// What to call it.
    pub(super) name: &'static str,
    /// What a person types to repeat it.
    pub(super) command: &'static str,
    /// Steps without which it would only repeat their failure.
    pub(super) needs: &'static [&'static str],
    /// What it does.
    pub(super) run: fn(&Workspace) -> Result<Outcome>,
}

impl Step {
    /// Whether it is the last of [`STEPS`].
    pub(super) fn is_last(&self) -> bool {
        STEPS.last().is_some_and(|last| last.name == self.name)
    }
}

/// What became of a step that did not fail.
#[derive(Debug)]
pub(super) enum Outcome {
    /// All is well.
    Passed,
    /// It does not apply on this machine, for this reason.
    Left(&'static str),
}

/// All steps, in their order.
pub(super) const STEPS: &[Step] = &[
    Step {
        name: "format",
        command: "cargo fmt --all --check",
        needs: &[],
        run: |workspace| cargo(workspace, &["fmt", "--all", "--check"]),
    },
    Step {
        name: "hygiene",
        command: "cargo xtask hygiene",
        needs: &[],
        run: |workspace| super::hygiene(workspace).map(|()| Outcome::Passed),
    },
    Step {
        name: "dependencies",
        command: "cargo deny check bans licenses sources",
        needs: &[],
        run: dependencies,
    },
    Step {
        name: "tools",
        command: "cargo xtask tools",
        needs: &[],
        run: |workspace| tools::ensure(workspace, Selection::All).map(|()| Outcome::Passed),
    },
    Step {
        name: "clippy",
        command: "cargo clippy --workspace --all-targets -- -D warnings",
        needs: &[],
        run: |workspace| {
            cargo(workspace, &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])
        },
    },
    Step {
        name: "docs",
        command: "RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps",
        needs: &[],
        run: |workspace| {
            succeed(
                workspace
                    .cargo()
                    .args(["doc", "--workspace", "--no-deps"])
                    .env("RUSTDOCFLAGS", "-D warnings"),
            )?;
            Ok(Outcome::Passed)
        },
    },
    Step {
        name: "build",
        // The same targets and the same features as the tests have, so that nothing is built twice; and the programs
        // that the end-to-end tests start, which `cargo test` alone builds only for their own packages' tests.
        command: "cargo build --workspace --bins --tests --examples",
        needs: &[],
        run: |workspace| cargo(workspace, &["build", "--workspace", "--bins", "--tests", "--examples"]),
    },
    Step {
        name: "generated",
        command: "cargo xtask generate --check",
        needs: &["build"],
        run: |workspace| generate::check_with_built(workspace).map(|()| Outcome::Passed),
    },
    Step {
        name: "chart",
        command: "cargo xtask chart",
        needs: &["tools", "build"],
        run: |workspace| chart::check(workspace).map(|()| Outcome::Passed),
    },
    Step {
        name: "tests",
        command: "cargo test --workspace --no-fail-fast",
        needs: &["tools", "build"],
        run: |workspace| {
            runner::run(&phases(workspace)?, runner::PATIENCE, &mut std::io::stdout())?;
            Ok(Outcome::Passed)
        },
    },
];

/// The steps of these names with all that they need, or all if there are no names, in their order.
pub(super) fn chosen(names: &[String]) -> Vec<&'static Step> {
    let mut wanted: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    // Whatever is needed comes earlier.
    for step in STEPS.iter().rev() {
        if wanted.contains(step.name) {
            wanted.extend(step.needs);
        }
    }
    STEPS.iter().filter(|step| names.is_empty() || wanted.contains(step.name)).collect()
}

/// Test targets that mostly wait, for a lease or programs in the background: others run meanwhile.
const WAITING: &[&str] = &["faults", "node_cluster", "playground"];

/// Test targets that measure a promise in seconds, or that no request fails. Each of their tests runs alone: beside other
/// tests they would measure the machine.
const TIMED: &[&str] = &["node", "timed"];

/// All tests, in phases of groups that run side by side. Always the whole workspace and a selection of targets: a selection of
/// packages would choose other features, and build half of the world again.
fn phases(workspace: &Workspace) -> Result<Vec<Vec<runner::Track>>> {
    let metadata = packages::metadata(workspace)?;
    let mut busy = packages::tested(&metadata, "test");
    for name in WAITING.iter().chain(TIMED) {
        if !busy.remove(*name) {
            bail!("the test target {name} does not exist");
        }
    }
    let named = |flag: &str, names: Vec<String>| -> Vec<String> {
        names.into_iter().flat_map(|name| [flag.to_owned(), name]).collect()
    };
    let listed = |names: &[&str]| names.iter().map(ToString::to_string).collect();
    // Not `--bins`, which would link those without tests as well.
    let programs = packages::tested(&metadata, "bin").into_iter().collect();
    let busy =
        [vec!["--lib".to_owned()], named("--bin", programs), named("--test", busy.into_iter().collect())];
    let together = [busy.concat(), named("--test", listed(WAITING)), vec!["--doc".to_owned()]];
    let together = together.into_iter().map(|selection| track(workspace.clone(), selection, None)).collect();
    let alone = track(workspace.clone(), named("--test", listed(TIMED)), Some(1));
    Ok(vec![together, vec![alone]])
}

fn track(workspace: Workspace, selection: Vec<String>, threads: Option<usize>) -> runner::Track {
    Box::new(move |arguments| {
        let mut command = workspace.cargo();
        command.args(["test", "--workspace", "--no-fail-fast"]).args(&selection).arg("--").args(arguments);
        command.envs(threads.map(|threads| ("RUST_TEST_THREADS", threads.to_string())));
        command
    })
}

fn cargo(workspace: &Workspace, arguments: &[&str]) -> Result<Outcome> {
    run(workspace.cargo().args(arguments))
}

fn run(command: &mut Command) -> Result<Outcome> {
    succeed(command)?;
    Ok(Outcome::Passed)
}

/// cargo-deny is not part of the toolchain, and takes longer to build than everything it checks.
///
/// Advisories are for `make audit`: they need the network, and a new one is not the fault of the change at hand.
fn dependencies(workspace: &Workspace) -> Result<Outcome> {
    let installed =
        workspace.cargo().args(["deny", "--version"]).output().context("asking for cargo-deny")?;
    if !installed.status.success() {
        return Ok(Outcome::Left("cargo-deny is not installed (cargo install cargo-deny)"));
    }
    cargo(workspace, &["deny", "check", "bans", "licenses", "sources"])
}
