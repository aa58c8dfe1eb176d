//! Translation of stored objects to plain types.

mod machine;
mod pool;
mod strategy;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use vmpool_engine::model::ObjectId;

pub use machine::{claim_names, data_volume_names};
pub use pool::{PoolFacts, PoolSettings, read_pool_facts, read_pool_settings};
pub use strategy::{
    AutohealingSettings, MachineSelection, NameGenerationSettings, ScaleIn, ScaleInMode, UpdateMode,
};

/// Name and UID of an object.
pub(super) fn read_object_id(metadata: &ObjectMeta) -> ObjectId {
    ObjectId::new(metadata.name.as_deref().unwrap_or_default(), metadata.uid.as_deref().unwrap_or_default())
}

#[cfg(test)]
mod tests;
