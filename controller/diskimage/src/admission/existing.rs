//! References that exist: a machine that is created for a wrapper or a pool carries out the reference of that
//! object.
//!
//! An image that is being deleted waits for the objects that refer to it, and they keep working meanwhile. So
//! the rule about new references must not refuse the machines of such an object: the object would wait for
//! its machine, and the image for the object.
//!
//! A client can copy an owner reference. Therefore only the stored object decides: it is in the namespace of
//! the machine, has the UID of the owner reference, and refers to this image itself.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use vmpool_api::diskimage::{GROUP, WRAPPER_KIND};
use vmpool_api::kubevirt::POOL_GROUP;
use vmpool_api::kubevirt::labels::REVISION;

use crate::model::ObjectKey;
use crate::read::named_images;

/// The kind of pools in owner references.
const POOL_KIND: &str = "VirtualMachinePool";

/// An object that a machine names as its controller, and that may refer to images.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReferenceHolder {
    /// What it is.
    pub(super) kind: ReferenceHolderKind,
    /// Its name. Its namespace is that of the machine.
    pub(super) name: String,
    uid: String,
}

/// The kinds of objects that create machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReferenceHolderKind {
    /// A wrapper.
    Wrapper,
    /// A KubeVirt pool.
    Pool,
    /// A stored revision of a KubeVirt pool.
    Revision,
}

impl ReferenceHolderKind {
    /// The paths of the fields that say which images an object of the kind refers to, and whose it is.
    pub(super) fn fields(self) -> &'static [&'static str] {
        match self {
            Self::Wrapper => &["metadata.uid", "status.vmDiskImage"],
            Self::Pool => &["metadata.uid", "spec.virtualMachineTemplate.spec.dataVolumeTemplates"],
            Self::Revision => {
                &["metadata.ownerReferences", "data.virtualMachineTemplate.spec.dataVolumeTemplates"]
            }
        }
    }
}

/// The objects that a machine names, and that may refer to images for it. The first one that does is enough.
pub(super) fn find_reference_holders(machine: &Value) -> Vec<ReferenceHolder> {
    let owners = machine["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    let Some(owner) = owners.into_iter().find(|owner| owner["controller"] == true) else { return Vec::new() };
    let text = |field: &str| owner[field].as_str().unwrap_or_default();
    let group = text("apiVersion").split_once('/').map_or("", |(group, _)| group);
    let holder =
        |kind, name: &str| ReferenceHolder { kind, name: name.to_owned(), uid: text("uid").to_owned() };
    match (group, text("kind")) {
        (GROUP, WRAPPER_KIND) => vec![holder(ReferenceHolderKind::Wrapper, text("name"))],
        (POOL_GROUP, POOL_KIND) => {
            let revision = machine["metadata"]["labels"][REVISION].as_str();
            let revision = revision.map(|name| holder(ReferenceHolderKind::Revision, name));
            [holder(ReferenceHolderKind::Pool, text("name"))].into_iter().chain(revision).collect()
        }
        _ => Vec::new(),
    }
}

impl ReferenceHolder {
    /// Whether this is the object, as it is stored in the namespace of the machine, and refers to the image.
    /// `uid` is that of the image, and `aliases` are the DataSources that lead to it.
    pub(super) fn refers(
        &self,
        stored: &Value,
        image: &ObjectKey,
        uid: &str,
        aliases: &BTreeSet<ObjectKey>,
    ) -> bool {
        let namespace = image.namespace.as_str();
        let is_owned = || {
            let mut owners = stored["metadata"]["ownerReferences"].as_array().into_iter().flatten();
            owners.any(|owner| owner["controller"] == true && owner["uid"] == self.uid.as_str())
        };
        let names = |object: &Value| {
            let named = named_images(namespace, object);
            named.contains(image) || !named.is_disjoint(aliases)
        };
        let has_uid = !self.uid.is_empty() && stored["metadata"]["uid"] == self.uid.as_str();
        match self.kind {
            ReferenceHolderKind::Wrapper => {
                let mark = &stored["status"]["vmDiskImage"];
                let is_marked = mark["namespace"] == namespace && mark["name"] == image.name.as_str();
                has_uid && is_marked && mark["uid"] == uid && !uid.is_empty() && mark["bound"] == true
            }
            ReferenceHolderKind::Pool => has_uid && names(stored),
            ReferenceHolderKind::Revision => {
                let pool = json!({ "spec": stored["data"] });
                !self.uid.is_empty() && is_owned() && names(&pool)
            }
        }
    }
}
