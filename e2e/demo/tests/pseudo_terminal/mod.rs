//! Runs a program on a pseudo-terminal.

use std::fs::File;
use std::io::Read;
use std::process::{Command, ExitStatus, Stdio};

use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use vmpool_demo::screen::TerminalSize;

/// Runs a program whose standard output and error output are a terminal of this size. Returns the output
/// of the program.
pub(crate) fn run_on_terminal(mut command: Command, size: TerminalSize) -> (ExitStatus, String) {
    let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&controller).unwrap();
    unlockpt(&controller).unwrap();
    let winsize = Winsize {
        ws_row: size.rows.try_into().unwrap(),
        ws_col: size.columns.try_into().unwrap(),
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&controller, winsize).unwrap();
    let name = ptsname(&controller, Vec::new()).unwrap();
    // Processes of other tests must not inherit it, or the output below would not end.
    let terminal = open(&*name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).unwrap();
    command.stdin(Stdio::null()).stdout(terminal.try_clone().unwrap()).stderr(terminal);
    let mut child = command.spawn().unwrap();
    // It has the terminal open, too.
    drop(command);
    let output = read_to_end(File::from(controller));
    (child.wait().unwrap(), String::from_utf8_lossy(&output).into_owned())
}

/// Reads until no process has the terminal open. Linux then reports an error instead of the end of the file.
fn read_to_end(mut controller: File) -> Vec<u8> {
    let mut output = Vec::new();
    let mut part = [0; 4096];
    while let Ok(count) = controller.read(&mut part)
        && count > 0
    {
        output.extend_from_slice(&part[..count]);
    }
    output
}
