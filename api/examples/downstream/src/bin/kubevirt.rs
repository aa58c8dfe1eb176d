//! Prints a KubeVirt pool as JSON, then changes a stored pool and keeps the fields that it does not know.
//!
//! It needs no Kubernetes client: pipe the output into `kubectl apply -f -`.

use std::error::Error;

use serde_json::json;
use vmpool_api::conditions::{Conditions, pool};
use vmpool_api::kubevirt::values::{RunStrategy, SortPolicy};
use vmpool_api::kubevirt::{ScaleInStrategy, VirtualMachinePool, VirtualMachinePoolSpec};

/// A response of an API server with a newer KubeVirt.
const ANSWER: &str = r#"{
  "apiVersion": "pool.kubevirt.io/v1alpha1",
  "kind": "VirtualMachinePool",
  "metadata": {"name": "runners", "namespace": "ci", "generation": 3},
  "spec": {
    "selector": {"matchLabels": {"app": "runners"}},
    "virtualMachineTemplate": {
      "metadata": {"labels": {"app": "runners"}},
      "spec": {
        "runStrategy": "Always",
        "template": {"spec": {
          "domain": {"devices": {"newDevices": [{"name": "accelerator"}]}, "memory": {"guest": "2Gi"}}
        }}
      }
    }
  },
  "status": {
    "replicas": 1,
    "labelSelector": "app=runners",
    "conditions": [{
      "type": "ReplicaPaused",
      "status": "True",
      "reason": "SuccessfulPaused",
      "lastProbeTime": null,
      "lastTransitionTime": "2026-01-01T00:00:00Z"
    }]
  }
}"#;

fn main() -> Result<(), Box<dyn Error>> {
    // The machine itself is KubeVirt's: JSON is the shortest way to write it.
    let mut spec: VirtualMachinePoolSpec = serde_json::from_value(json!({
        "selector": {"matchLabels": {"app": "builders"}},
        "virtualMachineTemplate": {
            "metadata": {"labels": {"app": "builders"}},
            "spec": {"template": {
                "metadata": {"labels": {"app": "builders"}},
                "spec": {"domain": {"devices": {}, "memory": {"guest": "2Gi"}}},
            }},
        },
    }))?;
    spec.replicas = Some(2);
    spec.virtual_machine_template.spec.run_strategy = Some(RunStrategy::Always.into());
    let mut strategy = ScaleInStrategy::default();
    let policy = &mut strategy.proactive.get_or_insert_default().selection_policy;
    policy.get_or_insert_default().sort_policy = Some(SortPolicy::DescendingOrder.into());
    spec.scale_in_strategy = Some(strategy);
    println!("{}", serde_json::to_string_pretty(&VirtualMachinePool::new("builders", spec))?);

    let mut answer: VirtualMachinePool = serde_json::from_str(ANSWER)?;
    if let Some(paused) = answer.condition(pool::REPLICA_PAUSED) {
        println!("{}: {} ({})", paused.type_, paused.status, paused.reason.as_deref().unwrap_or_default());
    }
    answer.spec.replicas = Some(i32::try_from(answer.desired_replicas())? + 1);
    let written = serde_json::to_value(&answer)?;
    let devices = &written["spec"]["virtualMachineTemplate"]["spec"]["template"]["spec"]["domain"]["devices"];
    println!("{} machines with {devices}", written["spec"]["replicas"]);
    Ok(())
}
