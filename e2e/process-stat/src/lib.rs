//! Reads `/proc/PID/stat`, the line in which Linux describes a process.
//!
//! The test runner uses it to report hanging tests, and the test cluster to find child processes and to
//! measure CPU time. It has no dependencies, because the runner is built before all other crates.

use std::path::Path;
use std::{fs, io};

#[cfg(test)]
mod tests;

/// A process as Linux describes it at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessStat {
    /// The process id.
    pub pid: u32,
    /// The name of the program, which the kernel truncates to 15 bytes.
    pub name: String,
    /// `R` running, `S` sleeping, `D` waiting for a disk, `T` stopped, `Z` zombie.
    pub state: char,
    /// The process id of the parent.
    pub parent: u32,
    /// User and system time of all threads, including exited ones. Unit: clock ticks.
    pub cpu_ticks: u64,
}

impl ProcessStat {
    /// Reads the line of a process.
    ///
    /// # Errors
    /// If the process or `/proc` does not exist, or the line has an unknown format.
    pub fn read(pid: u32) -> io::Result<Self> {
        let path = format!("/proc/{pid}/stat");
        let line = fs::read_to_string(&path)?;
        Self::parse(&line).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, format!("{path} has an unknown format: {line}"))
        })
    }

    /// All processes that this process can see. Processes that exit meanwhile are left out.
    pub fn all() -> Vec<Self> {
        Self::all_in(Path::new("/proc"))
    }

    fn all_in(proc: &Path) -> Vec<Self> {
        let entries = fs::read_dir(proc).into_iter().flatten().flatten();
        // Other files of `/proc` have no such line.
        let lines = entries.filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok());
        lines.filter_map(|line| Self::parse(&line)).collect()
    }

    /// Parses `pid (name) state parent ... utime stime ...`. The name may contain spaces and parentheses.
    ///
    /// Source: proc_pid_stat(5), fields 1 to 4, 14 and 15.
    pub fn parse(line: &str) -> Option<Self> {
        let (pid, rest) = line.split_once(" (")?;
        let (name, fields) = rest.rsplit_once(") ")?;
        // The first field after the name is number 3.
        let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
        let field = |number: usize| fields.get(number - 3).copied();
        let ticks = |number: usize| field(number)?.parse::<u64>().ok();
        Some(Self {
            pid: pid.parse().ok()?,
            name: name.to_owned(),
            state: field(3)?.chars().next()?,
            parent: field(4)?.parse().ok()?,
            cpu_ticks: ticks(14)? + ticks(15)?,
        })
    }
}
