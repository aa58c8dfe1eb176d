//! The aggregated API of vmpool: the paths of its subresources of a pool, and the bodies of requests and
//! responses for claims, releases and targeted removals.
//!
//! The crate has no client. A program sends a body as JSON with a POST to the path, with any HTTP client that
//! can authenticate to the API server:
//!
//! ```
//! use std::time::Duration;
//! use vmpool_api::subresources::{DVP, MachineClaim, PoolSubresource};
//!
//! let path = DVP.path("ci", "runners", PoolSubresource::Claim);
//! assert_eq!(
//!     path,
//!     "/apis/subresources.vmpool.dev/v1alpha1/namespaces/ci/virtualmachinepools/runners/claim"
//! );
//! let claim = MachineClaim::new("job-1", Duration::from_secs(3600)).reason("build 4711");
//! let body = serde_json::to_value(&claim)?;
//! assert_eq!(
//!     body,
//!     serde_json::json!({"id": "job-1", "durationSeconds": 3600, "reason": "build 4711"})
//! );
//! # Ok::<_, serde_json::Error>(())
//! ```
//!
//! A request whose response was lost can be repeated: the same user and id find the same claim again, and a
//! machine that a removal has accepted is not counted twice.

mod claim;
mod removal;
#[cfg(test)]
mod tests;

pub use claim::{
    ClaimResponse, ClaimedMachine, LONGEST_WAIT, MachineClaim, MachineIdentity, MachineRelease,
    ReleaseAction, ReleaseResponse,
};
pub use removal::{
    MAX_REMOVAL_TARGETS, PoolPreconditions, RemovalOutcome, RemovalResult, TargetedRemoval, removal_results,
};

use crate::enums::{UnknownValue, api_enum};

/// The group in which vmpool serves the subresources of pools of one platform.
///
/// Pools of the two platforms can have the same name in a namespace, so each platform has a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SubresourceGroup {
    /// The name of the group.
    pub name: &'static str,
    /// Its version.
    pub version: &'static str,
}

/// The group for pools of DVP.
pub const DVP: SubresourceGroup = SubresourceGroup { name: "subresources.vmpool.dev", version: "v1alpha1" };

/// The group for pools of KubeVirt.
pub const KUBEVIRT: SubresourceGroup =
    SubresourceGroup { name: "kubevirt.subresources.vmpool.dev", version: "v1alpha1" };

/// The plural resource name of pools in the groups. A role grants `create` on this name, a slash and the
/// subresource, for example `virtualmachinepools/claim`.
pub const POOLS: &str = "virtualmachinepools";

api_enum! {
    /// A subresource of a pool that accepts a POST.
    PoolSubresource ("subresource of a pool") {
        /// Targeted removal. The body is a [`TargetedRemoval`].
        ScaleDownWith = "scaledownwith",
        /// A claim. The body is a [`MachineClaim`].
        Claim = "claim",
        /// The release of a claimed machine. The body is a [`MachineRelease`].
        Release = "release",
    }
}

impl PoolSubresource {
    /// The kind of the bodies of its requests. Claims and releases have responses of the same kind.
    pub const fn kind(self) -> &'static str {
        match self {
            Self::ScaleDownWith => "VirtualMachinePoolScaleDownWith",
            Self::Claim => "VirtualMachinePoolClaim",
            Self::Release => "VirtualMachinePoolRelease",
        }
    }
}

impl SubresourceGroup {
    /// Group and version, as in `apiVersion`.
    pub fn api_version(self) -> String {
        format!("{}/{}", self.name, self.version)
    }

    /// The path of a subresource of a pool on the API server.
    pub fn path(self, namespace: &str, pool: &str, subresource: PoolSubresource) -> String {
        let Self { name, version } = self;
        format!("/apis/{name}/{version}/namespaces/{namespace}/{POOLS}/{pool}/{subresource}")
    }
}

/// The value of `dryRun` with which a request is checked and changes nothing.
fn dry_run_all() -> Vec<String> {
    vec!["All".to_owned()]
}
