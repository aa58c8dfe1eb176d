//! The command line.

use std::time::Duration;

use clap::Parser;

/// Lets users and faults have their way with pools for as long as told, on a real kube-apiserver and etcd: random
/// operations, processes that die or stand still, restarts of the control plane, a platform that misbehaves.
///
/// All the time the invariants are checked, at quiet points everything has to settle, and what our programs use must not
/// grow. The exit code is 0 only if nothing was wrong. docs/reliability.md explains every figure.
#[derive(Debug, Parser)]
#[command(name = "soak", version)]
pub(crate) struct Options {
    /// How long
    #[arg(long, env = "MINUTES", value_name = "MINUTES", default_value_t = 10.0, value_parser = positive)]
    minutes: f64,

    /// What decides which operations and faults come when. Default: another one each time, which is printed. How things
    /// turn out depends on the machine, too
    #[arg(long, env = "SEED", value_name = "NUMBER")]
    seed: Option<u64>,
}

impl Options {
    /// How long.
    pub(crate) fn duration(&self) -> Duration {
        Duration::from_secs_f64(self.minutes * 60.0)
    }

    /// What decides.
    pub(crate) fn seed(&self) -> u64 {
        // Short enough to be typed.
        self.seed.unwrap_or_else(|| {
            u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap_or(1) % 1_000_000
        })
    }
}

fn positive(text: &str) -> Result<f64, String> {
    /// A week: long before that, the API server's audit log has filled the disk.
    const MOST: f64 = 10_080.0;
    let minutes: f64 = text.parse().map_err(|error: std::num::ParseFloatError| error.to_string())?;
    if minutes > 0.0 && minutes <= MOST {
        Ok(minutes)
    } else {
        Err(format!("must be more than 0 and at most {MOST}"))
    }
}
