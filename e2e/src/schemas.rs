//! The schemas of pools in the custom resource definitions of this repository.

use serde_json::Value;
use vmpool_installation::workspace_root;
use vmpool_invariants::platform::TestedPlatform;
use vmpool_test_cluster::control_plane::read_yaml_documents;
use vmpool_test_cluster::error::{Error, Result};

/// The schema of a pool of this platform, in its first version.
///
/// # Errors
/// [`Error::File`], [`Error::Unexpected`] if the file contains no schema.
pub fn of_pools(platform: TestedPlatform) -> Result<Value> {
    let file = match platform {
        TestedPlatform::Dvp => "virtualmachinepools.virtualization.deckhouse.io.yaml",
        TestedPlatform::KubeVirt => "kubevirt/virtualmachinepools.pool.kubevirt.io.yaml",
    };
    let mut documents = read_yaml_documents(&workspace_root().join("api/crds").join(file))?;
    let schema = documents
        .first_mut()
        .and_then(|definition| definition.pointer_mut("/spec/versions/0/schema/openAPIV3Schema"))
        .map(Value::take);
    schema.ok_or_else(|| Error::Unexpected { what: format!("{file} contains a schema"), last: String::new() })
}
