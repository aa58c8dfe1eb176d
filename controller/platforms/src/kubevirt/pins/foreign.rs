//! Objects of another namespace that the volume of a machine leads to.
//!
//! The controller may read all namespaces, and a machine of a namespace can name any object. If the
//! controller used what it finds, a user could find out which objects exist in other namespaces, and which
//! labels they have. So an object of another namespace counts only if the account of the machine may clone
//! its data. KubeVirt asks the same before it creates the disk, and a machine that cannot get the disk needs
//! no size of it. The permissions that a VMDiskImageGrant gives are such permissions, too.

use serde_json::Value;

use crate::{CrossNamespaceReference, Permission, ReferencedObject};

/// The group of CDI.
const IMPORTER: &str = "cdi.kubevirt.io";

impl CrossNamespaceReference {
    /// The permission to read the object.
    pub fn reading(&self, reference: &ReferencedObject) -> Permission {
        Permission {
            verb: "get",
            group: self.group,
            resource: self.resource,
            subresource: "",
            namespace: self.namespace.clone(),
            name: reference.name.clone(),
        }
    }

    /// The permission to clone the data. CDI checks it for the claim or the snapshot, so a DataSource, if it
    /// exists, counts for what it points to.
    pub fn cloning(&self, reference: &ReferencedObject, object: Option<&Value>) -> Permission {
        let source = object.map_or(&Value::Null, |object| &object["spec"]["source"]);
        let target = [&source["pvc"], &source["snapshot"]].into_iter().find(|target| target.is_object());
        let target = target.filter(|_| self.resource == "datasources");
        let text = |field: &str| {
            target
                .and_then(|target| target[field].as_str())
                .filter(|text| !text.is_empty())
                .map(str::to_owned)
        };
        Permission {
            verb: "create",
            group: IMPORTER,
            resource: "datavolumes",
            subresource: "source",
            namespace: text("namespace").unwrap_or_else(|| self.namespace.clone()),
            name: text("name").unwrap_or_else(|| reference.name.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn reference(kind: &'static str, resource: &'static str) -> ReferencedObject {
        let foreign = CrossNamespaceReference {
            account: ("team".to_owned(), "default".to_owned()),
            group: IMPORTER,
            resource,
            namespace: "images".to_owned(),
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
