//! The rules of admission: which pools are valid, and which users may change which fields.
//!
//! ```text
//!  request ──> begin() ──> Decided: the verdict, without reads
//!                 │
//!                 └──────> NeedsFacts ── needs() ──> the webhook reads ── facts ──> finish() ──> the verdict
//! ```
//!
//! The rules are evaluated in this order. The first broken rule that rejects the request determines the
//! response, so the same request always gets the same response:
//!
//! 1. the removal record ([`Rule::TargetsRecord`]), independent of the rest of the request;
//! 2. a pool that is being deleted is allowed;
//! 3. the settings of the rollout, including annotations; otherwise, an unchanged spec is allowed;
//! 4. the name, then the count;
//! 5. what depends only on the pool: the machine template, the devices and each disk template, but only those
//!    that the request changes. A pool whose template became invalid can still be scaled, labeled and
//!    deleted;
//! 6. what depends on other objects of the cluster.
//!
//! Objects are read leniently, because the cluster may have another definition of pools with other checks.
//! For the same reason, every rule of the definition of vmpool is repeated here.

mod affinity;
mod class;
mod devices;
mod disks;
mod evaluation;
mod facts;
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
mod unreadable;
mod view;

use vmpool_engine::admission::{
    AdmissionVerdict, LookupResult, LookupSubject, ObjectLookup, PoolKind, PoolRequest, RuleReview, Rules,
    ScaleGuard, UndecidedReview,
};

pub use evaluation::{DvpEvaluation, DvpPendingRequest, TERMS, evaluate_request};
pub use facts::{
    AdmissionSettings, CapabilityState, ClassName, ClusterCapabilities, DiskSnapshotFacts, DvpAdmissionFacts,
    ImageId, ImageKind, NeededObjects, StoredRevisionFacts, VirtualImageFacts,
};
pub use rule::{Rule, RuleScope};
pub use sizing::{MachineClass, default_class};

use lookups::GatheredObjects;
use view::ReviewedPool;

/// The path of the webhook for creates and updates of pools.
pub const POOL_PATH: &str = "/validate-virtualization-deckhouse-io-v1alpha2-virtualmachinepool";
/// The path of the webhook for updates of the scale subresource of pools.
pub const SCALE_PATH: &str = "/validate-virtualization-deckhouse-io-v1alpha2-virtualmachinepool-scale";

/// The rules of DVP for programs.
#[derive(Clone, Debug, Default)]
pub struct DvpRules(pub AdmissionSettings);

impl Rules for DvpRules {
    fn kind(&self) -> PoolKind {
        PoolKind {
            group: vmpool_api::v1alpha2::GROUP,
            kind: "VirtualMachinePool",
            templates: "spec.virtualMachineTemplate and spec.virtualDiskTemplates",
            small_fields: &[
                "spec.replicas",
                "spec.scaleDownPolicy",
                "spec.rollout",
                "spec.revisionHistoryLimit",
                "spec.maxProtection",
                "status.replicas",
            ],
            pool_path: POOL_PATH,
            setup_warning: self.0.users.removal_handler.is_none().then_some(
                "--removal-handler is not set: replicas of pools with scaleDownPolicy Explicit cannot be reduced",
            ),
        }
    }

    fn review<'a>(&'a self, request: PoolRequest<'a>) -> RuleReview<'a> {
        match evaluate_request(&self.0, request) {
            DvpEvaluation::Decided(verdict) => RuleReview::Decided(verdict),
            DvpEvaluation::NeedsFacts(request) => {
                let gathered = GatheredObjects::new(request.needs().clone());
                RuleReview::NeedsFacts(Box::new(PendingReview { request: *request, gathered }))
            }
        }
    }

    fn scale_guard(&self) -> Option<ScaleGuard> {
        let lookup = |name: &str| ObjectLookup {
            subject: LookupSubject::Pool,
            api_version: vmpool_api::v1alpha2::API_VERSION,
            plural: "virtualmachinepools",
            namespaced: true,
            name: Some(name.to_owned()),
            fields: &["metadata.uid", "spec.scaleDownPolicy"],
            reveals: false,
        };
        Some(ScaleGuard {
            path: SCALE_PATH,
            terms: TERMS,
            lookup,
            is_explicit: |pool| ReviewedPool(pool).explicit(),
        })
    }
}

/// A request, and the objects that were read for it.
struct PendingReview<'a> {
    request: DvpPendingRequest<'a>,
    gathered: GatheredObjects,
}

impl UndecidedReview for PendingReview<'_> {
    fn lookups(&self) -> Vec<ObjectLookup> {
        self.gathered.lookups()
    }

    fn add(&mut self, results: Vec<LookupResult>) {
        self.gathered.add(results);
    }

    fn verdict(self: Box<Self>) -> AdmissionVerdict {
        self.request.finish(&self.gathered.facts())
    }
}

#[cfg(test)]
mod tests;
