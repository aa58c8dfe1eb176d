//! What events about one pool have said.

use std::sync::Arc;

use vmpool_engine::Uid;
use vmpool_kit::announced::Announced;

/// What events about one pool have said, and what still lasts.
#[derive(Debug, Default)]
pub(crate) struct AnnouncedProblems {
    /// Disks that users detached, with their machines.
    pub(crate) detached: Announced<(Uid, Arc<str>)>,
    /// Messages about machines that do not become ready by themselves.
    pub(crate) unstarted: Announced<String>,
    /// Messages about the template that cannot be used.
    pub(crate) unresolved: Announced<String>,
    /// That healing is blocked. The numbers in the message change too often to announce each.
    pub(crate) blocked_healing: Announced<()>,
    /// That the pool has made no progress until its deadline.
    pub(crate) overdue: Announced<()>,
    /// Messages about invalid settings.
    pub(crate) invalid: Announced<String>,
}
