//! The content of the sources of disks, and its record on machines.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use vmpool_api::annotations;

/// On machines: from which content the disks of each disk template are created, a JSON object with names of
/// disk templates. Only the controller writes it, in the create of the machine.
pub const DISK_SOURCES: &str = annotations::DISK_SOURCES;

/// The longest record that is read, in bytes. A longer one counts as missing.
pub const LONGEST_RECORD: usize = 8 * 1024;

/// What the source of a disk template leads to now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskContent {
    /// The object that the disk template names, as `KIND/NAMESPACE/NAME` or `KIND/NAME`.
    pub source: Arc<str>,
    /// Identity of the content.
    pub id: Arc<str>,
    /// When the object with the content was created.
    pub created: Timestamp,
}

impl DiskContent {
    /// Source and content as one text, for the record.
    fn record(&self) -> String {
        format!("{}@{}", self.source, self.id)
    }
}

/// The content of each disk template whose disks go with their machines, by the names of the templates. A
/// template whose source is missing or not ready is omitted.
pub type DiskContents = BTreeMap<Arc<str>, DiskContent>;

/// The value of [`DISK_SOURCES`] for a machine that is created now; `None` if there is nothing to record.
pub fn format_disk_sources(contents: &DiskContents) -> Option<String> {
    let record: BTreeMap<&str, String> =
        contents.iter().map(|(template, content)| (&**template, content.record())).collect();
    (!record.is_empty()).then(|| serde_json::to_string(&record).unwrap_or_default())
}

/// The record among the annotations of a machine, as it is stored; `None` if the machine has none, or one
/// that is too long.
pub fn read_disk_sources(annotations: Option<&BTreeMap<String, String>>) -> Option<&str> {
    let text = annotations?.get(DISK_SOURCES)?;
    (text.len() <= LONGEST_RECORD).then_some(text)
}

/// The entries of a record, by disk template. A record that cannot be read has none.
#[derive(Debug, Default)]
pub(super) struct DiskSourceRecord(BTreeMap<String, String>);

impl DiskSourceRecord {
    /// Reads the text on a machine.
    pub(super) fn parse(text: &str) -> Self {
        Self(serde_json::from_str(text).unwrap_or_default())
    }

    /// How the recorded content of a disk template compares with the content now; `None` if the record has no
    /// such template.
    pub(super) fn compare(&self, template: &str, content: &DiskContent) -> Option<ContentComparison> {
        let (source, id) = self.0.get(template)?.rsplit_once('@')?;
        Some(match (source == &*content.source, id == &*content.id) {
            (false, _) => ContentComparison::OtherSource,
            (true, false) => ContentComparison::OtherContent,
            (true, true) => ContentComparison::Same,
        })
    }
}

/// How the recorded content of a disk compares with the content now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ContentComparison {
    /// It is the same.
    Same,
    /// The disk template named another source when the machine was created.
    OtherSource,
    /// The source has other content.
    OtherContent,
}
