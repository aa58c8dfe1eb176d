//! What a user sees after a story was told on a terminal.

use super::*;
use crate::terminal::VirtualTerminal;

/// An output that the screen and the log share, as a terminal is.
#[derive(Clone, Default)]
struct SharedOutput(Arc<Mutex<Vec<u8>>>);

impl Write for SharedOutput {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

const SIZE: TerminalSize = TerminalSize { columns: 20, rows: 6 };

/// A story on a terminal: the screen that shows it, and the output.
fn begin() -> (LiveScreen<SharedOutput>, SharedOutput) {
    let output = SharedOutput::default();
    (LiveScreen::new(output.clone(), || Some(SIZE)), output)
}

/// The rows that the user can read, including those that have been scrolled out.
fn read_rows(output: &SharedOutput) -> Vec<String> {
    let written = String::from_utf8(output.0.lock().clone()).unwrap();
    let mut terminal = VirtualTerminal::new(SIZE);
    // As the terminal driver does.
    terminal.feed(&written.replace('\n', "\r\n")).unwrap();
    terminal.rows()
}

#[test]
fn a_command_is_never_erased_and_its_table_shows_the_last_state() {
    let (mut screen, output) = begin();
    screen.print_line("$ apply");
    for table in ["pool 0/2", "pool 1/2\n  a", "pool 2/2\n  a\n  b"] {
        screen.show_table(table);
    }
    screen.print_line("2 ready\n\n$ scale");
    for table in ["pool 2/1\n  a\n  b", "pool 1/1\n  a"] {
        screen.show_table(table);
    }
    screen.print_line("1 ready");
    assert_eq!(
        read_rows(&output),
        ["$ apply", "pool 2/2", "  a", "  b", "2 ready", "", "$ scale", "pool 1/1", "  a", "1 ready"]
    );
}

#[test]
fn the_same_table_is_shown_once_after_each_command() {
    let (mut screen, output) = begin();
    for command in ["$ one", "$ two"] {
        screen.print_line(command);
        screen.show_table("pool 1/1");
        screen.show_table("pool 1/1");
    }
    assert_eq!(read_rows(&output), ["$ one", "pool 1/1", "$ two", "pool 1/1"]);
}

#[test]
fn a_log_line_is_above_the_table() {
    let (mut screen, mut output) = begin();
    screen.write_log(&mut output, b"INFO begin\n");
    screen.print_line("$ apply");
    screen.show_table("pool 0/1");
    screen.write_log(&mut output, b"WARN slow\n");
    screen.show_table("pool 1/1\n  a");
    screen.write_log(&mut output, b"WARN late\n");
    screen.print_line("1 ready");
    screen.write_log(&mut output, b"INFO end\n");
    assert_eq!(
        read_rows(&output),
        ["INFO begin", "$ apply", "WARN slow", "WARN late", "pool 1/1", "  a", "1 ready", "INFO end"]
    );
}

#[test]
fn a_table_beyond_the_terminal_is_cut_and_redrawn_completely() {
    let (mut screen, output) = begin();
    screen.print_line("$ scale");
    let wide = format!("pool {}\n", "x".repeat(40));
    for count in [1, 9, 10] {
        let machines: Vec<String> = (0..count).map(|number| format!("  {number}")).collect();
        screen.show_table(&format!("{wide}{}", machines.join("\n")));
    }
    assert_eq!(
        read_rows(&output),
        ["$ scale", "pool xxxxxxxxxxxxxx", "  0", "  1", "  2", "  ... and 7 more"]
    );
}

#[test]
fn without_a_terminal_every_table_is_printed() {
    let output = SharedOutput::default();
    let mut screen = LiveScreen::new(output.clone(), || None);
    screen.print_line("$ apply");
    for table in ["pool 0/1", "pool 0/1", "pool 1/1"] {
        screen.show_table(table);
    }
    screen.write_log(&mut output.clone(), b"INFO end\n");
    let written = String::from_utf8(output.0.lock().clone()).unwrap();
    assert_eq!(written, "$ apply\npool 0/1\npool 1/1\nINFO end\n");
}
