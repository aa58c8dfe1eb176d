//! Prints a pool as JSON, and reads the status of another pool.
//!
//! It needs no Kubernetes client: pipe the output into `kubectl apply -f -`.

use std::error::Error;

use vmpool_api::conditions::{Conditions, pool};
use vmpool_api::enums::ScaleDownPolicy;
use vmpool_api::v1alpha2::{BlockDeviceRef, DiskTemplate, VirtualMachinePool};

/// A response of an API server.
const ANSWER: &str = r#"{
  "apiVersion": "virtualization.deckhouse.io/v1alpha2",
  "kind": "VirtualMachinePool",
  "metadata": {"name": "runners", "namespace": "ci", "generation": 3},
  "spec": {
    "replicas": 5,
    "scaleDownPolicy": "Explicit",
    "virtualMachineTemplate": {"spec": {
      "cpu": {"cores": 1},
      "memory": {"size": "512Mi"},
      "blockDeviceRefs": [{"kind": "VirtualDisk", "name": "root"}]
    }},
    "virtualDiskTemplates": [{"name": "root", "spec": {"persistentVolumeClaim": {"size": 10737418240}}}]
  },
  "status": {
    "observedGeneration": 3,
    "replicas": 5,
    "readyReplicas": 4,
    "conditions": [{
      "type": "Available",
      "status": "False",
      "reason": "InsufficientReadyReplicas",
      "message": "4 of 5 machines run",
      "lastTransitionTime": "2025-01-01T00:00:00Z",
      "observedGeneration": 3
    }]
  }
}"#;

fn main() -> Result<(), Box<dyn Error>> {
    let pool = VirtualMachinePool::builder("builders", ScaleDownPolicy::OldestFirst)
        .namespace("team-a")
        .replicas(2)
        .cpu(1, "5%")
        .memory("512Mi")
        .disk(DiskTemplate::from_cluster_image("root", "alpine"))
        .device(BlockDeviceRef::cluster_image("toolbox"))
        .disk(DiskTemplate::blank("cache", "10Gi").retained_for("1h30m".parse()?, 2))
        .build();
    println!("{}", serde_json::to_string_pretty(&pool)?);

    let answer: VirtualMachinePool = serde_json::from_str(ANSWER)?;
    if let Some(available) = answer.condition(pool::AVAILABLE) {
        println!("{}: {} ({})", available.type_, available.status, available.message);
    }
    for template in &answer.spec.virtual_disk_templates {
        if let Some(size) =
            template.spec.persistent_volume_claim.as_ref().and_then(|claim| claim.size.as_ref())
        {
            println!("disk {}: {} bytes, {}", template.name, size.bytes()?, template.reclaim_policy());
        }
    }
    Ok(())
}
