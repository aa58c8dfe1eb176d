//! The section of a version in the changelog.

use anyhow::{Result, bail};

/// The text below the heading of the version, or below `Unreleased` if the version has no heading yet.
///
/// # Errors
/// The changelog has neither.
pub(super) fn find_version_section(changelog: &str, version: &str) -> Result<String> {
    let sections = || changelog.split("\n## ").skip(1);
    let is_of = |section: &&str, title: &str| {
        let heading = section.lines().next().unwrap_or_default().trim_start_matches('[');
        let rest = heading.strip_prefix(title);
        rest.is_some_and(|rest| !rest.starts_with(|next: char| next.is_ascii_alphanumeric() || next == '.'))
    };
    let found = sections()
        .find(|section| is_of(section, version))
        .or_else(|| sections().find(|section| is_of(section, "Unreleased")));
    let Some((_, text)) = found.and_then(|section| section.split_once('\n')) else {
        bail!("CHANGELOG.md has no section {version}, and none with the title Unreleased");
    };
    Ok(format!("{}\n", text.trim()))
}
