//! Machine numbers, and the names that are computed from them.
//!
//! Every machine of a pool has a number. A permutation keyed by the pool's UID converts the number into the
//! five characters at the end of the name. It is a permutation and not a hash, because two numbers of one
//! pool then never have the same name: a name cannot recur before the pool has created 14 million machines.
//! The permutation can also be inverted, so [`Namer::number_of`] shows whether a pool has issued a name.
//!
//! Numbers are taken from *name blocks*. The controller records a block on the pool before it uses any of its
//! numbers. A new leader therefore uses the same names as a failed leader, and a late request of the former
//! leader gets `AlreadyExists` instead of creating a second machine. Numbers below the current block are
//! never used again.
//!
//! The names of retained disks are computed in the same way: six characters from the number of the machine,
//! with the disk template as part of the key. A repeated create therefore requests the same name.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::ids::Uid;

/// The alphabet of names that the API server generates: no vowels and no characters that look alike.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
/// Characters of a suffix.
const LENGTH: usize = 5;
/// How many suffixes there are.
pub const SUFFIXES: u64 = 27u64.pow(5);
/// Characters of the suffix of a disk.
pub(crate) const DISK_LENGTH: usize = LENGTH + 1;
/// Bits of each half of the Feistel network; twice that just covers [`SUFFIXES`].
const HALF_BITS: u32 = 12;
/// The same for the suffixes of disks.
const DISK_HALF_BITS: u32 = 15;
const ROUNDS: usize = 6;

/// Minimum size of a name block. A larger block needs fewer writes, and an unused number costs nothing.
pub const MIN_BLOCK: u64 = 64;

/// The largest end of a block. It keeps sums of numbers in range, and no pool creates that many machines.
const LARGEST_END: u64 = u64::MAX / 2;

/// A half-open range of machine numbers, stored on the pool as `first-end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameBlock {
    /// The first number that a new leader may use again.
    pub first: u64,
    /// The number after the last one that may be used.
    pub end: u64,
}

impl fmt::Display for NameBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.end)
    }
}

/// The text is not `first-end` with `first <= end`, a number has a sign or leading zeros, or the end is out
/// of range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a name block such as \"64-128\"")]
pub struct InvalidNameBlock(pub String);

impl FromStr for NameBlock {
    type Err = InvalidNameBlock;

    fn from_str(text: &str) -> Result<Self, InvalidNameBlock> {
        let parse = || {
            let (first, end) = text.split_once('-')?;
            let (first, end) = (parse_canonical_number(first)?, parse_canonical_number(end)?);
            (first <= end && end <= LARGEST_END).then_some(Self { first, end })
        };
        parse().ok_or_else(|| InvalidNameBlock(text.to_owned()))
    }
}

/// The name of the machine of a pool with this ordinal.
pub fn ordinal_name(pool: &str, ordinal: u64) -> String {
    format!("{pool}-{ordinal}")
}

/// The ordinal of `name`, if [`ordinal_name`] gives this pool a machine with the name.
pub fn ordinal_of(pool: &str, name: &str) -> Option<u64> {
    parse_canonical_number(name.strip_prefix(pool)?.strip_prefix('-')?)
}

/// The number with these digits; `None` if they have a sign or leading zeros: two texts would mean the same
/// number, and only one of them is written.
pub fn parse_canonical_number(digits: &str) -> Option<u64> {
    let is_canonical = digits == "0" || digits.starts_with(|digit| matches!(digit, '1'..='9'));
    digits.parse().ok().filter(|_| is_canonical)
}

/// Computes the names of a pool's machines.
#[derive(Clone, Debug)]
pub struct Namer {
    pool: Arc<str>,
    permutation: Permutation,
}

impl Namer {
    /// The names of the pool called `pool` with this UID.
    pub fn new(pool: &Arc<str>, uid: &Uid) -> Self {
        Self { pool: pool.clone(), permutation: Permutation::new(HALF_BITS, SUFFIXES, &[uid.as_str()]) }
    }

    /// The name of the machine with this number. Numbers that differ by less than [`SUFFIXES`] have different
    /// names.
    pub fn name(&self, number: u64) -> String {
        format!("{}-{}", self.pool, encode_suffix(self.permutation.apply(number % SUFFIXES), LENGTH))
    }

    /// The number of `name`, if it has the form of a name of this pool. Every suffix of five characters of
    /// the alphabet has a number. The pool has *issued* the name if the number is below the end of its name
    /// block.
    pub fn number_of(&self, name: &str) -> Option<u64> {
        let suffix = name.strip_prefix(&*self.pool)?.strip_prefix('-')?;
        if suffix.len() != LENGTH {
            return None;
        }
        let mut value = 0;
        for byte in suffix.bytes() {
            let digit = ALPHABET.iter().position(|candidate| *candidate == byte)?;
            value = value * 27 + digit as u64;
        }
        Some(self.permutation.invert(value))
    }
}

/// Computes the names of a pool's retained disks of one disk template.
#[derive(Clone, Debug)]
pub struct DiskNamer {
    /// `<pool>-<template>`.
    stem: String,
    permutation: Permutation,
}

impl DiskNamer {
    /// The names of the disks of this template in the pool called `pool` with this UID.
    pub fn new(pool: &str, uid: &Uid, template: &str) -> Self {
        let size = SUFFIXES * 27;
        let permutation = Permutation::new(DISK_HALF_BITS, size, &[uid.as_str(), "/", template]);
        Self { stem: format!("{pool}-{template}"), permutation }
    }

    /// A name for a disk of the machine with this number. `attempt` is the number of names that were already
    /// in use. In the first 27 attempts, two machines whose numbers differ by less than [`SUFFIXES`] have no
    /// name in common.
    pub fn name(&self, number: u64, attempt: u64) -> String {
        let name = |attempt: u64| {
            let value = self.permutation.apply(number % SUFFIXES + attempt * SUFFIXES);
            format!("{}-{}", self.stem, encode_suffix(value, DISK_LENGTH))
        };
        if attempt < 27 { name(attempt) } else { format!("{}-{attempt}", name(0)) }
    }
}

/// The last `length` digits of `value` in the alphabet.
fn encode_suffix(value: u64, length: usize) -> String {
    let mut rest = value;
    let mut suffix = vec![0u8; length];
    for place in suffix.iter_mut().rev() {
        *place = ALPHABET[usize::try_from(rest % 27).expect("a remainder of 27 fits into any usize")];
        rest /= 27;
    }
    suffix.into_iter().map(char::from).collect()
}

/// A keyed permutation of the numbers below `size`: a Feistel network over twice `half_bits` bits, iterated
/// until the result is below `size`.
#[derive(Clone, Debug)]
struct Permutation {
    half_bits: u32,
    size: u64,
    keys: [u64; ROUNDS],
}

impl Permutation {
    fn new(half_bits: u32, size: u64, key: &[&str]) -> Self {
        let mut keys = [0; ROUNDS];
        for (round, slot) in keys.iter_mut().enumerate() {
            let digest = Sha256::new().chain_update([round.to_le_bytes()[0]]);
            let digest = key.iter().fold(digest, Digest::chain_update).finalize();
            *slot = digest.iter().take(8).fold(0, |key, byte| key << 8 | u64::from(*byte));
        }
        Self { half_bits, size, keys }
    }

    fn apply(&self, value: u64) -> u64 {
        self.walk(value, |mut left, mut right| {
            for key in self.keys {
                (left, right) = (right, left ^ self.mix(key, right));
            }
            (left, right)
        })
    }

    fn invert(&self, value: u64) -> u64 {
        self.walk(value, |mut left, mut right| {
            for key in self.keys.iter().rev() {
                (left, right) = (right ^ self.mix(*key, left), left);
            }
            (left, right)
        })
    }

    fn walk(&self, value: u64, network: impl Fn(u64, u64) -> (u64, u64)) -> u64 {
        let mut value = value;
        loop {
            let (left, right) = network(value >> self.half_bits, value & self.mask());
            value = left << self.half_bits | right;
            if value < self.size {
                return value;
            }
        }
    }

    fn mask(&self) -> u64 {
        (1 << self.half_bits) - 1
    }

    /// The round function: the finalizer of SplitMix64. Names need to be spread evenly but not to be secret,
    /// because every client that can read a pool's UID can also read its machines.
    fn mix(&self, key: u64, half: u64) -> u64 {
        let mut x = key ^ half.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) & self.mask()
    }
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
        // Fixed on purpose: after an upgrade that changed the names of numbers, names could recur.
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

    #[test]
    fn disks_of_a_template_share_no_name_in_any_attempt() {
        let namer = DiskNamer::new("web", &"3c1f".into(), "data");
        let names = (0..20_000).flat_map(|number| [0, 1, 2, 26, 27, 28].map(|attempt| (number, attempt)));
        let distinct: BTreeSet<String> =
            names.clone().map(|(number, attempt)| namer.name(number, attempt)).collect();
        assert_eq!(distinct.len(), names.count());
    }

    #[test]
    fn names_of_disks_are_stable_and_keyed_by_pool_and_template() {
        let name = |uid: &str, template: &str| DiskNamer::new("web", &uid.into(), template).name(0, 0);
        // Fixed on purpose: a create that is repeated after an upgrade must request the name of the disk that
        // it created.
        assert_eq!(name("3c1f", "data"), "web-data-g2fgck");
        let suffix = |name: String| name.rsplit_once('-').map(|(_, suffix)| suffix.to_owned());
        assert_ne!(suffix(name("3c1f", "data")), suffix(name("3c20", "data")));
        assert_ne!(suffix(name("3c1f", "data")), suffix(name("3c1f", "logs")));
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
    #[case::issued("web-7", Some(7))]
    #[case::the_first("web-0", Some(0))]
    #[case::the_last("web-18446744073709551615", Some(u64::MAX))]
    #[case::too_large("web-18446744073709551616", None)]
    #[case::with_zeros("web-007", None)]
    #[case::with_a_sign("web-+7", None)]
    #[case::without_digits("web-", None)]
    #[case::of_another_pool("db-7", None)]
    fn only_a_name_that_the_pool_can_issue_has_an_ordinal(#[case] name: &str, #[case] ordinal: Option<u64>) {
        assert_eq!(ordinal_of("web", name), ordinal);
        if let Some(ordinal) = ordinal {
            assert_eq!(ordinal_name("web", ordinal), name);
        }
    }

    #[rstest]
    #[case("0-64", Some((0, 64)))]
    #[case("64-64", Some((64, 64)))]
    #[case("65-64", None)]
    #[case("0-9223372036854775807", Some((0, u64::MAX / 2)))]
    #[case("0-9223372036854775808", None)]
    #[case("18446744073709551615-18446744073709551615", None)]
    #[case("-1-64", None)]
    #[case("64-064", None)]
    #[case("+0-64", None)]
    #[case("64", None)]
    #[case("", None)]
    fn blocks_read_back(#[case] text: &str, #[case] block: Option<(u64, u64)>) {
        let parsed = text.parse::<NameBlock>();
        assert_eq!(parsed.as_ref().ok().map(|b| (b.first, b.end)), block);
        if let Ok(block) = parsed {
            assert_eq!(block.to_string(), text);
        }
    }
}
