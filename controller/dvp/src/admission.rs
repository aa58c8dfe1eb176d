//! The rules of admission: which pools are valid, and which users may change which fields.
//!
//! ```text
//!  request ──> the rules about the request alone ──> needed objects ──> facts ──> the other rules ──> the verdict
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
    AdmissionRead, AdmissionReads, AdmissionVerdict, LookupNamespace, LookupSubject, ObjectLookup, PoolKind,
    PoolRequest, Rules, ScaleGuard, Step,
};

pub use evaluation::{TERMS, evaluate_request};
pub use facts::{
    AdmissionSettings, CapabilityState, ClassName, ClusterCapabilities, DiskSnapshotFacts, DvpAdmissionFacts,
    ImageId, ImageKind, NeededObjects, StoredRevisionFacts, VirtualImageFacts,
};
pub use rule::{Rule, RuleScope};
pub use sizing::{MachineClass, default_class};

use lookups::find_facts;
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
                "spec.progressDeadlineSeconds",
                "spec.maxProvisioning",
                "spec.healing",
                "spec.drain",
                "spec.standby",
                "spec.imageRefresh",
                "spec.recycle",
                "status.replicas",
            ],
            pool_path: POOL_PATH,
            setup_warning: self.0.users.removal_handler.is_none().then_some(
                "--removal-handler is not set: replicas of pools with scaleDownPolicy Explicit cannot be reduced",
            ),
        }
    }

    fn review(
        &self,
        request: PoolRequest<'_>,
        reads: &AdmissionReads,
    ) -> Step<AdmissionVerdict, AdmissionRead> {
        evaluate_request(&self.0, request, |needs| find_facts(needs, reads))
    }

    fn scale_guard(&self) -> Option<ScaleGuard> {
        let lookup = |name: &str| ObjectLookup {
            subject: LookupSubject::Pool,
            api_version: vmpool_api::v1alpha2::API_VERSION,
            plural: "virtualmachinepools",
            namespace: LookupNamespace::Reviewed,
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

#[cfg(test)]
mod tests;
