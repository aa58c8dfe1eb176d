//! The model against an API server in memory, under a virtual clock.

mod claims;
mod hot_plug;
mod images;
mod instances;
mod knobs;
mod machines;
mod run_strategies;
mod server;
mod sizing;
mod states;
mod statuses;
mod volumes;

use super::objects::{CONTROLLER_FINALIZER, KubeVirtObjectKind};
use crate::{duration::Delay, shared::SimulatorSettings};
use serde_json::{Value, json};
use server::KubeVirtTestbed;
use std::time::Duration;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn settings() -> SimulatorSettings {
    SimulatorSettings {
        start_delay: Delay::After(ms(200)),
        stop_delay: Delay::After(ms(200)),
        provisioning_delay: Delay::After(ms(200)),
        evaluation_delay: Delay::After(ms(20)),
        hot_plug_delay: Delay::After(ms(100)),
        nodes: vec!["node-1".to_owned(), "node-2".to_owned()],
        pods: true,
        seed: 7,
    }
}

/// Spec of a machine with a DataVolume template for each of these disks.
fn machine_spec(strategy: &str, disks: &[&str]) -> Value {
    let templates: Vec<_> = disks
        .iter()
        .map(|disk| {
            let storage = json!({"resources": {"requests": {"storage": "1Gi"}}});
            json!({"metadata": {"name": disk}, "spec": {"source": {"blank": {}}, "storage": storage}})
        })
        .collect();
    let volumes: Vec<_> =
        disks.iter().map(|disk| json!({"name": disk, "dataVolume": {"name": disk}})).collect();
    json!({
        "runStrategy": strategy,
        "dataVolumeTemplates": templates,
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {
                "domain": {"cpu": {"cores": 2}, "memory": {"guest": "512Mi"}},
                "volumes": volumes,
            },
        },
    })
}

/// A stage with one machine that was started.
fn running(disks: &[&str]) -> KubeVirtTestbed {
    let mut stage = KubeVirtTestbed::new();
    stage.machine("a", "Always", disks);
    stage.settle();
    assert_eq!(stage.printable("a"), "Running");
    stage
}
