//! Objects of another namespace that the volume of a machine leads to.
//!
//! The controller may read all namespaces, and a machine of a namespace can name any object. If the
//! controller used what it finds, a user could find out which objects exist in other namespaces, and which
//! labels they have. So an object of another namespace counts only if the account of the machine may clone
//! its data. KubeVirt asks the same before it creates the disk, and a machine that cannot get the disk needs
//! no size of it. The permissions that a VMDiskImageGrant gives are such permissions, too.

use vmpool_platform::CloneTarget;

/// What an account must be permitted to create before CDI clones data for it.
pub(super) const CLONE_TARGET: CloneTarget =
    CloneTarget { group: "cdi.kubevirt.io", resource: "datavolumes", subresource: "source" };

/// What a DataSource points to. CDI checks the permission for the claim or the snapshot, so a DataSource, if
/// it exists, counts for what it points to.
const SOURCES: &[&str] = &["/spec/source/pvc", "/spec/source/snapshot"];

/// JSON pointers to what is cloned instead of an object of this resource.
pub(super) fn cloned_instead_of(resource: &str) -> &'static [&'static str] {
    if resource == "datasources" { SOURCES } else { &[] }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};
    use vmpool_platform::{CrossNamespaceReference, ReferencedObject};

    use super::*;

    fn reference(kind: &'static str, resource: &'static str) -> ReferencedObject {
        let foreign = CrossNamespaceReference {
            account: ("team".to_owned(), "default".to_owned()),
            group: CLONE_TARGET.group,
            resource,
            namespace: "images".to_owned(),
            clone_target: CLONE_TARGET,
            cloned_instead: cloned_instead_of(resource),
        };
        ReferencedObject {
            kind,
            collection: String::new(),
            name: "debian".to_owned(),
            cross_namespace: Some(Box::new(foreign)),
        }
    }

    #[rstest]
    #[case::a_claim(reference("PersistentVolumeClaim", "persistentvolumeclaims"), json!({}), ("images", "debian"))]
    #[case::a_data_source_that_does_not_exist(reference("DataSource", "datasources"), Value::Null, ("images", "debian"))]
    #[case::a_data_source_of_a_snapshot(
        reference("DataSource", "datasources"),
        json!({ "spec": { "source": { "snapshot": { "name": "debian-7", "namespace": "imports" } } } }),
        ("imports", "debian-7"))]
    #[case::a_data_source_of_a_claim_of_its_namespace(
        reference("DataSource", "datasources"),
        json!({ "spec": { "source": { "pvc": { "name": "debian-7" } } } }),
        ("images", "debian-7"))]
    #[case::a_snapshot_with_a_source(
        reference("VolumeSnapshot", "volumesnapshots"),
        json!({ "spec": { "source": { "pvc": { "name": "other" } } } }),
        ("images", "debian"))]
    fn the_permission_to_clone_is_for(
        #[case] reference: ReferencedObject,
        #[case] object: Value,
        #[case] expected: (&str, &str),
    ) {
        let foreign = reference.cross_namespace.as_ref().unwrap();
        let permission = foreign.cloning(&reference, Some(&object));
        assert_eq!((&*permission.namespace, &*permission.name), expected);
        assert_eq!((permission.resource, permission.subresource), ("datavolumes", "source"));
    }
}
