//! The current template, with copies of the objects that it refers to.

use serde_json::Value;
use vmpool_engine::model::Unresolved;
use vmpool_engine::revision::{Fingerprint, RevisionId};
use vmpool_platforms::{Found, Pins, Platform, Resolution};

use super::content::content;
use super::known::Revisions;
use crate::context::Context;
use crate::live::ReadError;
use crate::pool_entry::PoolEntry;

/// The template that the machines of a pool are created from.
pub(super) struct Wanted {
    pub(super) content: Value,
    /// Whether the pool would pin what the template refers to, if the platform let it.
    pub(super) pins_unavailable: bool,
}

/// The template in the spec of the pool, as far as the platform lets the controller use it.
pub(super) fn wanted<P: Platform, R>(context: &Context<P>, pool: &PoolEntry<P, R>) -> Wanted {
    let mut content = P::template(&pool.object);
    let pins_unavailable = context.configuration().expands_references && P::Pins::write_out(&mut content);
    Wanted { content, pins_unavailable }
}

/// The fingerprint of the template that the machines of a pool are created from.
pub(super) fn fingerprint<P: Platform, R>(
    context: &Context<P>,
    pool: &PoolEntry<P, R>,
    revisions: &mut Revisions,
) -> Fingerprint {
    let facts = &pool.facts;
    let key = (facts.generation, facts.template_variant.clone(), context.configuration().expands_references);
    revisions.fingerprint(key, || Fingerprint::of(&P::canonical(&wanted(context, pool).content)))
}

/// The template in the spec of the pool. If it refers to objects, the result contains the copies of them that its stored
/// revision contains. If the plan stores the revision (`stores`), the result contains the copies of another stored
/// revision with the same template, or else new ones.
///
/// A revision that was stored without copies stays without them: its machines do not have them either.
pub(super) async fn template<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    revisions: &mut Revisions,
    stores: bool,
) -> Result<Result<Value, Unresolved>, ReadError> {
    let template = wanted(context, pool).content;
    if !P::Pins::has_references(&template) {
        return Ok(Ok(template));
    }
    let fingerprint = fingerprint(context, pool, revisions);
    // The current one first, and then the latest.
    let mut same: Vec<RevisionId> = revisions.history.with_content(&fingerprint).cloned().collect();
    same.sort_by_key(|id| *id == pool.facts.revision.id);
    for id in same.iter().rev() {
        let content = content(context, pool, revisions, id).await?;
        if let Some(inherited) = content.and_then(|content| P::Pins::inherit(&template, &content.value())) {
            return Ok(Ok(inherited));
        }
    }
    if !stores {
        return Ok(Ok(template));
    }
    if revisions.in_backoff {
        return Err(ReadError::InBackoff);
    }
    let mut found = Found::new();
    loop {
        match P::Pins::resolve(&pool.object, &template, &context.configuration(), &found) {
            Resolution::Needs(reference) => {
                let object = context.get_referenced(&reference).await?;
                found.insert(reference, object);
            }
            Resolution::Resolved(template) => return Ok(Ok(template)),
            Resolution::Unresolved(unresolved) => return Ok(Err(unresolved)),
        }
    }
}
