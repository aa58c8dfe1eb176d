//! Installations of KubeVirt.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde_json::Value;
use vmpool_platform::decode::lenient_value;
use vmpool_platform::slim_metadata;

use super::metadata::strip_cached_metadata;

/// The fields of a KubeVirt object that vmpool reads.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "Wire")]
pub struct InstallationObject {
    /// Object metadata, without labels and finalizers.
    pub metadata: ObjectMeta,
    /// Flags of virt-controller, by name.
    pub(crate) controller_flags: BTreeMap<String, String>,
    /// `spec.configuration.vmRolloutStrategy`.
    pub(crate) rollout_strategy: Option<String>,
    /// `spec.configuration.instancetype.referencePolicy`.
    pub(crate) reference_policy: Option<String>,
    /// `spec.configuration.network.defaultNetworkInterface`.
    pub(crate) default_interface: Option<String>,
    /// `spec.configuration.network.permitBridgeInterfaceOnPodNetwork`.
    pub(crate) permits_bridge: Option<bool>,
    /// The architecture of machines that state none: `status.defaultArchitecture`, which KubeVirt uses, or
    /// else `spec.configuration.architectureConfiguration.defaultArchitecture`.
    pub(crate) architecture: Option<String>,
    /// The configured machine type for each architecture.
    pub(crate) machine_types: BTreeMap<String, String>,
    /// `spec.configuration.cpuRequest`.
    pub(crate) cpu_request: Option<String>,
    /// `spec.configuration.evictionStrategy`.
    pub(crate) eviction_strategy: Option<String>,
    pub(crate) phase: String,
    pub(crate) observed_generation: Option<i64>,
    /// `status.observedKubeVirtVersion`, such as `v1.6.0`: the version that KubeVirt's operator has
    /// installed.
    pub(crate) version: Option<String>,
}

#[derive(Deserialize)]
struct Wire {
    #[serde(deserialize_with = "slim_metadata")]
    metadata: ObjectMeta,
    #[serde(default, deserialize_with = "lenient_value")]
    spec: Spec,
    #[serde(default, deserialize_with = "lenient_value")]
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    #[serde(deserialize_with = "lenient_value")]
    customize_components: Components,
    #[serde(deserialize_with = "lenient_value")]
    configuration: Configuration,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Components {
    #[serde(deserialize_with = "lenient_value")]
    flags: Flags,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Flags {
    #[serde(deserialize_with = "lenient_value")]
    controller: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Configuration {
    #[serde(deserialize_with = "lenient_value")]
    vm_rollout_strategy: Option<String>,
    #[serde(deserialize_with = "lenient_value")]
    instancetype: ReferenceSettings,
    #[serde(deserialize_with = "lenient_value")]
    network: NetworkSettings,
    #[serde(rename = "architectureConfiguration", deserialize_with = "lenient_value")]
    architectures: Architectures,
    /// The former field for the machine type of `amd64`.
    #[serde(deserialize_with = "lenient_value")]
    machine_type: Option<String>,
    #[serde(deserialize_with = "lenient_value")]
    cpu_request: Value,
    #[serde(deserialize_with = "lenient_value")]
    eviction_strategy: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Architectures {
    #[serde(deserialize_with = "lenient_value")]
    default_architecture: Option<String>,
    #[serde(deserialize_with = "lenient_value")]
    amd64: Architecture,
    #[serde(deserialize_with = "lenient_value")]
    arm64: Architecture,
    #[serde(deserialize_with = "lenient_value")]
    s390x: Architecture,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Architecture {
    #[serde(deserialize_with = "lenient_value")]
    machine_type: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NetworkSettings {
    #[serde(deserialize_with = "lenient_value")]
    default_network_interface: Option<String>,
    #[serde(deserialize_with = "lenient_value")]
    permit_bridge_interface_on_pod_network: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ReferenceSettings {
    #[serde(deserialize_with = "lenient_value")]
    reference_policy: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    #[serde(deserialize_with = "lenient_value")]
    phase: String,
    #[serde(deserialize_with = "lenient_value")]
    observed_generation: Option<i64>,
    #[serde(deserialize_with = "lenient_value")]
    default_architecture: Option<String>,
    /// The derived name would have another spelling of `KubeVirt`.
    #[serde(rename = "observedKubeVirtVersion", deserialize_with = "lenient_value")]
    version: Option<String>,
}

impl From<Wire> for InstallationObject {
    fn from(Wire { mut metadata, spec, status }: Wire) -> Self {
        strip_cached_metadata(&mut metadata);
        let set = |text: Option<String>| text.filter(|text| !text.is_empty());
        let Architectures { default_architecture, amd64, arm64, s390x } = spec.configuration.architectures;
        let machine_types = [
            ("amd64", set(amd64.machine_type).or(set(spec.configuration.machine_type))),
            ("arm64", set(arm64.machine_type)),
            ("s390x", set(s390x.machine_type)),
        ];
        let machine_types =
            machine_types.into_iter().filter_map(|(name, kind)| Some((name.to_owned(), kind?)));
        let cpu_request = match spec.configuration.cpu_request {
            Value::String(text) => set(Some(text)),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        };
        Self {
            metadata,
            controller_flags: spec.customize_components.flags.controller,
            rollout_strategy: set(spec.configuration.vm_rollout_strategy),
            reference_policy: spec.configuration.instancetype.reference_policy,
            default_interface: spec.configuration.network.default_network_interface,
            permits_bridge: spec.configuration.network.permit_bridge_interface_on_pod_network,
            architecture: set(status.default_architecture).or(set(default_architecture)),
            machine_types: machine_types.collect(),
            cpu_request,
            eviction_strategy: set(spec.configuration.eviction_strategy),
            phase: status.phase,
            observed_generation: status.observed_generation,
            version: set(status.version),
        }
    }
}

vmpool_platform::api_object!(InstallationObject, "kubevirt.io", "v1", "KubeVirt", "kubevirts");
