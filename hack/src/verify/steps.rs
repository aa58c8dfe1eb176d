//! The list of steps.

use std::collections::BTreeSet;

use anyhow::{Result, bail};

use super::{checks, junit, packages, runner};
use crate::chart;
use crate::generate;
use crate::tools::{self, ToolSelection};
use crate::workspace::{Workspace, run_command};

/// One check.
#[derive(Debug)]
pub(super) struct VerificationStep {
    /// The name.
    pub(super) name: &'static str,
    /// The command that repeats it.
    pub(super) command: &'static str,
    /// Steps that must pass first, because this step would only repeat their failure.
    pub(super) needs: &'static [&'static str],
    /// The implementation.
    pub(super) run: fn(&Workspace) -> Result<()>,
}

impl VerificationStep {
    /// Whether it is the last of [`STEPS`].
    pub(super) fn is_last(&self) -> bool {
        STEPS.last().is_some_and(|last| last.name == self.name)
    }
}

/// All steps, in their order.
pub(super) const STEPS: &[VerificationStep] = &[
    VerificationStep {
        name: "format",
        command: "cargo fmt --all --check",
        needs: &[],
        run: |workspace| cargo(workspace, &["fmt", "--all", "--check"]),
    },
    VerificationStep {
        name: "hygiene",
        command: "cargo xtask hygiene",
        needs: &[],
        run: checks::verify_hygiene,
    },
    VerificationStep {
        name: "dependencies",
        command: "cargo xtask dependencies",
        needs: &[],
        run: checks::verify_dependencies,
    },
    VerificationStep {
        name: "tools",
        command: "cargo xtask tools",
        needs: &[],
        run: |workspace| tools::ensure_tools(workspace, ToolSelection::All),
    },
    VerificationStep {
        name: "clippy",
        command: "cargo clippy --workspace --all-targets -- -D warnings",
        needs: &[],
        run: |workspace| {
            cargo(workspace, &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])
        },
    },
    VerificationStep {
        name: "docs",
        command: "RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps",
        needs: &[],
        run: |workspace| {
            run_command(
                workspace
                    .cargo()
                    .args(["doc", "--workspace", "--no-deps"])
                    .env("RUSTDOCFLAGS", "-D warnings"),
            )
        },
    },
    VerificationStep {
        name: "build",
        // The same targets and features as the tests, so that nothing is built twice. It also builds the
        // programs that the end-to-end tests start; `cargo test` builds them only for the tests of their own
        // packages.
        command: "cargo build --workspace --bins --tests --examples",
        needs: &[],
        run: |workspace| cargo(workspace, &["build", "--workspace", "--bins", "--tests", "--examples"]),
    },
    VerificationStep {
        name: "generated",
        command: "cargo xtask generate --check",
        needs: &["build"],
        run: generate::check_with_built,
    },
    VerificationStep {
        name: "chart",
        command: "cargo xtask chart",
        needs: &["tools", "build"],
        run: chart::check_chart,
    },
    VerificationStep {
        name: "tests",
        command: "cargo test --workspace --no-fail-fast",
        needs: &["tools", "build"],
        run: |workspace| {
            let mut cases = Vec::new();
            let result = runner::run_test_phases(
                &phases(workspace)?,
                runner::PATIENCE,
                &mut std::io::stdout(),
                &mut cases,
            );
            junit::write_junit_report(&workspace.junit(), &cases)?;
            result
        },
    },
];

/// The named steps with all that they need, or all steps if there are no names, in their order.
pub(super) fn select_steps(names: &[String]) -> Vec<&'static VerificationStep> {
    let mut wanted: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    // A needed step always comes earlier in the list.
    for step in STEPS.iter().rev() {
        if wanted.contains(step.name) {
            wanted.extend(step.needs);
        }
    }
    STEPS.iter().filter(|step| names.is_empty() || wanted.contains(step.name)).collect()
}

/// Test targets that mostly wait, for a lease or for programs in the background: other tests run meanwhile.
const WAITING: &[&str] = &["crashes", "node_cluster", "playground"];

/// Test targets that measure a duration, or check that no request fails. Each of their tests runs alone,
/// because the load of other tests would change the result.
const TIMED: &[&str] = &["node", "timed"];

/// All tests, in phases of groups that run in parallel. Each group selects targets of the whole workspace: a
/// selection of packages would change the features and rebuild most dependencies.
fn phases(workspace: &Workspace) -> Result<Vec<Vec<runner::Track>>> {
    let metadata = packages::workspace_metadata(workspace)?;
    let mut busy = packages::tested_target_names(&metadata, "test");
    for name in WAITING.iter().chain(TIMED) {
        if !busy.remove(*name) {
            bail!("the test target {name} does not exist");
        }
    }
    let named = |flag: &str, names: Vec<String>| -> Vec<String> {
        names.into_iter().flat_map(|name| [flag.to_owned(), name]).collect()
    };
    let listed = |names: &[&str]| names.iter().map(ToString::to_string).collect();
    // Not `--bins`, which would also link programs without tests.
    let programs = packages::tested_target_names(&metadata, "bin").into_iter().collect();
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

fn cargo(workspace: &Workspace, arguments: &[&str]) -> Result<()> {
    run_command(workspace.cargo().args(arguments))
}
