//! The current template, with copies of the objects that it refers to.

use serde_json::Value;
use vmpool_engine::model::Unresolved;
use vmpool_engine::revision::Fingerprint;
use vmpool_platforms::{Found, Pins, Platform, Referent, Resolution, Revisions as _};

use super::content::content;
use super::known::{Change, Revisions};
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
    revisions.fingerprint(key, || {
        let template = wanted(context, pool).content;
        (P::fingerprint(&template), P::Revisions::parts(&template))
    })
}

/// The template in the spec of the pool, with the copies that the latest stored revision with this template contains; without any if
/// no such revision contains copies.
async fn inherited<P: Platform, R>(
    context: &Context<P>,
    pool: &PoolEntry<P, R>,
    revisions: &mut Revisions,
) -> Result<Value, ReadError> {
    let template = wanted(context, pool).content;
    let fingerprint = fingerprint(context, pool, revisions);
    while let Some(id) = revisions.inheritable(&fingerprint).cloned() {
        let content = content(context, pool, revisions, &id).await?;
        if let Some(inherited) = content.and_then(|content| P::Pins::inherit(&template, &content.value())) {
            return Ok(inherited);
        }
        revisions.record(Change::Gone(id), context.env.uptime());
    }
    Ok(template)
}

/// The objects that the template refers to and of which no stored revision with this template contains copies.
pub(super) async fn uncopied<P: Platform, R>(
    context: &Context<P>,
    pool: &PoolEntry<P, R>,
    revisions: &mut Revisions,
) -> Result<Vec<Referent>, ReadError> {
    let template = inherited(context, pool, revisions).await?;
    Ok(P::Pins::uncopied(&template, &pool.facts.namespace))
}

/// A template for the writes of a pass.
pub(super) enum Template {
    /// It contains copies of all objects that it refers to.
    Usable(Value),
    /// No machine can be created from it now. If there is a content, it contains some of the copies.
    Unusable(Option<Value>, Unresolved),
}

/// The template in the spec of the pool. If it refers to objects, the result contains the copies of them that a stored revision
/// with this template contains. If the plan stores the revision (`stores`), the result also contains new copies of the others.
pub(super) async fn template<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    revisions: &mut Revisions,
    stores: bool,
) -> Result<Template, ReadError> {
    let template = inherited(context, pool, revisions).await?;
    let is_usable = !P::Pins::has_references(&template) || !P::Pins::lacks_copies(&template);
    if is_usable || !stores {
        return Ok(Template::Usable(template));
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
            Resolution::Resolved(template) => return Ok(Template::Usable(template)),
            Resolution::Partial(template, unresolved, failure) => {
                context.metrics.types.failed(failure);
                return Ok(Template::Unusable(Some(template), unresolved));
            }
            Resolution::Unresolved(unresolved, failure) => {
                context.metrics.types.failed(failure);
                return Ok(Template::Unusable(None, unresolved));
            }
        }
    }
}
