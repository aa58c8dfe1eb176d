//! The rules of admission for KubeVirt pools, for both served versions: which pools are valid.
//!
//! The API server converts pools of `v1alpha1` for the webhook, and both versions have one schema, so the
//! rules do not depend on the version. As in KubeVirt's own webhook, the response contains all broken rules,
//! with the same fields and with messages that contain the same texts. The rules are evaluated in this order:
//!
//! 1. the removal record ([`Rule::TargetsRecord`]), independent of the rest of the request;
//! 2. a pool that is being deleted and an unchanged spec are allowed;
//! 3. the types of all parts that the request changes. An error is a bad request;
//! 4. all other rules, each for the part that the request changes. A pool whose template became invalid can
//!    still be scaled, labeled and deleted;
//! 5. if no rule rejects the request: warnings that depend on the other pools of the namespace, and the
//!    validation of a machine, which the webhook creates as a dry run if the template changed.
//!
//! Every rule of the definition of vmpool is repeated here, because the cluster may have KubeVirt's
//! definition. KubeVirt's rules about machines are not repeated, except those about the names that the
//! controller rewrites: KubeVirt validates the machine of the dry run.

mod decode;
mod dry_run;
mod evaluation;
mod existing_storage;
mod findings;
mod known_fields;
mod machine;
mod name;
mod neighbors;
mod pool;
mod rule;
mod selectors;
mod settings;
mod size;
mod standby;
mod volumes;

use serde_json::Value;
use vmpool_api::kubevirt::POOL_GROUP;
use vmpool_engine::admission::{
    AdmissionRead, AdmissionReads, AdmissionVerdict, PoolKind, PoolRequest, PrivilegedUsers, Rules,
    ScaleGuard, Step,
};

pub use rule::{Rule, RuleScope};

use super::removal::VMPOOL;
use evaluation::evaluate_request;

/// The path of the webhook for creates and updates of pools.
pub const POOL_PATH: &str = "/validate-pool-kubevirt-io-v1beta1-virtualmachinepool";

/// The path of the webhook that sets `replicas` of pools without it.
pub const DEFAULTS_PATH: &str = "/mutate-pool-kubevirt-io-v1beta1-virtualmachinepool";

/// The pool with the number of machines that an absent `replicas` stands for; `None` if it has the field.
pub fn with_replicas(pool: &Value) -> Option<Value> {
    pool["spec"].as_object().filter(|spec| !spec.contains_key("replicas"))?;
    let mut pool = pool.clone();
    pool["spec"]["replicas"] = VMPOOL.stored.absent_replicas.into();
    Some(pool)
}

/// The rules of KubeVirt pools for programs.
#[derive(Clone, Debug, Default)]
pub struct KubevirtRules {
    /// The users with more permissions than other users.
    pub users: PrivilegedUsers,
}

impl Rules for KubevirtRules {
    fn kind(&self) -> PoolKind {
        PoolKind {
            group: POOL_GROUP,
            kind: "VirtualMachinePool",
            templates: "spec.virtualMachineTemplate",
            small_fields: &[
                "spec.replicas",
                "spec.selector",
                "spec.paused",
                "spec.maxUnavailable",
                "spec.maxProtection",
                "spec.progressDeadlineSeconds",
                "spec.maxProvisioning",
                "spec.healing",
                "spec.drain",
                "spec.standby",
                "spec.imageRefresh",
                "spec.recycle",
                "spec.revisionHistoryLimit",
                "spec.scaleInStrategy",
                "spec.updateStrategy",
                "spec.nameGeneration",
                "spec.autohealing",
            ],
            pool_path: POOL_PATH,
            setup_warning: None,
        }
    }

    fn review(
        &self,
        request: PoolRequest<'_>,
        reads: &AdmissionReads,
    ) -> Step<AdmissionVerdict, AdmissionRead> {
        evaluate_request(&self.users, request, reads)
    }

    fn scale_guard(&self) -> Option<ScaleGuard> {
        None
    }
}

#[cfg(test)]
mod tests;
