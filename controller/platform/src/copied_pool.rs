//! Whether a stored pool is a [copy](vmpool_engine::copied_pool), by the annotation of its platform.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use vmpool_engine::{ObjectId, Uid, copied_pool};

/// The UID of the former pool, if the pool with this metadata is a copy of it. `key` is
/// [`Platform::MACHINES_OF`](crate::Platform::MACHINES_OF).
pub fn former_pool(metadata: &ObjectMeta, key: &str, pool: &ObjectId) -> Option<Uid> {
    copied_pool::former_uid(metadata.annotations.as_ref()?.get(key)?, pool)
}

/// The validation error of a copy, so that the controller creates and deletes nothing for it.
pub fn hold_error(metadata: &ObjectMeta, key: &str, pool: &ObjectId) -> Option<String> {
    former_pool(metadata, key, pool).map(|former| copied_pool::copied_pool_message(&former, pool))
}
