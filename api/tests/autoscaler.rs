//! The type of `vmpool_api::autoscaler` reads the accepted sample manifests and writes them back without
//! loss.

use std::path::Path;

use serde::Deserialize as _;
use serde_json::Value;
use vmpool_api::autoscaler::{API_VERSION, PoolAutoscaler};

#[test]
fn accepted_manifests_survive_deserialization_without_loss() {
    let file =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples/autoscaler/accepted/autoscalers.yaml");
    let text = std::fs::read_to_string(file).unwrap();
    let documents: Vec<Value> = serde_yaml_ng::Deserializer::from_str(&text)
        .map(|document| Value::deserialize(document).unwrap())
        .collect();
    assert_eq!(documents.len(), 2);
    for document in documents {
        assert_eq!(document["apiVersion"], API_VERSION);
        let typed: PoolAutoscaler = serde_json::from_value(document.clone()).unwrap();
        assert_eq!(serde_json::to_value(typed).unwrap(), document);
    }
}
