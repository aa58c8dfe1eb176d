//! The functions that read the stored objects of one platform, as data.

use std::fmt;
use std::hash::{Hash, Hasher};

use serde_json::Value;
use serde_json::value::RawValue;
use vmpool_api::OwnerIdentity;
use vmpool_engine::model::Instance;
use vmpool_engine::{ObjectId, ParsedPool};

use crate::stored_objects::StoredMachine;

/// How a program reads the stored objects of one platform. Programs that serve all platforms have one code
/// path for them, so they choose the platform by a value and not by a type.
///
/// Two values are equal if they are about the same platform.
#[derive(Clone, Copy)]
pub struct StoredReader {
    pub(crate) platform: &'static str,
    pub(crate) pool: fn(&RawValue) -> serde_json::Result<ParsedPool>,
    pub(crate) machine: fn(&RawValue) -> serde_json::Result<StoredMachine>,
    pub(crate) instance: fn(&RawValue) -> serde_json::Result<Instance>,
    pub(crate) blocker: fn(&RawValue) -> serde_json::Result<Option<String>>,
    pub(crate) is_owner: fn(OwnerIdentity<'_>, &ObjectId) -> bool,
    pub(crate) instance_selector: Option<&'static str>,
    pub(crate) machine_selector: fn(&str) -> Option<String>,
    pub(crate) has_template_of: fn(&Value, &Value) -> bool,
}

impl fmt::Debug for StoredReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StoredReader").field(&self.platform).finish()
    }
}

impl PartialEq for StoredReader {
    fn eq(&self, other: &Self) -> bool {
        self.platform == other.platform
    }
}

impl Eq for StoredReader {}

impl Hash for StoredReader {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.platform.hash(state);
    }
}
