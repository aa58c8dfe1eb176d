//! What a cluster with the platform on it has.

use std::sync::LazyLock;

use vmpool_api::crds::ALL_CRDS;

use crate::resource::Resource;

static RESOURCES: LazyLock<Vec<Resource>> = LazyLock::new(|| {
    let custom = ALL_CRDS.iter().map(|crd| {
        let definition = serde_yaml_ng::from_str(crd.yaml).expect("our own definitions are YAML");
        Resource::custom(&definition).expect("our own definitions are complete")
    });
    let builtin = [
        Resource::builtin("coordination.k8s.io", "v1", "leases", "Lease"),
        Resource::builtin("events.k8s.io", "v1", "events", "Event"),
        Resource::builtin("apps", "v1", "controllerrevisions", "ControllerRevision"),
        Resource::builtin("", "v1", "configmaps", "ConfigMap"),
    ];
    custom.chain(builtin).collect()
});

/// The definitions of the platform, and what our programs use of Kubernetes' own.
pub fn platform() -> impl Iterator<Item = Resource> {
    RESOURCES.iter().cloned()
}
