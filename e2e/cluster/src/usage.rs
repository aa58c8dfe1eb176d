//! Resource usage of a process, from `/proc`.

use std::time::Duration;

use vmpool_process_stat::ProcessStat;

use crate::error::{Error, Result};

#[cfg(test)]
mod tests;

/// Memory of a process, in MiB.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MemoryUsage {
    /// Current resident memory.
    pub now: f64,
    /// Maximum resident memory so far.
    pub peak: f64,
}

/// User and system time of all threads of a process, including exited ones.
///
/// Unit of the result: seconds.
///
/// # Errors
/// If the process or `/proc` does not exist.
pub fn cpu_seconds(pid: u32) -> Result<f64> {
    let stat = ProcessStat::read(pid).map_err(Error::file("reading", format!("/proc/{pid}/stat")))?;
    Ok(ticks_to_duration(stat.cpu_ticks).as_secs_f64())
}

/// Resident memory of a process.
///
/// # Errors
/// As [`cpu_seconds`].
pub fn resident_memory(pid: u32) -> Result<MemoryUsage> {
    memory_of(&read_proc_file(&format!("/proc/{pid}/status"))?)
}

/// Number of threads of a process.
///
/// # Errors
/// As [`cpu_seconds`].
pub fn thread_count(pid: u32) -> Result<u64> {
    let status = read_proc_file(&format!("/proc/{pid}/status"))?;
    whole(field(&status, "Threads:")?)
}

/// Number of open file descriptors of a process.
///
/// # Errors
/// As [`cpu_seconds`].
pub fn open_descriptor_count(pid: u32) -> Result<u64> {
    let path = format!("/proc/{pid}/fd");
    let open = std::fs::read_dir(&path).map_err(Error::file("reading", &path))?;
    Ok(open.count() as u64)
}

/// Reads a file of `/proc`.
///
/// # Errors
/// [`Error::File`].
pub fn read_proc_file(path: &str) -> Result<String> {
    std::fs::read_to_string(path).map_err(Error::file("reading", path))
}

/// The duration of this number of clock ticks.
#[expect(clippy::cast_precision_loss, reason = "ticks since boot are far below 2^53")]
pub fn ticks_to_duration(count: u64) -> Duration {
    Duration::from_secs_f64(count as f64 / rustix::param::clock_ticks_per_second() as f64)
}

fn memory_of(status: &str) -> Result<MemoryUsage> {
    let mib = |name: &str| -> Result<f64> {
        let text = field(status, name)?.trim_end_matches("kB").trim();
        let kib: f64 = text.parse().map_err(|_| unreadable(text))?;
        Ok(kib / 1024.0)
    };
    Ok(MemoryUsage { now: mib("VmRSS:")?, peak: mib("VmHWM:")? })
}

/// The value of a field in `/proc/PID/status`.
fn field<'a>(status: &'a str, name: &str) -> Result<&'a str> {
    let found = status.lines().find_map(|line| line.strip_prefix(name));
    found.map(str::trim).ok_or_else(|| unreadable(status))
}

fn whole(text: &str) -> Result<u64> {
    text.parse().map_err(|_| unreadable(text))
}

fn unreadable(text: &str) -> Error {
    Error::Unexpected {
        what: "/proc contains the resource usage of a process".to_owned(),
        last: text.to_owned(),
    }
}
