//! The revisions of a pool: ControllerRevisions that the pool owns.
//!
//! Only the leader writes them, so it lists them once per pool and leadership. It keeps only the fingerprints
//! of their contents, and reads a revision again when it updates machines from or to it. A watch of their
//! metadata shows deletions by other clients, so that the leader stores the current revision again, and
//! revisions whose create had no answer.

mod content;
mod copies;
pub(crate) mod pool_revisions;
mod resolve;
pub(crate) mod stored;
pub(crate) mod templates;

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource as _;
use kube::api::ListParams;
use serde_json::json;
use vmpool_engine::image_refresh::{DiskContents, ImageRefresh};
use vmpool_engine::limits::shorten_message;
use vmpool_engine::model::{CurrentRevision, RequestedRevision, ScaleDownPolicy};
use vmpool_engine::revisions::{HELD, ResolvedRevision, RevisionId};
use vmpool_engine::{Pool, PoolAction};
use vmpool_platforms::{
    CopyComparison, DiskSources as _, Disks, Platform, RevisionObjects as _, TemplateCopies as _, Text,
};

use crate::pools::context::PoolContext;
use crate::pools::live::ReadError;
use crate::pools::pool_entry::{CachedPool, PoolEntry};
use crate::pools::pool_key::PoolKey;
use content::read_revision_content;
use copies::observe_copies;
use pool_revisions::{PoolRevisions, RevisionChange};
use resolve::ResolvedTemplate;
use stored::{RevisionEntry, RevisionObject, pool_of};
use templates::Templates;

/// The last current revision and its content; `None` if there is none that machines can be created from.
async fn last_in_force<P: Platform>(
    context: &PoolContext<P>,
    pool: &CachedPool<P>,
    revisions: &mut PoolRevisions,
    shown: Option<&RevisionId>,
) -> Result<Option<(RevisionId, Text)>, ReadError> {
    while let Some(id) = revisions.history.last_in_force(shown).cloned() {
        if let Some(content) = read_revision_content(context, pool, revisions, &id).await? {
            let known = |name: &String| pool.facts.disks.iter().any(|disk| *disk.name == **name);
            return Ok(P::Disks::templates(&content.value()).iter().all(known).then_some((id, content)));
        }
        revisions.record(RevisionChange::Gone(id), context.leader.env.uptime());
    }
    Ok(None)
}

/// Lists the revisions of a pool live.
pub(crate) async fn list_revisions<P: Platform>(
    context: &PoolContext<P>,
    pool: &CachedPool<P>,
) -> Result<PoolRevisions, ReadError> {
    let id = &pool.facts.id;
    let (mut revisions, begun) = (PoolRevisions::default(), context.leader.env.uptime());
    let mut wanted = ListParams::default();
    if let Some(selector) = P::Revisions::selector(&pool.object) {
        wanted = wanted.labels(&selector);
    }
    let (mut pins, mut owned) = (BTreeMap::new(), Vec::new());
    let visit = |object: RevisionObject| {
        let is_owned = pool_of::<P>(object.meta()).as_ref() == Some(id);
        if let Some(entry) = RevisionEntry::read::<P>(&object, id) {
            pins.extend(
                P::TemplateCopies::copy_objects(&object.data.value())
                    .into_iter()
                    .filter_map(|pin| Some((Arc::<str>::from(pin["metadata"]["name"].as_str()?), pin))),
            );
            revisions.record(RevisionChange::Stored(Box::new(entry)), begun);
        } else if is_owned && P::TemplateCopies::is_current_version(object.meta()) {
            owned.push(object);
        }
    };
    context.list_live_where::<RevisionObject>(&pool.facts.namespace, wanted, visit).await?;
    let copies = owned.iter().filter_map(|object| {
        let ObjectMeta { name, uid, .. } = object.meta();
        let name: Arc<str> = name.as_deref()?.into();
        let live = json!({ "metadata": object.meta(), "data": object.data.value() });
        let is_copy = !matches!(
            P::TemplateCopies::compare_copy(&pool.facts.id, pins.get(&name)?, &live),
            CopyComparison::Replace { .. } | CopyComparison::Other
        );
        is_copy.then(|| (name, uid.as_deref().unwrap_or_default().into()))
    });
    revisions.copies_listed(copies.collect());
    let desired = pool.facts.published.desired_revision.as_ref();
    let elsewhere = desired
        .filter(|(id, generation)| *generation == pool.facts.generation && !revisions.history.contains(id));
    revisions.elsewhere = elsewhere.map(|(id, generation)| (*generation, id.clone()));
    Ok(revisions)
}

/// Reads the revisions whose create had no answer and that the watch shows. The template may not be
/// resolvable any more, so that the controller would not try to store the revision again.
pub(crate) async fn read_unconfirmed<P: Platform>(
    context: &PoolContext<P>,
    pool: &CachedPool<P>,
    revisions: &mut PoolRevisions,
) -> Result<(), ReadError> {
    for object in revisions.unconfirmed(&context.caches.revisions.of(&pool.facts.namespace)) {
        if revisions.in_backoff {
            return Err(ReadError::InBackoff);
        }
        let live = context.get_live::<RevisionObject>(&pool.facts.namespace, &object.name).await?;
        revisions.confirm(&object.name);
        if let Some(entry) = live.and_then(|live| RevisionEntry::read::<P>(&live, &pool.facts.id)) {
            tracing::info!(name = &*object.name, "a revision is stored whose create had no answer");
            revisions.record(RevisionChange::Stored(Box::new(entry)), context.leader.env.uptime());
        }
    }
    Ok(())
}

/// The revision of the template in the spec, for a pool whose stored revisions are not known.
pub(crate) fn unstored_revision<P: Platform>(pool: &CachedPool<P>) -> CurrentRevision {
    CurrentRevision::of_template(P::first_revision(&pool.object, &pool.facts), false)
}

/// The pool with its current revision: the requested one, or that of the template in its spec. If the
/// requested revision cannot be read or is not stored, the rollout is held, and the last current revision is
/// used instead.
pub(crate) async fn resolve_pool_revision<P: Platform>(
    context: &PoolContext<P>,
    pool: &CachedPool<P>,
    revisions: &mut PoolRevisions,
) -> Result<PoolEntry<P>, ReadError> {
    let (facts, template) = (&pool.facts, resolve::template_fingerprint(context, pool, revisions));
    let shown = facts.published.summary.as_ref().map(|summary| &summary.revision);
    let RequestedRevision { mut pinned, is_unreadable: mut held } = facts.revision.clone();
    let mut content = None;
    let mut unknown = None;
    if let Some(id) = &pinned {
        content = self::content::read_revision_content(context, pool, revisions, id).await?;
        if content.is_none() {
            unknown = Some(shorten_message(format!(
                "revision {id} is not stored, so {HELD}; set a stored revision, or none"
            )));
            held = true;
        }
    }
    if held {
        (pinned, content) = last_in_force(context, pool, revisions, shown).await?.unzip();
    }
    let is_pinned = pinned.is_some();
    let stored = |id| ResolvedRevision { id, stored: true };
    let ResolvedRevision { id, stored } =
        pinned.map_or_else(|| revisions.resolve(pool, &template, shown), stored);
    let mut current = CurrentRevision { pinned: is_pinned, held, ..CurrentRevision::of_template(id, stored) };
    let is_named = P::Revisions::names(&facts.id, facts.generation).is_some();
    current.template_parts = if is_named || is_pinned {
        revisions.history.parts()
    } else {
        revisions.parts_with(&current.id, &template)
    };
    if is_named {
        let others = revisions.history.with_content(&template).filter(|other| **other != current.id);
        current.same_template = others.cloned().collect();
        current.superseded = revisions.history.superseded();
        current.copies = observe_copies(context, pool, revisions, &current, &template).await?;
    }
    current.copies.unavailable = !is_pinned
        && context.configuration().expands_references
        && resolve::spec_template(context, pool).pins_unavailable;
    let mut resolved = pool.at(current);
    let facts = &mut resolved.facts;
    if is_named {
        facts.rollout.live_updates = context.configuration().updates_live;
    }
    facts.invalid_settings.extend(unknown);
    facts.images = context.images.blocker(&PoolKey::of(facts), &P::template(&pool.object));
    facts.disk_contents = find_disk_contents(context, pool);
    if let Some(content) = content {
        use_disks_of::<P>(facts, &content);
    }
    Ok(resolved)
}

/// What the sources of the disks of a pool lead to, if the pool follows them.
fn find_disk_contents<P: Platform>(context: &PoolContext<P>, pool: &CachedPool<P>) -> DiskContents {
    let key = PoolKey::of(&pool.facts);
    if pool.facts.image_refresh == ImageRefresh::Off || context.disk_sources.settings().is_none() {
        context.disk_sources.forget(&key);
        return DiskContents::new();
    }
    context.disk_sources.find_contents(&key, P::DiskSources::named(&pool.object))
}

/// Makes the disk templates those of a stored revision with this content. If a disk template of it was
/// removed from the pool, the spec is invalid.
fn use_disks_of<P: Platform>(pool: &mut Pool, content: &Text) {
    let devices = P::Disks::templates(&content.value());
    for template in &mut pool.disks {
        template.used = devices.iter().any(|name| **name == *template.name);
    }
    let missing = devices.iter().filter(|name| !pool.disks.iter().any(|known| *known.name == ***name));
    let id = &pool.revision.id;
    let errors: Vec<String> = missing
        .map(|name| {
            format!(
                "disk template {name}, for which machines of revision {id} have a device, was removed from the pool"
            )
        })
        .collect();
    if !errors.is_empty() {
        pool.scale_down_policy = ScaleDownPolicy::Explicit;
        pool.validation_errors.extend(errors);
    }
}

/// Reads the templates that `actions` need. The pool must be resolved.
pub(crate) async fn read_templates_for_actions<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    revisions: &mut PoolRevisions,
    actions: &[PoolAction],
) -> Result<Templates, ReadError> {
    let mut templates = Templates::default();
    let (mut makes, mut writes) = (false, false);
    let mut bases: Vec<RevisionId> = Vec::new();
    let mut restored: Vec<RevisionId> = Vec::new();
    for action in actions {
        match action {
            PoolAction::Create { .. } => makes = true,
            PoolAction::StoreRevision { .. } | PoolAction::PruneRevision { .. } => writes = true,
            PoolAction::RestoreCopies { revision } => restored.push(revision.clone()),
            PoolAction::Update { base, .. } | PoolAction::Activate { base, .. } => {
                makes = true;
                let earlier = base.as_ref().filter(|base| **base != pool.facts.revision.id);
                if let Some(base) = earlier.filter(|base| !bases.contains(base)) {
                    bases.push(base.clone());
                }
            }
            _ => {}
        }
    }
    let current = &pool.facts.revision.id;
    let pinned = pool.facts.revision.pinned.then_some(current);
    revisions.contents.retain(|id, _| id == current || bases.contains(id));
    for id in restored {
        if let Some(content) = read_revision_content(context, pool, revisions, &id).await? {
            templates.restored.insert(id, content);
        }
    }
    if !makes && !writes {
        return Ok(templates);
    }
    templates.wanted = if let Some(id) = pinned {
        let content = read_revision_content(context, pool, revisions, id).await?;
        content.expect("what a pool is held at was read when that was resolved")
    } else {
        let stores = actions.iter().any(|action| matches!(action, PoolAction::StoreRevision { .. }));
        match resolve::resolve_template(context, pool, revisions, stores).await? {
            ResolvedTemplate::Usable(template) => Text::of(&template),
            ResolvedTemplate::Unusable(partial, unresolved) => {
                templates.unresolved = Some(unresolved);
                templates.is_partial = partial.is_some() && pool.facts.revision.copies.wanted;
                partial.map_or_else(Text::default, |partial| Text::of(&partial))
            }
        }
    };
    templates.fingerprint = Some(P::fingerprint(&templates.wanted.value()));
    for base in bases {
        if let Some(content) = read_revision_content(context, pool, revisions, &base).await? {
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
