//! Translation of stored objects to plain types.

mod instance;
mod machine;
mod pool;
mod strategy;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use vmpool_engine::model::ObjectId;

pub use instance::{InstanceFacts, instance};
pub use machine::{MachineFacts, Readiness, claims, data_volumes, machine};
pub use pool::{PoolFacts, Settings, pool, settings};
pub use strategy::{Autohealing, NameGeneration, ScaleIn, ScaleInMode, Selection, Update};

fn id(metadata: &ObjectMeta) -> ObjectId {
    ObjectId::new(metadata.name.as_deref().unwrap_or_default(), metadata.uid.as_deref().unwrap_or_default())
}

/// The creation time of an object; the Unix epoch if it is missing.
fn created(metadata: &ObjectMeta) -> Timestamp {
    metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0)
}

#[cfg(test)]
mod tests;
