//! The revisions of a pool: ControllerRevisions that the pool owns.
//!
//! Only the leader writes them, so it lists them once per pool and leadership. It keeps only the fingerprints of their
//! contents, and reads a revision again when it updates machines from or to it. A watch of their metadata shows deletions
//! by other clients, so that the leader stores the current revision again.

mod content;
pub(crate) mod known;
mod resolve;
pub(crate) mod stored;
pub(crate) mod templates;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use kube::api::ListParams;
use vmpool_engine::Action;
use vmpool_engine::limits::shorten;
use vmpool_engine::model::ScaleDownPolicy;
use vmpool_engine::revision::{Fingerprint, HELD, Resolved, RevisionId};
use vmpool_platforms::{Disks, Platform, Revisions as _, Text};

use crate::context::Context;
use crate::live::ReadError;
use crate::pool_entry::PoolEntry;
use content::content;
use known::{Change, Revisions};
use stored::{RevisionEntry, RevisionObject};
use templates::Templates;

/// The last current revision and its content; `None` if there is none that machines can be created from.
async fn last_in_force<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    revisions: &mut Revisions,
    shown: Option<&RevisionId>,
) -> Result<Option<(RevisionId, Text)>, ReadError> {
    while let Some(id) = revisions.history.last_in_force(shown).cloned() {
        if let Some(content) = content(context, pool, revisions, &id).await? {
            let known = |name: &String| pool.facts.disks.iter().any(|disk| *disk.name == **name);
            return Ok(P::Disks::templates(&content.value()).iter().all(known).then_some((id, content)));
        }
        revisions.record(Change::Gone(id), context.env.uptime());
    }
    Ok(None)
}

/// Lists the revisions of a pool live.
pub(crate) async fn list<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
) -> Result<Revisions, ReadError> {
    let uid = &pool.facts.id.uid;
    let (mut revisions, begun) = (Revisions::default(), context.env.uptime());
    let mut wanted = ListParams::default();
    if let Some(selector) = P::Revisions::selector(&pool.object) {
        wanted = wanted.labels(&selector);
    }
    let visit = |object: RevisionObject| {
        if let Some(entry) = RevisionEntry::read::<P>(&object, uid) {
            revisions.record(Change::Stored(entry), begun);
        }
    };
    context.list_live_where::<RevisionObject>(&pool.facts.namespace, wanted, visit).await?;
    let desired = pool.facts.published.desired_revision.as_ref();
    let elsewhere = desired
        .filter(|(id, generation)| *generation == pool.facts.generation && !revisions.history.contains(id));
    revisions.elsewhere = elsewhere.map(|(id, generation)| (*generation, id.clone()));
    Ok(revisions)
}

/// The pool with its current revision: the pinned one, or that of the template in its spec. If the pinned revision
/// cannot be read or is not stored, the rollout is held, and the last current revision is used instead.
pub(crate) async fn resolve<P: Platform>(
    context: &Context<P>,
    pool: Arc<PoolEntry<P>>,
    revisions: &mut Revisions,
) -> Result<Arc<PoolEntry<P>>, ReadError> {
    let (facts, template) = (&pool.facts, revisions.fingerprint(&pool));
    let shown = facts.published.summary.as_ref().map(|summary| &summary.revision);
    let (mut pinned, mut held, mut unknown) = (facts.rollout.pinned.clone(), facts.rollout.held, None);
    let mut content = None;
    if let Some(id) = &pinned {
        content = self::content::content(context, &pool, revisions, id).await?;
        if content.is_none() {
            unknown = Some(shorten(format!(
                "revision {id} is not stored, so {HELD}; set a stored revision, or none"
            )));
            held = true;
        }
    }
    if held {
        (pinned, content) = last_in_force(context, &pool, revisions, shown).await?.unzip();
    }
    let stored = |id| Resolved { id, stored: true };
    let resolved = pinned.clone().map_or_else(|| revisions.resolve(&pool, &template, shown), stored);
    let Resolved { id, stored } = resolved;
    let is_named = P::Revisions::names(&pool.facts.id, pool.facts.generation).is_some();
    let is_same = pinned.is_none() && !held && id == facts.revision && stored == facts.revision_stored;
    if is_same && !is_named {
        return Ok(pool);
    }
    let mut facts = facts.clone();
    if is_named {
        let others = revisions.history.with_content(&template).filter(|other| **other != id);
        facts.same_template = others.cloned().collect();
        facts.template_parts = revisions.history.parts();
        facts.rollout.live_updates = context.live_updates.load(Ordering::Relaxed);
    }
    facts.revision = id;
    facts.revision_stored = stored;
    (facts.rollout.pinned, facts.rollout.held) = (pinned, held);
    facts.invalid_settings.extend(unknown);
    let mut validation_errors = Vec::new();
    if let Some(content) = content {
        let devices = P::Disks::templates(&content.value());
        for template in &mut facts.disks {
            template.used = devices.iter().any(|name| **name == *template.name);
        }
        let missing = devices.iter().filter(|name| !facts.disks.iter().any(|known| *known.name == ***name));
        validation_errors.extend(missing.map(|name| {
            let id = &facts.revision;
            format!("disk template {name}, for which machines of revision {id} have a device, was removed from the \
            pool")
        }));
    }
    if !validation_errors.is_empty() {
        facts.scale_down_policy = ScaleDownPolicy::Explicit;
        facts.validation_errors.append(&mut validation_errors);
    }
    Ok(Arc::new(PoolEntry { facts, object: pool.object.clone() }))
}

/// Reads the templates that `actions` need. The pool must be resolved.
pub(crate) async fn templates<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    revisions: &mut Revisions,
    actions: &[Action],
) -> Result<Templates, ReadError> {
    let mut templates = Templates::default();
    let (mut makes, mut writes) = (false, false);
    let mut bases: Vec<RevisionId> = Vec::new();
    for action in actions {
        match action {
            Action::Create { .. } => makes = true,
            Action::StoreRevision { .. } | Action::PruneRevision { .. } => writes = true,
            Action::Update { base, .. } => {
                makes = true;
                let earlier = base.as_ref().filter(|base| **base != pool.facts.revision);
                if let Some(base) = earlier.filter(|base| !bases.contains(base)) {
                    bases.push(base.clone());
                }
            }
            _ => {}
        }
    }
    let pinned = pool.facts.rollout.pinned.as_ref();
    let current = &pool.facts.revision;
    revisions.contents.retain(|id, _| Some(id) == pinned || id == current || bases.contains(id));
    if !makes && !writes {
        return Ok(templates);
    }
    templates.wanted = if let Some(id) = pinned {
        let content = content(context, pool, revisions, id).await?;
        content.expect("what a pool is held at was read when that was resolved")
    } else {
        let stores = actions.iter().any(|action| matches!(action, Action::StoreRevision { .. }));
        match resolve::template(context, pool, revisions, stores).await? {
            Ok(template) => Text::of(&template),
            Err(unresolved) => {
                templates.unresolved = Some(unresolved);
                Text::default()
            }
        }
    };
    templates.fingerprint = Some(Fingerprint::of(&P::canonical(&templates.wanted.value())));
    for base in bases {
        if let Some(content) = content(context, pool, revisions, &base).await? {
            templates.earlier.insert(base, content);
        }
    }
    templates.stored = revisions.objects.clone();
    templates.number = revisions.history.next_number();
    let elsewhere = revisions.elsewhere.as_ref().filter(|_| pinned.is_none());
    templates.elsewhere =
        elsewhere.filter(|(generation, _)| *generation == pool.facts.generation).map(|(_, id)| id.clone());
    Ok(templates)
}
