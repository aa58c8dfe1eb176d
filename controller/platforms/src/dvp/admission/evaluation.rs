//! The evaluation of a request: which rules apply to what it changes, in their order.

use serde_json::Value;
use vmpool_api::annotations::SCALE_DOWN_TARGETS;
use vmpool_engine::admission::count::{self, Terms};
use vmpool_engine::admission::{Outcome, RefusalCollector, Refusals, Request, Verdict, Warning, record};

use super::facts::{Cluster, Facts, Needs, Settings};
use super::machine::Template;
use super::view::{self, Pool};
use super::{class, devices, disks, machine, name, pinned, rollout, schema, size, sources};

/// The names of count and policy in messages.
pub const TERMS: Terms =
    Terms { policy: "spec.scaleDownPolicy", explicit: "scaleDownPolicy Explicit", absent: 0 };

/// The result of evaluating a request without other objects.
#[derive(Clone, Debug)]
pub enum Evaluation<'a> {
    /// The verdict is complete.
    Decided(Verdict),
    /// The verdict depends on other objects.
    NeedsFacts(Box<PendingRequest<'a>>),
}

/// A request that is valid by itself, and whose verdict depends on other objects.
#[derive(Clone, Debug)]
pub struct PendingRequest<'a> {
    pool: Pool<'a>,
    template: Option<Template<'a>>,
    changed: Vec<view::DiskTemplate<'a>>,
    cluster: Cluster,
    needs: Needs,
    warnings: Vec<Warning>,
}

/// Evaluates a request as far as possible without reading other objects.
pub fn begin<'a>(settings: &Settings, request: Request<'a>) -> Evaluation<'a> {
    let mut warnings = Vec::new();
    match by_itself(settings, request, &mut warnings) {
        Ok(Some(mut pending)) => {
            pending.warnings = warnings;
            if pending.needs.is_empty() {
                return Evaluation::Decided(pending.finish(&Facts::default()));
            }
            Evaluation::NeedsFacts(Box::new(pending))
        }
        Ok(None) => Evaluation::Decided(Verdict { outcome: Outcome::Allowed, warnings }),
        Err(refusals) => Evaluation::Decided(Verdict { outcome: Outcome::Refused(refusals), warnings }),
    }
}

/// `None` if the request is allowed without further rules.
fn by_itself<'a>(
    settings: &Settings,
    request: Request<'a>,
    warnings: &mut Vec<Warning>,
) -> Result<Option<PendingRequest<'a>>, Refusals> {
    let (old, new) = (request.old.map(Pool), Pool(request.new));
    let stored = |pool: Pool<'a>| pool.annotation(SCALE_DOWN_TARGETS);
    let before = old.map_or(&Value::Null, stored);
    record::check(&settings.users, request.user, SCALE_DOWN_TARGETS, before, stored(new))?;
    if new.deleting() {
        return Ok(None);
    }
    let mut found = RefusalCollector::default();
    rollout::check(old, new, &mut found, warnings);
    if old.is_some_and(|old| old.spec() == new.spec()) && !pinned::touched(old, new) {
        found.end_group()?;
        return Ok(None);
    }
    for name in ["replicas", "scaleDownPolicy"] {
        let value = view::field(new.spec(), name);
        if old.is_none_or(|old| view::field(old.spec(), name) != value) {
            found.note(schema::spec_field(name, value));
        }
    }
    found.end_group()?;
    match old {
        None => {
            found.note(name::check(new));
        }
        Some(old) => {
            let change = count::Change {
                pool: new.name(),
                old: old.count(),
                new: new.count(),
                current: old.current_replicas(),
            };
            found.note(count::check(&TERMS, &settings.users, request.user, &change));
            count::warn(&TERMS, &change, warnings);
            disks::removed(old, new, warnings);
            rollout::held(old, new, warnings);
        }
    }
    found.note(size::check(old, new));
    found.end_group()?;
    let template = if old.is_none_or(|old| old.template() != new.template()) {
        found.note(machine::check(settings.cluster, new.template(), warnings))
    } else {
        None
    };
    if old.is_none_or(|old| devices::attached(old) != devices::attached(new)) {
        found.note(devices::check_attached(new));
        found.note(schema::disk_list(view::field(new.spec(), "virtualDiskTemplates")));
    }
    let mut changed = Vec::new();
    for disk in new.disks() {
        let before = old.and_then(|old| old.disk(disk.name));
        if before.is_none_or(|before| before.value != disk.value) {
            found.note(disks::check(before, disk, warnings));
        }
        if before.is_none_or(|before| before.spec() != disk.spec()) {
            changed.push(disk);
        }
    }
    found.end_group()?;
    let mut needs = needs(new, template.as_ref(), &changed);
    pinned::needs(old, new, &mut needs)?;
    Ok(Some(PendingRequest {
        pool: new,
        template,
        changed,
        cluster: settings.cluster,
        needs,
        warnings: Vec::new(),
    }))
}

fn needs(pool: Pool<'_>, template: Option<&Template<'_>>, changed: &[view::DiskTemplate<'_>]) -> Needs {
    let mut needs = Needs::default();
    if let Some(template) = template {
        needs.class = Some(template.class());
        devices::needs(pool, &mut needs);
    }
    for disk in changed {
        sources::needs(*disk, &mut needs);
    }
    needs
}

impl PendingRequest<'_> {
    /// The objects to read for [`PendingRequest::finish`].
    pub fn needs(&self) -> &Needs {
        &self.needs
    }

    /// The verdict, given the objects that were read.
    pub fn finish(self, facts: &Facts) -> Verdict {
        let Self { pool, template, changed, cluster, needs, mut warnings } = self;
        let judged = with_facts(pool, template.as_ref(), &changed, cluster, facts, &mut warnings);
        let held = || if needs.revisions.is_empty() { Ok(()) } else { pinned::check(pool, facts) };
        let outcome = match judged.and_then(|()| held()) {
            Ok(()) => Outcome::Allowed,
            Err(outcome) => *outcome,
        };
        Verdict { outcome, warnings }
    }
}

fn with_facts(
    pool: Pool<'_>,
    template: Option<&Template<'_>>,
    changed: &[view::DiskTemplate<'_>],
    cluster: Cluster,
    facts: &Facts,
    warnings: &mut Vec<Warning>,
) -> Result<(), Box<Outcome>> {
    if let Some(template) = template {
        class::check(template, cluster.in_place_resize, facts.class.as_ref(), warnings)?;
        devices::check_boot(pool, facts)?;
        devices::check_images(pool, facts, warnings);
    }
    for disk in changed {
        sources::check(*disk, facts, warnings);
    }
    Ok(())
}
