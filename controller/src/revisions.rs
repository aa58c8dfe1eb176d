//! The revisions of a pool: ControllerRevisions that the pool owns.
//!
//! Only the leader writes them, so it lists them once per pool and leadership. It keeps only the fingerprints of their
//! contents, and reads a revision again when it updates machines from or to it.

mod stored;

use std::collections::HashMap;
use std::sync::Arc;

use kube::api::ListParams;
use vmpool_engine::limits::shorten;
use vmpool_engine::model::ScaleDownPolicy;
use vmpool_engine::revision::{Fingerprint, HELD, History, Resolved, RevisionId};
use vmpool_engine::{Action, ObjectId};

use crate::context::{Context, PoolEntry, ReadError};
use crate::platform::{Platform, Text};

pub(crate) use stored::{RevisionEntry, RevisionObject, body};

/// A change of the stored revisions.
#[derive(Debug)]
pub(crate) enum Change {
    /// The revision is stored.
    Stored(RevisionEntry),
    /// The revision is not stored any more.
    Gone(RevisionId),
}

/// The stored revisions of one pool.
#[derive(Debug, Default)]
pub(crate) struct Revisions {
    history: History,
    objects: HashMap<RevisionId, ObjectId>,
    /// Contents that passes use.
    contents: HashMap<RevisionId, Text>,
    /// Generation and fingerprint of the template in the spec.
    template: Option<(i64, Fingerprint)>,
    /// Generation and template hash that another controller had published in the status before vmpool took over.
    elsewhere: Option<(i64, RevisionId)>,
}

impl Revisions {
    /// Records a change.
    pub(crate) fn record(&mut self, change: Change) {
        match change {
            Change::Stored(entry) => {
                self.objects.insert(entry.stored.id.clone(), entry.object);
                self.history.add(entry.stored);
            }
            Change::Gone(id) => {
                self.objects.remove(&id);
                self.contents.remove(&id);
                self.history.remove(&id);
            }
        }
    }

    /// The identities, oldest first.
    pub(crate) fn ids(&self) -> Vec<RevisionId> {
        self.history.ids()
    }

    fn fingerprint<P: Platform>(&mut self, pool: &PoolEntry<P>) -> Fingerprint {
        let generation = pool.facts.generation;
        match self.template {
            Some((known, fingerprint)) if known == generation => fingerprint,
            _ => {
                let fingerprint = Fingerprint::of(&P::canonical(&P::template(&pool.object)));
                self.template = Some((generation, fingerprint));
                fingerprint
            }
        }
    }

    /// The content of a stored revision; `None` if a client deleted it.
    async fn content<P: Platform>(
        &mut self,
        context: &Context<P>,
        pool: &PoolEntry<P>,
        id: &RevisionId,
    ) -> Result<Option<Text>, ReadError> {
        if let Some(content) = self.contents.get(id) {
            return Ok(Some(content.clone()));
        }
        let Some(object) = self.objects.get(id) else { return Ok(None) };
        let live = context.get_live::<RevisionObject>(&pool.facts.namespace, &object.name).await?;
        let live = live.filter(|live| live.metadata.uid.as_deref() == Some(object.uid.as_str()));
        let Some(live) = live else {
            tracing::warn!(revision = id.as_str(), "a stored revision was deleted");
            self.record(Change::Gone(id.clone()));
            return Ok(None);
        };
        let content = live.data;
        self.contents.insert(id.clone(), content.clone());
        Ok(Some(content))
    }

    /// The last current revision and its content; `None` if there is none that machines can be created from.
    async fn last_in_force<P: Platform>(
        &mut self,
        context: &Context<P>,
        pool: &PoolEntry<P>,
        shown: Option<&RevisionId>,
    ) -> Result<Option<(RevisionId, Text)>, ReadError> {
        while let Some(id) = self.history.last_in_force(shown).cloned() {
            if let Some(content) = self.content(context, pool, &id).await? {
                let known = |name: &String| pool.facts.disks.iter().any(|disk| *disk.name == **name);
                return Ok(P::disk_templates(&content.value()).iter().all(known).then_some((id, content)));
            }
            self.record(Change::Gone(id));
        }
        Ok(None)
    }
}

/// Lists the revisions of a pool live.
pub(crate) async fn list<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
) -> Result<Revisions, ReadError> {
    let uid = &pool.facts.id.uid;
    let managed = P::managed_labels(&pool.object);
    let labels = managed["metadata"]["labels"].as_object().into_iter().flatten();
    let of_the_pool = labels.filter(|(_, value)| **value == *uid.as_str());
    let selector: Vec<String> = of_the_pool.map(|(key, _)| format!("{key}={uid}")).collect();
    let mut revisions = Revisions::default();
    let wanted = ListParams::default().labels(&selector.join(","));
    let visit = |object: RevisionObject| {
        if let Some(entry) = RevisionEntry::read::<P>(&object, uid) {
            revisions.record(Change::Stored(entry));
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
        content = revisions.content(context, &pool, id).await?;
        if content.is_none() {
            unknown = Some(shorten(format!(
                "revision {id} is not stored, so {HELD}; set a stored revision, or none"
            )));
            held = true;
        }
    }
    if held {
        (pinned, content) = revisions.last_in_force(context, &pool, shown).await?.unzip();
    }
    let stored = |id| Resolved { id, stored: true };
    let resolved = pinned.clone().map_or_else(|| revisions.history.resolve(&template, shown), stored);
    let Resolved { id, stored } = resolved;
    if pinned.is_none() && !held && id == facts.revision && stored == facts.revision_stored {
        return Ok(pool);
    }
    let mut facts = facts.clone();
    facts.revision = id;
    facts.revision_stored = stored;
    (facts.rollout.pinned, facts.rollout.held) = (pinned, held);
    facts.invalid_settings.extend(unknown);
    let mut validation_errors = Vec::new();
    if let Some(content) = content {
        let devices = P::disk_templates(&content.value());
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

/// The templates that the writes of a pass need.
#[derive(Clone, Debug, Default)]
pub(crate) struct Templates {
    /// The current template.
    pub(crate) wanted: Text,
    /// Its fingerprint.
    pub(crate) fingerprint: Option<Fingerprint>,
    /// The templates of earlier revisions that are merge bases.
    pub(crate) earlier: HashMap<RevisionId, Text>,
    /// The objects of all stored revisions.
    pub(crate) stored: HashMap<RevisionId, ObjectId>,
    /// The number of the next revision.
    pub(crate) number: i64,
    /// The template hash of another controller for the current template. A machine with this hash has the current
    /// template.
    pub(crate) elsewhere: Option<RevisionId>,
}

impl Templates {
    /// The template of a revision; `None` if it is no longer stored.
    pub(crate) fn of(&self, id: &RevisionId, current: &RevisionId) -> Option<&Text> {
        if id == current { Some(&self.wanted) } else { self.earlier.get(id) }
    }
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
    revisions.contents.retain(|id, _| Some(id) == pinned || bases.contains(id));
    if !makes && !writes {
        return Ok(templates);
    }
    templates.wanted = match pinned {
        Some(id) => {
            let content = revisions.content(context, pool, id).await?;
            content.expect("what a pool is held at was read when that was resolved")
        }
        None => Text::of(&P::template(&pool.object)),
    };
    templates.fingerprint = Some(Fingerprint::of(&P::canonical(&templates.wanted.value())));
    for base in bases {
        if let Some(content) = revisions.content(context, pool, &base).await? {
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
