//! The output: text for users, JSON or YAML for programs.

use std::io::Write as _;

use anyhow::{Context as _, Result};
use serde::Serialize;

use crate::format::Format;
use crate::screen::{draw_screen, terminal_height};
use crate::table::Tone;
use crate::visible::escape_except_styles;

/// Prints `text` for users, or `data` for programs. Data has no names.
///
/// # Errors
/// The output cannot be written, for example because the reader of a pipe has ended.
pub(crate) fn print_output(format: &Format, text: &str, data: &impl Serialize) -> Result<()> {
    print_objects(format, text, &[], data)
}

/// As [`print_output`], for objects with these names.
///
/// # Errors
/// As [`print_output`].
pub(crate) fn print_objects(
    format: &Format,
    text: &str,
    names: &[String],
    data: &impl Serialize,
) -> Result<()> {
    match format {
        Format::Text | Format::Wide => print_text(text),
        Format::Name => print_text(&join_lines(names)),
        Format::JsonPath(template) => {
            print_text(&template.render(&serde_json::to_value(data).context("writing JSON")?))
        }
        // The escapes of the text are those of JSON, too.
        Format::Json => print_text(&(serde_json::to_string_pretty(data).context("writing JSON")? + "\n")),
        // YAML has escapes in quoted text only, and the library writes them itself.
        Format::Yaml => write_bytes(&serde_yaml_ng::to_string(data).context("writing YAML")?),
    }
}

/// Prints a text. Without a terminal, its styles are removed. Other control characters than those of styles,
/// line ends and tabs are shown as escapes.
///
/// # Errors
/// The output cannot be written.
pub(crate) fn print_text(text: &str) -> Result<()> {
    write_bytes(&escape_except_styles(text, &Tone::sequences()))
}

/// Draws a text in place of the previous one on a terminal.
///
/// # Errors
/// The output cannot be written.
pub(crate) fn print_screen(text: &str, is_first: bool) -> Result<()> {
    // Only the control sequences of the screen come after the escapes.
    let text = escape_except_styles(text, &Tone::sequences());
    write_bytes(&draw_screen(&text, terminal_height(), is_first))
}

/// Prints a note about what the output lacks, on stderr, so that programs can read the output.
pub(crate) fn print_note(text: &str) {
    let note = escape_except_styles(text, &Tone::sequences());
    // If stderr is closed, nothing can be reported.
    let _ = anstream::stderr().write_all(note.as_bytes());
}

/// Prints objects as the documents of one file.
///
/// # Errors
/// As [`print_output`].
pub(crate) fn print_yaml_documents(objects: &[impl Serialize]) -> Result<()> {
    for (at, object) in objects.iter().enumerate() {
        let separator = if at == 0 { "" } else { "---\n" };
        write_bytes(&format!("{separator}{}", serde_yaml_ng::to_string(object).context("writing YAML")?))?;
    }
    Ok(())
}

fn write_bytes(text: &str) -> Result<()> {
    let mut out = anstream::stdout();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("writing the output")
}

/// Each text in a line of its own.
fn join_lines(texts: &[String]) -> String {
    let lines: Vec<String> = texts.iter().map(|text| format!("{text}\n")).collect();
    lines.concat()
}
