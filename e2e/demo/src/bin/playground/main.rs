//! The playground: a control plane, the platform simulator and all programs of vmpool. They run in the
//! background until `make down` stops them.
//!
//! ```text
//!  make up ──► playground up ──spawns──► playground run ──► etcd, kube-apiserver, kube-controller-manager
//!                  │   waits until it is ready │ own session and log         ├► simulator
//!                  │                           │                             ├► webhook, aggregated API
//!                  ▼                           │                             └► two controllers
//!            prints what to try                 │ holds target/playground/supervisor.lock
//!                                              ▼
//!  make down ─► playground down ──SIGTERM──► stops all programs in order
//! ```
//!
//! With `--node` it is a one-node cluster with the chart installed: `make node-up` and `make node-down`.
//!
//! All programs are children of the supervisor. If the supervisor exits for any reason, the kernel kills
//! them. The supervisor holds a lock on a file while it runs, so the commands know whether it runs, and they
//! never signal another process that has got its process id.

mod commands;
mod directory;
mod messages;
mod output;
mod parts;
mod supervisor;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use directory::{PlaygroundDirectory, PlaygroundKind};

/// Runs a control plane, the platform simulator, two controllers, webhook and aggregated API in the
/// background.
///
/// Its files are in target/playground, or in VMPOOL_PLAYGROUND_DIR. With --node: in target/node, or in
/// VMPOOL_NODE_DIR.
#[derive(Debug, Parser)]
#[command(name = "playground")]
struct Options {
    /// Use a one-node cluster with the chart installed, in which the programs are Pods. Needs root on Linux.
    #[arg(long, global = true)]
    node: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start it, unless it is up, and print what to try.
    Up,
    /// Stop it and remove its directory.
    Down,
    /// Print whether it is up, and its processes.
    Status,
    /// Run the supervisor in the foreground; `up` starts it.
    #[command(hide = true)]
    Run {
        /// Its directory, so that it is visible in the list of processes.
        directory: std::path::PathBuf,
    },
}

fn main() -> ExitCode {
    let Options { node, command } = Options::parse();
    let kind = if node { PlaygroundKind::Node } else { PlaygroundKind::Loopback };
    let outcome = match command {
        Command::Up => PlaygroundDirectory::find(kind).and_then(|place| commands::start_playground(&place)),
        Command::Down => PlaygroundDirectory::find(kind).and_then(|place| commands::stop_playground(&place)),
        Command::Status => {
            PlaygroundDirectory::find(kind).and_then(|place| commands::print_playground_status(&place))
        }
        Command::Run { directory } => supervisor::run_supervisor(&PlaygroundDirectory::at(kind, directory)),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("playground: {error:#}");
            ExitCode::FAILURE
        }
    }
}
