//! The names of the served API groups and resources.

/// A version of an API group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupVersion {
    /// The group.
    pub group: &'static str,
    /// The version.
    pub version: &'static str,
}

impl GroupVersion {
    /// The value of `apiVersion`.
    pub fn api_version(self) -> String {
        format!("{}/{}", self.group, self.version)
    }
}

/// The served groups: vmpool's own, and that of the reference API. On clusters with the platform's API server, the latter
/// belongs to the platform. The APIServices of the cluster decide which groups reach this program.
pub const GROUPS: [GroupVersion; 2] = [
    GroupVersion { group: "subresources.virtualization.deckhouse.io", version: "v1alpha2" },
    GroupVersion { group: "subresources.vmpool.dev", version: "v1alpha1" },
];

/// The plural name of the resource.
pub const POOLS: &str = "virtualmachinepools";
/// The singular name of the resource.
pub const POOL: &str = "virtualmachinepool";
/// The kind of the resource. The served object has metadata only.
pub const POOL_KIND: &str = "VirtualMachinePool";
/// The name of the subresource.
pub const REMOVAL: &str = "scaledownwith";
/// The kind of the subresource.
pub const REMOVAL_KIND: &str = "VirtualMachinePoolScaleDownWith";

/// The API group of stored pools and machines.
pub const STORED_GROUP: &str = "virtualization.deckhouse.io";
/// The version of [`STORED_GROUP`].
pub const STORED_VERSION: &str = "v1alpha2";
/// The plural name of the resource of machines.
pub const MACHINES: &str = "virtualmachines";

/// The served version of a group.
pub(crate) fn group(name: &str) -> Option<GroupVersion> {
    GROUPS.into_iter().find(|served| served.group == name)
}
