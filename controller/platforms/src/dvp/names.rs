//! Names of the API that readers and writers share.

/// `apiVersion` of pools, machines and disks.
pub(super) const API_VERSION: &str = "virtualization.deckhouse.io/v1alpha2";

/// The label selector in the status of a pool. It matches the machines and their pods, because the platform copies the
/// labels of a machine to its pod.
pub(crate) fn selector(pool_uid: &str) -> String {
    format!("{}={pool_uid}", vmpool_api::labels::POOL_UID)
}
