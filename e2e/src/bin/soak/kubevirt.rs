//! Pools of KubeVirt.

use serde_json::{Value, json};
use vmpool_e2e::world::{Policy, World};
use vmpool_invariants::object::Object;

use crate::design::{Design, EXTRA, LONG, Spelling};

/// The pools of KubeVirt.
pub(crate) struct KubeVirt;

/// DataVolume templates have different names in each pool: pools with a common name would share storage.
const POOLS: [Design; 5] = [
    Design { name: "web", policy: Policy::NewestFirst, automatic: false, disks: &[("web-root", None)] },
    Design {
        name: "cache",
        policy: Policy::OldestFirst,
        automatic: true,
        disks: &[("cache-root", None), ("cache-warm", None)],
    },
    Design {
        name: "base",
        policy: Policy::Explicit,
        automatic: false,
        disks: &[("base-root", Some((0, LONG)))],
    },
    Design { name: "lab", policy: Policy::Explicit, automatic: true, disks: &[] },
    Design {
        name: "batch",
        policy: Policy::NewestFirst,
        automatic: true,
        disks: &[("batch-root", Some((0, LONG)))],
    },
];

impl Spelling for KubeVirt {
    fn pools(&self) -> &'static [Design] {
        &POOLS
    }

    fn object(&self, world: &World, design: &Design, replicas: i64) -> Value {
        let pool = world.pool(design.name).policy(design.policy).replicas(replicas);
        let pool = design.disks.iter().fold(pool, |pool, (disk, _)| pool.disk(disk));
        let mut spec = self.calm(design);
        if design.disks.iter().any(|(_, kept)| kept.is_some()) && !matches!(design.policy, Policy::Explicit) {
            spec["scaleInStrategy"] = json!({ "proactive": { "statePreservation": "Offline" } });
        }
        pool.with(&json!({ "spec": spec })).object()
    }

    fn calm(&self, design: &Design) -> Value {
        json!({ "maxUnavailable": "50%", "paused": null, "updateStrategy": strategy(design.automatic) })
    }

    fn is_calm(&self, design: &Design, pool: &Object) -> bool {
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

    fn budget(&self, machines: u64) -> Value {
        json!({ "maxUnavailable": machines })
    }

    fn other_rollout(&self, pool: &Object) -> Value {
        let is_proactive = !pool.at("/spec/updateStrategy/proactive").is_null();
        json!({ "updateStrategy": strategy(!is_proactive) })
    }

    fn with_disk(&self, pool: &Object) -> Option<Value> {
        let Disks { mut templates, mut devices, mut volumes } = Disks::of(pool);
        let name = extra(pool);
        let mut added = templates.first().cloned().filter(|_| templates.iter().all(|one| !is(one, &name)))?;
        added["metadata"]["name"] = json!(name);
        templates.push(added);
        devices.push(json!({ "name": name, "disk": { "bus": "virtio" } }));
        volumes.push(json!({ "name": name, "dataVolume": { "name": name } }));
        Some(Disks { templates, devices, volumes }.patch())
    }

    fn without_disk(&self, pool: &Object) -> Option<Value> {
        let Disks { mut templates, mut devices, mut volumes } = Disks::of(pool);
        let name = extra(pool);
        let before = templates.len();
        templates.retain(|template| !is(template, &name));
        devices.retain(|device| device["name"] != name);
        volumes.retain(|volume| volume["name"] != name);
        (templates.len() != before).then(|| Disks { templates, devices, volumes }.patch())
    }

    /// A changed DataVolume template recreates the machines with new storage, which [`Spelling::with_disk`] does, too.
    fn grown(&self, _: &Object, _: u64) -> Option<Value> {
        None
    }

    fn relabeled(&self) -> Value {
        json!({ "app": "another" })
    }

    fn is_free(&self, disk: &Object) -> bool {
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
fn extra(pool: &Object) -> String {
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
    fn of(pool: &Object) -> Self {
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
