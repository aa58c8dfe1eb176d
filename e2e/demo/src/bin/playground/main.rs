//! The playground: a control plane, a simulated platform and all programs of vmpool, which run in the background until
//! `make down` stops them.
//!
//! ```text
//!  make up ──► playground up ──spawns──► playground run ──► etcd, kube-apiserver, kube-controller-manager
//!                  │   waits until it is ready │ session and log of its own  ├► simulator
//!                  │                           │                             ├► webhook, aggregated API
//!                  ▼                           │                             └► two controllers
//!            says what to try                  │ holds target/playground/supervisor.lock
//!                                              ▼
//!  make down ─► playground down ──SIGTERM──► stops all of it in order
//! ```
//!
//! With `--node` it is a whole cluster of one node, with the chart installed on it: `make node-up` and `make node-down`.
//!
//! Everything that runs is a child of the supervisor and dies with it, whatever ends it. So there is one process to
//! look for and to signal; the kernel says through the lock on a file whether it lives, and a process id that somebody
//! else has by now is never signalled.

mod commands;
mod parts;
mod place;
mod supervisor;
mod talk;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use place::{Kind, Place};

/// A control plane, a simulated platform, two controllers, webhook and aggregated API in the background, to play with.
///
/// It lives in target/playground; VMPOOL_PLAYGROUND_DIR names another directory. With --node: target/node,
/// VMPOOL_NODE_DIR.
#[derive(Debug, Parser)]
#[command(name = "playground")]
struct Options {
    /// A node of its own, where the chart is installed and its programs are Pods. Needs root on Linux.
    #[arg(long, global = true)]
    node: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start it, unless it is up, and say what to try.
    Up,
    /// Stop it and remove its directory.
    Down,
    /// Say whether it is up, and which processes it consists of.
    Status,
    /// Be the supervisor, in the foreground. What `up` starts.
    #[command(hide = true)]
    Run {
        /// Its directory, for whoever looks at the list of processes.
        directory: std::path::PathBuf,
    },
}

fn main() -> ExitCode {
    let Options { node, command } = Options::parse();
    let kind = if node { Kind::Node } else { Kind::Loopback };
    let outcome = match command {
        Command::Up => Place::find(kind).and_then(|place| commands::up(&place)),
        Command::Down => Place::find(kind).and_then(|place| commands::down(&place)),
        Command::Status => Place::find(kind).and_then(|place| commands::status(&place)),
        Command::Run { directory } => supervisor::run(&Place::at(kind, directory)),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("playground: {error:#}");
            ExitCode::FAILURE
        }
    }
}
