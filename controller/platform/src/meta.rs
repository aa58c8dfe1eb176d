//! Decoding of metadata.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

/// Decodes the metadata that vmpool reads and skips the rest, because managedFields alone are larger than all
/// other fields.
///
/// For `#[serde(deserialize_with = "...")]`.
///
/// # Errors
/// Those of the deserializer.
pub fn slim_metadata<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    metadata_with_managed_fields::<D, IgnoredAny>(deserializer).map(|(metadata, _)| metadata)
}

/// The metadata with the managed fields that `M` reads.
///
/// # Errors
/// Those of the deserializer.
pub fn metadata_with_managed_fields<'de, D, M>(deserializer: D) -> Result<(ObjectMeta, Option<M>), D::Error>
where
    D: Deserializer<'de>,
    M: Deserialize<'de>,
{
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase", bound = "M: Deserialize<'de>")]
    struct Slim<M> {
        #[serde(default = "Option::default")]
        managed_fields: Option<M>,
        name: Option<String>,
        namespace: Option<String>,
        uid: Option<String>,
        resource_version: Option<String>,
        generation: Option<i64>,
        creation_timestamp: Option<Time>,
        deletion_timestamp: Option<Time>,
        labels: Option<BTreeMap<String, String>>,
        annotations: Option<BTreeMap<String, String>>,
        owner_references: Option<Vec<OwnerReference>>,
        finalizers: Option<Vec<String>>,
    }
    let slim = Slim::<M>::deserialize(deserializer)?;
    let metadata = ObjectMeta {
        name: slim.name,
        namespace: slim.namespace,
        uid: slim.uid,
        resource_version: slim.resource_version,
        generation: slim.generation,
        creation_timestamp: slim.creation_timestamp,
        deletion_timestamp: slim.deletion_timestamp,
        labels: slim.labels,
        annotations: slim.annotations,
        owner_references: slim.owner_references,
        finalizers: slim.finalizers,
        ..ObjectMeta::default()
    };
    Ok((metadata, slim.managed_fields))
}

/// Implements `kube::Resource` for a type with a `metadata` field.
///
/// This replaces kube's derive macro, which would also generate the schema. The schema of vmpool is the CRD.
#[macro_export]
macro_rules! api_object {
    ($type:ty, $group:literal, $version:literal, $kind:literal, $plural:literal) => {
        impl ::kube::Resource for $type {
            type DynamicType = ();
            type Scope = ::kube::core::NamespaceResourceScope;

            fn kind((): &()) -> ::std::borrow::Cow<'_, str> {
                $kind.into()
            }
            fn group((): &()) -> ::std::borrow::Cow<'_, str> {
                $group.into()
            }
            fn version((): &()) -> ::std::borrow::Cow<'_, str> {
                $version.into()
            }
            fn plural((): &()) -> ::std::borrow::Cow<'_, str> {
                $plural.into()
            }
            fn meta(&self) -> &::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &self.metadata
            }
            fn meta_mut(&mut self) -> &mut ::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &mut self.metadata
            }
        }
    };
}
