//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::ArgValueCandidates;
use jiff::Timestamp;
use vmpool_api::subresources::ReleaseAction;
use vmpool_runtime::duration::parse_duration;

use crate::candidates::{complete_machine_names, complete_pool_names, complete_revision_names};
use crate::connection::ConnectionArguments;
use crate::dry_run::DryRunArguments;
use crate::format::{ObjectOutputArguments, OutputArguments};
use crate::parameter::ParameterValue;

/// Shows and changes pools of virtual machines.
///
/// Every request uses the rights of your kubeconfig.
#[derive(Debug, Parser)]
#[command(name = "kubectl-vmpool", bin_name = "kubectl vmpool", version, disable_help_subcommand = true)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) connection: ConnectionArguments,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The place of the installation.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct InstallationArguments {
    /// The namespace that vmpool is installed in
    #[arg(long, default_value = "vmpool-system", value_name = "NAME")]
    pub(crate) system_namespace: String,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List pools of both platforms with their states
    List(ListArguments),
    /// Show a pool: its machines and disks, what it waits for, and its last events
    Status(StatusArguments),
    /// Show what the controller would delete, update, restart and create, in order, and why
    Plan(PlanArguments),
    /// Remove machines by name, and lower the number of replicas by their number
    Remove(RemoveArguments),
    /// Create a pool of KubeVirt whose machines are those of a VirtualMachineTemplate
    Create(CreateArguments),
    /// Set the number of replicas
    Scale(ScaleArguments),
    /// Pause the rollout; on KubeVirt the pool
    Pause(PauseArguments),
    /// Resume the rollout; on KubeVirt the pool
    Resume(PauseArguments),
    /// List the stored revisions of the machine template
    History(HistoryArguments),
    /// Compare the machine template of the pool with a stored revision
    Diff(DiffArguments),
    /// Write the machine template of a stored revision to the pool
    Rollback(RollbackArguments),
    /// Restart machines, as many at a time as the disruption budget allows
    Restart(RestartArguments),
    /// Request that other machines replace machines, after their hooks, within the disruption budget
    Drain(DrainArguments),
    /// Protect machines from scale-downs, autohealing and restarts for a duration
    Protect(ProtectArguments),
    /// End the protection of machines that are not claimed
    Unprotect(UnprotectArguments),
    /// Claim a free machine for one job or user, or renew a claim
    Claim(ClaimArguments),
    /// Release a claimed machine
    Release(ReleaseArguments),
    /// Give a pool that was restored from a backup the machines, disks and revisions that were restored with
    /// it
    Adopt(AdoptArguments),
    /// Give an image that was restored from a backup the objects with its data that were restored with it
    AdoptImage(AdoptImageArguments),
    /// Print manifests of disk images and wrappers from the objects of crd.pelotech.ot
    ConvertImages(ConvertImagesArguments),
    /// Explain an autoscaler, or replay a recorded demand against it
    Autoscaler(AutoscalerArguments),
    /// Check whether vmpool is installed completely, and which rights you have
    Doctor(DoctorArguments),
    /// Write a file for an issue: pools, machines, events and the installation, without secrets and addresses
    Report(ReportArguments),
    /// Serve a web page with pools, machines and plans, for this computer only
    Dashboard(DashboardArguments),
    /// Print a script that completes commands and names
    Completion(CompletionArguments),
    /// Print the versions of the plugin and of the installed programs
    Version(VersionArguments),
}

#[derive(Debug, Args)]
pub(crate) struct AutoscalerArguments {
    #[command(subcommand)]
    pub(crate) command: AutoscalerCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AutoscalerCommand {
    /// Show what an autoscaler does now, and why
    Status(AutoscalerStatusArguments),
    /// Replay a recorded demand: waiting time, idle machine-hours and actions. It sends no request
    Simulate(SimulateArguments),
}

#[derive(Debug, Args)]
pub(crate) struct AutoscalerStatusArguments {
    /// Name of the autoscaler
    pub(crate) autoscaler: String,
    #[command(flatten)]
    pub(crate) format: OutputArguments,
}

/// A format of a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SimulationFormat {
    /// For users
    Text,
    /// All numbers as JSON
    Json,
    /// A plot of the numbers over the time
    Svg,
}

#[derive(Debug, Args)]
pub(crate) struct SimulateArguments {
    /// The manifest of the autoscaler
    #[arg(short, long, value_name = "FILE")]
    pub(crate) filename: PathBuf,
    /// The recorded demand: a JSON list of claims, each with the fields at (RFC 3339) and durationSeconds
    #[arg(long, value_name = "FILE")]
    pub(crate) history: PathBuf,
    /// How long a new machine takes until it is ready, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub(crate) start_seconds: u64,
    /// When the replay begins (RFC 3339), not later than the first claim. By default, with the first claim
    #[arg(long, value_name = "TIME")]
    pub(crate) from: Option<Timestamp>,
    /// When the replay ends (RFC 3339), not earlier than the last claim. By default, when the pool has shrunk
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<Timestamp>,
    /// Format of the output
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub(crate) output: SimulationFormat,
}

#[derive(Debug, Args)]
pub(crate) struct ListArguments {
    /// List the pools of all namespaces
    #[arg(short = 'A', long)]
    pub(crate) all_namespaces: bool,
    #[command(flatten)]
    pub(crate) installation: InstallationArguments,
    #[command(flatten)]
    pub(crate) format: ObjectOutputArguments,
}

#[derive(Debug, Args)]
pub(crate) struct VersionArguments {
    /// Print the version of the plugin only, and send no request
    #[arg(long)]
    pub(crate) client: bool,
    #[command(flatten)]
    pub(crate) installation: InstallationArguments,
    #[command(flatten)]
    pub(crate) format: OutputArguments,
}

#[derive(Debug, Args)]
pub(crate) struct StatusArguments {
    /// Name of the pool, or TYPE/NAME
    #[arg(add = ArgValueCandidates::new(complete_pool_names))]
    pub(crate) pool: String,
    /// Show the status again whenever it changes, until you interrupt the command
    #[arg(short, long)]
    pub(crate) watch: bool,
    /// Show all machines and free disks. Without it, the text contains at most 20 lines of machines and their
    /// disks, and 10 of free disks
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) installation: InstallationArguments,
    #[command(flatten)]
    pub(crate) format: ObjectOutputArguments,
}

#[derive(Debug, Args)]
pub(crate) struct PlanArguments {
    /// Name of the pool, or TYPE/NAME
    #[arg(add = ArgValueCandidates::new(complete_pool_names))]
    pub(crate) pool: String,
    /// Plan for this number of replicas instead of the present one
    #[arg(long, value_name = "N")]
    pub(crate) replicas: Option<u32>,
    /// Plan for this manifest of the pool instead of the stored object. The API server validates it as a dry
    /// run, which needs the right to patch the pool
    #[arg(short, long, value_name = "FILE", conflicts_with = "replicas")]
    pub(crate) filename: Option<PathBuf>,
    /// Plan for server-side apply of the manifest. Without it, the plan is for the method by which the pool
    /// was applied last
    #[arg(long, requires = "filename")]
    pub(crate) server_side: bool,
    /// The field manager of server-side apply
    #[arg(long, value_name = "NAME", requires = "filename")]
    pub(crate) field_manager: Option<String>,
    #[command(flatten)]
    pub(crate) format: OutputArguments,
}

#[derive(Debug, Args)]
pub(crate) struct RemoveArguments {
    /// Name of the pool, or TYPE/NAME
    #[arg(add = ArgValueCandidates::new(complete_pool_names))]
    pub(crate) pool: String,
    /// Names of the machines
    #[arg(required = true, value_name = "MACHINE", add = ArgValueCandidates::new(complete_machine_names))]
    pub(crate) machines: Vec<String>,
    #[command(flatten)]
    pub(crate) dry_run: DryRunArguments,
    /// Wait until the machines are gone
    #[arg(long)]
    pub(crate) wait: bool,
    /// How long --wait waits, in seconds
    #[arg(long, default_value_t = 3600, value_name = "SECONDS", requires = "wait")]
    pub(crate) timeout: u64,
}

#[derive(Debug, Args)]
pub(crate) struct CreateArguments {
    /// Name of the pool. The default is the name of the template
    pub(crate) pool: Option<String>,
    /// Name of the VirtualMachineTemplate
    #[arg(long, value_name = "NAME")]
    pub(crate) from_template: String,
    /// Namespace of the template. The default is that of the pool
    #[arg(long, value_name = "NAME")]
    pub(crate) template_namespace: Option<String>,
    /// A value for a parameter of the template. It can be repeated. The parameter NAME has the name of the
    /// pool by default
    #[arg(short, long = "param", value_name = "KEY=VALUE")]
    pub(crate) parameters: Vec<ParameterValue>,
    /// The number of replicas
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) replicas: u32,
    /// Replace the parameters in the plugin. This needs only the right to read the template
    #[arg(long)]
    pub(crate) local: bool,
    /// Print the manifest of the pool, and create nothing
    #[arg(long)]
    pub(crate) manifest: bool,
    #[command(flatten)]
    pub(crate) dry_run: DryRunArguments,
}

#[derive(Debug, Args)]
pub(crate) struct ConvertImagesArguments {
    /// Names of the objects. The default is all of the namespace or of the file
    #[arg(value_name = "NAME")]
    pub(crate) images: Vec<String>,
    /// Read the objects from this file instead of the cluster
    #[arg(short, long, value_name = "FILE")]
    pub(crate) filename: Option<PathBuf>,
    /// Copy the data of the former images in the cluster, into images with this at the end of their names
    #[arg(long = "copy-with-suffix", value_name = "TEXT")]
    pub(crate) suffix: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ScaleArguments {
    /// Name of the pool, or TYPE/NAME
    #[arg(add = ArgValueCandidates::new(complete_pool_names))]
    pub(crate) pool: String,
    /// The new number of replicas
    #[arg(long, value_name = "N")]
    pub(crate) replicas: u32,
    /// Permit more than 10000 replicas, the size of the largest pool that is measured
    #[arg(long)]
    pub(crate) allow_large_pool: bool,
    #[command(flatten)]
    pub(crate) dry_run: DryRunArguments,
}

#[derive(Debug, Args)]
pub(crate) struct PauseArguments {
    /// Name of the pool, or TYPE/NAME
    #[arg(add = ArgValueCandidates::new(complete_pool_names))]
    pub(crate) pool: String,
    #[command(flatten)]
    pub(crate) dry_run: DryRunArguments,
}

#[derive(Debug, Args)]
pub(crate) struct HistoryArguments {
    /// Name of the pool, or TYPE/NAME
    #[arg(add = ArgValueCandidates::new(complete_pool_names))]
    pub(crate) pool: String,
    #[command(flatten)]
    pub(crate) format: OutputArguments,
}

#[derive(Debug, Args)]
pub(crate) struct DiffArguments {
    /// Name of the pool, or TYPE/NAME
    #[arg(add = ArgValueCandidates::new(complete_pool_names))]
    pub(crate) pool: String,
    /// Name or number of the revision, as `history` lists it
    #[arg(add = ArgValueCandidates::new(complete_revision_names))]
    pub(crate) revision: String,
}

#[derive(Debug, Args)]
pub(crate) struct RollbackArguments {
    /// Name of the pool, or TYPE/NAME
    #[arg(add = ArgValueCandidates::new(complete_pool_names))]
    pub(crate) pool: String,
    /// Name or number of the revision. The default is the last one with another template
    #[arg(long, value_name = "REVISION", add = ArgValueCandidates::new(complete_revision_names))]
    pub(crate) to_revision: Option<String>,
    #[command(flatten)]
    pub(crate) dry_run: DryRunArguments,
}

#[derive(Debug, Args)]
pub(crate) struct RestartArguments {
    /// Name of the pool, or TYPE/NAME
    #[arg(add = ArgValueCandidates::new(complete_pool_names))]
    pub(crate) pool: String,
    /// Names of the machines. The default is all unprotected machines that need a restart
    #[arg(value_name = "MACHINE", add = ArgValueCandidates::new(complete_machine_names))]
    pub(crate) machines: Vec<String>,
    #[command(flatten)]
    pub(crate) dry_run: DryRunArguments,
    /// How long to wait for all machines, in seconds
    #[arg(long, default_value_t = 3600, value_name = "SECONDS")]
    pub(crate) timeout: u64,
}

#[derive(Debug, Args)]
pub(crate) struct DrainArguments {
    /// Name of the pool, or TYPE/NAME
    #[arg(add = ArgValueCandidates::new(complete_pool_names))]
    pub(crate) pool: String,
    /// Names of the machines
    #[arg(value_name = "MACHINE", conflicts_with = "all", add = ArgValueCandidates::new(complete_machine_names))]
    pub(crate) machines: Vec<String>,
    /// All machines of the pool
    #[arg(long)]
    pub(crate) all: bool,
    /// Withdraw the request. Machines that are deleted or that a hook has released are replaced nevertheless
    #[arg(long)]
    pub(crate) cancel: bool,
    #[command(flatten)]
    pub(crate) dry_run: DryRunArguments,
    #[command(flatten)]
    pub(crate) format: ObjectOutputArguments,
}

#[derive(Debug, Args)]
pub(crate) struct ProtectArguments {
    /// Name of the pool, or TYPE/NAME
    #[arg(add = ArgValueCandidates::new(complete_pool_names))]
    pub(crate) pool: String,
    /// Names of the machines
    #[arg(required = true, value_name = "MACHINE", add = ArgValueCandidates::new(complete_machine_names))]
    pub(crate) machines: Vec<String>,
    /// How long to protect them, for example 90m or 8h
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) duration: Duration,
    /// Which user or program protects them
    #[arg(long)]
    pub(crate) by: Option<String>,
    /// Why they are protected
    #[arg(long)]
    pub(crate) reason: Option<String>,
    #[command(flatten)]
    pub(crate) dry_run: DryRunArguments,
}

#[derive(Debug, Args)]
pub(crate) struct UnprotectArguments {
    /// Name of the pool, or TYPE/NAME
    #[arg(add = ArgValueCandidates::new(complete_pool_names))]
    pub(crate) pool: String,
    /// Names of the machines
    #[arg(required = true, value_name = "MACHINE", add = ArgValueCandidates::new(complete_machine_names))]
    pub(crate) machines: Vec<String>,
    #[command(flatten)]
    pub(crate) dry_run: DryRunArguments,
}

#[derive(Debug, Args)]
pub(crate) struct ClaimArguments {
    /// Name of the pool, or TYPE/NAME
    #[arg(add = ArgValueCandidates::new(complete_pool_names))]
    pub(crate) pool: String,
    /// The id of the claim. The same user and id find the same claim again
    #[arg(long)]
    pub(crate) id: String,
    /// For how long, for example 90m or 8h
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) duration: Duration,
    /// Why the machine is claimed
    #[arg(long)]
    pub(crate) reason: Option<String>,
    /// How long to wait for a free machine
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) wait: Option<Duration>,
    /// The only machine to accept
    #[arg(long, add = ArgValueCandidates::new(complete_machine_names))]
    pub(crate) machine: Option<String>,
    /// Only renew a claim, and never take another machine
    #[arg(long)]
    pub(crate) renew: bool,
    #[command(flatten)]
    pub(crate) dry_run: DryRunArguments,
    #[command(flatten)]
    pub(crate) format: ObjectOutputArguments,
}

#[derive(Debug, Args)]
pub(crate) struct ReleaseArguments {
    /// Name of the pool, or TYPE/NAME
    #[arg(add = ArgValueCandidates::new(complete_pool_names))]
    pub(crate) pool: String,
    /// The id of the claim
    #[arg(long)]
    pub(crate) id: String,
    /// UID of the machine. Without it, the command lists the machines and finds the claim
    #[arg(long)]
    pub(crate) uid: Option<String>,
    /// What happens to the machine
    #[arg(long, value_enum)]
    pub(crate) then: AfterReleaseArgument,
    #[command(flatten)]
    pub(crate) dry_run: DryRunArguments,
    #[command(flatten)]
    pub(crate) format: ObjectOutputArguments,
}

/// What happens to a released machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AfterReleaseArgument {
    /// It stays, and can be claimed again
    Keep,
    /// It is removed, and the number of replicas is decremented
    Remove,
    /// It is deleted, and the controller creates another one
    Replace,
}

impl AfterReleaseArgument {
    /// The action in the request.
    pub(crate) fn action(self) -> ReleaseAction {
        match self {
            Self::Keep => ReleaseAction::Keep,
            Self::Remove => ReleaseAction::Remove,
            Self::Replace => ReleaseAction::Replace,
        }
    }

    /// The effect, for users.
    pub(crate) fn effect(self) -> &'static str {
        match self {
            Self::Keep => "it stays in the pool",
            Self::Remove => "it is removed and replicas lowered",
            Self::Replace => "the controller replaces it",
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct AdoptArguments {
    /// Name of the pool, or TYPE/NAME
    #[arg(add = ArgValueCandidates::new(complete_pool_names))]
    pub(crate) pool: String,
    /// Names of the machines. The default is all machines of the former pool
    #[arg(value_name = "MACHINE", conflicts_with = "without_machines")]
    pub(crate) machines: Vec<String>,
    /// Begin without the machines of the former pool: the controller creates new ones
    #[arg(long)]
    pub(crate) without_machines: bool,
    #[command(flatten)]
    pub(crate) dry_run: DryRunArguments,
}

#[derive(Debug, Args)]
pub(crate) struct AdoptImageArguments {
    /// Name of the image
    pub(crate) image: String,
    #[command(flatten)]
    pub(crate) dry_run: DryRunArguments,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArguments {
    #[command(flatten)]
    pub(crate) installation: InstallationArguments,
    /// Repeat the checks until none fails, for at most this long, for example 2m
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) wait: Option<Duration>,
    #[command(flatten)]
    pub(crate) format: OutputArguments,
}

#[derive(Debug, Args)]
pub(crate) struct ReportArguments {
    /// Name of the pool, or TYPE/NAME. The default is all pools of the namespace
    #[arg(add = ArgValueCandidates::new(complete_pool_names))]
    pub(crate) pool: Option<String>,
    /// The file to create, or - for the standard output. The default is a name with the pool and the time
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// The namespace that vmpool is installed in
    #[arg(long, default_value = "vmpool-system", value_name = "NAME")]
    pub(crate) system_namespace: String,
}

#[derive(Debug, Args)]
pub(crate) struct DashboardArguments {
    /// Show the pools of all namespaces
    #[arg(short = 'A', long)]
    pub(crate) all_namespaces: bool,
    /// Port on 127.0.0.1. 0 selects a free one
    #[arg(long, default_value_t = 0)]
    pub(crate) port: u16,
    /// Print the address of the page, and open no browser
    #[arg(long)]
    pub(crate) no_open: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CompletionArguments {
    /// The program that completes: kubectl, or a shell for `kubectl-vmpool` itself
    #[arg(value_enum)]
    pub(crate) program: Completer,
}

/// A program that completes commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Completer {
    /// A script for the file kubectl_complete-vmpool on $PATH
    Kubectl,
    /// A script for bash
    Bash,
    /// A script for zsh
    Zsh,
    /// A script for fish
    Fish,
}

#[cfg(test)]
mod tests;
