//! Machine numbers and the names made from them.
//!
//! Every machine of a pool has a number; its name ends in five characters that a permutation, keyed by the pool's UID,
//! makes of the number. A permutation rather than a hash: two numbers of one pool never share a name, so a name cannot
//! come back before 14 million machines were made, and [`Namer::number_of`] can tell whether a name was issued by a pool.
//!
//! Numbers come from *blocks*. The end of a block is recorded on the pool before any of its numbers is used, so a
//! successor of a dead leader uses the same names, and a late request of the predecessor meets `AlreadyExists` instead
//! of making a twin. Numbers below the open block never return.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha256};

use crate::model::Uid;

/// The alphabet of the API server's own generated names: no vowels and no look-alikes.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
/// Characters of a suffix.
const LENGTH: u32 = 5;
/// How many suffixes there are.
pub const SUFFIXES: u64 = 27u64.pow(LENGTH);
/// Bits of each half of the Feistel network; twice that just covers [`SUFFIXES`].
const HALF_BITS: u32 = 12;
const HALF_MASK: u64 = (1 << HALF_BITS) - 1;
const ROUNDS: usize = 6;

/// Numbers that one write on the pool opens at least. Larger means fewer writes; a number that was opened and not used
/// costs nothing.
pub const MIN_BLOCK: u64 = 64;

/// A half-open range of machine numbers, recorded on the pool as `first-end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// The first number that a successor may use again.
    pub first: u64,
    /// One past the last number that may be used.
    pub end: u64,
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.end)
    }
}

/// The text is not `first-end` with `first <= end`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a block of machine numbers such as \"64-128\"")]
pub struct NotABlock(pub String);

impl FromStr for Block {
    type Err = NotABlock;

    fn from_str(text: &str) -> Result<Self, NotABlock> {
        let parse = || {
            let (first, end) = text.split_once('-')?;
            let (first, end) = (first.parse().ok()?, end.parse().ok()?);
            (first <= end).then_some(Self { first, end })
        };
        parse().ok_or_else(|| NotABlock(text.to_owned()))
    }
}

/// Makes the names of one pool's machines.
#[derive(Clone, Debug)]
pub struct Namer {
    pool: std::sync::Arc<str>,
    keys: [u64; ROUNDS],
}

impl Namer {
    /// The names of the pool called `pool` with this UID.
    pub fn new(pool: &std::sync::Arc<str>, uid: &Uid) -> Self {
        let mut keys = [0; ROUNDS];
        for (round, key) in keys.iter_mut().enumerate() {
            let digest =
                Sha256::new().chain_update([round.to_le_bytes()[0]]).chain_update(uid.as_str()).finalize();
            *key = digest.iter().take(8).fold(0, |key, byte| key << 8 | u64::from(*byte));
        }
        Self { pool: pool.clone(), keys }
    }

    /// The name of the machine with this number. Numbers that differ by less than [`SUFFIXES`] have different names.
    #[expect(clippy::missing_panics_doc, reason = "a remainder of 27 fits into any usize")]
    pub fn name(&self, number: u64) -> String {
        let mut rest = self.permute(number % SUFFIXES);
        let mut suffix = [0u8; LENGTH as usize];
        for place in suffix.iter_mut().rev() {
            *place = ALPHABET[usize::try_from(rest % 27).expect("below 27")];
            rest /= 27;
        }
        format!("{}-{}", self.pool, String::from_utf8_lossy(&suffix))
    }

    /// The number that `name` was made from, if it has the form of a name of this pool. Every suffix of five
    /// characters of the alphabet has one: whether it was *issued* shows in its size.
    pub fn number_of(&self, name: &str) -> Option<u64> {
        let suffix = name.strip_prefix(&*self.pool)?.strip_prefix('-')?;
        if suffix.len() != LENGTH as usize {
            return None;
        }
        let mut value = 0;
        for byte in suffix.bytes() {
            let digit = ALPHABET.iter().position(|candidate| *candidate == byte)?;
            value = value * 27 + digit as u64;
        }
        Some(self.invert(value))
    }

    /// A Feistel network over 24 bits, walked until it lands on a suffix again.
    fn permute(&self, value: u64) -> u64 {
        let mut value = value;
        loop {
            let (mut left, mut right) = (value >> HALF_BITS, value & HALF_MASK);
            for key in self.keys {
                (left, right) = (right, left ^ mix(key, right));
            }
            value = left << HALF_BITS | right;
            if value < SUFFIXES {
                return value;
            }
        }
    }

    fn invert(&self, value: u64) -> u64 {
        let mut value = value;
        loop {
            let (mut left, mut right) = (value >> HALF_BITS, value & HALF_MASK);
            for key in self.keys.iter().rev() {
                (left, right) = (right ^ mix(*key, left), left);
            }
            value = left << HALF_BITS | right;
            if value < SUFFIXES {
                return value;
            }
        }
    }
}

/// The round function; the finisher of SplitMix64. Names must scatter, not withstand an adversary: who can see a
/// pool's UID can see its machines.
fn mix(key: u64, half: u64) -> u64 {
    let mut x = key ^ half.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (x ^ (x >> 31)) & HALF_MASK
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;
    use std::collections::BTreeSet;

    fn namer(uid: &str) -> Namer {
        Namer::new(&"web".into(), &uid.into())
    }

    #[test]
    fn numbers_of_one_pool_never_share_a_name() {
        let namer = namer("3c1f");
        let distinct: BTreeSet<String> = (0..200_000).map(|n| namer.name(n)).collect();
        assert_eq!(distinct.len(), 200_000);
    }

    #[test]
    fn names_are_stable_and_differ_between_pools() {
        // Fixed on purpose: an upgrade that names numbers otherwise would let names return.
        assert_eq!(namer("3c1f").name(0), "web-xqh2w");
        assert_ne!(namer("3c1f").name(0), namer("3c20").name(0));
    }

    proptest! {
        #[test]
        fn a_name_leads_back_to_its_number(number in 0..SUFFIXES, uid in "[0-9a-f]{8}") {
            let namer = namer(&uid);
            prop_assert_eq!(namer.number_of(&namer.name(number)), Some(number));
        }

        #[test]
        fn any_suffix_of_the_alphabet_has_a_number(suffix in "[bcdfghjklmnpqrstvwxz2456789]{5}") {
            let namer = namer("3c1f");
            let name = format!("web-{suffix}");
            prop_assert_eq!(namer.name(namer.number_of(&name).unwrap()), name);
        }
    }

    #[rstest]
    #[case::another_pool("db-bcdfg")]
    #[case::too_long("web-bcdfgh")]
    #[case::too_short("web-bcd")]
    #[case::a_vowel("web-abcdf")]
    #[case::no_dash("webbcdfg")]
    fn other_names_have_no_number(#[case] name: &str) {
        assert_eq!(namer("3c1f").number_of(name), None);
    }

    #[rstest]
    #[case("0-64", Some((0, 64)))]
    #[case("64-64", Some((64, 64)))]
    #[case("65-64", None)]
    #[case("-1-64", None)]
    #[case("64", None)]
    #[case("", None)]
    fn blocks_read_back(#[case] text: &str, #[case] block: Option<(u64, u64)>) {
        let parsed = text.parse::<Block>();
        assert_eq!(parsed.as_ref().ok().map(|b| (b.first, b.end)), block);
        if let Ok(block) = parsed {
            assert_eq!(block.to_string(), text);
        }
    }
}
