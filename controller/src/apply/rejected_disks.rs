//! Disks because of which the API server rejected a machine.

use std::time::Duration;

use vmpool_engine::Memory;
use vmpool_engine::model::{DiskDraft, DiskSource};

use crate::write::WriteError;

/// Records which of `disks` were the reason for a rejected machine. If the message of the API server names a disk, the
/// next plan uses another one. If it only mentions disks in general, plans use other disks after a few rejections.
pub(super) fn record_rejected_disks(
    memory: &mut Memory,
    disks: &[DiskDraft],
    error: &WriteError,
    uptime: Duration,
) {
    let WriteError::Refused { status, .. } = error else { return };
    let existing = || disks.iter().filter(|draft| draft.source != DiskSource::New).map(|draft| &draft.name);
    let mut refused: Vec<_> = existing().filter(|disk| names(&status.message, disk)).cloned().collect();
    for disk in &refused {
        memory.refuse_disk(disk, uptime);
    }
    if refused.is_empty() && blames_a_disk(status.code, &status.message) {
        refused = memory.suspect_disks(existing(), uptime);
    }
    for disk in refused {
        tracing::warn!(
            disk = &*disk,
            "a machine was rejected because of a disk: the controller uses another disk"
        );
    }
}

/// Whether a rejection is about a disk of the machine without naming it. A busy server and an exceeded quota are not
/// about a disk, because they would also reject the machine with another disk.
fn blames_a_disk(code: u16, message: &str) -> bool {
    /// Words that the platform and its storage use for disks.
    const WORDS: [&str; 6] = ["disk", "disks", "volume", "volumes", "device", "devices"];
    let message = message.to_ascii_lowercase();
    let is_verdict = !matches!(code, 401 | 404 | 409 | 429) && !message.contains("exceeded quota");
    is_verdict && WORDS.iter().any(|word| names(&message, word))
}

/// Whether `text` contains `name` as a whole word. Names of disks consist of letters, digits, dashes and dots.
fn names(text: &str, name: &str) -> bool {
    let in_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
    text.match_indices(name).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + name.len()..].chars().next();
        !before.is_some_and(in_name) && !after.is_some_and(in_name)
    })
}

#[cfg(test)]
mod tests;
