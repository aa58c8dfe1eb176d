//! The command line.

use std::time::Duration;

use clap::Parser;
use clap::builder::FalseyValueParser;
use vmpool_invariants::platform::TestedPlatform;

/// Measures vmpool on a real kube-apiserver and etcd, all on this host.
///
/// Without --pools: one large pool. A bare client creates the objects of MACHINES machines as fast as
/// possible. Then the controller does the same by scaling a pool from 0, on the same control plane, with the
/// platform simulator off. After that come the settled state, the scale-down to 0, and, with the simulator
/// on, the time until all machines are ready. The figures are written to target/bench/latest.json.
///
/// With --pools: many pools, with changes at a steady rate. The benchmark measures how long each change takes
/// to show in its pool's status. The figures are written to target/bench/pools.json.
///
/// With --life-cycle: what replaces and activates machines costs. The figures are written to
/// target/bench/life-cycle.json.
///
/// With --images: many disk images, each with some references. The figures are written to
/// target/bench/images.json.
///
/// With --platform=kubevirt: one large pool of KubeVirt, whose figures are written to
/// target/bench/kubevirt.json, or with --types to target/bench/kubevirt-types.json.
///
/// docs/benchmarks.md explains every figure.
#[derive(Debug, Parser)]
#[command(name = "bench", version)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
pub(crate) struct BenchOptions {
    /// The platform of the pools: dvp or kubevirt
    #[arg(long, env = "PLATFORM", value_name = "NAME", default_value_t)]
    platform: TestedPlatform,

    /// Machines of the pool, or of each pool with --pools. Default: 1000, or 100 with --pools
    #[arg(long = "machines", env = "MACHINES", value_name = "COUNT", value_parser = positive)]
    machine_count: Option<usize>,

    /// Disks of each machine. Default: 1, or 0 with PLATFORM=kubevirt, where the platform creates them
    #[arg(long, env = "DISKS", value_name = "COUNT")]
    disks: Option<usize>,

    /// With --platform=kubevirt: the template names an instance type and a preference instead of cores and
    /// memory
    #[arg(long, env = "TYPES", value_parser = FalseyValueParser::new(), conflicts_with_all = ["pools", "images"])]
    pub(crate) types: bool,

    /// How often the bare client and the controller are measured. Default: 5, or 1 with more than 2000
    /// machines
    #[arg(long, env = "ROUNDS", value_name = "COUNT", value_parser = positive)]
    rounds: Option<usize>,

    /// How long requests are counted in the settled state
    #[arg(long, env = "SETTLE", value_name = "DURATION", default_value = "60s",
          value_parser = vmpool_runtime::duration::parse_duration)]
    pub(crate) settle: Duration,

    /// Also measure a cold start and a failover; takes about 30 seconds
    #[arg(long, env = "FAILOVER", value_parser = FalseyValueParser::new())]
    pub(crate) failover: bool,

    /// Skip the convergence with the platform simulator on
    #[arg(long, env = "SKIP_CONVERGENCE", value_parser = FalseyValueParser::new())]
    pub(crate) skip_convergence: bool,

    /// Measure this many pools instead of one large pool
    #[arg(long, env = "POOLS", value_name = "COUNT", value_parser = positive)]
    pub(crate) pools: Option<usize>,

    /// With --pools: how long the benchmark makes changes
    #[arg(long, env = "DURATION", value_name = "DURATION", default_value = "5m", requires = "pools",
          value_parser = vmpool_runtime::duration::parse_duration)]
    pub(crate) duration: Duration,

    /// With --pools: changes per second, over all pools
    #[arg(long, env = "RATE", value_name = "COUNT", default_value_t = 20, requires = "pools",
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) rate: u32,

    /// Measure this many disk images instead of pools
    #[arg(long, env = "IMAGES", value_name = "COUNT", value_parser = positive, conflicts_with = "pools")]
    pub(crate) images: Option<usize>,

    /// With --images: machines that refer to each image
    #[arg(long, env = "REFERENCES", value_name = "COUNT", default_value_t = 10, requires = "images")]
    pub(crate) references: usize,

    /// Measure standby machines, image refresh and lifetimes instead of the creation of one large pool
    #[arg(long, env = "LIFE_CYCLE", value_parser = FalseyValueParser::new(), conflicts_with_all = ["pools", "images", "types"])]
    pub(crate) life_cycle: bool,

    /// Additional flags for the controller, separated by spaces
    #[arg(
        long,
        env = "CONTROLLER_ARGS",
        value_name = "FLAGS",
        default_value = "",
        allow_hyphen_values = true
    )]
    controller_args: String,

    /// Fail if a figure misses its limit
    #[arg(long, env = "CHECK", value_parser = FalseyValueParser::new())]
    pub(crate) check: bool,
}

impl BenchOptions {
    /// The platform of the pools. Only KubeVirt has disk images.
    pub(crate) fn platform(&self) -> TestedPlatform {
        if self.images.is_some() { TestedPlatform::KubeVirt } else { self.platform }
    }

    /// Machines per pool.
    pub(crate) fn machine_count(&self) -> usize {
        self.machine_count.unwrap_or(if self.pools.is_some() { 100 } else { 1000 })
    }

    /// Disks of each machine.
    pub(crate) fn disks(&self) -> usize {
        self.disks.unwrap_or(usize::from(self.platform() == TestedPlatform::Dvp))
    }

    /// The name of the file with the figures.
    pub(crate) fn file(&self) -> &'static str {
        if self.images.is_some() {
            return "images.json";
        }
        if self.life_cycle {
            return "life-cycle.json";
        }
        match (self.platform, self.pools) {
            (TestedPlatform::Dvp, None) => "latest.json",
            (TestedPlatform::Dvp, Some(_)) => "pools.json",
            (TestedPlatform::KubeVirt, _) if self.types => "kubevirt-types.json",
            (TestedPlatform::KubeVirt, _) => "kubevirt.json",
        }
    }

    /// Rounds of one large pool.
    pub(crate) fn rounds(&self) -> usize {
        self.rounds.unwrap_or(if self.machine_count() > 2000 { 1 } else { 5 })
    }

    /// Additional flags for the controller.
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
