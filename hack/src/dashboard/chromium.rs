//! Runs a Chromium without a window.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// The variable with the path of the browser.
const VARIABLE: &str = "CHROMIUM";

/// The names of the browser in different systems.
const PROGRAMS: [&str; 7] = [
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
    "chrome-headless-shell",
    "headless_shell",
];

/// The time that the page has in its own clock. It is shorter than the time after which the page reports a
/// lost connection.
const PAGE_TIME: &str = "--virtual-time-budget=2000";

/// How long the browser may run.
const DEADLINE: Duration = Duration::from_mins(1);

/// A browser with a folder for its profile and its output.
#[derive(Debug)]
pub(super) struct Chromium {
    program: PathBuf,
    folder: PathBuf,
}

/// What the browser wrote.
#[derive(Debug)]
pub(super) struct BrowserOutput {
    pub(super) output: String,
    pub(super) log: String,
}

impl Chromium {
    /// Finds the browser in `$CHROMIUM` or `$PATH`.
    ///
    /// # Errors
    /// There is none, or the folder cannot be created.
    pub(super) fn find(folder: &Path) -> Result<Self> {
        let named = env::var_os(VARIABLE).map(PathBuf::from);
        let program = named.or_else(|| find_program(env::var_os("PATH").as_deref()?));
        let program = program.context(
            "Chromium is missing: install it, or set CHROMIUM to its path. The page was not checked",
        )?;
        fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
        Ok(Self { program, folder: folder.to_owned() })
    }

    /// Runs the browser with these arguments, and a new profile.
    ///
    /// # Errors
    /// It cannot be started, fails, or does not end in time.
    pub(super) fn run(&self, arguments: &[String]) -> Result<BrowserOutput> {
        let path = |name: &str| self.folder.join(name);
        let (profile, output, log) = (path("profile"), path("output.txt"), path("log.txt"));
        if profile.exists() {
            fs::remove_dir_all(&profile).with_context(|| format!("deleting {}", profile.display()))?;
        }
        let create = |file: &Path| File::create(file).with_context(|| format!("creating {}", file.display()));
        let mut command = Command::new(&self.program);
        command.args(["--headless", "--disable-gpu", "--hide-scrollbars", "--no-first-run", PAGE_TIME]);
        command.args(["--enable-logging=stderr", "--v=0"]);
        command.arg(format!("--user-data-dir={}", profile.display())).args(arguments);
        if rustix::process::geteuid().is_root() {
            // The browser refuses to run as root otherwise. It loads only the page of this program.
            command.arg("--no-sandbox");
        }
        command.stdin(Stdio::null()).stdout(create(&output)?).stderr(create(&log)?);
        let outcome = run_in_time(&mut command);
        let read = |file: &Path| {
            let bytes = fs::read(file).with_context(|| format!("reading {}", file.display()))?;
            Ok::<String, anyhow::Error>(String::from_utf8_lossy(&bytes).into_owned())
        };
        let written = BrowserOutput { output: read(&output)?, log: read(&log)? };
        outcome.with_context(|| format!("the log of the browser:\n{}", written.log.trim_end()))?;
        Ok(written)
    }
}

fn find_program(path: &OsStr) -> Option<PathBuf> {
    let folders: Vec<PathBuf> = env::split_paths(path).collect();
    let mut candidates = PROGRAMS.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    candidates.find(|candidate| candidate.is_file())
}

fn run_in_time(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let mut child = command.spawn().with_context(|| format!("starting {program}"))?;
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().with_context(|| format!("waiting for {program}"))? {
            return if status.success() { Ok(()) } else { bail!("{program} ended with {status}") };
        }
        if start.elapsed() > DEADLINE {
            child.kill().and_then(|()| child.wait()).with_context(|| format!("ending {program}"))?;
            bail!("{program} did not end within {DEADLINE:?}");
        }
        thread::sleep(Duration::from_millis(50));
    }
}

/// The messages that the page wrote to its console, as the log of the browser contains them.
pub(super) fn console_messages(log: &str) -> Vec<&str> {
    log.lines().filter(|line| line.contains(":CONSOLE(") || line.contains(":CONSOLE:")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_browser_is_found_in_the_path() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(find_program(folder.path().as_os_str()), None);
        let program = folder.path().join("chromium-browser");
        fs::write(&program, "").unwrap();
        assert_eq!(find_program(folder.path().as_os_str()), Some(program));
    }

    #[test]
    fn messages_of_the_console_are_found_in_the_log() {
        let log = "[1:1:0101/000000.0:INFO:CONSOLE(12)] \"Uncaught\", source: http://127.0.0.1/script.js (12)\n\
                   [1:1:0101/000000.0:INFO:CONSOLE:12] \"Refused\", source: http://127.0.0.1/ (12)\n\
                   [1:1:0101/000000.0:ERROR:gpu_init.cc(1)] no GPU\n";
        assert_eq!(console_messages(log).len(), 2);
    }

    #[test]
    fn a_failure_and_a_missing_program_are_errors() {
        assert!(run_in_time(&mut Command::new("true")).is_ok());
        assert!(run_in_time(&mut Command::new("false")).is_err());
        assert!(run_in_time(&mut Command::new("/does/not/exist")).is_err());
    }
}
