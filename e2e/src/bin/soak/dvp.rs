//! Pools of DVP.

use serde_json::{Value, json};
use vmpool_api::annotations;
use vmpool_e2e::world::{PoolScaleDownPolicy, ScenarioWorld};
use vmpool_invariants::object::JsonObject;

use crate::design::{EXTRA, LONG, SoakPlatform, SoakPoolConfig};

/// The pools of DVP.
pub(crate) struct DvpSoakPlatform;

const POOLS: [SoakPoolConfig; 5] = [
    SoakPoolConfig {
        name: "web",
        policy: PoolScaleDownPolicy::NewestFirst,
        automatic: false,
        disks: &[("root", None)],
    },
    SoakPoolConfig {
        name: "cache",
        policy: PoolScaleDownPolicy::OldestFirst,
        automatic: true,
        disks: &[("root", None), ("warm", Some((1, "15s")))],
    },
    SoakPoolConfig {
        name: "base",
        policy: PoolScaleDownPolicy::Explicit,
        automatic: false,
        disks: &[("root", None), ("data", Some((0, LONG)))],
    },
    SoakPoolConfig {
        name: "lab",
        policy: PoolScaleDownPolicy::Explicit,
        automatic: true,
        disks: &[("system", Some((2, LONG))), ("scratch", None)],
    },
    SoakPoolConfig {
        name: "batch",
        policy: PoolScaleDownPolicy::NewestFirst,
        automatic: true,
        disks: &[("root", Some((0, "5s")))],
    },
];

impl SoakPlatform for DvpSoakPlatform {
    fn pools(&self) -> &'static [SoakPoolConfig] {
        &POOLS
    }

    fn object(&self, world: &ScenarioWorld, design: &SoakPoolConfig, replicas: i64) -> Value {
        let pool = world.pool(design.name).policy(design.policy).replicas(replicas);
        let pool = design.disks.iter().fold(pool, |pool, (disk, kept)| match kept {
            Some((keep, ttl)) => pool.retained(disk, *keep, ttl),
            None => pool.disk(disk),
        });
        let approval = if design.automatic { "Automatic" } else { "Manual" };
        let template = json!({ "spec": { "disruptions": { "restartApprovalMode": approval } } });
        let rollout = self.quiet_settings(design)["rollout"].take();
        pool.with(&json!({ "spec": { "rollout": rollout, "virtualMachineTemplate": template } })).object()
    }

    fn quiet_settings(&self, _: &SoakPoolConfig) -> Value {
        json!({ "rollout": { "maxUnavailable": "50%", "paused": null, "revision": null } })
    }

    fn has_quiet_settings(&self, _: &SoakPoolConfig, pool: &JsonObject) -> bool {
        pool.at("/spec/rollout") == &json!({ "maxUnavailable": "50%" })
    }

    fn cores(&self, cores: u64) -> Value {
        json!({ "virtualMachineTemplate": { "spec": { "cpu": { "cores": cores } } } })
    }

    fn paused(&self, paused: bool) -> Value {
        json!({ "rollout": { "paused": paused.then_some(true) } })
    }

    fn disruption_budget(&self, machines: u64) -> Value {
        json!({ "rollout": { "maxUnavailable": machines } })
    }

    fn other_rollout(&self, pool: &JsonObject) -> Value {
        let named = !pool.at("/spec/rollout/revision").is_null();
        let revision = if named { Value::Null } else { pool.at("/status/desiredTemplateHash").clone() };
        json!({ "rollout": { "revision": revision } })
    }

    fn with_disk(&self, pool: &JsonObject) -> Option<Value> {
        let (mut templates, mut devices) = disks_of(pool);
        let mut added = templates.first().cloned().filter(|_| !has_extra(&templates))?;
        added["name"] = json!(EXTRA);
        added["reclaim"] = json!({ "onScaleDown": "Retain", "keep": 0, "ttl": "5s" });
        templates.push(added);
        devices.push(json!({ "kind": "VirtualDisk", "name": EXTRA }));
        Some(with_disks(&templates, &devices))
    }

    fn without_disk(&self, pool: &JsonObject) -> Option<Value> {
        let (mut templates, mut devices) = disks_of(pool);
        if !has_extra(&templates) {
            return None;
        }
        templates.retain(|template| template["name"] != EXTRA);
        devices.retain(|device| device["name"] != EXTRA);
        Some(with_disks(&templates, &devices))
    }

    fn disk_size(&self, pool: &JsonObject, mib: u64) -> Option<Value> {
        let (mut templates, devices) = disks_of(pool);
        let is_kept = |template: &Value| template.pointer("/reclaim/onScaleDown").is_some();
        let place = templates.iter().position(is_kept).unwrap_or_default();
        templates.get_mut(place)?["spec"]["persistentVolumeClaim"]["size"] = json!(format!("{mib}Mi"));
        Some(with_disks(&templates, &devices))
    }

    fn relabeled(&self) -> Value {
        json!({ vmpool_api::labels::POOL_UID: null })
    }

    fn is_free(&self, disk: &JsonObject) -> bool {
        disk.annotation(annotations::FREE_SINCE).is_some() && !disk.is_terminating()
    }
}

/// The disk templates of a pool, and the devices of its machines.
fn disks_of(pool: &JsonObject) -> (Vec<Value>, Vec<Value>) {
    let list = |pointer: &str| pool.at(pointer).as_array().cloned().unwrap_or_default();
    (list("/spec/virtualDiskTemplates"), list("/spec/virtualMachineTemplate/spec/blockDeviceRefs"))
}

fn with_disks(templates: &[Value], devices: &[Value]) -> Value {
    json!({
        "virtualDiskTemplates": templates, "virtualMachineTemplate": { "spec": { "blockDeviceRefs": devices } },
    })
}

fn has_extra(templates: &[Value]) -> bool {
    templates.iter().any(|template| template["name"] == EXTRA)
}
