//! Targeted removal of KubeVirt pools, and expansion. Removal has a group of its own, because a DVP pool can
//! have the same name in the same namespace. KubeVirt's own group belongs to vmpool only in a cluster without
//! KubeVirt.

use vmpool_api::kubevirt::annotations::{REMOVED_MACHINES, SCALE_IN_TARGETS};
use vmpool_api::kubevirt::{GROUP, POOL_GROUP, POOL_VERSION};
use vmpool_api::subresources;
use vmpool_platform::StoredReader;
use vmpool_platform::removal_api::{
    ExpandedPools, ExpansionApi, ReferenceApis, RemovalApi, StoredApi, StoredResource,
};

use super::keys::MACHINE_KIND;
use super::platform::KubeVirt;

const STORED: StoredApi = StoredApi {
    reader: StoredReader::of::<KubeVirt>(),
    pools: StoredResource { group: POOL_GROUP, version: POOL_VERSION, plural: "virtualmachinepools" },
    machines: StoredResource { group: GROUP, version: "v1", plural: "virtualmachines" },
    instances: Some(StoredResource { group: GROUP, version: "v1", plural: "virtualmachineinstances" }),
    record: SCALE_IN_TARGETS,
    removed: Some(REMOVED_MACHINES),
    preserves_storage: true,
    absent_replicas: 1,
    installations: Some(&INSTALLATIONS),
};

/// The group of vmpool for KubeVirt pools.
pub const VMPOOL: RemovalApi = RemovalApi::of_pools(subresources::KUBEVIRT, &STORED);

/// The group of vmpool for KubeVirt machines and pools.
pub const EXPANSION: ExpansionApi = ExpansionApi {
    group: VMPOOL.group,
    version: VMPOOL.version,
    machines: "virtualmachines",
    machine: "virtualmachine",
    machine_kind: MACHINE_KIND,
    expand_machine: "expand-vm-spec",
    pools: Some(ExpandedPools { plural: VMPOOL.plural, kind: VMPOOL.kind, expand_pool: "expand-pool-spec" }),
    stored: &STORED,
    installations: &INSTALLATIONS,
};

/// The group of KubeVirt itself, for clusters without KubeVirt. It knows no pools.
pub const REFERENCE: ReferenceApis =
    ReferenceApis { expansion: &[REFERENCE_V1, REFERENCE_V1ALPHA3], installations: &INSTALLATIONS };

const REFERENCE_V1: ExpansionApi =
    ExpansionApi { group: "subresources.kubevirt.io", version: "v1", pools: None, ..EXPANSION };

const REFERENCE_V1ALPHA3: ExpansionApi = ExpansionApi { version: "v1alpha3", ..REFERENCE_V1 };

const INSTALLATIONS: StoredResource = StoredResource { group: GROUP, version: "v1", plural: "kubevirts" };
