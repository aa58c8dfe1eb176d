//! The command line.

use std::time::Duration;

use clap::Parser;
use clap::builder::FalseyValueParser;

/// Measures vmpool on a real kube-apiserver and etcd, all on this machine.
///
/// Without --pools, one big pool: a bare client of ours creates the machines and disks of MEMBERS members as fast as it
/// can; then the controller does the same by scaling a pool from 0, on the same control plane, with the platform
/// simulator off. Then come the settled state, the way back to 0, and, with the simulator on, the time until all members
/// are ready. The figures go to target/bench/latest.json.
///
/// With --pools, many pools: changes at a steady rate, and how long each takes to show in its pool's status. The figures
/// go to target/bench/pools.json.
///
/// docs/benchmarks.md explains every figure.
#[derive(Debug, Parser)]
#[command(name = "bench", version)]
pub(crate) struct Options {
    /// Members of the pool, or of each pool with --pools. Default: 1000, or 100 with --pools
    #[arg(long, env = "MEMBERS", value_name = "COUNT", value_parser = positive)]
    members: Option<usize>,

    /// Disks of each member
    #[arg(long, env = "DISKS", value_name = "COUNT", default_value_t = 1)]
    pub(crate) disks: usize,

    /// How often bare client and controller are measured in turn; the best time of each counts. Default: 3, or 1
    /// with more than 2000 members
    #[arg(long, env = "ROUNDS", value_name = "COUNT", value_parser = positive)]
    rounds: Option<usize>,

    /// How long the settled state is watched for requests
    #[arg(long, env = "SETTLE", value_name = "DURATION", default_value = "60s",
          value_parser = vmpool_runtime::duration::parse)]
    pub(crate) settle: Duration,

    /// Measure a cold start and a failover, too: about half a minute more
    #[arg(long, env = "FAILOVER", value_parser = FalseyValueParser::new())]
    pub(crate) failover: bool,

    /// Leave out the convergence with the simulator on
    #[arg(long, env = "SKIP_CONVERGENCE", value_parser = FalseyValueParser::new())]
    pub(crate) skip_convergence: bool,

    /// Measure this many pools side by side instead of one big one
    #[arg(long, env = "POOLS", value_name = "COUNT", value_parser = positive)]
    pub(crate) pools: Option<usize>,

    /// With --pools: how long changes are made
    #[arg(long, env = "DURATION", value_name = "DURATION", default_value = "5m", requires = "pools",
          value_parser = vmpool_runtime::duration::parse)]
    pub(crate) duration: Duration,

    /// With --pools: changes per second, over all pools
    #[arg(long, env = "RATE", value_name = "COUNT", default_value_t = 20, requires = "pools",
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) rate: u32,

    /// Further flags for the controller, separated by spaces
    #[arg(
        long,
        env = "CONTROLLER_ARGS",
        value_name = "FLAGS",
        default_value = "",
        allow_hyphen_values = true
    )]
    controller_args: String,

    /// Fail if a figure misses its first bar
    #[arg(long, env = "CHECK", value_parser = FalseyValueParser::new())]
    pub(crate) check: bool,
}

impl Options {
    /// Members per pool.
    pub(crate) fn members(&self) -> usize {
        self.members.unwrap_or(if self.pools.is_some() { 100 } else { 1000 })
    }

    /// Rounds of one big pool.
    pub(crate) fn rounds(&self) -> usize {
        self.rounds.unwrap_or(if self.members() > 2000 { 1 } else { 5 })
    }

    /// Further flags for the controller.
    pub(crate) fn controller_args(&self) -> Vec<String> {
        self.controller_args.split_whitespace().map(str::to_owned).collect()
    }
}

fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("must be at least 1".to_owned()),
        Ok(count) => Ok(count),
        Err(error) => Err(format!("{error}")),
    }
}
