//! The identity in an owner reference.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde_json::Value;

/// The identity of an owner, as an owner reference names it: group, kind, name and UID. The namespace is that
/// of the object with the reference.
///
/// A user can write any UID into an owner reference, also the UID of an object in another namespace. If the
/// group or the kind does not exist, the garbage collector keeps the object. Therefore no part of the
/// identity alone is evidence, and an owner counts only if all parts and the namespace match. The version
/// does not count, because an object has the same identity in all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OwnerIdentity<'a> {
    /// The group in `apiVersion`; empty for the core group.
    pub group: &'a str,
    /// The kind.
    pub kind: &'a str,
    /// The name.
    pub name: &'a str,
    /// The UID.
    pub uid: &'a str,
}

impl<'a> OwnerIdentity<'a> {
    /// The identity in an owner reference.
    pub fn of(reference: &'a OwnerReference) -> Self {
        let OwnerReference { api_version, kind, name, uid, .. } = reference;
        Self::new(api_version, kind, name, uid)
    }

    /// The identity with the group in `apiVersion`.
    pub fn new(api_version: &'a str, kind: &'a str, name: &'a str, uid: &'a str) -> Self {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        Self { group, kind, name, uid }
    }

    /// The identity in an owner reference in JSON. Parts that are missing or no texts are empty.
    pub fn of_json(reference: &'a Value) -> Self {
        let text = |field: &str| reference[field].as_str().unwrap_or_default();
        Self::new(text("apiVersion"), text("kind"), text("name"), text("uid"))
    }

    /// The identity in the owner reference of the controller of an object.
    pub fn of_controller(metadata: &'a ObjectMeta) -> Option<Self> {
        let mut owners = metadata.owner_references.iter().flatten();
        owners.find(|owner| owner.controller == Some(true)).map(Self::of)
    }

    /// Whether the owner has this group and kind.
    pub fn is_a(&self, group: &str, kind: &str) -> bool {
        self.group == group && self.kind == kind
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    const POOL: OwnerIdentity<'_> =
        OwnerIdentity { group: "pool.kubevirt.io", kind: "VirtualMachinePool", name: "web", uid: "p" };

    #[rstest]
    #[case::itself(json!({}), true)]
    #[case::in_another_version(json!({ "apiVersion": "pool.kubevirt.io/v1alpha1" }), true)]
    #[case::another_group(json!({ "apiVersion": "no.such.group/v1" }), false)]
    #[case::the_core_group(json!({ "apiVersion": "v1" }), false)]
    #[case::a_version_like_the_group(json!({ "apiVersion": "pool.kubevirt.io" }), false)]
    #[case::another_kind(json!({ "kind": "VirtualMachine" }), false)]
    #[case::another_name(json!({ "name": "db" }), false)]
    #[case::another_uid(json!({ "uid": "q" }), false)]
    #[case::a_uid_that_is_no_text(json!({ "uid": 7 }), false)]
    fn an_owner_is_group_kind_name_and_uid_together(#[case] edit: Value, #[case] expected: bool) {
        let mut reference = json!({
            "apiVersion": "pool.kubevirt.io/v1beta1", "kind": "VirtualMachinePool", "name": "web",
            "uid": "p", "controller": true,
        });
        reference.as_object_mut().unwrap().extend(edit.as_object().unwrap().clone());
        assert_eq!(OwnerIdentity::of_json(&reference) == POOL, expected);
        if let Ok(typed) = serde_json::from_value::<OwnerReference>(reference) {
            assert_eq!(OwnerIdentity::of(&typed) == POOL, expected);
            let object = ObjectMeta { owner_references: Some(vec![typed]), ..ObjectMeta::default() };
            assert_eq!(OwnerIdentity::of_controller(&object) == Some(POOL), expected);
        }
        assert!(POOL.is_a("pool.kubevirt.io", "VirtualMachinePool"));
        assert!(!POOL.is_a("virtualization.deckhouse.io", "VirtualMachinePool"));
    }
}
