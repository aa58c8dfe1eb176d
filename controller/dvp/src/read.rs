//! Translation of DVP objects to the data model of the engine.

mod disk;
mod machine;
mod pool;
mod rollout;

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use vmpool_engine::model::{ObjectId, Uid};
use vmpool_platform::intern::intern_text;

pub(super) use disk::{read_attachment, read_disk};
pub(super) use machine::read_machine;
pub(super) use pool::{published_in as published, read_pool};

fn object_id(metadata: &ObjectMeta) -> ObjectId {
    ObjectId::new(metadata.name.as_deref().unwrap_or_default(), metadata.uid.as_deref().unwrap_or_default())
}

/// The creation time of an object; the Unix epoch if it is missing.
fn creation_time(metadata: &ObjectMeta) -> Timestamp {
    metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0)
}

fn label_value<'a>(metadata: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    metadata.labels.as_ref()?.get(key).map(String::as_str)
}

fn annotation_value<'a>(metadata: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

/// The UID of a pool, interned because many objects refer to it.
fn pool_uid(uid: &str) -> Uid {
    intern_text(uid).into()
}

/// Maximum length of a message of the platform, in characters.
const LONGEST_MESSAGE: usize = 300;

/// A message of the platform, truncated to [`LONGEST_MESSAGE`].
fn truncated_message(text: &str) -> Arc<str> {
    let end = text.char_indices().nth(LONGEST_MESSAGE).map_or(text.len(), |(end, _)| end);
    text[..end].into()
}

/// A time in the format of annotations.
fn parse_annotation_time(text: &str) -> Option<Timestamp> {
    text.parse().ok()
}

#[cfg(test)]
mod tests;
