//! Pools of KubeVirt.

use serde_json::{Value, json};
use vmpool_e2e::world::{PoolScaleDownPolicy, ScenarioWorld};
use vmpool_invariants::object::JsonObject;

use crate::design::{EXTRA, LONG, SoakPlatform, SoakPoolConfig};

/// The pools of KubeVirt.
pub(crate) struct KubeVirtSoakPlatform;

/// DataVolume templates have different names in each pool: pools with a common name would share storage.
const POOLS: [SoakPoolConfig; 5] = [
    SoakPoolConfig {
        name: "web",
        policy: PoolScaleDownPolicy::NewestFirst,
        automatic: false,
        disks: &[("web-root", None)],
    },
    SoakPoolConfig {
        name: "cache",
        policy: PoolScaleDownPolicy::OldestFirst,
        automatic: true,
        disks: &[("cache-root", None), ("cache-warm", None)],
    },
    SoakPoolConfig {
        name: "base",
        policy: PoolScaleDownPolicy::Explicit,
        automatic: false,
        disks: &[("base-root", Some((0, LONG)))],
    },
    SoakPoolConfig { name: "lab", policy: PoolScaleDownPolicy::Explicit, automatic: true, disks: &[] },
    SoakPoolConfig {
        name: "batch",
        policy: PoolScaleDownPolicy::NewestFirst,
        automatic: true,
        disks: &[("batch-root", Some((0, LONG)))],
    },
];

impl SoakPlatform for KubeVirtSoakPlatform {
    fn pools(&self) -> &'static [SoakPoolConfig] {
        &POOLS
    }

    fn object(&self, world: &ScenarioWorld, design: &SoakPoolConfig, replicas: i64) -> Value {
        let pool = world.pool(design.name).policy(design.policy).replicas(replicas);
        let pool = design.disks.iter().fold(pool, |pool, (disk, _)| pool.disk(disk));
        let mut spec = self.quiet_settings(design);
        if design.disks.iter().any(|(_, kept)| kept.is_some())
            && !matches!(design.policy, PoolScaleDownPolicy::Explicit)
        {
            spec["scaleInStrategy"] = json!({ "proactive": { "statePreservation": "Offline" } });
        }
        pool.with(&json!({ "spec": spec })).object()
    }

    fn quiet_settings(&self, design: &SoakPoolConfig) -> Value {
        json!({ "maxUnavailable": "50%", "paused": null, "updateStrategy": strategy(design.automatic) })
    }

    fn has_quiet_settings(&self, design: &SoakPoolConfig, pool: &JsonObject) -> bool {
        let strategy = strategy(design.automatic);
        let is_proactive = !pool.at("/spec/updateStrategy/proactive").is_null();
        pool.at("/spec/maxUnavailable") == "50%"
            && pool.at("/spec/paused") != &json!(true)
            && is_proactive == strategy["proactive"].is_object()
    }

    fn cores(&self, cores: u64) -> Value {
        let domain = json!({ "cpu": { "cores": cores } });
        json!({ "virtualMachineTemplate": { "spec": { "template": { "spec": { "domain": domain } } } } })
    }

    fn paused(&self, paused: bool) -> Value {
        json!({ "paused": paused.then_some(true) })
    }

    fn disruption_budget(&self, machines: u64) -> Value {
        json!({ "maxUnavailable": machines })
    }

    fn other_rollout(&self, pool: &JsonObject) -> Value {
        let is_proactive = !pool.at("/spec/updateStrategy/proactive").is_null();
        json!({ "updateStrategy": strategy(!is_proactive) })
    }

    fn with_disk(&self, pool: &JsonObject) -> Option<Value> {
        let Disks { mut templates, mut devices, mut volumes } = Disks::of(pool);
        let name = extra(pool);
        let mut added = templates.first().cloned().filter(|_| templates.iter().all(|one| !is(one, &name)))?;
        added["metadata"]["name"] = json!(name);
        templates.push(added);
        devices.push(json!({ "name": name, "disk": { "bus": "virtio" } }));
        volumes.push(json!({ "name": name, "dataVolume": { "name": name } }));
        Some(Disks { templates, devices, volumes }.patch())
    }

    fn without_disk(&self, pool: &JsonObject) -> Option<Value> {
        let Disks { mut templates, mut devices, mut volumes } = Disks::of(pool);
        let name = extra(pool);
        let before = templates.len();
        templates.retain(|template| !is(template, &name));
        devices.retain(|device| device["name"] != name);
        volumes.retain(|volume| volume["name"] != name);
        (templates.len() != before).then(|| Disks { templates, devices, volumes }.patch())
    }

    /// A changed DataVolume template recreates the machines with new storage, which
    /// [`SoakPlatform::with_disk`] does, too.
    fn disk_size(&self, _: &JsonObject, _: u64) -> Option<Value> {
        None
    }

    fn relabeled(&self) -> Value {
        json!({ "app": "another" })
    }

    fn is_free(&self, disk: &JsonObject) -> bool {
        disk.owner_uid().is_empty() && !disk.is_terminating()
    }
}

/// A merge patch that replaces the strategy.
fn strategy(automatic: bool) -> Value {
    if automatic {
        json!({ "proactive": {}, "opportunistic": null })
    } else {
        json!({ "opportunistic": {}, "proactive": null })
    }
}

/// The name of the added DataVolume template of a pool.
fn extra(pool: &JsonObject) -> String {
    format!("{}-{EXTRA}", pool.name())
}

fn is(template: &Value, name: &str) -> bool {
    template["metadata"]["name"] == name
}

/// The lists of a template that name its DataVolumes.
struct Disks {
    templates: Vec<Value>,
    devices: Vec<Value>,
    volumes: Vec<Value>,
}

impl Disks {
    fn of(pool: &JsonObject) -> Self {
        let list = |end: &str| {
            let pointer = format!("/spec/virtualMachineTemplate/spec/{end}");
            pool.at(&pointer).as_array().cloned().unwrap_or_default()
        };
        Self {
            templates: list("dataVolumeTemplates"),
            devices: list("template/spec/domain/devices/disks"),
            volumes: list("template/spec/volumes"),
        }
    }

    fn patch(self) -> Value {
        json!({ "virtualMachineTemplate": { "spec": {
            "dataVolumeTemplates": self.templates,
            "template": { "spec": {
                "domain": { "devices": { "disks": self.devices } }, "volumes": self.volumes,
            } },
        } } })
    }
}
