//! Identities of objects.

pub use vmpool_api::{ObjectId, Uid};

/// A number that depends on these bytes only and looks random: their FNV-1a hash. Stored names depend on it.
pub(crate) fn hash_bytes(bytes: impl IntoIterator<Item = u8>) -> u64 {
    let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.into_iter().fold(0xcbf2_9ce4_8422_2325, hash)
}
