//! CPU usage during a measurement: of this program and its children, of other programs, and idle time.
//!
//! On a busy host, wall time is unreliable; the CPU time of the benchmark's own programs is not.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::{Value, json};
use vmpool_process_stat::ProcessStat;
use vmpool_test_cluster::usage::{read_proc_file, ticks_to_duration};

#[cfg(test)]
mod tests;

/// The counters at one moment, in clock ticks.
#[derive(Debug, Clone)]
pub(crate) struct CpuSnapshot {
    machine: Machine,
    /// This program and its children, by name.
    family: BTreeMap<String, u64>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Machine {
    idle: u64,
    total: u64,
}

/// CPU usage between two moments.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CpuLoad {
    /// The idle share of the total CPU time, from 0 to 1.
    pub(crate) idle: f64,
    /// The share of programs outside the benchmark.
    pub(crate) foreign: f64,
    /// CPU time of the benchmark's programs, by name, which the kernel truncates to 15 characters.
    pub(crate) programs: BTreeMap<String, Duration>,
}

impl CpuSnapshot {
    /// Reads the current counters.
    ///
    /// # Errors
    /// If `/proc` cannot be read.
    pub(crate) fn now() -> anyhow::Result<Self> {
        let own = std::process::id();
        let mut family: BTreeMap<String, u64> = BTreeMap::new();
        for process in ProcessStat::all().into_iter().filter(|process| belongs_to(process, own)) {
            *family.entry(process.name).or_default() += process.cpu_ticks;
        }
        Ok(Self { machine: machine(&read_proc_file("/proc/stat")?)?, family })
    }

    /// The CPU usage since `earlier`.
    #[expect(clippy::cast_precision_loss, reason = "ticks since boot are far below 2^53")]
    pub(crate) fn since(&self, earlier: &Self) -> CpuLoad {
        let total = self.machine.total.saturating_sub(earlier.machine.total).max(1);
        let idle = self.machine.idle.saturating_sub(earlier.machine.idle);
        let used: BTreeMap<String, u64> = self
            .family
            .iter()
            .map(|(name, &ticks)| {
                let before = earlier.family.get(name).copied().unwrap_or_default();
                (name.clone(), ticks.saturating_sub(before))
            })
            .filter(|&(_, ticks)| ticks > 0)
            .collect();
        let foreign = total.saturating_sub(idle).saturating_sub(used.values().sum());
        CpuLoad {
            idle: idle as f64 / total as f64,
            foreign: foreign as f64 / total as f64,
            programs: used.into_iter().map(|(name, count)| (name, ticks_to_duration(count))).collect(),
        }
    }
}

impl CpuLoad {
    /// CPU time of all of the benchmark's programs, in seconds.
    pub(crate) fn seconds(&self) -> f64 {
        self.programs.values().sum::<Duration>().as_secs_f64()
    }

    /// The form for the JSON file.
    pub(crate) fn to_json(&self) -> Value {
        let programs: BTreeMap<&str, f64> =
            self.programs.iter().map(|(name, time)| (name.as_str(), time.as_secs_f64())).collect();
        json!({ "idle_share": self.idle, "foreign_share": self.foreign, "cpu_seconds_by_program": programs })
    }
}

impl std::fmt::Display for CpuLoad {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CPU of all {:.2} s, idle {:.0}%", self.seconds(), self.idle * 100.0)?;
        write!(f, ", foreign {:.0}%", self.foreign * 100.0)
    }
}

/// Whether a process is `own` or a child of it.
fn belongs_to(process: &ProcessStat, own: u32) -> bool {
    process.pid == own || process.parent == own
}

/// Parses the first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal. User
/// includes guests.
fn machine(stat: &str) -> anyhow::Result<Machine> {
    let line = stat
        .lines()
        .next()
        .and_then(|line| line.strip_prefix("cpu "))
        .context("/proc/stat has no cpu line")?;
    let fields: Vec<u64> = line.split_ascii_whitespace().take(8).flat_map(str::parse).collect();
    let [_, _, _, idle, waiting, ..] = fields[..] else { bail!("the cpu line of /proc/stat is too short") };
    Ok(Machine { idle: idle + waiting, total: fields.iter().sum() })
}
