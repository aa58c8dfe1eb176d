//! The command line.

use std::time::Duration;

use clap::Parser;
use vmpool_invariants::platform::TestedPlatform;

/// Runs random operations and faults against pools on a real kube-apiserver and etcd: killed and paused
/// processes, restarts of the control plane, and a misbehaving platform.
///
/// The invariants are checked all the time. At quiet points everything must settle, and the resource usage of
/// the programs must not grow. The exit code is 0 only if no check failed. docs/reliability.md explains every
/// figure.
#[derive(Debug, Parser)]
#[command(name = "soak", version)]
pub(crate) struct SoakOptions {
    /// Duration in minutes
    #[arg(long, env = "MINUTES", value_name = "MINUTES", default_value_t = 10.0, value_parser = positive)]
    minutes: f64,

    /// Seed of the random operations and faults. Default: a new seed for each run, which is printed. The
    /// course of a run also depends on the speed of the host
    #[arg(long, env = "SEED", value_name = "NUMBER")]
    seed: Option<u64>,

    /// Platform of the pools: dvp or kubevirt
    #[arg(long, env = "PLATFORM", value_name = "PLATFORM", default_value_t)]
    platform: TestedPlatform,
}

impl SoakOptions {
    /// The duration.
    pub(crate) fn duration(&self) -> Duration {
        Duration::from_secs_f64(self.minutes * 60.0)
    }

    /// The platform.
    pub(crate) fn platform(&self) -> TestedPlatform {
        self.platform
    }

    /// The seed.
    pub(crate) fn seed(&self) -> u64 {
        // Short enough to type.
        self.seed.unwrap_or_else(|| {
            u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap_or(1) % 1_000_000
        })
    }
}

fn positive(text: &str) -> Result<f64, String> {
    /// One week. Before the end of it, the API server's audit log fills the disk.
    const MOST: f64 = 10_080.0;
    let minutes: f64 = text.parse().map_err(|error: std::num::ParseFloatError| error.to_string())?;
    if minutes > 0.0 && minutes <= MOST {
        Ok(minutes)
    } else {
        Err(format!("must be more than 0 and at most {MOST}"))
    }
}
