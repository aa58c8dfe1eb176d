//! The resources of a cluster with the platform installed.

use std::sync::LazyLock;

use vmpool_api::autoscaler::crds::ALL_CRDS as AUTOSCALER_CRDS;
use vmpool_api::crds::{ALL_CRDS, Crd};
use vmpool_api::diskimage::crds::ALL_CRDS as IMAGE_CRDS;
use vmpool_api::instancetype::crds::CRDS as TYPE_CRDS;
use vmpool_api::kubevirt::crds::{PLATFORM_CRDS, POOL_CRD};

use crate::resource::Resource;

static RESOURCES: LazyLock<Vec<Resource>> = LazyLock::new(|| {
    let custom = ALL_CRDS.iter().chain(AUTOSCALER_CRDS).map(custom);
    let builtin = [
        Resource::builtin("coordination.k8s.io", "v1", "leases", "Lease"),
        Resource::builtin("", "v1", "events", "Event"),
        Resource::builtin("apps", "v1", "controllerrevisions", "ControllerRevision"),
        Resource::builtin("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler"),
        Resource::builtin("", "v1", "configmaps", "ConfigMap"),
        Resource::builtin(
            "apiextensions.k8s.io",
            "v1",
            "customresourcedefinitions",
            "CustomResourceDefinition",
        )
        .of_cluster(),
    ];
    custom.chain(builtin).collect()
});

static KUBEVIRT_RESOURCES: LazyLock<Vec<Resource>> = LazyLock::new(|| {
    let roles = "rbac.authorization.k8s.io";
    let builtin = [
        Resource::builtin("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim").with_status(),
        Resource::builtin("", "v1", "namespaces", "Namespace").of_cluster(),
        Resource::builtin(roles, "v1", "clusterroles", "ClusterRole").of_cluster(),
        Resource::builtin(roles, "v1", "roles", "Role"),
        Resource::builtin(roles, "v1", "rolebindings", "RoleBinding"),
    ];
    PLATFORM_CRDS
        .iter()
        .chain([&POOL_CRD])
        .chain(IMAGE_CRDS)
        .chain(TYPE_CRDS)
        .map(custom)
        .chain(builtin)
        .collect()
});

fn custom(crd: &Crd) -> Resource {
    let definition = serde_yaml_ng::from_str(crd.yaml).expect("the project's CRDs are valid YAML");
    Resource::custom(&definition).expect("the project's CRDs are complete")
}

/// The platform's CRDs, and the Kubernetes resources that the project's programs use.
pub fn platform_resources() -> impl Iterator<Item = Resource> {
    RESOURCES.iter().cloned()
}

/// The CRDs of KubeVirt pools, KubeVirt, CDI, instance types and disk images, and the Kubernetes resources
/// that only they use.
pub fn kubevirt_resources() -> impl Iterator<Item = Resource> {
    KUBEVIRT_RESOURCES.iter().cloned()
}
