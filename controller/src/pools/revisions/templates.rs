//! The templates that a pass needs.

use std::collections::BTreeMap;

use vmpool_engine::ObjectId;
use vmpool_engine::model::UnusableTemplate;
use vmpool_engine::revisions::{Fingerprint, RevisionId};
use vmpool_platforms::Text;

/// The templates that the writes of a pass need.
#[derive(Clone, Debug, Default)]
pub(crate) struct Templates {
    /// The current template.
    pub(crate) wanted: Text,
    /// Why the current template cannot be used now.
    pub(crate) unresolved: Option<UnusableTemplate>,
    /// Whether [`Self::wanted`] nevertheless contains copies of objects that are being deleted, so that it is
    /// stored.
    pub(crate) is_partial: bool,
    /// The fingerprint of the current template.
    pub(crate) fingerprint: Option<Fingerprint>,
    /// The templates of earlier revisions that are merge bases.
    pub(crate) earlier: BTreeMap<RevisionId, Text>,
    /// The contents of revisions whose copies are restored.
    pub(crate) restored: BTreeMap<RevisionId, Text>,
    /// The objects of all stored revisions.
    pub(crate) stored: BTreeMap<RevisionId, ObjectId>,
    /// The number of the next revision.
    pub(crate) number: i64,
    /// The template hash of another controller for the current template. A machine with this hash has the
    /// current template.
    pub(crate) elsewhere: Option<RevisionId>,
}

impl Templates {
    /// The template of a revision; `None` if it is no longer stored.
    pub(crate) fn of(&self, id: &RevisionId, current: &RevisionId) -> Option<&Text> {
        if id == current { Some(&self.wanted) } else { self.earlier.get(id) }
    }
}
