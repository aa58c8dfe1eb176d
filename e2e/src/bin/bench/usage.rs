//! What a process has used: read from `/proc`.

use std::time::Duration;

use anyhow::Context;

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
/// Unit of the result: seconds.
///
/// # Errors
/// If there is no such process, or no `/proc`.
pub(crate) fn cpu(pid: u32) -> anyhow::Result<f64> {
    ticks_of_process(&read(&format!("/proc/{pid}/stat"))?).map(|count| ticks(count).as_secs_f64())
}

/// Resident memory of a process.
///
/// # Errors
/// As [`cpu`].
pub(crate) fn memory(pid: u32) -> anyhow::Result<Memory> {
    memory_of(&read(&format!("/proc/{pid}/status"))?)
}

/// Reads a file of `/proc`.
pub(crate) fn read(path: &str) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("reading {path}"))
}

/// The time that so many clock ticks are.
#[expect(clippy::cast_precision_loss, reason = "ticks since the machine started are far below 2^53")]
pub(crate) fn ticks(count: u64) -> Duration {
    Duration::from_secs_f64(count as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// Clock ticks of a process: `utime` and `stime` of `/proc/PID/stat`. The name of the program, in brackets, may hold anything.
pub(crate) fn ticks_of_process(stat: &str) -> anyhow::Result<u64> {
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
