//! Settings of disk images.

use std::time::Duration;

use vmpool_diskimage::objects::INSTANCETYPE_LABELS;
use vmpool_diskimage::settings::ImportLimits;
use vmpool_diskimage::source::SourceUrl;

/// Settings of disk images.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageSettings {
    /// Limits of imports.
    pub limits: ImportLimits,
    /// Maximum time between two passes of an image.
    pub resync: Duration,
    /// Prefixes of the labels that the objects of an image get from it.
    pub copied_label_prefixes: Vec<String>,
    /// URLs at which the URL of every image must begin. If there are none, all are allowed.
    pub allowed_urls: Vec<SourceUrl>,
    /// Whether wrappers are reconciled.
    pub wrappers: bool,
}

impl Default for ImageSettings {
    fn default() -> Self {
        Self {
            limits: ImportLimits::default(),
            resync: Duration::from_mins(5),
            copied_label_prefixes: vec![INSTANCETYPE_LABELS.to_owned()],
            allowed_urls: Vec::new(),
            wrappers: false,
        }
    }
}
