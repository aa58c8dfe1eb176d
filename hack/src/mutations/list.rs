//! The list of guards, and recognition of violations in the output of the schedules.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

/// The path of the list.
const LIST: &str = "hack/mutations.yaml";

/// Code in the programs that prevents a violation.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CodeGuard {
    /// The name.
    pub(crate) name: String,
    /// What it prevents.
    pub(crate) why: String,
    /// Its locations. There are several if one would be enough to prevent the violation.
    pub(crate) locations: Vec<GuardLocation>,
}

/// One location of a guard, and its replacement.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GuardLocation {
    /// The file.
    pub(crate) file: PathBuf,
    /// The code of the guard; it must occur exactly once.
    pub(crate) find: String,
    /// The code that replaces it.
    pub(crate) replace: String,
}

impl GuardLocation {
    /// The text of the file without the guard.
    ///
    /// # Errors
    /// The code does not occur exactly once: the list must be updated.
    pub(crate) fn remove_from(&self, text: &str) -> Result<String> {
        let locations: Vec<_> = locations(text, self.find.trim()).collect();
        let [location] = &*locations else {
            let (file, count) = (self.file.display(), locations.len());
            bail!("{file} contains the code from {LIST} {count} times instead of once: {:?}", self.find);
        };
        Ok([&text[..location.start], &self.replace, &text[location.end..]].concat())
    }
}

/// The occurrences of `find` in `text`, regardless of line breaks and indentation.
fn locations<'a>(text: &'a str, find: &'a str) -> impl Iterator<Item = Range<usize>> + 'a {
    text.char_indices().filter_map(move |(start, _)| {
        let mut rest = &text[start..];
        for (index, word) in find.split_whitespace().enumerate() {
            let next = if index == 0 { rest } else { rest.trim_start() };
            // Two words of the list must be two words of the text.
            if index > 0 && next.len() == rest.len() {
                return None;
            }
            rest = next.strip_prefix(word)?;
        }
        Some(start..text.len() - rest.len())
    })
}

/// All guards.
///
/// # Errors
/// The list cannot be read, or code that it lists does not exist.
pub(crate) fn read_code_guards(root: &Path) -> Result<Vec<CodeGuard>> {
    let text = fs::read_to_string(root.join(LIST)).with_context(|| format!("reading {LIST}"))?;
    let guards: Vec<CodeGuard> = serde_yaml_ng::from_str(&text).with_context(|| format!("reading {LIST}"))?;
    for guard in &guards {
        for location in &guard.locations {
            let file = root.join(&location.file);
            let text = fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
            location.remove_from(&text).with_context(|| guard.name.clone())?;
        }
    }
    Ok(guards)
}

/// The violation in a line of the schedules' output.
pub(super) fn violation_in_line(line: &str) -> Option<String> {
    let violation = line.strip_prefix("violation: ");
    // A scenario that fails without faults, or a panic.
    let other = || (line.contains(", without faults: ") || line.contains(" panicked at ")).then_some(line);
    violation.or_else(other).map(str::to_owned)
}
