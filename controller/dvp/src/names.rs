//! Names of the API that readers and writers share.

/// `apiVersion` of pools, machines and disks.
pub(super) const API_VERSION: &str = "virtualization.deckhouse.io/v1alpha2";

/// The annotation of a disk that the platform deletes in order to restore it. Its value is the UID of the
/// operation.
pub(super) const RESTORE_DELETES: &str = "virtualization.deckhouse.io/vmoprestoredeleted";
/// The annotation of an object that the platform created with restored data. Its value is the UID of the
/// operation.
pub(super) const RESTORE_CREATED: &str = "virtualization.deckhouse.io/vmoprestore";

/// The label selector in the status of a pool. It matches the machines and their pods, because the platform
/// copies the labels of a machine to its pod.
pub(crate) fn machine_label_selector(pool_uid: &str) -> String {
    format!("{}={pool_uid}", vmpool_api::labels::POOL_UID)
}
