//! Since when the sources of a pool have led to their content.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::content::{DiskContent, DiskContents};

/// How long a source must have led to its content before machines with other content are outdated. A source
/// that changes again and again makes nothing outdated.
pub const SETTLING_TIME: Duration = Duration::from_mins(1);

/// Since when the sources of a pool have led to their content, by disk template.
#[derive(Clone, Debug, Default)]
pub struct ContentClock {
    since: BTreeMap<Arc<str>, ContentSince>,
}

#[derive(Clone, Debug)]
struct ContentSince {
    source: Arc<str>,
    id: Arc<str>,
    uptime: Duration,
}

impl ContentSince {
    fn is_of(&self, content: &DiskContent) -> bool {
        (&self.source, &self.id) == (&content.source, &content.id)
    }
}

impl ContentClock {
    /// Records what the sources lead to now. The time of a source that leads to other content, or to none,
    /// begins again.
    pub(crate) fn observe(&mut self, contents: &DiskContents, uptime: Duration) {
        self.since.retain(|template, since| contents.get(template).is_some_and(|now| since.is_of(now)));
        for (template, DiskContent { source, id, .. }) in contents {
            let new = || ContentSince { source: source.clone(), id: id.clone(), uptime };
            self.since.entry(template.clone()).or_insert_with(new);
        }
    }

    /// Whether the source of this template has led to its content for [`SETTLING_TIME`].
    pub(super) fn is_settled(&self, template: &str, uptime: Duration) -> bool {
        self.since.get(template).is_some_and(|since| since.time_left(uptime).is_zero())
    }

    /// The time until one more source has led to its content for [`SETTLING_TIME`]; `None` if all have.
    pub fn next_settled(&self, uptime: Duration) -> Option<Duration> {
        self.since.values().map(|since| since.time_left(uptime)).filter(|left| !left.is_zero()).min()
    }
}

impl ContentSince {
    fn time_left(&self, uptime: Duration) -> Duration {
        SETTLING_TIME.saturating_sub(uptime.saturating_sub(self.uptime))
    }
}
