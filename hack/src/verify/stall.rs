//! Handles a test that never ends: prints where its threads wait, and kills its binary.
//!
//! Without this, one such test would block the runner until CI aborts it, and all output about it would be
//! lost. The report contains what Linux shows about a process without a debugger.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal};
use vmpool_process_stat::ProcessStat;

/// Kills the children of a process, and returns what they were doing: their threads, which have the names of
/// their tests, and the programs that they had started.
pub(super) fn end_children(parent: u32) -> String {
    let all = ProcessStat::all();
    let mut report = String::new();
    for child in all.iter().filter(|process| process.parent == parent) {
        describe(&all, child, 0, &mut report);
        if let Some(pid) = i32::try_from(child.pid).ok().and_then(Pid::from_raw) {
            // The process may have ended already.
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
    }
    if report.is_empty() {
        "  this system provides no information about the processes\n".to_owned()
    } else {
        report
    }
}

/// Adds a line for a process, one for each of its threads, and the same for its children.
fn describe(all: &[ProcessStat], process: &ProcessStat, depth: usize, report: &mut String) {
    let folder = PathBuf::from(format!("/proc/{}", process.pid));
    let indent = "  ".repeat(depth + 1);
    let command = fs::read_to_string(folder.join("cmdline")).unwrap_or_default().replace('\0', " ");
    let _ = writeln!(report, "{indent}{} {} {}", process.pid, process.state, command.trim_end());
    // For programs that the tests have started, the command line is enough.
    if depth == 0 {
        for thread in folders(&folder.join("task")) {
            let read = |file: &str| fs::read_to_string(thread.join(file)).unwrap_or_default();
            let (name, call) = (read("comm"), read("syscall"));
            let number = call.split_ascii_whitespace().next().unwrap_or("?");
            let _ = writeln!(
                report,
                "{indent}  thread {:<16} in {} (system call {number})",
                name.trim_end(),
                read("wchan")
            );
        }
    }
    for child in all.iter().filter(|other| other.parent == process.pid) {
        describe(all, child, depth + 1, report);
    }
}

/// Subfolders whose names are numbers.
fn folders(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_number = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().bytes().all(|byte| byte.is_ascii_digit()))
    };
    entries.filter(is_number).collect()
}
