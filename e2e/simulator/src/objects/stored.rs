//! The serialized form of the objects.

use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{api::ApiResource, core::DynamicResourceScope};
use serde::Deserialize;
use std::borrow::Cow;

/// An object whose spec and status are reduced to the fields that the simulator uses. The API handle
/// determines its resource.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(bound(deserialize = "S: Default + Deserialize<'de>, T: Default + Deserialize<'de>"))]
pub struct StoredObject<S, T> {
    /// Metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// Spec, or the data of an object without one; the default, if the object has neither.
    #[serde(default, alias = "data")]
    pub spec: S,
    /// Status; the default, if the object has none.
    #[serde(default)]
    pub status: T,
}

impl<S, T> kube::Resource for StoredObject<S, T> {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(resource: &ApiResource) -> Cow<'_, str> {
        resource.kind.as_str().into()
    }

    fn group(resource: &ApiResource) -> Cow<'_, str> {
        resource.group.as_str().into()
    }

    fn version(resource: &ApiResource) -> Cow<'_, str> {
        resource.version.as_str().into()
    }

    fn api_version(resource: &ApiResource) -> Cow<'_, str> {
        resource.api_version.as_str().into()
    }

    fn plural(resource: &ApiResource) -> Cow<'_, str> {
        resource.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl super::DvpObjectKind {
    /// The kind's name in the API.
    pub fn resource(self) -> ApiResource {
        let (kind, plural) = match self {
            Self::Machine => ("VirtualMachine", "virtualmachines"),
            Self::Disk => ("VirtualDisk", "virtualdisks"),
            Self::Image => ("VirtualImage", "virtualimages"),
            Self::ClusterImage => ("ClusterVirtualImage", "clustervirtualimages"),
            Self::Operation => ("VirtualMachineOperation", "virtualmachineoperations"),
            Self::Attachment => {
                ("VirtualMachineBlockDeviceAttachment", "virtualmachineblockdeviceattachments")
            }
            Self::Pod => return ApiResource::erase::<Pod>(&()),
        };
        ApiResource {
            group: "virtualization.deckhouse.io".to_owned(),
            version: "v1alpha2".to_owned(),
            api_version: super::API_VERSION.to_owned(),
            kind: kind.to_owned(),
            plural: plural.to_owned(),
        }
    }
}
