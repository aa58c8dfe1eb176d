//! The type of objects that a platform does not have.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::NamespaceResourceScope;
use serde::Deserialize;

/// An object that does not exist. The controller requests none, because the seam that names this type says
/// so.
#[derive(Clone, Debug, Deserialize)]
pub enum NoObject {}

impl Resource for NoObject {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> std::borrow::Cow<'_, str> {
        "None".into()
    }
    fn group((): &()) -> std::borrow::Cow<'_, str> {
        "none.invalid".into()
    }
    fn version((): &()) -> std::borrow::Cow<'_, str> {
        "v0".into()
    }
    fn plural((): &()) -> std::borrow::Cow<'_, str> {
        "none".into()
    }
    fn meta(&self) -> &ObjectMeta {
        match *self {}
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        match *self {}
    }
}
