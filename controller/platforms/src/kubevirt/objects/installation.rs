//! Installations of KubeVirt.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

use super::metadata::slim;
use crate::decode::lenient;
use crate::slim_metadata;

/// The fields of a KubeVirt object that vmpool reads.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "Wire")]
pub struct InstallationObject {
    /// Object metadata, without labels and finalizers.
    pub metadata: ObjectMeta,
    /// Flags of virt-controller, by name.
    pub(in super::super) controller_flags: BTreeMap<String, String>,
    /// `spec.configuration.vmRolloutStrategy`.
    pub(in super::super) rollout_strategy: Option<String>,
    /// `spec.configuration.instancetype.referencePolicy`.
    pub(in super::super) reference_policy: Option<String>,
    /// `spec.configuration.network.defaultNetworkInterface`.
    pub(in super::super) default_interface: Option<String>,
    pub(in super::super) phase: String,
    pub(in super::super) observed_generation: Option<i64>,
}

#[derive(Deserialize)]
struct Wire {
    #[serde(deserialize_with = "slim_metadata")]
    metadata: ObjectMeta,
    #[serde(default, deserialize_with = "lenient")]
    spec: Spec,
    #[serde(default, deserialize_with = "lenient")]
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    #[serde(deserialize_with = "lenient")]
    customize_components: Components,
    #[serde(deserialize_with = "lenient")]
    configuration: Configuration,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Components {
    #[serde(deserialize_with = "lenient")]
    flags: Flags,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Flags {
    #[serde(deserialize_with = "lenient")]
    controller: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Configuration {
    #[serde(deserialize_with = "lenient")]
    vm_rollout_strategy: Option<String>,
    #[serde(deserialize_with = "lenient")]
    instancetype: ReferenceSettings,
    #[serde(deserialize_with = "lenient")]
    network: NetworkSettings,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NetworkSettings {
    #[serde(deserialize_with = "lenient")]
    default_network_interface: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ReferenceSettings {
    #[serde(deserialize_with = "lenient")]
    reference_policy: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    #[serde(deserialize_with = "lenient")]
    phase: String,
    #[serde(deserialize_with = "lenient")]
    observed_generation: Option<i64>,
}

impl From<Wire> for InstallationObject {
    fn from(Wire { mut metadata, spec, status }: Wire) -> Self {
        slim(&mut metadata);
        Self {
            metadata,
            controller_flags: spec.customize_components.flags.controller,
            rollout_strategy: spec.configuration.vm_rollout_strategy,
            reference_policy: spec.configuration.instancetype.reference_policy,
            default_interface: spec.configuration.network.default_network_interface,
            phase: status.phase,
            observed_generation: status.observed_generation,
        }
    }
}

crate::api_object!(InstallationObject, "kubevirt.io", "v1", "KubeVirt", "kubevirts");
