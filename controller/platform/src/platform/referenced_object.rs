//! References to stored objects, and the permissions that those to another namespace need.

use serde_json::Value;

/// A stored object that a template refers to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReferencedObject {
    /// Its kind, for messages.
    pub kind: &'static str,
    /// The API path of its collection.
    pub collection: String,
    /// Its name, which is a valid segment of a path.
    pub name: String,
    /// Set if the object is in another namespace than what refers to it. Without a permission, it counts as
    /// one that does not exist.
    pub cross_namespace: Option<Box<CrossNamespaceReference>>,
}

/// What a program must know to decide about a reference to another namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CrossNamespaceReference {
    /// Namespace and name of the service account on whose behalf the platform clones for what refers to the
    /// object.
    pub account: (String, String),
    /// The API group of the object.
    pub group: &'static str,
    /// The plural name of its resource.
    pub resource: &'static str,
    /// Its namespace.
    pub namespace: String,
    /// What an account must be permitted to create in order to clone the data.
    pub clone_target: CloneTarget,
    /// JSON pointers to the fields of the object that name what is cloned instead of the object.
    pub cloned_instead: &'static [&'static str],
}

/// The subresource that stands for the right to clone data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CloneTarget {
    /// The API group.
    pub group: &'static str,
    /// The plural name of the resource.
    pub resource: &'static str,
    /// The subresource.
    pub subresource: &'static str,
}

/// A permission, as a SubjectAccessReview asks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permission {
    /// The verb.
    pub verb: &'static str,
    /// The API group.
    pub group: &'static str,
    /// The plural name of the resource.
    pub resource: &'static str,
    /// The subresource, which may be empty.
    pub subresource: &'static str,
    /// The namespace.
    pub namespace: String,
    /// The name of the object.
    pub name: String,
}

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

    /// The permission to clone the data. `object` is the object, if it exists.
    pub fn cloning(&self, reference: &ReferencedObject, object: Option<&Value>) -> Permission {
        let target = object.and_then(|object| {
            let mut targets = self.cloned_instead.iter().filter_map(|pointer| object.pointer(pointer));
            targets.find(|target| target.is_object())
        });
        let text = |field: &str| {
            target
                .and_then(|target| target[field].as_str())
                .filter(|text| !text.is_empty())
                .map(str::to_owned)
        };
        let CloneTarget { group, resource, subresource } = self.clone_target;
        Permission {
            verb: "create",
            group,
            resource,
            subresource,
            namespace: text("namespace").unwrap_or_else(|| self.namespace.clone()),
            name: text("name").unwrap_or_else(|| reference.name.clone()),
        }
    }
}
