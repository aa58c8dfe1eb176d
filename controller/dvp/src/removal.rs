//! Targeted removal of DVP pools.

use vmpool_api::annotations::SCALE_DOWN_TARGETS;
use vmpool_api::subresources;
use vmpool_api::v1alpha2::{GROUP, VERSION};
use vmpool_platform::StoredReader;
use vmpool_platform::removal_api::{RemovalApi, StoredApi, StoredResource};

use super::Dvp;

const STORED: StoredApi = StoredApi {
    reader: StoredReader::of::<Dvp>(),
    pools: StoredResource { group: GROUP, version: VERSION, plural: "virtualmachinepools" },
    machines: StoredResource { group: GROUP, version: VERSION, plural: "virtualmachines" },
    instances: None,
    record: SCALE_DOWN_TARGETS,
    removed: None,
    // Its own disks are deleted with it. Whether retained disks go to another machine is a setting of the
    // pool.
    preserves_storage: false,
    absent_replicas: 0,
    installations: None,
};

/// The group of vmpool.
pub const VMPOOL: RemovalApi = RemovalApi::of_pools(subresources::DVP, &STORED);

/// The group of the reference API.
pub const REFERENCE: RemovalApi =
    RemovalApi { group: "subresources.virtualization.deckhouse.io", version: "v1alpha2", ..VMPOOL };
