//! The current template, with copies of the objects that it refers to.

use serde_json::Value;
use vmpool_engine::model::UnusableTemplate;
use vmpool_engine::revisions::Fingerprint;
use vmpool_platforms::{
    FetchedObjects, Platform, Resolution, RevisionObjects as _, TemplateCopies, UncopiedObject,
};

use super::content::read_revision_content;
use super::pool_revisions::{PoolRevisions, RevisionChange};
use crate::pools::context::PoolContext;
use crate::pools::live::ReadError;
use crate::pools::pool_entry::PoolEntry;

/// The template that the machines of a pool are created from.
pub(super) struct SpecTemplate {
    pub(super) content: Value,
    /// Whether the pool would pin what the template refers to, if the platform let it.
    pub(super) pins_unavailable: bool,
}

/// The template in the spec of the pool, as far as the platform lets the controller use it.
pub(super) fn spec_template<P: Platform, R>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P, R>,
) -> SpecTemplate {
    let mut content = P::template(&pool.object);
    let pins_unavailable =
        context.configuration().expands_references && P::TemplateCopies::write_out(&mut content);
    SpecTemplate { content, pins_unavailable }
}

/// The fingerprint of the template that the machines of a pool are created from.
pub(super) fn template_fingerprint<P: Platform, R>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P, R>,
    revisions: &mut PoolRevisions,
) -> Fingerprint {
    let facts = &pool.facts;
    let key = (facts.generation, facts.template_variant.clone(), context.configuration().expands_references);
    revisions.fingerprint(key, || {
        let template = spec_template(context, pool).content;
        (P::fingerprint(&template), P::Revisions::parts(&template))
    })
}

/// The template in the spec of the pool, with the copies that the latest stored revision with this template
/// contains; without any if no such revision contains copies.
async fn template_with_inherited_copies<P: Platform, R>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P, R>,
    revisions: &mut PoolRevisions,
) -> Result<Value, ReadError> {
    let template = spec_template(context, pool).content;
    let fingerprint = template_fingerprint(context, pool, revisions);
    while let Some(id) = revisions.inheritable(&fingerprint).cloned() {
        let content = read_revision_content(context, pool, revisions, &id).await?;
        if let Some(inherited) =
            content.and_then(|content| P::TemplateCopies::inherit_copies(&template, &content.value()))
        {
            return Ok(inherited);
        }
        revisions.record(RevisionChange::Gone(id), context.leader.env.uptime());
    }
    Ok(template)
}

/// The objects that the template refers to and of which no stored revision with this template contains
/// copies.
pub(super) async fn find_uncopied_referents<P: Platform, R>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P, R>,
    revisions: &mut PoolRevisions,
) -> Result<Vec<UncopiedObject>, ReadError> {
    let template = template_with_inherited_copies(context, pool, revisions).await?;
    Ok(P::TemplateCopies::uncopied_objects(&template, &pool.facts.namespace))
}

/// A template for the writes of a pass.
pub(super) enum ResolvedTemplate {
    /// It contains copies of all objects that it refers to.
    Usable(Value),
    /// No machine can be created from it now. If there is a content, it contains some of the copies.
    Unusable(Option<Value>, UnusableTemplate),
}

/// The template in the spec of the pool. If it refers to objects, the result contains the copies of them that
/// a stored revision with this template contains. If the plan stores the revision (`stores`), the result also
/// contains new copies of the others.
pub(super) async fn resolve_template<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    revisions: &mut PoolRevisions,
    stores: bool,
) -> Result<ResolvedTemplate, ReadError> {
    let template = template_with_inherited_copies(context, pool, revisions).await?;
    let is_usable =
        !P::TemplateCopies::has_references(&template) || !P::TemplateCopies::lacks_copies(&template);
    if is_usable || !stores {
        return Ok(ResolvedTemplate::Usable(template));
    }
    if revisions.in_backoff {
        return Err(ReadError::InBackoff);
    }
    let resolve = |found: &FetchedObjects| {
        P::TemplateCopies::resolve(&pool.object, &template, &context.configuration(), found)
    };
    let (content, unresolved, failure) = match context.decide(resolve).await? {
        Resolution::Resolved(template) => return Ok(ResolvedTemplate::Usable(template)),
        Resolution::Partial(template, unresolved, failure) => (Some(template), unresolved, failure),
        Resolution::Unresolved(unresolved, failure) => (None, unresolved, failure),
    };
    context.metrics.types.failed(failure);
    Ok(ResolvedTemplate::Unusable(content, unresolved))
}
