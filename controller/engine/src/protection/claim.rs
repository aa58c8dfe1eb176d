//! Claims: protection that the aggregated API has given to a caller.

use serde::{Deserialize, Serialize};

/// The maximum length of an id of a claim, in bytes.
const LONGEST_ID: usize = 128;

/// A claim of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// The id that the caller chose.
    pub id: String,
    /// The user who made the claim.
    pub user: String,
    /// The UID of the pool at that time.
    #[serde(rename = "poolUID")]
    pub pool_uid: String,
}

/// An id of a claim that is not allowed. The text says which ids are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("id must have 1 to {LONGEST_ID} characters, which are letters, digits, '-', '_', '.', ':' and '/'")]
pub struct ClaimIdError;

impl Claim {
    /// Reads the annotation; `None` if it cannot be read.
    pub fn parse(text: &str) -> Option<Self> {
        // The aggregated API writes no longer annotation.
        if text.len() > 4096 {
            return None;
        }
        serde_json::from_str(text).ok()
    }

    /// The text of the annotation.
    pub fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Checks an id that a caller chose.
    ///
    /// # Errors
    /// The id is not allowed.
    pub fn check_id(id: &str) -> Result<(), ClaimIdError> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:/".contains(&byte);
        let is_allowed = (1..=LONGEST_ID).contains(&id.len()) && id.bytes().all(allowed);
        if is_allowed { Ok(()) } else { Err(ClaimIdError) }
    }
}
