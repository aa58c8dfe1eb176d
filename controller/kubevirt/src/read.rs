//! Translation of stored objects to plain types.

mod instance;
mod machine;
mod pool;
mod strategy;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use vmpool_engine::model::ObjectId;

pub use instance::{InstanceFacts, read_instance_facts};
pub use machine::{MachineFacts, Readiness, claim_names, data_volume_names, read_machine_facts};
pub use pool::{PoolFacts, PoolSettings, read_pool_facts, read_pool_settings};
pub use strategy::{
    AutohealingSettings, MachineSelection, NameGenerationSettings, ScaleIn, ScaleInMode, UpdateMode,
};

fn read_object_id(metadata: &ObjectMeta) -> ObjectId {
    ObjectId::new(metadata.name.as_deref().unwrap_or_default(), metadata.uid.as_deref().unwrap_or_default())
}

/// The creation time of an object; the Unix epoch if it is missing.
fn creation_time(metadata: &ObjectMeta) -> Timestamp {
    metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0)
}

#[cfg(test)]
mod tests;
