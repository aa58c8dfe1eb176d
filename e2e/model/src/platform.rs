//! The resources of a cluster with the platform installed.

use std::sync::LazyLock;

use vmpool_api::crds::ALL_CRDS;

use crate::resource::Resource;

static RESOURCES: LazyLock<Vec<Resource>> = LazyLock::new(|| {
    let custom = ALL_CRDS.iter().map(|crd| {
        let definition = serde_yaml_ng::from_str(crd.yaml).expect("the project's CRDs are valid YAML");
        Resource::custom(&definition).expect("the project's CRDs are complete")
    });
    let builtin = [
        Resource::builtin("coordination.k8s.io", "v1", "leases", "Lease"),
        Resource::builtin("events.k8s.io", "v1", "events", "Event"),
        Resource::builtin("apps", "v1", "controllerrevisions", "ControllerRevision"),
        Resource::builtin("", "v1", "configmaps", "ConfigMap"),
    ];
    custom.chain(builtin).collect()
});

/// The platform's CRDs, and the Kubernetes resources that the project's programs use.
pub fn platform_resources() -> impl Iterator<Item = Resource> {
    RESOURCES.iter().cloned()
}
