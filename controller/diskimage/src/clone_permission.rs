//! The permission to clone an image from another namespace.
//!
//! CDI asks whether the service account of a machine may create `datavolumes/source` in the namespace of the
//! image, and names the source. The controller gives this permission to the accounts of the references that
//! grants permit, for this image only.
//!
//! The review contains a name and no UID, so the permission is one for every claim and every snapshot of that
//! name. It is given only while these objects belong to the image: a grant for images does not share other
//! claims of the namespace.

use std::collections::BTreeSet;

use sha2::{Digest, Sha256};

use crate::model::{BackingObjects, DiskImage};

/// A service account.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Account {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl Account {
    /// Whether a service account can have this name. The API server refuses a RoleBinding with another one as
    /// a whole, so that it would not change anymore for the other accounts, either.
    pub fn has_valid_name(&self) -> bool {
        let is_label = |label: &str| {
            let inner = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
            label.bytes().all(inner) && !label.is_empty() && !label.starts_with('-') && !label.ends_with('-')
        };
        self.name.len() <= 253 && self.name.split('.').all(is_label)
    }
}

/// The largest number of accounts in a RoleBinding. With names of the full length, 1,000 have 400 KB, and the
/// API server stores objects of up to 1.5 MB.
pub const MAX_ACCOUNTS: usize = 1000;

/// A Role and its RoleBinding in the namespace of the image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClonePermission {
    /// The name of both.
    pub name: String,
    /// The source that may be cloned: snapshot and claim have the name of the image.
    pub source: String,
    /// The accounts that may clone it.
    pub accounts: BTreeSet<Account>,
    /// The accounts that may clone it, too, but are left out: they cannot exist, or there are too many.
    pub left_out: Vec<Account>,
}

/// The permission that an image needs. None if no account of another namespace uses it, if its references
/// were released, or if its name is not that of own data.
pub fn required_clone_permission(
    image: &DiskImage,
    backing: &BackingObjects,
    accounts: &BTreeSet<Account>,
) -> Option<ClonePermission> {
    let withheld = (image.deleting && image.force_release) || !backing.has_own_source();
    let (valid, mut left_out): (Vec<_>, Vec<_>) = accounts.iter().cloned().partition(Account::has_valid_name);
    left_out.extend(valid.iter().skip(MAX_ACCOUNTS).cloned());
    (!valid.is_empty() && !withheld).then(|| ClonePermission {
        name: clone_permission_name(&image.uid),
        source: image.key.name.clone(),
        accounts: valid.into_iter().take(MAX_ACCOUNTS).collect(),
        left_out,
    })
}

/// The name of the Role and the RoleBinding. It does not contain the name of the image, which can have the
/// full length.
pub fn clone_permission_name(image_uid: &str) -> String {
    let digest = Sha256::digest(image_uid.as_bytes());
    let number = digest.iter().take(5).fold(0, |number: u64, byte| (number << 8) | u64::from(*byte));
    format!("vmdi-clone-{number:010x}")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::model::FoundObject;
    use crate::testing::{bound_claim, complete_backing, image_without_status, snapshot_with_readiness};

    fn account(name: &str) -> Account {
        Account { namespace: "team-a".to_owned(), name: name.to_owned() }
    }

    #[rstest]
    #[case::upper_case("Builder")]
    #[case::empty("")]
    #[case::a_blank("a b")]
    #[case::a_role("system:serviceaccount:kube-system:admin")]
    #[case::an_empty_label("a..b")]
    #[case::a_dash_at_the_end("a-")]
    #[case::too_long(&"a".repeat(254))]
    fn a_name_that_no_account_can_have_takes_the_permission_from_no_other_account(#[case] name: &str) {
        let both = BTreeSet::from([account(name), account("a.b-1")]);
        let permission =
            required_clone_permission(&image_without_status(), &complete_backing(), &both).unwrap();
        assert_eq!(permission.accounts, BTreeSet::from([account("a.b-1")]));
        assert_eq!(permission.left_out, [account(name)]);
        assert_eq!(
            required_clone_permission(
                &image_without_status(),
                &complete_backing(),
                &BTreeSet::from([account(name)])
            ),
            None
        );
    }

    #[test]
    fn a_permission_has_a_limit_that_leaves_out_the_same_accounts_each_time() {
        let all: BTreeSet<Account> = (0..MAX_ACCOUNTS + 2).map(|at| account(&format!("a-{at:05}"))).collect();
        let permission =
            required_clone_permission(&image_without_status(), &complete_backing(), &all).unwrap();
        assert_eq!(permission.accounts.len(), MAX_ACCOUNTS);
        assert_eq!(permission.left_out, [account("a-01000"), account("a-01001")]);
    }

    #[test]
    fn the_permission_names_the_source_and_the_accounts() {
        let account = Account { namespace: "team-a".to_owned(), name: "default".to_owned() };
        let permission = required_clone_permission(
            &image_without_status(),
            &complete_backing(),
            &BTreeSet::from([account.clone()]),
        )
        .unwrap();
        assert_eq!(permission.left_out, []);
        assert_eq!(permission.source, "debian");
        assert_eq!(permission.accounts, BTreeSet::from([account]));
        assert_eq!(permission.name.len(), "vmdi-clone-".len() + 10);
    }

    #[test]
    fn without_an_account_there_is_no_permission() {
        assert_eq!(
            required_clone_permission(&image_without_status(), &complete_backing(), &BTreeSet::new()),
            None
        );
    }

    #[test]
    fn a_released_image_cannot_be_cloned() {
        let account = Account { namespace: "team-a".to_owned(), name: "default".to_owned() };
        let released = DiskImage { deleting: true, force_release: true, ..image_without_status() };
        assert_eq!(
            required_clone_permission(&released, &complete_backing(), &BTreeSet::from([account])),
            None
        );
    }

    #[rstest]
    #[case::with_all_objects(complete_backing(), true)]
    #[case::with_a_snapshot_only(
        BackingObjects { claim: FoundObject::Missing, data_volume: FoundObject::Missing, ..complete_backing() }, true)]
    #[case::with_a_claim_only(BackingObjects { claim: FoundObject::Ours(bound_claim()), ..BackingObjects::empty() }, true)]
    #[case::without_data(BackingObjects::empty(), false)]
    #[case::whose_name_a_claim_of_a_user_has(BackingObjects { claim: FoundObject::Foreign, ..BackingObjects::empty() }, false)]
    #[case::whose_name_a_snapshot_of_a_user_has(BackingObjects { snapshot: FoundObject::Foreign, ..BackingObjects::empty() }, false)]
    #[case::whose_lost_claim_a_user_has_replaced(BackingObjects { claim: FoundObject::Foreign, ..complete_backing() }, false)]
    #[case::whose_lost_snapshot_a_user_has_replaced(BackingObjects { snapshot: FoundObject::Foreign, ..complete_backing() }, false)]
    #[case::whose_data_volume_is_of_a_user(
        BackingObjects { data_volume: FoundObject::Foreign, snapshot: FoundObject::Ours(snapshot_with_readiness(true)), ..BackingObjects::empty() }, false)]
    fn only_an_image_whose_name_is_that_of_its_own_data_can_be_cloned(
        #[case] backing: BackingObjects,
        #[case] permitted: bool,
    ) {
        let accounts = BTreeSet::from([account("default")]);
        assert_eq!(
            required_clone_permission(&image_without_status(), &backing, &accounts).is_some(),
            permitted
        );
    }

    #[test]
    fn two_images_of_one_name_have_different_permissions() {
        assert_ne!(clone_permission_name("uid-a"), clone_permission_name("uid-b"));
        assert!(clone_permission_name("uid-a").bytes().skip(11).all(|byte| byte.is_ascii_hexdigit()));
    }
}
