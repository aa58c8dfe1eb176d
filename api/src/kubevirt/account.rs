//! The service account of a machine.

use serde_json::Value;

/// The account of a machine that names none.
const DEFAULT_ACCOUNT: &str = "default";

/// The account on whose behalf KubeVirt clones the disks of a machine: that of its template, else that of a
/// volume, else the default one. `spec` is `spec.template.spec` of the machine.
pub fn clone_account(spec: &Value) -> &str {
    let of_volume = || {
        let volumes = spec["volumes"].as_array()?;
        volumes.iter().find_map(|volume| volume["serviceAccount"]["serviceAccountName"].as_str())
    };
    // An empty name is that of a field that is not set.
    let named = [spec["serviceAccountName"].as_str(), of_volume()].into_iter().flatten();
    named.into_iter().find(|name| !name.is_empty()).unwrap_or(DEFAULT_ACCOUNT)
}
