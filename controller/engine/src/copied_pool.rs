//! Pools that are copies of other pools: restored from a backup, or created from an exported manifest.
//!
//! The machines of the former pool can exist, or be restored later. They have no owner, so the copy would
//! create new ones beside them. A pool therefore records its name and UID in an annotation before its first
//! machine, and a copy of the pool contains the record of the former one. The controller creates and deletes
//! nothing for it until a user decides.

use crate::ids::{ObjectId, Uid};

/// The longest UID that a record can have. The API server writes 36 characters.
const LONGEST_UID: usize = 64;

/// The value of the annotation: whose machines exist, or can exist.
pub fn machines_record(pool: &ObjectId) -> String {
    format!("{}/{}", pool.name, pool.uid)
}

/// The UID of the former pool, if `pool` is a copy of it under the same name. A record of another name comes
/// from a manifest that a user copied to begin another pool, which expects no machines.
pub fn former_uid(recorded: &str, pool: &ObjectId) -> Option<Uid> {
    let (name, uid) = recorded.split_once('/')?;
    let is_uid = |text: &str| {
        (1..=LONGEST_UID).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    (name == &*pool.name && is_uid(uid) && uid != pool.uid.as_str()).then(|| Uid::from(uid))
}

/// Why the controller does nothing for a copy, and what a user can do.
pub fn copied_pool_message(former: &Uid, pool: &ObjectId) -> String {
    format!(
        "the pool is a copy of a former pool (UID {former}), for example from a backup; `kubectl vmpool adopt {}` gives it the \
         machines of that pool, or begins without them",
        pool.name
    )
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::its_own("web/uid-2", None)]
    #[case::of_the_pool_that_a_backup_contains("web/uid-1", Some("uid-1"))]
    #[case::of_a_pool_whose_manifest_was_copied("api/uid-1", None)]
    #[case::without_a_name("uid-1", None)]
    #[case::without_a_uid("web/", None)]
    #[case::with_a_control_character("web/uid\u{1b}[2J", None)]
    #[case::with_a_selector("web/uid-1,pool!=x", None)]
    #[case::too_long(&format!("web/{}", "a".repeat(65)), None)]
    fn a_record_of_another_uid_makes_a_pool_a_copy(#[case] recorded: &str, #[case] former: Option<&str>) {
        let pool = ObjectId::new("web", "uid-2");
        assert_eq!(former_uid(recorded, &pool), former.map(Uid::from));
    }

    #[test]
    fn a_pool_is_no_copy_of_itself() {
        let pool = ObjectId::new("web", "8e2c3f7e-54cf-4d2a-9ac9-0d1c8f0d9b1a");
        assert_eq!(former_uid(&machines_record(&pool), &pool), None);
    }
}
