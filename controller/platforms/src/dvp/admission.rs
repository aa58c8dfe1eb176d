//! The rules of admission: which pools are valid, and which users may change which fields.
//!
//! ```text
//!  request ──> begin() ──> Decided: the verdict, without reads
//!                 │
//!                 └──────> NeedsFacts ── needs() ──> the webhook reads ── facts ──> finish() ──> the verdict
//! ```
//!
//! The rules are evaluated in this order. The first broken rule that rejects the request determines the response, so
//! the same request always gets the same response:
//!
//! 1. the removal record ([`Rule::TargetsRecord`]), independent of the rest of the request;
//! 2. a pool that is being deleted is allowed;
//! 3. the settings of the rollout, including annotations; otherwise, an unchanged spec is allowed;
//! 4. the name, then the count;
//! 5. what depends only on the pool: the machine template, the devices and each disk template, but only those that the
//!    request changes. A pool whose template became invalid can still be scaled, labeled and deleted;
//! 6. what depends on other objects of the cluster.
//!
//! Objects are read leniently, because the cluster may have another definition of pools with other checks. For the same
//! reason, every rule of the definition of vmpool is repeated here.

mod affinity;
mod class;
mod count;
mod devices;
mod disks;
mod facts;
mod finding;
mod machine;
mod name;
mod networks;
mod pinned;
mod provisioning;
mod record;
mod rollout;
mod rule;
pub mod scale;
mod schema;
mod selectors;
mod size;
mod sizing;
mod sources;
mod syntax;
mod verdict;
mod view;

use serde_json::Value;

pub use facts::{
    ClassName, Cluster, Facts, Found, Image, ImageId, ImageKind, Known, Needs, Revision, Settings, Snapshot,
};
pub use finding::{Refusal, Warning};
pub use rule::{Rule, Scope, Severity};
pub use sizing::{Class, default_class};
pub use verdict::{Outcome, Verdict};

use finding::Checked;
use machine::Template;
use view::Pool;

/// A create or an update of a pool.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The full name of the requesting user.
    pub user: &'a str,
    /// The stored pool; `None` for a create.
    pub old: Option<&'a Value>,
    /// The requested pool.
    pub new: &'a Value,
}

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
        Err(refusal) => Evaluation::Decided(Verdict { outcome: Outcome::Refused(*refusal), warnings }),
    }
}

/// `None` if the request is allowed without further rules.
fn by_itself<'a>(
    settings: &Settings,
    request: Request<'a>,
    warnings: &mut Vec<Warning>,
) -> Checked<Option<PendingRequest<'a>>> {
    let (old, new) = (request.old.map(Pool), Pool(request.new));
    record::check(settings, request.user, old, new)?;
    if new.deleting() {
        return Ok(None);
    }
    rollout::check(old, new, warnings)?;
    if old.is_some_and(|old| old.spec() == new.spec()) && !pinned::touched(old, new) {
        return Ok(None);
    }
    for name in ["replicas", "scaleDownPolicy"] {
        let value = view::field(new.spec(), name);
        if old.is_none_or(|old| view::field(old.spec(), name) != value) {
            schema::spec_field(name, value)?;
        }
    }
    match old {
        None => name::check(new)?,
        Some(old) => {
            count::check(settings, request.user, old, new, warnings)?;
            disks::removed(old, new, warnings);
            rollout::held(old, new, warnings);
        }
    }
    size::check(old, new)?;
    let template = if old.is_none_or(|old| old.template() != new.template()) {
        Some(machine::check(settings.cluster, new.template(), warnings)?)
    } else {
        None
    };
    if old.is_none_or(|old| devices::attached(old) != devices::attached(new)) {
        devices::check_attached(new)?;
        schema::disk_list(view::field(new.spec(), "virtualDiskTemplates"))?;
    }
    let mut changed = Vec::new();
    for disk in new.disks() {
        let before = old.and_then(|old| old.disk(disk.name));
        if before.is_none_or(|before| before.value != disk.value) {
            disks::check(before, disk, warnings)?;
        }
        if before.is_none_or(|before| before.spec() != disk.spec()) {
            changed.push(disk);
        }
    }
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
        needs.images.extend(devices::boot_image(pool));
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
    }
    for disk in changed {
        sources::check(*disk, facts, warnings);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
