//! Pools of DVP.

use serde_json::{Value, json};
use vmpool_api::annotations;
use vmpool_e2e::world::{Policy, World};
use vmpool_invariants::object::Object;

use crate::design::{Design, EXTRA, LONG, Spelling};

/// The pools of DVP.
pub(crate) struct Dvp;

const POOLS: [Design; 5] = [
    Design { name: "web", policy: Policy::NewestFirst, automatic: false, disks: &[("root", None)] },
    Design {
        name: "cache",
        policy: Policy::OldestFirst,
        automatic: true,
        disks: &[("root", None), ("warm", Some((1, "15s")))],
    },
    Design {
        name: "base",
        policy: Policy::Explicit,
        automatic: false,
        disks: &[("root", None), ("data", Some((0, LONG)))],
    },
    Design {
        name: "lab",
        policy: Policy::Explicit,
        automatic: true,
        disks: &[("system", Some((2, LONG))), ("scratch", None)],
    },
    Design {
        name: "batch",
        policy: Policy::NewestFirst,
        automatic: true,
        disks: &[("root", Some((0, "5s")))],
    },
];

impl Spelling for Dvp {
    fn pools(&self) -> &'static [Design] {
        &POOLS
    }

    fn object(&self, world: &World, design: &Design, replicas: i64) -> Value {
        let pool = world.pool(design.name).policy(design.policy).replicas(replicas);
        let pool = design.disks.iter().fold(pool, |pool, (disk, kept)| match kept {
            Some((keep, ttl)) => pool.retained(disk, *keep, ttl),
            None => pool.disk(disk),
        });
        let approval = if design.automatic { "Automatic" } else { "Manual" };
        let template = json!({ "spec": { "disruptions": { "restartApprovalMode": approval } } });
        let rollout = self.calm(design)["rollout"].take();
        pool.with(&json!({ "spec": { "rollout": rollout, "virtualMachineTemplate": template } })).object()
    }

    fn calm(&self, _: &Design) -> Value {
        json!({ "rollout": { "maxUnavailable": "50%", "paused": null, "revision": null } })
    }

    fn is_calm(&self, _: &Design, pool: &Object) -> bool {
        pool.at("/spec/rollout") == &json!({ "maxUnavailable": "50%" })
    }

    fn cores(&self, cores: u64) -> Value {
        json!({ "virtualMachineTemplate": { "spec": { "cpu": { "cores": cores } } } })
    }

    fn paused(&self, paused: bool) -> Value {
        json!({ "rollout": { "paused": paused.then_some(true) } })
    }

    fn budget(&self, machines: u64) -> Value {
        json!({ "rollout": { "maxUnavailable": machines } })
    }

    fn other_rollout(&self, pool: &Object) -> Value {
        let named = !pool.at("/spec/rollout/revision").is_null();
        let revision = if named { Value::Null } else { pool.at("/status/desiredTemplateHash").clone() };
        json!({ "rollout": { "revision": revision } })
    }

    fn with_disk(&self, pool: &Object) -> Option<Value> {
        let (mut templates, mut devices) = disks_of(pool);
        let mut added = templates.first().cloned().filter(|_| !has_extra(&templates))?;
        added["name"] = json!(EXTRA);
        added["reclaim"] = json!({ "onScaleDown": "Retain", "keep": 0, "ttl": "5s" });
        templates.push(added);
        devices.push(json!({ "kind": "VirtualDisk", "name": EXTRA }));
        Some(with_disks(&templates, &devices))
    }

    fn without_disk(&self, pool: &Object) -> Option<Value> {
        let (mut templates, mut devices) = disks_of(pool);
        if !has_extra(&templates) {
            return None;
        }
        templates.retain(|template| template["name"] != EXTRA);
        devices.retain(|device| device["name"] != EXTRA);
        Some(with_disks(&templates, &devices))
    }

    fn grown(&self, pool: &Object, mib: u64) -> Option<Value> {
        let (mut templates, devices) = disks_of(pool);
        let is_kept = |template: &Value| template.pointer("/reclaim/onScaleDown").is_some();
        let place = templates.iter().position(is_kept).unwrap_or_default();
        templates.get_mut(place)?["spec"]["persistentVolumeClaim"]["size"] = json!(format!("{mib}Mi"));
        Some(with_disks(&templates, &devices))
    }

    fn relabeled(&self) -> Value {
        json!({ vmpool_api::labels::POOL_UID: null })
    }

    fn is_free(&self, disk: &Object) -> bool {
        disk.annotation(annotations::FREE_SINCE).is_some() && !disk.is_terminating()
    }
}

/// The disk templates of a pool, and the devices of its machines.
fn disks_of(pool: &Object) -> (Vec<Value>, Vec<Value>) {
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
