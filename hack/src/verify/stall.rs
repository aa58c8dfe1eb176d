//! Handles a test that never ends: prints where its threads wait, and kills its binary.
//!
//! Without this, one such test would block the runner until CI aborts it, and all output about it would be lost. The
//! report contains what Linux shows about a process without a debugger.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal};

/// An entry of the process list.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Listed {
    pid: i32,
    parent: i32,
    /// `R` running, `S` sleeping, `D` waiting for a disk, `T` stopped, `Z` zombie.
    state: char,
}

/// Kills the children of a process, and returns what they were doing: their threads, which have the names of their
/// tests, and the programs that they had started.
pub(super) fn end_children(parent: u32) -> String {
    let all = listed(Path::new("/proc"));
    let mut told = String::new();
    for child in all.iter().filter(|process| u32::try_from(process.parent) == Ok(parent)) {
        tell(&all, child, 0, &mut told);
        if let Some(pid) = Pid::from_raw(child.pid) {
            // The process may have ended already.
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
    }
    if told.is_empty() {
        "  this system provides no information about the processes\n".to_owned()
    } else {
        told
    }
}

/// Adds a line for a process, one for each of its threads, and the same for its children.
fn tell(all: &[Listed], process: &Listed, depth: usize, told: &mut String) {
    let folder = PathBuf::from(format!("/proc/{}", process.pid));
    let indent = "  ".repeat(depth + 1);
    let command = fs::read_to_string(folder.join("cmdline")).unwrap_or_default().replace('\0', " ");
    let _ = writeln!(told, "{indent}{} {} {}", process.pid, process.state, command.trim_end());
    // For programs that the tests have started, the command line is enough.
    if depth == 0 {
        for thread in folders(&folder.join("task")) {
            let read = |file: &str| fs::read_to_string(thread.join(file)).unwrap_or_default();
            let (name, call) = (read("comm"), read("syscall"));
            let number = call.split_ascii_whitespace().next().unwrap_or("?");
            let _ = writeln!(
                told,
                "{indent}  thread {:<16} in {} (system call {number})",
                name.trim_end(),
                read("wchan")
            );
        }
    }
    for child in all.iter().filter(|other| other.parent == process.pid) {
        tell(all, child, depth + 1, told);
    }
}

fn listed(proc: &Path) -> Vec<Listed> {
    folders(proc).iter().filter_map(|folder| read(&fs::read_to_string(folder.join("stat")).ok()?)).collect()
}

/// Parses `pid (name) state parent ...`; the name may contain spaces and parentheses.
fn read(stat: &str) -> Option<Listed> {
    let (pid, rest) = stat.split_once(" (")?;
    let mut fields = rest.rsplit_once(") ")?.1.split_ascii_whitespace();
    Some(Listed {
        pid: pid.parse().ok()?,
        state: fields.next()?.chars().next()?,
        parent: fields.next()?.parse().ok()?,
    })
}

/// Subfolders whose names are numbers.
fn folders(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_number = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().bytes().all(|byte| byte.is_ascii_digit()))
    };
    entries.filter(is_number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_process_list_is_read() {
        let expected = Some(Listed { pid: 42, parent: 7, state: 'S' });
        assert_eq!(read("42 (a (b) c) S 7 42 42 0 -1"), expected);
        assert_eq!(read("42 (a"), None);
    }
}
