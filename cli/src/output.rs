//! The output: text for users, JSON or YAML for programs.

use std::io::Write as _;

use anyhow::{Context as _, Result};
use serde::Serialize;

use crate::arguments::Format;

/// Prints `text` for users, or `data` for programs.
///
/// # Errors
/// The output cannot be written, for example because the reader of a pipe has ended.
pub(crate) fn print(format: Format, text: &str, data: &impl Serialize) -> Result<()> {
    let text = match format {
        Format::Text => text.to_owned(),
        Format::Json => serde_json::to_string_pretty(data).context("writing JSON")? + "\n",
        Format::Yaml => serde_yaml_ng::to_string(data).context("writing YAML")?,
    };
    write(&text)
}

/// Prints a text. Without a terminal, its styles are removed.
///
/// # Errors
/// The output cannot be written.
pub(crate) fn write(text: &str) -> Result<()> {
    let mut out = anstream::stdout();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("writing the output")
}
