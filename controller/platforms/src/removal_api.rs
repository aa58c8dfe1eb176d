//! The description of an API of targeted removal, as data.

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
    pub stored: &'static Stored,
    /// The expansion of machines and pools, if the platform has instance types.
    pub expansion: Option<ExpansionApi>,
}

/// The names of the API that returns machines and pools with instance type and preference written out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpansionApi {
    /// The plural name of machines.
    pub machines: &'static str,
    /// The name of machines in the response about a missing one.
    pub machine: &'static str,
    /// The kind of machines.
    pub machine_kind: &'static str,
    /// The resource for a machine in the request.
    pub expand_machine: &'static str,
    /// The resource for a pool in the request.
    pub expand_pool: &'static str,
}

impl RemovalApi {
    /// The value of `apiVersion`.
    pub fn api_version(&self) -> String {
        format!("{}/{}", self.group, self.version)
    }
}

/// A platform, for the functions that read its stored objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PlatformOf {
    /// Deckhouse DVP.
    Dvp,
    /// KubeVirt.
    KubeVirt,
}

/// The stored objects that a removal reads and writes.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Stored {
    /// The platform.
    pub platform: PlatformOf,
    /// Pools.
    pub pools: StoredResource,
    /// Machines.
    pub machines: StoredResource,
    /// Instances of machines, if they are objects. They contain the addresses.
    pub instances: Option<StoredResource>,
    /// The annotation of a pool that contains its removal record.
    pub record: &'static str,
    /// The number of machines that a missing `spec.replicas` of a pool stands for.
    pub absent_replicas: i64,
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
