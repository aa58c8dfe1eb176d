//! The guards, and what the schedules say when one is missing.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

/// Where the guards are listed, from the top of the tree.
const LIST: &str = "hack/teeth.yaml";

/// Something in our programs that keeps something else from happening.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Guard {
    /// What to call it.
    pub(crate) name: String,
    /// What it is for.
    pub(crate) why: String,
    /// Where it is: in several places, if one would do without the other.
    pub(crate) places: Vec<Place>,
}

/// One place of a guard, and what it looks like without it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Place {
    /// The file.
    pub(crate) file: PathBuf,
    /// The text that is there once.
    pub(crate) find: String,
    /// The text in its place.
    pub(crate) replace: String,
}

impl Place {
    /// The text of its file without the guard.
    ///
    /// # Errors
    /// If it is not there, or more than once: the list has to follow the code.
    pub(crate) fn remove_from(&self, text: &str) -> Result<String> {
        let places: Vec<_> = places(text, self.find.trim()).collect();
        let [place] = &*places else {
            let (file, count) = (self.file.display(), places.len());
            bail!("{file} has {count} times what {LIST} names: {:?}", self.find);
        };
        Ok([&text[..place.start], &self.replace, &text[place.end..]].concat())
    }
}

/// Where `find` is in `text`, however the lines are broken and indented.
fn places<'a>(text: &'a str, find: &'a str) -> impl Iterator<Item = Range<usize>> + 'a {
    text.char_indices().filter_map(move |(start, _)| {
        let mut rest = &text[start..];
        for (index, word) in find.split_whitespace().enumerate() {
            let next = if index == 0 { rest } else { rest.trim_start() };
            // Two words of the list are two words of the text.
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
/// If the list cannot be read, or names a place that is not there.
pub(crate) fn read(root: &Path) -> Result<Vec<Guard>> {
    let text = fs::read_to_string(root.join(LIST)).with_context(|| format!("reading {LIST}"))?;
    let guards: Vec<Guard> = serde_yaml_ng::from_str(&text).with_context(|| format!("reading {LIST}"))?;
    for guard in &guards {
        for place in &guard.places {
            let file = root.join(&place.file);
            let text = fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
            place.remove_from(&text).with_context(|| guard.name.clone())?;
        }
    }
    Ok(guards)
}

/// The violation that a line of the schedules tells of.
pub(super) fn violation(line: &str) -> Option<String> {
    let told = line.strip_prefix("violation: ");
    // A story that fails with nothing else broken, or a program that died in one.
    let other = || (line.contains(", undisturbed: ") || line.contains(" panicked at ")).then_some(line);
    told.or_else(other).map(str::to_owned)
}
