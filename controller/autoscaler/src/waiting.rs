//! Claims that found no machine, as the annotation of a pool records them.
//!
//! The annotation is a JSON object. Each key is a digest of a user, and one of the user and the id of the
//! claim; the value is the Unix time in seconds at which the entry ends. All replicas of the aggregated API
//! merge their entries into it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use sha2::{Digest, Sha256};

/// How long an entry counts after the last attempt of its claim, in seconds.
pub const ENTRY_SECONDS: i64 = 30;
/// An entry that ends later than this does not count, in seconds: the clock of its writer is wrong, or
/// another client wrote it.
pub const LONGEST_SECONDS: i64 = 60;
/// The most entries of a pool.
pub const MOST_ENTRIES: usize = 500;
/// The most entries of one user.
pub const MOST_ENTRIES_OF_A_USER: usize = 50;

/// The bytes of a digest of a user, and of a user and an id.
const USER_BYTES: usize = 8;
const CLAIM_BYTES: usize = 16;

/// The key of a claim in the annotation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WaitingClaimKey(String);

impl WaitingClaimKey {
    /// The key of the claim with this id.
    pub fn new(user: &str, id: &str) -> Self {
        let mut key = digest_text(&[user], USER_BYTES);
        key.push('.');
        key.push_str(&digest_text(&[user, id], CLAIM_BYTES));
        Self(key)
    }

    /// The text in the annotation.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the claim is of the same user as another one.
    pub fn has_user_of(&self, other: &Self) -> bool {
        self.user() == other.user()
    }

    /// The digest of the user.
    fn user(&self) -> &str {
        self.0.split_once('.').map_or("", |(user, _)| user)
    }

    /// Reads a key of the annotation.
    fn parse(text: &str) -> Option<Self> {
        let (user, claim) = text.split_once('.')?;
        let is_digest = |part: &str, bytes: usize| {
            part.len() == 2 * bytes && part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        };
        (is_digest(user, USER_BYTES) && is_digest(claim, CLAIM_BYTES)).then(|| Self(text.to_owned()))
    }
}

/// The first bytes of the digest of these parts, in hexadecimal digits.
fn digest_text(parts: &[&str], bytes: usize) -> String {
    let mut digest = Sha256::new();
    for part in parts {
        digest.update(part.len().to_be_bytes());
        digest.update(part.as_bytes());
    }
    digest.finalize().iter().take(bytes).fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The waiting claims of a pool, with the second at which each entry ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WaitingClaims(BTreeMap<WaitingClaimKey, i64>);

impl WaitingClaims {
    /// Reads the annotation at this second. Entries that cannot be read, have ended or end too late are
    /// absent.
    pub fn parse(text: &str, now: i64) -> Self {
        let entries: BTreeMap<String, serde_json::Value> = serde_json::from_str(text).unwrap_or_default();
        let entries = entries.into_iter().filter_map(|(key, end)| {
            let end = end.as_i64().filter(|end| (now + 1..=now + LONGEST_SECONDS).contains(end))?;
            Some((WaitingClaimKey::parse(&key)?, end))
        });
        Self(entries.take(MOST_ENTRIES).collect())
    }

    /// The annotation; `None` if no claim waits.
    pub fn text(&self) -> Option<String> {
        if self.0.is_empty() {
            return None;
        }
        let entries: BTreeMap<&str, i64> = self.0.iter().map(|(key, end)| (key.as_str(), *end)).collect();
        serde_json::to_string(&entries).ok()
    }

    /// Adds a claim that was tried at this second. If the pool or the user has too many entries, it is not
    /// added. Returns whether the entry is recorded.
    pub fn record(&mut self, key: WaitingClaimKey, now: i64) -> bool {
        let of_user = self.0.keys().filter(|known| known.user() == key.user()).count();
        let is_full = self.0.len() >= MOST_ENTRIES || of_user >= MOST_ENTRIES_OF_A_USER;
        if is_full && !self.0.contains_key(&key) {
            return false;
        }
        self.0.insert(key, now + ENTRY_SECONDS);
        true
    }

    /// Removes a claim, because it has a machine or its caller gave up. Returns whether there was an entry.
    pub fn remove(&mut self, key: &WaitingClaimKey) -> bool {
        self.0.remove(key).is_some()
    }

    /// The claims that wait: those without a machine.
    pub fn without(&self, answered: &BTreeSet<WaitingClaimKey>) -> BTreeSet<WaitingClaimKey> {
        self.0.keys().filter(|key| !answered.contains(*key)).cloned().collect()
    }

    /// How many claims wait.
    pub fn count(&self, answered: &BTreeSet<WaitingClaimKey>) -> u32 {
        u32::try_from(self.without(answered).len()).unwrap_or(u32::MAX)
    }

    /// The second at which the next entry ends.
    pub fn next_end(&self) -> Option<i64> {
        self.0.values().min().copied()
    }
}

#[cfg(test)]
mod tests;
