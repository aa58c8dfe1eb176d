//! Decoding that accepts values of unexpected types, because one object that cannot be decoded would make a
//! whole list fail.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use vmpool_engine::limits;

/// A value of another type counts as missing. No tree is built of skipped values.
///
/// # Errors
/// Those of the deserializer.
pub fn lenient_value<'de, T: DeserializeOwned + Default, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Box::<RawValue>::deserialize(deserializer).map(|raw| or_default(&raw))
}

/// The same for each of the first [`limits::ENTRIES`] elements.
///
/// # Errors
/// Those of the deserializer.
pub fn lenient_list<'de, T: DeserializeOwned + Default, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    let raw = Box::<RawValue>::deserialize(deserializer)?;
    let list: Vec<&RawValue> = serde_json::from_str(raw.get()).unwrap_or_default();
    Ok(list.into_iter().take(limits::ENTRIES).map(or_default).collect())
}

/// A text of at most the length of a name. A longer text is truncated so that it equals no name.
///
/// # Errors
/// Those of the deserializer.
pub fn short_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let text: Option<String> = lenient_value(deserializer)?;
    Ok(text.map(|text| limits::clip_name(&text).to_owned()))
}

/// The status of a pool. If it is too long, it counts as missing.
///
/// # Errors
/// Those of the deserializer.
pub fn short_status<'de, T: DeserializeOwned + Default, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    let raw = Box::<RawValue>::deserialize(deserializer)?;
    Ok(if raw.get().len() > limits::POOL_STATUS { T::default() } else { or_default(&raw) })
}

fn or_default<T: DeserializeOwned + Default>(raw: &RawValue) -> T {
    serde_json::from_str(raw.get()).unwrap_or_default()
}
