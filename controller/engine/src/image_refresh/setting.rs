//! The setting of a pool: what the controller does if a source of its disks leads to other content.

use std::collections::BTreeMap;

use serde_json::Value;
use vmpool_api::annotations;

use crate::annotated_setting::AnnotatedSetting;
use crate::limits::clip_name;

/// On pools: [`IMAGE_REFRESH_FIELD`], for definitions of pools without that field.
pub const IMAGE_REFRESH: &str = annotations::IMAGE_REFRESH;
/// The field of the spec of pools. It overrides [`IMAGE_REFRESH`].
pub const IMAGE_REFRESH_FIELD: &str = "imageRefresh";

/// What the controller does if a source of the disks of a pool leads to other content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ImageRefresh {
    /// It does not follow the sources.
    #[default]
    Off,
    /// It reports machines with disks from other content.
    Report,
    /// It replaces them, too.
    Recreate,
}

impl ImageRefresh {
    /// All values.
    pub const ALL: [Self; 3] = [Self::Off, Self::Report, Self::Recreate];

    /// The value in the spec of pools.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Off => "Off",
            Self::Report => "Report",
            Self::Recreate => "Recreate",
        }
    }
}

/// A setting that cannot be read. The text says what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text} is not Off, Report or Recreate")]
pub struct ImageRefreshError {
    /// The value, truncated.
    text: String,
}

/// Reads the value of [`IMAGE_REFRESH_FIELD`].
///
/// # Errors
/// The value is not one of [`ImageRefresh::ALL`].
pub fn parse_image_refresh(value: &Value) -> Result<ImageRefresh, ImageRefreshError> {
    match value.as_str() {
        Some(text) => parse_image_refresh_text(text),
        None => Err(invalid_setting(&value.to_string())),
    }
}

/// Reads the value of [`IMAGE_REFRESH`], with or without the quotes of JSON.
///
/// # Errors
/// The value is not one of [`ImageRefresh::ALL`].
pub fn parse_image_refresh_text(text: &str) -> Result<ImageRefresh, ImageRefreshError> {
    let plain = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(text);
    let known = ImageRefresh::ALL.into_iter().find(|known| known.as_str() == plain);
    known.ok_or_else(|| invalid_setting(text))
}

fn invalid_setting(text: &str) -> ImageRefreshError {
    ImageRefreshError { text: clip_name(text).to_owned() }
}

/// The setting as a field and as an annotation.
pub const IMAGE_REFRESH_SETTING: AnnotatedSetting<ImageRefresh, ImageRefreshError> = AnnotatedSetting {
    field: IMAGE_REFRESH_FIELD,
    annotation: IMAGE_REFRESH,
    parse_field: parse_image_refresh,
    parse_annotation: parse_image_refresh_text,
    consequence: ", so images are not followed; correct or remove it",
    reason: |_| "it is not Off, Report or Recreate",
    way_out: "use Report or Recreate, or remove it; in YAML, Off needs quotes",
};

/// The setting of a pool: the field of its spec, or else the annotation. With an unreadable value, the
/// controller does not follow the sources, and `invalid_settings` gets a message.
pub fn read_image_refresh(
    field: &Value,
    annotations: Option<&BTreeMap<String, String>>,
    invalid_settings: &mut Vec<String>,
) -> ImageRefresh {
    IMAGE_REFRESH_SETTING.read_or(ImageRefresh::Off, field, annotations, invalid_settings)
}
