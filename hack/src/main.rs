//! The project's tasks: builds the test tools, generates code, verifies the tree.
//!
//! Run it as `cargo xtask`. CI runs `cargo xtask verify`, and each of its steps has a separate command.

mod alerts;
mod browser;
mod chart;
mod dashboard;
mod generate;
mod integration;
mod mutations;
mod profiles;
mod release;
mod sbom;
mod site;
mod tools;
mod verify;
mod workspace;

use std::process::ExitCode;

use anyhow::Result;
use clap::builder::PossibleValuesParser;
use clap::{Parser, Subcommand};

use crate::integration::Integration;
use crate::tools::ToolSelection;
use crate::workspace::Workspace;

/// The project's tasks.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", version, about, disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Build the Go programs that tests and the demo run, into target/tools/MODULE/bin
    Tools {
        /// Which programs to build
        #[arg(value_enum, default_value_t = ToolSelection::All)]
        which: ToolSelection,
    },
    /// Write all generated files: those from the CRDs, the metrics page, and the chart's table of values
    Generate {
        /// Only compare, and fail if a generated file is out of date
        #[arg(long)]
        check: bool,
    },
    /// Lint the Helm chart, render its variants, check what they grant, and compare it with
    /// e2e/manifests
    Chart {
        /// Only write the rendered manifests: those in e2e/manifests, which the demo and the playground
        /// install instead of the chart, and deploy/vmpool.yaml
        #[arg(long)]
        write: bool,
    },
    /// Test the chart's alerts with promtool, which takes some minutes to build for the first time
    Alerts,
    /// Check the page of `kubectl vmpool dashboard` in a Chromium from $CHROMIUM or $PATH, and write
    /// screenshots of it
    Dashboard(dashboard::DashboardOptions),
    /// Run another program together with vmpool, and check that both work: Prometheus, cert-manager, KEDA,
    /// or the oldest Kubernetes
    Integration {
        /// The other program
        #[arg(value_enum)]
        which: Integration,
    },
    /// Build the documentation as a site, into target/site/book, with the mdBook of $PATH or one that is
    /// built once
    Site(site::SiteOptions),
    /// Look for ignored tests, files that no module declares, forbidden dependencies, import cycles, and
    /// words that hide the actor
    Hygiene,
    /// Check licenses, sources and banned crates of all dependencies against deny.toml
    Dependencies,
    /// Write the software bill of materials of each program, as CycloneDX JSON
    Sbom(sbom::SbomOptions),
    /// Make the files of a release: images, chart, manifest, plugin, bills of materials, checksums and
    /// changes; publishes nothing without --publish
    Release(release::ReleaseOptions),
    /// Build the controller with several profiles, and measure each with the benchmark
    Profiles(profiles::ProfileOptions),
    /// Mutation tests: remove the guards in hack/mutations.yaml, one at a time, and check that `make faults`
    /// detects each
    Mutations(mutations::MutationOptions),
    /// Run all checks of CI, and report all failures at the end
    Verify {
        /// Run only these steps and the steps that they need
        #[arg(value_name = "STEP", value_parser = PossibleValuesParser::new(verify::step_names()))]
        steps: Vec<String>,
    },
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> Result<()> {
    let workspace = Workspace::locate()?;
    match &cli.command {
        Command::Tools { which } => tools::ensure_tools(&workspace, *which),
        Command::Generate { check } => generate::generate_files(&workspace, *check),
        Command::Chart { write: true } => {
            tools::ensure_tools(&workspace, ToolSelection::Helm)?;
            chart::write_manifests(&workspace)
        }
        Command::Chart { write: false } => {
            tools::ensure_tools(&workspace, ToolSelection::Helm)?;
            workspace::run_command(workspace.cargo().args([
                "build",
                "--quiet",
                "--package",
                "vmpool-controller",
                "--package",
                "vmpool-webhook",
                "--package",
                "vmpool-apiserver",
                "--bins",
            ]))?;
            chart::check_chart(&workspace)
        }
        Command::Alerts => alerts::test_alerts(&workspace),
        Command::Dashboard(options) => dashboard::check_dashboard(&workspace, options),
        Command::Integration { which } => integration::run_integration(&workspace, *which),
        Command::Site(options) => site::build_site(&workspace, options),
        Command::Hygiene => verify::verify_hygiene(&workspace),
        Command::Dependencies => verify::verify_dependencies(&workspace),
        Command::Sbom(options) => sbom::write_software_bills(&workspace, options),
        Command::Release(options) => release::make_release(&workspace, options),
        Command::Profiles(options) => profiles::measure_profiles(&workspace, options),
        Command::Mutations(options) => mutations::run_mutation_tests(&workspace, options),
        Command::Verify { steps } => verify::run_verification_steps(&workspace, steps),
    }
}
