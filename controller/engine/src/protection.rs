//! Protection of machines until a moment: the annotations, their meaning, and the bounds of their values.
//!
//! The keys belong to vmpool and are the same on all platforms. A claim is protection that the aggregated API
//! has given to a caller.

mod claim;
mod planner;
pub(crate) mod protected;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::fmt::temporal::Pieces;
use serde_json::Value;
use vmpool_api::{DurationError, GoDuration, annotations, diskimage};

use crate::annotated_setting::AnnotatedSetting;
use crate::revisions::RevisionId;

pub use claim::{Claim, ClaimIdError};
pub(crate) use planner::plan_protection;

/// Prefix of the keys of this module. A machine template must not contain labels and annotations with this
/// prefix.
pub const PREFIX: &str = diskimage::PREFIX;
/// On machines: until when the machine is protected, RFC 3339. This annotation alone decides.
pub const UNTIL: &str = annotations::PROTECTED_UNTIL;
/// On machines: which user or program protects the machine, for users. At most [`LONGEST_TEXT`] bytes.
pub const BY: &str = annotations::PROTECTED_BY;
/// On machines: why the machine is protected, for users. At most [`LONGEST_TEXT`] bytes.
pub const REASON: &str = annotations::PROTECTION_REASON;
/// On machines: the claim, as JSON. Only the aggregated API writes it.
pub const CLAIM: &str = annotations::CLAIM;
/// On machines: the revision for which the controller is restarting the machine. Until the controller removes
/// it, the machine cannot be claimed.
pub const RESTARTING: &str = annotations::RESTARTING;
/// On pools: the longest time for which a machine can be protected, for example `24h`.
pub const MAX_PROTECTION: &str = annotations::MAX_PROTECTION;
/// The field of the spec of pools that is equivalent to [`MAX_PROTECTION`], and overrides it. Definitions of
/// pools other than those of vmpool do not have it.
pub const MAX_PROTECTION_FIELD: &str = "maxProtection";

/// Maximum length of the texts for users, in bytes.
pub const LONGEST_TEXT: usize = 256;
/// [`MAX_PROTECTION`] of a pool without this setting.
pub const DEFAULT_MAXIMUM: Duration = Duration::from_hours(24);
/// The smallest value of [`MAX_PROTECTION`].
pub const SMALLEST_MAXIMUM: Duration = Duration::from_mins(1);
/// The largest value of [`MAX_PROTECTION`].
pub const LARGEST_MAXIMUM: Duration = Duration::from_hours(720);
/// How far the clocks of two programs may differ. A machine stays protected for this time after its
/// annotation says that the protection ends.
pub const CLOCK_SKEW: Duration = Duration::from_secs(30);
/// The protection of a machine whose annotation cannot be read.
const UNREADABLE: Duration = Duration::from_hours(1);

/// When protection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProtectionEnd {
    /// At this time, plus [`CLOCK_SKEW`].
    At(Timestamp),
    /// The annotation cannot be read. The machine is protected until the controller has written a time.
    Unreadable,
}

/// What the annotations of a machine say about its protection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Protection {
    /// When the protection ends; `None` if the machine is not protected.
    pub until: Option<ProtectionEnd>,
    /// Which user or program protects it.
    pub by: Option<Arc<str>>,
    /// Why it is protected.
    pub reason: Option<Arc<str>>,
    /// The claim; `None` if there is none or if it cannot be read.
    pub claim: Option<Claim>,
    /// The revision for which the controller is restarting the machine.
    pub restarting: Option<RevisionId>,
}

impl Protection {
    /// Reads the annotations of a machine; `None` if they contain nothing about protection.
    pub fn read(annotations: Option<&BTreeMap<String, String>>) -> Option<Arc<Self>> {
        let get = |key: &str| annotations?.get(key).map(String::as_str);
        let until =
            get(UNTIL).map(|text| parse_until(text).map_or(ProtectionEnd::Unreadable, ProtectionEnd::At));
        let text = |key| get(key).map(|text| clip_protection_text(text).into());
        let read = Self {
            until,
            by: text(BY),
            reason: text(REASON),
            claim: get(CLAIM).and_then(Claim::parse),
            restarting: get(RESTARTING).map(|revision| clip_protection_text(revision).into()),
        };
        (read != Self::default()).then(|| Arc::new(read))
    }

    /// Whether the machine is protected at this time.
    pub fn protects(&self, now: Timestamp) -> bool {
        match self.until {
            Some(ProtectionEnd::At(until)) => now < time_after(until, CLOCK_SKEW),
            Some(ProtectionEnd::Unreadable) => true,
            None => false,
        }
    }

    /// When the protection ends or has ended, without [`CLOCK_SKEW`]; `None` if there is none or if the
    /// annotation cannot be read.
    pub fn end(&self) -> Option<Timestamp> {
        match self.until? {
            ProtectionEnd::At(until) => Some(until),
            ProtectionEnd::Unreadable => None,
        }
    }

    /// The time that the controller writes instead of one that cannot be read or is further away than
    /// `maximum`; `None` if the annotation is valid.
    pub fn shortened(&self, now: Timestamp, maximum: Duration) -> Option<Timestamp> {
        match self.until? {
            // A client whose clock is ahead may ask for the maximum.
            ProtectionEnd::At(until) if until > time_after(time_after(now, maximum), CLOCK_SKEW) => {
                Some(time_after(now, maximum))
            }
            ProtectionEnd::At(_) => None,
            ProtectionEnd::Unreadable => Some(time_after(now, maximum.min(UNREADABLE))),
        }
    }

    /// The claim, if the pool with this UID gave it. A claim of another pool is void.
    pub fn claim_of(&self, pool: &str) -> Option<&Claim> {
        self.claim.as_ref().filter(|claim| *claim.pool_uid == *pool)
    }
}

/// The digits of a fraction of a second that [`Timestamp`] holds.
const FRACTION_DIGITS: usize = 9;

/// Reads [`UNTIL`]; `None` if it is no time of RFC 3339.
///
/// RFC 3339 permits more than [`Timestamp`] holds. Further digits of a fraction are cut, and a time after the
/// largest one counts as the largest one: it must not protect a machine for less time than an earlier one.
fn parse_until(text: &str) -> Option<Timestamp> {
    let text = cut_fraction(text);
    if let Ok(until) = text.parse() {
        return Some(until);
    }
    let pieces = Pieces::parse(&*text).ok()?;
    let (date, _, _) = (pieces.date(), pieces.time()?, pieces.to_numeric_offset()?);
    (date.year() == DateTime::MAX.year()).then_some(Timestamp::MAX)
}

/// The text without the digits of a fraction that [`Timestamp`] does not hold.
fn cut_fraction(text: &str) -> Cow<'_, str> {
    let Some((whole, fraction)) = text.split_once('.') else { return Cow::Borrowed(text) };
    let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
    if digits <= FRACTION_DIGITS {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("{whole}.{}{}", &fraction[..FRACTION_DIGITS], &fraction[digits..]))
}

/// The time after `moment`, at the latest the largest one.
pub fn time_after(moment: Timestamp, time: Duration) -> Timestamp {
    moment.checked_add(time).unwrap_or(Timestamp::MAX)
}

/// A time in the format of [`UNTIL`]: in UTC, with whole seconds.
pub fn timestamp_text(moment: Timestamp) -> String {
    moment.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A value of [`MAX_PROTECTION`] that is not a duration from [`SMALLEST_MAXIMUM`] to [`LARGEST_MAXIMUM`]. The
/// text says what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a duration from 1m to 720h, for example 24h")]
pub struct MaxProtectionError {
    /// The value, truncated.
    text: String,
    /// Why it is not a positive duration; `None` if it is one, or not a text.
    source: Option<DurationError>,
}

impl MaxProtectionError {
    fn new(text: &str, source: Option<DurationError>) -> Self {
        Self { text: crate::limits::clip_name(text).to_owned(), source }
    }
}

/// Reads [`MAX_PROTECTION`], or [`MAX_PROTECTION_FIELD`].
///
/// # Errors
/// The text is not a duration from [`SMALLEST_MAXIMUM`] to [`LARGEST_MAXIMUM`].
pub fn parse_maximum(text: &str) -> Result<Duration, MaxProtectionError> {
    let duration = GoDuration::parse_positive(text)
        .map_err(|error| MaxProtectionError::new(text, Some(error)))?
        .to_std();
    let allowed = SMALLEST_MAXIMUM..=LARGEST_MAXIMUM;
    duration.filter(|duration| allowed.contains(duration)).ok_or_else(|| MaxProtectionError::new(text, None))
}

/// The setting as a field and as an annotation.
pub const MAX_PROTECTION_SETTING: AnnotatedSetting<Duration, MaxProtectionError> = AnnotatedSetting {
    field: MAX_PROTECTION_FIELD,
    annotation: MAX_PROTECTION,
    parse_field: |value| match value {
        Value::String(text) => parse_maximum(text),
        other => Err(MaxProtectionError::new(&other.to_string(), None)),
    },
    parse_annotation: parse_maximum,
    consequence: ", so the default of 24h applies; correct or remove it",
    reason: |_| "it is not a duration from 1m to 720h",
    way_out: "use for example 24h, or remove it",
};

/// The longest protection in a pool: the field of its spec, or else the annotation, as for all settings that
/// have both. An unreadable value counts as the default, and adds a message to `invalid_settings`.
pub fn read_max_protection(
    field: &Value,
    annotations: Option<&BTreeMap<String, String>>,
    invalid_settings: &mut Vec<String>,
) -> Duration {
    MAX_PROTECTION_SETTING.read_or(DEFAULT_MAXIMUM, field, annotations, invalid_settings)
}

/// `text`, truncated at a character boundary to [`LONGEST_TEXT`] bytes.
pub fn clip_protection_text(text: &str) -> &str {
    &text[..text.floor_char_boundary(LONGEST_TEXT)]
}

#[cfg(test)]
mod tests;
