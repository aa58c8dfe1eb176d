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
mod devices;
mod disks;
mod facts;
mod finding;
mod lookups;
mod machine;
mod name;
mod networks;
mod pinned;
mod provisioning;
mod rollout;
mod rule;
mod schema;
mod selectors;
mod size;
mod sizing;
mod sources;
mod syntax;
mod view;

use serde_json::Value;
use vmpool_api::annotations::SCALE_DOWN_TARGETS;
use vmpool_engine::admission::count::{self, Terms};
use vmpool_engine::admission::{
    Checked, Kind, Lookup, LookupResult, Outcome, Pending, Request, Review, Rules, ScaleGuard, Subject,
    Verdict, Warning, record,
};

pub use facts::{ClassName, Cluster, Facts, Image, ImageId, ImageKind, Needs, Revision, Settings, Snapshot};
pub use rule::{Rule, Scope};
pub use sizing::{Class, default_class};

use lookups::Gathered;
use machine::Template;
use view::Pool;

/// Path of the webhook for creates and updates of pools.
pub const POOL_PATH: &str = "/validate-virtualization-deckhouse-io-v1alpha2-virtualmachinepool";
/// Path of the webhook for updates of the scale of pools.
pub const SCALE_PATH: &str = "/validate-virtualization-deckhouse-io-v1alpha2-virtualmachinepool-scale";

/// The names of count and policy in messages.
pub const TERMS: Terms = Terms { policy: "spec.scaleDownPolicy", explicit: "scaleDownPolicy Explicit" };

/// The rules, as a program uses them.
#[derive(Clone, Debug, Default)]
pub struct DvpRules(pub Settings);

impl Rules for DvpRules {
    fn kind(&self) -> Kind {
        Kind {
            group: "virtualization.deckhouse.io",
            kind: "VirtualMachinePool",
            templates: "spec.virtualMachineTemplate and spec.virtualDiskTemplates",
            pool_path: POOL_PATH,
            scale_path: SCALE_PATH,
        }
    }

    fn review<'a>(&'a self, request: Request<'a>) -> Review<'a> {
        match begin(&self.0, request) {
            Evaluation::Decided(verdict) => Review::Decided(verdict),
            Evaluation::NeedsFacts(request) => {
                let gathered = Gathered::new(request.needs.clone());
                Review::NeedsFacts(Box::new(PendingReview { request: *request, gathered }))
            }
        }
    }

    fn scale_guard(&self) -> Option<ScaleGuard> {
        let lookup = |name: &str| Lookup {
            subject: Subject::Pool,
            api_version: super::API_VERSION,
            plural: "virtualmachinepools",
            namespaced: true,
            name: Some(name.to_owned()),
            fields: &["metadata.uid", "spec.scaleDownPolicy"],
        };
        Some(ScaleGuard { terms: TERMS, lookup, is_explicit: |pool| Pool(pool).explicit() })
    }
}

/// A request, and the facts that it needs.
struct PendingReview<'a> {
    request: PendingRequest<'a>,
    gathered: Gathered,
}

impl Pending for PendingReview<'_> {
    fn lookups(&self) -> Vec<Lookup> {
        self.gathered.lookups()
    }

    fn add(&mut self, results: Vec<LookupResult>) {
        self.gathered.add(results);
    }

    fn verdict(self: Box<Self>) -> Verdict {
        self.request.finish(&self.gathered.facts())
    }
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
    let stored = |pool: Pool<'a>| pool.annotation(SCALE_DOWN_TARGETS);
    let before = old.map_or(&Value::Null, stored);
    record::check(&settings.users, request.user, SCALE_DOWN_TARGETS, before, stored(new))?;
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
            let change = count::Change {
                pool: new.name(),
                old: old.count(),
                new: new.count(),
                current: old.current_replicas(),
            };
            count::check(&TERMS, &settings.users, request.user, &change, warnings)?;
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
