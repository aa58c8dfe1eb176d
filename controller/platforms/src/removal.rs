//! The APIs of targeted removal, of claims and of expansion: which groups are served for the pools of each
//! platform, and which stored objects they read and write.

pub use vmpool_instancetype::fields::StatusCause;
pub use vmpool_platform::removal_api::{
    Apis, ExpandedPools, ExpansionApi, GroupVersion, ReferenceApis, RemovalApi, StoredApi, StoredResource,
};
pub use vmpool_platform::{StoredInstance, StoredMachine, StoredObjectPage, instance_addresses};

pub use crate::kubevirt::expansion::{
    self, Expansion, ExpansionForm, MatcherProblem, RevisionToExpand, StartDefaults,
};
use crate::registered_apis::{EXPANSION_APIS, REFERENCE_APIS, REMOVAL_APIS};

/// The served APIs. On a cluster with the platform's own API server, a group can belong to the platform: the
/// APIServices of the cluster decide which groups reach vmpool.
pub const APIS: Apis = Apis { removal: REMOVAL_APIS, expansion: EXPANSION_APIS, reference: None };

/// The served APIs in a cluster without KubeVirt, whose group vmpool then serves as well.
pub const STANDALONE_APIS: Apis = Apis { reference: REFERENCE_APIS, ..APIS };
