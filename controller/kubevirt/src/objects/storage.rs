//! DataVolumes and claims. Caches keep only their metadata.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use vmpool_engine::limits;
use vmpool_platform::decode::{lenient_list, lenient_value};
use vmpool_platform::slim_metadata;

/// A DataVolume.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "Wire")]
pub struct DataVolumeObject {
    /// Object metadata.
    pub metadata: ObjectMeta,
    /// Why its data is not complete, as CDI reports it.
    pub problem: Option<String>,
}

#[derive(Deserialize)]
struct Wire {
    #[serde(deserialize_with = "slim_metadata")]
    metadata: ObjectMeta,
    #[serde(default, deserialize_with = "lenient_value")]
    status: WireStatus,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireStatus {
    #[serde(deserialize_with = "lenient_list")]
    conditions: Vec<DataVolumeCondition>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct DataVolumeCondition {
    #[serde(rename = "type", deserialize_with = "lenient_value")]
    kind: String,
    #[serde(deserialize_with = "lenient_value")]
    status: String,
    #[serde(deserialize_with = "lenient_value")]
    reason: String,
    #[serde(deserialize_with = "lenient_value")]
    message: String,
}

/// Reasons of `Running` in a transfer that is complete or has not begun, and of `Bound` in a claim that waits
/// for its turn.
const ORDINARY: [&str; 4] = ["", "Completed", "Pending", "TransferRunning"];

impl DataVolumeCondition {
    /// Whether it reports why the data is not complete: the importer stopped, or the claim cannot be created.
    fn is_problem(&self) -> bool {
        ["Running", "Bound"].contains(&self.kind.as_str())
            && self.status == "False"
            && !self.message.is_empty()
            && !ORDINARY.contains(&self.reason.as_str())
    }
}

impl From<Wire> for DataVolumeObject {
    fn from(Wire { metadata, status }: Wire) -> Self {
        let name = metadata.name.as_deref().unwrap_or_default();
        let condition = status.conditions.iter().find(|condition| condition.is_problem());
        let problem = condition.map(|DataVolumeCondition { reason, message, .. }| {
            limits::shorten_message(format!("DataVolume {name}: {reason}: {message}"))
        });
        Self { metadata, problem }
    }
}

/// A claim.
#[derive(Clone, Debug, Deserialize)]
pub struct ClaimObject {
    /// Object metadata.
    #[serde(deserialize_with = "slim_metadata")]
    pub metadata: ObjectMeta,
}

vmpool_platform::api_object!(DataVolumeObject, "cdi.kubevirt.io", "v1beta1", "DataVolume", "datavolumes");
vmpool_platform::api_object!(ClaimObject, "", "v1", "PersistentVolumeClaim", "persistentvolumeclaims");

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    #[rstest]
    #[case::import("Running", "False", "Error", "got 404", Some("DataVolume root-0: Error: got 404"))]
    #[case::quota(
        "Bound",
        "False",
        "ErrExceededQuota",
        "exceeded quota: storage",
        Some("DataVolume root-0: ErrExceededQuota: exceeded quota: storage")
    )]
    #[case::complete("Running", "False", "Completed", "Import Complete", None)]
    #[case::waiting_claim("Bound", "False", "Pending", "PVC root-0 Pending", None)]
    #[case::running("Running", "True", "Pod is running", "", None)]
    #[case::without_message("Running", "False", "Error", "", None)]
    #[case::other_condition("Ready", "False", "Error", "got 404", None)]
    fn a_problem_is_read_from_the_conditions_of_importer_and_claim(
        #[case] kind: &str,
        #[case] status: &str,
        #[case] reason: &str,
        #[case] message: &str,
        #[case] expected: Option<&str>,
    ) {
        let condition = json!({ "type": kind, "status": status, "reason": reason, "message": message });
        let object = json!({ "metadata": { "name": "root-0" }, "status": { "conditions": [condition] } });
        let volume: DataVolumeObject = serde_json::from_value(object).unwrap();
        assert_eq!(volume.problem.as_deref(), expected);
    }

    #[rstest]
    #[case::no_status(json!(null))]
    #[case::text(json!("broken"))]
    #[case::conditions(json!({ "conditions": "none" }))]
    fn a_status_that_cannot_be_read_reports_nothing(#[case] status: Value) {
        let object = json!({ "metadata": { "name": "root-0" }, "status": status });
        assert_eq!(serde_json::from_value::<DataVolumeObject>(object).unwrap().problem, None);
    }
}
