//! The contents of stored revisions, which are read when they are needed.

use vmpool_engine::revisions::RevisionId;
use vmpool_platforms::{Platform, Text};

use super::pool_revisions::{PoolRevisions, RevisionChange};
use super::stored::RevisionObject;
use crate::pools::context::PoolContext;
use crate::pools::live::ReadError;
use crate::pools::pool_entry::PoolEntry;

/// The content of a stored revision; `None` if a client deleted it.
pub(super) async fn read_revision_content<P: Platform, R>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P, R>,
    revisions: &mut PoolRevisions,
    id: &RevisionId,
) -> Result<Option<Text>, ReadError> {
    if let Some(content) = revisions.contents.get(id) {
        return Ok(Some(content.clone()));
    }
    let Some(object) = revisions.objects.get(id) else { return Ok(None) };
    if revisions.in_backoff {
        return Err(ReadError::InBackoff);
    }
    let live = context.get_live::<RevisionObject>(&pool.facts.namespace, &object.name).await?;
    let live = live.filter(|live| live.metadata.uid.as_deref() == Some(object.uid.as_str()));
    let Some(live) = live else {
        tracing::warn!(revision = id.as_str(), "a stored revision was deleted");
        revisions.record(RevisionChange::Gone(id.clone()), context.leader.env.uptime());
        return Ok(None);
    };
    let content = live.data;
    revisions.contents.insert(id.clone(), content.clone());
    Ok(Some(content))
}
