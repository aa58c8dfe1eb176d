//! Why an import or an image is not ready: the reasons of the condition `Ready`, and what the messages of CDI
//! mean.

use std::fmt;

/// Reason of the condition `Ready` of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DiskImageReason {
    /// The image is ready.
    Synced,
    /// The import waits for its turn.
    Queued,
    /// The import transfers data.
    Syncing,
    /// An object of the image could not be created.
    ResourceCreationFailed,
    /// An object of the image could not be changed.
    ResourceUpdateFailed,
    /// The transfer was restarted too often.
    RetryLimitExceeded,
    /// The source has no such file or container image.
    MissingSourceArtifact,
    /// The attempt took too long.
    SyncAttemptDurationExceeded,
    /// The attempt failed for another reason, which the message describes.
    UnknownSyncFailure,
    /// The data is imported, and its snapshot is not ready yet.
    SnapshotPending,
    /// The snapshot failed.
    SnapshotFailed,
    /// The snapshot of a ready image was lost. The controller takes another one.
    SnapshotLost,
    /// Snapshot and claim of a ready image were lost. The controller imports the data again.
    BackingDataLost,
    /// An object with the name of the image exists, and does not belong to it.
    NameConflict,
    /// All attempts together took too long.
    SyncDeadlineExceeded,
    /// Data of the image was lost too often.
    HealLimitExceeded,
    /// The image is being deleted.
    Terminating,
}

impl DiskImageReason {
    /// All reasons.
    pub const ALL: [Self; 17] = [
        Self::Synced,
        Self::Queued,
        Self::Syncing,
        Self::ResourceCreationFailed,
        Self::ResourceUpdateFailed,
        Self::RetryLimitExceeded,
        Self::MissingSourceArtifact,
        Self::SyncAttemptDurationExceeded,
        Self::UnknownSyncFailure,
        Self::SnapshotPending,
        Self::SnapshotFailed,
        Self::SnapshotLost,
        Self::BackingDataLost,
        Self::NameConflict,
        Self::SyncDeadlineExceeded,
        Self::HealLimitExceeded,
        Self::Terminating,
    ];

    /// The reasons of failed attempts, which are label values of metrics.
    pub const OF_ATTEMPTS: [Self; 8] = [
        Self::ResourceCreationFailed,
        Self::ResourceUpdateFailed,
        Self::RetryLimitExceeded,
        Self::MissingSourceArtifact,
        Self::SyncAttemptDurationExceeded,
        Self::UnknownSyncFailure,
        Self::SnapshotFailed,
        Self::SyncDeadlineExceeded,
    ];

    /// The reason with this text.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == text)
    }

    /// The text in conditions, events and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Synced => "Synced",
            Self::Queued => "Queued",
            Self::Syncing => "Syncing",
            Self::ResourceCreationFailed => "ResourceCreationFailed",
            Self::ResourceUpdateFailed => "ResourceUpdateFailed",
            Self::RetryLimitExceeded => "RetryLimitExceeded",
            Self::MissingSourceArtifact => "MissingSourceArtifact",
            Self::SyncAttemptDurationExceeded => "SyncAttemptDurationExceeded",
            Self::UnknownSyncFailure => "UnknownSyncFailure",
            Self::SnapshotPending => "SnapshotPending",
            Self::SnapshotFailed => "SnapshotFailed",
            Self::SnapshotLost => "SnapshotLost",
            Self::BackingDataLost => "BackingDataLost",
            Self::NameConflict => "NameConflict",
            Self::SyncDeadlineExceeded => "SyncDeadlineExceeded",
            Self::HealLimitExceeded => "HealLimitExceeded",
            Self::Terminating => "Terminating",
        }
    }
}

impl fmt::Display for DiskImageReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Whether the message of a transfer says that the source does not have the data: the HTTP status 404, or a
/// registry's "manifest unknown".
///
/// Only the condition `Running` of a DataVolume contains such messages. Others say "not found" in harmless
/// situations. The number must be a word of its own: 404 is also a part of sizes and addresses.
pub fn is_missing_artifact(message: &str) -> bool {
    let lowercase = message.to_ascii_lowercase();
    if lowercase.contains("manifest unknown") || lowercase.contains("manifest_unknown") {
        return true;
    }
    let words: Vec<&str> = lowercase
        .split(|letter: char| letter.is_whitespace() || matches!(letter, ',' | ';' | '"' | '(' | ')' | '='))
        .map(|word| word.trim_matches(|letter: char| matches!(letter, ':' | '.' | '\'')))
        .filter(|word| !word.is_empty())
        .collect();
    words.iter().enumerate().any(|(at, word)| {
        let before = at.checked_sub(1).and_then(|at| words.get(at)).copied().unwrap_or_default();
        let after: Vec<&str> = words.iter().skip(at + 1).take(2).copied().collect();
        let introduced =
            before.starts_with("http") || matches!(before, "status" | "code" | "got" | "error" | "returned");
        *word == "404" && (introduced || after == ["not", "found"])
    })
}

/// The text without the queries and fragments of the URLs in it, because a query may contain a signature.
/// URLs may be relative, as in the messages of HTTP clients about redirects: `/disk.qcow2?sig=x`.
pub fn without_queries(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    for word in text.split_inclusive(char::is_whitespace) {
        let trimmed = word.trim_end();
        match find_url_query(trimmed) {
            Some(end) => {
                kept.push_str(&trimmed[..end]);
                // Punctuation after the URL, for example a quotation mark, is not part of it.
                let rest = &trimmed[end..];
                let after = rest.trim_end_matches(['"', '\'', ')', ',', '.', ':', ';']);
                kept.push_str(&rest[after.len()..]);
                kept.push_str(&word[trimmed.len()..]);
            }
            None => kept.push_str(word),
        }
    }
    kept
}

/// Where the query or the fragment of the first URL in a word begins.
fn find_url_query(word: &str) -> Option<usize> {
    let of_absolute = word.find("://").and_then(|scheme| Some(scheme + word[scheme..].find(['?', '#'])?));
    let mut marks = word.match_indices('?').map(|(at, _)| at);
    let of_relative = marks.find(|at| word[..*at].contains('/') || word[at + 1..].contains('='));
    of_absolute.into_iter().chain(of_relative).min()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::cdi("Unable to process data: expected status code 200, got 404. Status: 404 Not Found", true)]
    #[case::status_line("HTTP/1.1 404 Not Found", true)]
    #[case::go("unexpected status: 404", true)]
    #[case::registry("reading manifest 43 in registry.example.com/fedora: manifest unknown", true)]
    #[case::registry_code("MANIFEST_UNKNOWN: no such tag", true)]
    #[case::server_error("expected status code 200, got 503", false)]
    #[case::a_size("transferred 404 of 2048 bytes", false)]
    #[case::a_port("dial tcp 10.0.0.1:404: connection refused", false)]
    #[case::a_part_of_an_address("https://images.example.com/404/disk.qcow2: connection reset", false)]
    #[case::a_claim("PVC web not found", false)]
    #[case::empty("", false)]
    fn only_an_answer_of_the_source_means_that_the_data_is_missing(
        #[case] message: &str,
        #[case] missing: bool,
    ) {
        assert_eq!(is_missing_artifact(message), missing);
    }

    #[rstest]
    #[case::a_signature("get https://h/a.raw?sig=secret failed", "get https://h/a.raw failed")]
    #[case::quoted("Get \"https://h/a?sig=secret\": EOF", "Get \"https://h/a\": EOF")]
    #[case::two("https://h/a?x=1 https://h/b?y=2", "https://h/a https://h/b")]
    #[case::a_fragment("https://h/a#token", "https://h/a")]
    #[case::no_url("what? nothing", "what? nothing")]
    #[case::relative("Get \"/disk.qcow2?X-Amz-Signature=secret\": 403", "Get \"/disk.qcow2\": 403")]
    #[case::a_request_line("GET /a?sig=secret HTTP/1.1", "GET /a HTTP/1.1")]
    #[case::without_a_slash("redirect to disk.qcow2?sig=secret.", "redirect to disk.qcow2.")]
    #[case::relative_before_absolute("(/a?sig=secret,https://h/b?x=1)", "(/a)")]
    #[case::a_number("vm/pool#12 is full", "vm/pool#12 is full")]
    #[case::newlines("a\nhttps://h/a?x\nb", "a\nhttps://h/a\nb")]
    fn no_message_contains_the_query_of_a_url(#[case] text: &str, #[case] expected: &str) {
        assert_eq!(without_queries(text), expected);
    }
}
