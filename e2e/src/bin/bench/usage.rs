//! What a process, and the whole machine, have used: read from `/proc`.

use std::time::Duration;

use anyhow::{Context, bail};

#[cfg(test)]
mod tests;

/// Memory of a process, in MiB.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Memory {
    /// Resident now.
    pub(crate) now: f64,
    /// The most that was ever resident.
    pub(crate) peak: f64,
}

/// User and system time of all threads of a process, those that ended included.
///
/// # Errors
/// If there is no such process, or no `/proc`.
pub(crate) fn cpu(pid: u32) -> anyhow::Result<Duration> {
    ticks_of_process(&read(&format!("/proc/{pid}/stat"))?).map(ticks)
}

/// Resident memory of a process.
///
/// # Errors
/// As [`cpu`].
pub(crate) fn memory(pid: u32) -> anyhow::Result<Memory> {
    memory_of(&read(&format!("/proc/{pid}/status"))?)
}

/// What all processors did since the machine started.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Machine {
    idle: u64,
    total: u64,
}

impl Machine {
    /// Now.
    ///
    /// # Errors
    /// As [`cpu`].
    pub(crate) fn now() -> anyhow::Result<Self> {
        machine(&read("/proc/stat")?)
    }

    /// The share of all processors' time since `earlier` in which there was nothing to do, from 0 to 1.
    #[expect(clippy::cast_precision_loss, reason = "ticks of a machine's uptime are far below 2^53")]
    pub(crate) fn idle_since(self, earlier: Self) -> f64 {
        let total = self.total.saturating_sub(earlier.total).max(1);
        self.idle.saturating_sub(earlier.idle) as f64 / total as f64
    }
}

fn read(path: &str) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("reading {path}"))
}

#[expect(clippy::cast_precision_loss, reason = "ticks of a process are far below 2^53")]
fn ticks(count: u64) -> Duration {
    Duration::from_secs_f64(count as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// `utime` and `stime` of `/proc/PID/stat`. The name of the program, in brackets, may hold anything.
fn ticks_of_process(stat: &str) -> anyhow::Result<u64> {
    let (_, fields) = stat.rsplit_once(')').context("a stat line names its program")?;
    let field = |index: usize| -> anyhow::Result<u64> {
        let text = fields.split_ascii_whitespace().nth(index).context("a stat line has more fields")?;
        Ok(text.parse()?)
    };
    // Fields 14 and 15 of the line, and the first one behind the name is number 3.
    Ok(field(11)? + field(12)?)
}

fn memory_of(status: &str) -> anyhow::Result<Memory> {
    let field = |name: &str| -> anyhow::Result<f64> {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).context("a status has memory")?;
        let kib: f64 = line.trim().trim_end_matches("kB").trim().parse()?;
        Ok(kib / 1024.0)
    };
    Ok(Memory { now: field("VmRSS:")?, peak: field("VmHWM:")? })
}

/// The first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal; guests are in user already.
fn machine(stat: &str) -> anyhow::Result<Machine> {
    let line =
        stat.lines().next().and_then(|line| line.strip_prefix("cpu ")).context("no line of processors")?;
    let fields: Vec<u64> = line.split_ascii_whitespace().take(8).flat_map(str::parse).collect();
    let [_, _, _, idle, waiting, ..] = fields[..] else { bail!("the line of processors is too short") };
    Ok(Machine { idle: idle + waiting, total: fields.iter().sum() })
}
