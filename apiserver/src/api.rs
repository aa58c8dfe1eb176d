//! Names of what is served.

/// A version of an API group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupVersion {
    /// The group.
    pub group: &'static str,
    /// The version.
    pub version: &'static str,
}

impl GroupVersion {
    /// As `apiVersion` writes it.
    pub fn api_version(self) -> String {
        format!("{}/{}", self.group, self.version)
    }
}

/// What is served: our own group, and that of the reference, which belongs to somebody else on clusters that have its
/// API server. Which of them reach this program is decided by the APIServices of the cluster.
pub const GROUPS: [GroupVersion; 2] = [
    GroupVersion { group: "subresources.virtualization.deckhouse.io", version: "v1alpha2" },
    GroupVersion { group: "subresources.vmpool.dev", version: "v1alpha1" },
];

/// The resource, in the plural.
pub const POOLS: &str = "virtualmachinepools";
/// The resource, in the singular.
pub const POOL: &str = "virtualmachinepool";
/// The kind of the resource: a pool without spec and status.
pub const POOL_KIND: &str = "VirtualMachinePool";
/// The subresource.
pub const REMOVAL: &str = "scaledownwith";
/// The kind of the subresource.
pub const REMOVAL_KIND: &str = "VirtualMachinePoolScaleDownWith";

/// The group in which pools and machines are stored.
pub const STORED_GROUP: &str = "virtualization.deckhouse.io";
/// Its version.
pub const STORED_VERSION: &str = "v1alpha2";
/// Machines, in the plural.
pub const MACHINES: &str = "virtualmachines";

/// The served version of this group.
pub(crate) fn group(name: &str) -> Option<GroupVersion> {
    GROUPS.into_iter().find(|served| served.group == name)
}
