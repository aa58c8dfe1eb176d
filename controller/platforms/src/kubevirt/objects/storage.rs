//! DataVolumes and claims, of which only the metadata is read.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

use crate::slim_metadata;

/// A DataVolume.
#[derive(Clone, Debug, Deserialize)]
pub struct DataVolumeObject {
    /// Object metadata.
    #[serde(deserialize_with = "slim_metadata")]
    pub metadata: ObjectMeta,
}

/// A claim.
#[derive(Clone, Debug, Deserialize)]
pub struct ClaimObject {
    /// Object metadata.
    #[serde(deserialize_with = "slim_metadata")]
    pub metadata: ObjectMeta,
}

crate::api_object!(DataVolumeObject, "cdi.kubevirt.io", "v1beta1", "DataVolume", "datavolumes");
crate::api_object!(ClaimObject, "", "v1", "PersistentVolumeClaim", "persistentvolumeclaims");
