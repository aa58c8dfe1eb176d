//! The permission to clone an image from another namespace.
//!
//! CDI asks whether the service account of a machine may create `datavolumes/source` in the namespace of the image, and names
//! the source. The controller gives this permission to the accounts of the references that grants permit, for this image only.

use std::collections::BTreeSet;

use sha2::{Digest, Sha256};

use crate::model::Image;

/// A service account.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Account {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// A Role and its RoleBinding in the namespace of the image. The image owns both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClonePermission {
    /// The name of both.
    pub name: String,
    /// The source that may be cloned: snapshot and claim have the name of the image.
    pub source: String,
    /// The accounts that may clone it.
    pub accounts: BTreeSet<Account>,
}

/// The permission that an image needs. None if no account of another namespace uses it, or if its references were released.
pub fn wanted(image: &Image, accounts: &BTreeSet<Account>) -> Option<ClonePermission> {
    let released = image.deleting && image.force_release;
    (!accounts.is_empty() && !released).then(|| ClonePermission {
        name: name(&image.uid),
        source: image.key.name.clone(),
        accounts: accounts.clone(),
    })
}

/// The name of the Role and the RoleBinding. It does not contain the name of the image, which can have the full length.
pub fn name(image_uid: &str) -> String {
    let digest = Sha256::digest(image_uid.as_bytes());
    let number = digest.iter().take(5).fold(0, |number: u64, byte| (number << 8) | u64::from(*byte));
    format!("vmdi-clone-{number:010x}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::image;

    #[test]
    fn the_permission_names_the_source_and_the_accounts() {
        let account = Account { namespace: "team-a".to_owned(), name: "default".to_owned() };
        let permission = wanted(&image(), &BTreeSet::from([account.clone()])).unwrap();
        assert_eq!(permission.source, "debian");
        assert_eq!(permission.accounts, BTreeSet::from([account]));
        assert_eq!(permission.name.len(), "vmdi-clone-".len() + 10);
    }

    #[test]
    fn without_an_account_there_is_no_permission() {
        assert_eq!(wanted(&image(), &BTreeSet::new()), None);
    }

    #[test]
    fn a_released_image_cannot_be_cloned() {
        let account = Account { namespace: "team-a".to_owned(), name: "default".to_owned() };
        let released = Image { deleting: true, force_release: true, ..image() };
        assert_eq!(wanted(&released, &BTreeSet::from([account])), None);
    }

    #[test]
    fn two_images_of_one_name_have_different_permissions() {
        assert_ne!(name("uid-a"), name("uid-b"));
        assert!(name("uid-a").bytes().skip(11).all(|byte| byte.is_ascii_hexdigit()));
    }
}
