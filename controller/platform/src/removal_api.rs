//! The description of the APIs of targeted removal and of expansion, as data.

use std::fmt;

use vmpool_api::subresources::{self, PoolSubresource, SubresourceGroup};

use crate::stored_reader::StoredReader;

/// A version of an API group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GroupVersion {
    /// The group.
    pub group: &'static str,
    /// The version.
    pub version: &'static str,
}

/// The value of `apiVersion`.
impl fmt::Display for GroupVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.group, self.version)
    }
}

/// APIs that one server serves. Several of them can have resources in the same group and version.
#[derive(Clone, Copy, Debug)]
pub struct Apis {
    /// The APIs of targeted removal and of claims.
    pub removal: &'static [RemovalApi],
    /// The APIs of expansion.
    pub expansion: &'static [ExpansionApi],
    /// The APIs of expansion in the group of a platform, for clusters without this platform.
    pub reference: Option<ReferenceApis>,
}

/// APIs in the group of a platform. While the platform is installed, its own API server serves them.
#[derive(Clone, Copy, Debug)]
pub struct ReferenceApis {
    /// The APIs of expansion.
    pub expansion: &'static [ExpansionApi],
    /// The resource whose objects show that the platform is installed.
    pub installations: &'static StoredResource,
}

impl Apis {
    /// No API.
    pub const NONE: Self = Self { removal: &[], expansion: &[], reference: None };

    /// The APIs without those in the group of a platform.
    #[must_use]
    pub const fn without_reference(self) -> Self {
        Self { reference: None, ..self }
    }

    /// All APIs of expansion.
    pub fn expansions(self) -> impl Iterator<Item = &'static ExpansionApi> {
        self.expansion.iter().chain(self.reference.into_iter().flat_map(|reference| reference.expansion))
    }

    /// All groups and versions, each once.
    pub fn group_versions(self) -> Vec<GroupVersion> {
        let mut all = Vec::new();
        let removal = self.removal.iter().map(RemovalApi::group_version);
        for served in removal.chain(self.expansions().map(ExpansionApi::group_version)) {
            if !all.contains(&served) {
                all.push(served);
            }
        }
        all
    }
}

/// A served API group of targeted removal. Several groups can be about the same pools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemovalApi {
    /// The served group.
    pub group: &'static str,
    /// The served version.
    pub version: &'static str,
    /// The plural name of the served resource.
    pub plural: &'static str,
    /// The singular name of the served resource.
    pub singular: &'static str,
    /// The kind of the served resource. The served object has metadata only.
    pub kind: &'static str,
    /// The kind of a removal request.
    pub removal_kind: &'static str,
    /// The kind of a claim.
    pub claim_kind: &'static str,
    /// The kind of a release.
    pub release_kind: &'static str,
    /// The stored objects.
    pub stored: &'static StoredApi,
}

impl RemovalApi {
    /// The API in a group of vmpool for stored pools with the plural name and the kind of the group.
    pub const fn of_pools(group: SubresourceGroup, stored: &'static StoredApi) -> Self {
        Self {
            group: group.name,
            version: group.version,
            plural: subresources::POOLS,
            singular: "virtualmachinepool",
            kind: "VirtualMachinePool",
            removal_kind: PoolSubresource::ScaleDownWith.kind(),
            claim_kind: PoolSubresource::Claim.kind(),
            release_kind: PoolSubresource::Release.kind(),
            stored,
        }
    }

    /// The served group and version.
    pub fn group_version(&self) -> GroupVersion {
        GroupVersion { group: self.group, version: self.version }
    }

    /// The value of `apiVersion`.
    pub fn api_version(&self) -> String {
        self.group_version().to_string()
    }
}

/// A served API group that returns machines, and in a group of vmpool also pools, with instance type and
/// preference written out. Several groups can be about the same machines, and their responses are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpansionApi {
    /// The served group.
    pub group: &'static str,
    /// The served version.
    pub version: &'static str,
    /// The plural name of machines.
    pub machines: &'static str,
    /// The name of machines in the response about a missing one.
    pub machine: &'static str,
    /// The kind of machines.
    pub machine_kind: &'static str,
    /// The resource for a machine in the request.
    pub expand_machine: &'static str,
    /// Pools, if the group has them.
    pub pools: Option<ExpandedPools>,
    /// The stored objects.
    pub stored: &'static StoredApi,
    /// The installations of the platform, which configure what it adds to machines.
    pub installations: &'static StoredResource,
}

/// The names of pools in an API of expansion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpandedPools {
    /// The plural name of pools.
    pub plural: &'static str,
    /// The kind of pools.
    pub kind: &'static str,
    /// The resource for a pool in the request.
    pub expand_pool: &'static str,
}

impl ExpansionApi {
    /// The served group and version.
    pub fn group_version(&self) -> GroupVersion {
        GroupVersion { group: self.group, version: self.version }
    }
}

/// The stored objects that a removal reads and writes.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct StoredApi {
    /// How its objects are read.
    pub reader: StoredReader,
    /// Pools.
    pub pools: StoredResource,
    /// Machines.
    pub machines: StoredResource,
    /// Instances of machines, if they are objects. They contain the addresses.
    pub instances: Option<StoredResource>,
    /// The annotation of a pool that contains its removal record.
    pub record: &'static str,
    /// The annotation of a pool that contains the removed machines whose names other machines can get; `None`
    /// if names do not return.
    pub removed: Option<&'static str>,
    /// Whether a pool can preserve the storage of a machine that is deleted, unless it is deleted in the
    /// foreground.
    pub preserves_storage: bool,
    /// The number of machines that a missing `spec.replicas` of a pool stands for.
    pub absent_replicas: i64,
    /// The installations of the platform, if they say whether its own controller serves the pools.
    pub installations: Option<&'static StoredResource>,
}

/// A stored resource. Its objects are in namespaces.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct StoredResource {
    /// The group.
    pub group: &'static str,
    /// The version.
    pub version: &'static str,
    /// The plural name.
    pub plural: &'static str,
}
