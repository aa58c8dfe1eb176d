//! Targeted removal of KubeVirt pools. It has a group of its own, because a DVP pool can have the same name in the same
//! namespace.

use vmpool_api::kubevirt::annotations::SCALE_IN_TARGETS;
use vmpool_api::kubevirt::{GROUP, POOL_GROUP, POOL_VERSION};

use super::keys::MACHINE_KIND;
use crate::removal_api::{ExpansionApi, PlatformOf, RemovalApi, Stored, StoredResource};

const STORED: Stored = Stored {
    platform: PlatformOf::KubeVirt,
    pools: StoredResource { group: POOL_GROUP, version: POOL_VERSION, plural: "virtualmachinepools" },
    machines: StoredResource { group: GROUP, version: "v1", plural: "virtualmachines" },
    instances: Some(StoredResource { group: GROUP, version: "v1", plural: "virtualmachineinstances" }),
    record: SCALE_IN_TARGETS,
    absent_replicas: 1,
};

/// The group of vmpool for KubeVirt pools.
pub const VMPOOL: RemovalApi = RemovalApi {
    group: "kubevirt.subresources.vmpool.dev",
    version: "v1alpha1",
    plural: "virtualmachinepools",
    singular: "virtualmachinepool",
    kind: "VirtualMachinePool",
    removal_kind: "VirtualMachinePoolScaleDownWith",
    claim_kind: "VirtualMachinePoolClaim",
    release_kind: "VirtualMachinePoolRelease",
    stored: &STORED,
    expansion: Some(ExpansionApi {
        machines: "virtualmachines",
        machine: "virtualmachine",
        machine_kind: MACHINE_KIND,
        expand_machine: "expand-vm-spec",
        expand_pool: "expand-pool-spec",
    }),
};
