//! Opens an address in the browser of the user.

use std::process::{Command, Stdio};

/// Opens the address, if there is a desktop. A failure is no error, because the address is printed, too.
pub(super) fn open_browser(address: &str) {
    let Some(program) = browser_program() else { return };
    let mut command = Command::new(program);
    command.arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // Some of these programs run as long as the browser.
    std::thread::spawn(move || {
        let _ = command.status();
    });
}

/// The program of the system that opens addresses; `None` without a desktop, where it could start a browser
/// for terminals.
fn browser_program() -> Option<&'static str> {
    if cfg!(target_os = "macos") {
        return Some("open");
    }
    if cfg!(windows) {
        return Some("explorer");
    }
    let has_desktop = ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some());
    has_desktop.then_some("xdg-open")
}
