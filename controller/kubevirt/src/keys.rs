//! Names, keys and references that the other modules write and compare.

pub use vmpool_api::kubevirt::API_VERSION;
pub use vmpool_api::kubevirt::finalizers::POOL as FINALIZER;
pub use vmpool_api::kubevirt::labels::{PRESERVED_ORDINAL, PRESERVED_POOL, REVISION as REVISION_LABEL};
pub use vmpool_instancetype::keys::{MACHINE_KIND, POOL_KIND, pool_owner_reference};

/// Prefix of the labels and annotations of vmpool. Of all annotations, caches keep only those with this
/// prefix.
pub const PREFIX: &str = "vmpool.";

/// Maximum length of a label value, in bytes.
pub const LABEL_VALUE: usize = 63;

/// The ordinal at the end of a machine's name: the number after the last hyphen. `None` if there is none.
pub fn parse_machine_ordinal(name: &str) -> Option<u64> {
    let (_, digits) = name.rsplit_once('-')?;
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if plain { digits.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::a_number("herd-12", Some(12))]
    #[case::after_the_last_hyphen("a-1-2", Some(2))]
    #[case::a_padded_number("herd-007", Some(7))]
    #[case::no_number("herd-x1", None)]
    #[case::nothing_after_the_hyphen("herd-", None)]
    #[case::no_hyphen("7", None)]
    #[case::a_sign("herd-+1", None)]
    #[case::too_large("herd-99999999999999999999999", None)]
    fn an_ordinal_is_the_number_after_the_last_hyphen(#[case] name: &str, #[case] expected: Option<u64>) {
        assert_eq!(parse_machine_ordinal(name), expected);
    }
}
