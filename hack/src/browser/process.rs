//! Finds and runs the browser.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

use super::devtools::DevTools;

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

/// The browser reads commands from file descriptor 3, and writes to 4. The shell connects both to the
/// pipes of this program.
const CONNECT: &str = "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null";

/// A running browser with a new profile. It ends with this value.
pub(crate) struct Chromium {
    child: Child,
    pub(super) tools: DevTools,
}

impl Chromium {
    /// Starts the browser from `$CHROMIUM` or `$PATH`. `folder` gets its profile and its log.
    ///
    /// # Errors
    /// There is none, or it cannot be started.
    pub(crate) fn start(folder: &Path) -> Result<Self> {
        let named = env::var_os(VARIABLE).map(PathBuf::from);
        let program = named.or_else(|| find_program(env::var_os("PATH").as_deref()?));
        let program = program.context(
            "Chromium is missing: install it, or set CHROMIUM to its path. The page was not checked",
        )?;
        fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
        // The browser resolves paths against a folder of its own.
        let folder = folder.canonicalize().with_context(|| format!("finding {}", folder.display()))?;
        let (profile, log) = (folder.join("profile"), folder.join("browser.log"));
        if profile.exists() {
            fs::remove_dir_all(&profile).with_context(|| format!("deleting {}", profile.display()))?;
        }
        let errors = File::create(&log).with_context(|| format!("creating {}", log.display()))?;
        let mut command = Command::new("sh");
        command.args(["-c", CONNECT, "sh"]).arg(&program);
        command.args(["--headless", "--disable-gpu", "--hide-scrollbars", "--no-first-run"]);
        command.arg("--remote-debugging-pipe").arg(format!("--user-data-dir={}", profile.display()));
        if rustix::process::geteuid().is_root() {
            // The browser refuses to run as root otherwise. It loads only pages of this program.
            command.arg("--no-sandbox");
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors);
        let mut child = command.spawn().with_context(|| format!("starting {}", program.display()))?;
        let commands = child.stdin.take().context("the browser has no input")?;
        let messages = child.stdout.take().context("the browser has no output")?;
        let tools = DevTools::new(Box::new(commands), Box::new(messages), log);
        Ok(Self { child, tools })
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        // The browser ends its own processes then. If it does not respond, its main process is killed.
        if self.tools.close().is_err() {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

fn find_program(path: &OsStr) -> Option<PathBuf> {
    let folders: Vec<PathBuf> = env::split_paths(path).collect();
    let mut candidates = PROGRAMS.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    candidates.find(|candidate| candidate.is_file())
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
}
