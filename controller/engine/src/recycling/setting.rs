//! The setting of a pool: when the controller replaces its machines.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value};
use vmpool_api::{GoDuration, annotations};

use crate::annotated_setting::{AnnotatedSetting, parse_json_annotation};
use crate::ids::{Uid, hash_bytes};
use crate::limits::clip_name;

/// On pools: [`RECYCLE_FIELD`] as JSON, for definitions of pools without that field.
pub const RECYCLE: &str = annotations::RECYCLE;
/// The field of the spec of pools. It overrides [`RECYCLE`].
pub const RECYCLE_FIELD: &str = "recycle";
/// The smallest lifetime. The jitter does not go below it either.
pub const SHORTEST_LIFETIME: Duration = Duration::from_mins(10);
/// The jitter of a pool that sets none, in percent.
pub const DEFAULT_JITTER: u8 = 10;

/// When the controller replaces machines of a pool. The default is never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecyclePolicy {
    /// The age at which a machine is replaced; `None` for no age.
    pub max_lifetime: Option<Duration>,
    /// The number of claims after which a machine is replaced, at least one; `None` for no number.
    pub max_claims: Option<u32>,
    /// By how many percent the lifetime of a machine is shortened at most, so that machines which were
    /// created at the same time are not replaced at the same time.
    pub jitter: u8,
}

impl RecyclePolicy {
    /// The age at which the machine with this UID is replaced; `None` for no age. It is the same in each pass
    /// and for each leader.
    pub(crate) fn lifetime_of(&self, machine: &Uid) -> Option<Duration> {
        let longest = self.max_lifetime?;
        let shortest = longest.saturating_sub(longest / 100 * u32::from(self.jitter)).max(SHORTEST_LIFETIME);
        let spread = longest.saturating_sub(shortest).as_secs();
        Some(longest.saturating_sub(Duration::from_secs(hash_uid(machine) % spread.saturating_add(1))))
    }
}

/// A number that depends only on the UID.
fn hash_uid(uid: &Uid) -> u64 {
    let hashed = hash_bytes(uid.as_str().bytes());
    // The low bits alone depend on few bits of the UID.
    hashed ^ (hashed >> 32)
}

/// A setting that cannot be read. The text says what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text} is not an object with maxLifetime, a duration from 10m, maxClaims, a number from 1, and jitter, a \
     percentage from 0 to 100, for example {{\"maxLifetime\": \"168h\", \"jitter\": 20}}"
)]
pub struct RecycleSettingError {
    /// The value, truncated.
    text: String,
}

/// Reads the value of [`RECYCLE_FIELD`].
///
/// # Errors
/// The value is not an object with these fields: `maxLifetime`, a duration of at least [`SHORTEST_LIFETIME`];
/// `maxClaims`, a number from 1; `jitter`, a number from 0 to 100.
pub fn parse_recycle(value: &Value) -> Result<RecyclePolicy, RecycleSettingError> {
    let read = value.as_object().and_then(read_fields);
    read.ok_or_else(|| quote_unreadable(&value.to_string()))
}

fn read_fields(fields: &Map<String, Value>) -> Option<RecyclePolicy> {
    let mut policy = RecyclePolicy { jitter: DEFAULT_JITTER, ..RecyclePolicy::default() };
    for (name, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
        match name.as_str() {
            "maxLifetime" => policy.max_lifetime = Some(read_lifetime(value)?),
            "maxClaims" => {
                policy.max_claims = Some(u32::try_from(value.as_u64()?).ok().filter(|most| *most > 0)?);
            }
            "jitter" => {
                policy.jitter = u8::try_from(value.as_u64()?).ok().filter(|percent| *percent <= 100)?;
            }
            _ => return None,
        }
    }
    Some(policy)
}

fn read_lifetime(value: &Value) -> Option<Duration> {
    let parsed = GoDuration::parse_positive(value.as_str()?).ok()?.to_std()?;
    (parsed >= SHORTEST_LIFETIME).then_some(parsed)
}

/// The setting as a field and as an annotation.
pub const RECYCLE_SETTING: AnnotatedSetting<RecyclePolicy, RecycleSettingError> = AnnotatedSetting {
    field: RECYCLE_FIELD,
    annotation: RECYCLE,
    parse_field: parse_recycle,
    parse_annotation: |text| parse_json_annotation(text, parse_recycle, quote_unreadable),
    consequence: ", so no machine is recycled; correct or remove it",
    reason: |_| "it is not an object with maxLifetime of at least 10m, maxClaims from 1, and jitter from 0 to 100",
    way_out: "use for example {\"maxLifetime\": \"168h\", \"jitter\": 20}, or remove it",
};

/// The setting of a pool: the field of its spec, or else the annotation. An unreadable value counts as
/// absent, so that no machine is replaced, and adds a message to `invalid_settings`.
pub fn read_recycle(
    field: &Value,
    annotations: Option<&BTreeMap<String, String>>,
    invalid_settings: &mut Vec<String>,
) -> RecyclePolicy {
    RECYCLE_SETTING.read_or(RecyclePolicy::default(), field, annotations, invalid_settings)
}

fn quote_unreadable(text: &str) -> RecycleSettingError {
    RecycleSettingError { text: clip_name(text).to_owned() }
}
