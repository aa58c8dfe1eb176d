//! The pools of the soak test: one of each typical configuration.

use serde_json::{Value, json};
use vmpool_e2e::world::{Policy, World};

/// Machines of each pool at quiet points.
pub(crate) const CALM: usize = 5;

/// Maximum number of replicas that a user requests.
pub(crate) const MOST: u64 = 10;

/// A disk template that is added and removed.
pub(crate) const EXTRA: &str = "extra";

/// The `ttl` of free disks in pools that reuse them soon. It is longer than the time between two quiet points.
pub(crate) const LONG: &str = "10m";

/// The configuration of a pool.
#[derive(Debug)]
pub(crate) struct Design {
    /// Name of the pool.
    pub(crate) name: &'static str,
    /// The scale-down policy.
    pub(crate) policy: Policy,
    /// Whether machines restart automatically for a change.
    pub(crate) automatic: bool,
    /// Disk templates; for retained disks with the number of free disks to keep, and the `ttl` of the others.
    pub(crate) disks: &'static [(&'static str, Option<(u32, &'static str)>)],
}

/// All configurations.
pub(crate) const POOLS: [Design; 5] = [
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

impl Design {
    /// The pool as it is created, with this number of replicas.
    pub(crate) fn object(&self, world: &World, replicas: i64) -> Value {
        let pool = world.pool(self.name).policy(self.policy).replicas(replicas);
        let pool = self.disks.iter().fold(pool, |pool, (disk, kept)| match kept {
            Some((keep, ttl)) => pool.retained(disk, *keep, ttl),
            None => pool.disk(disk),
        });
        let approval = if self.automatic { "Automatic" } else { "Manual" };
        let template = json!({ "spec": { "disruptions": { "restartApprovalMode": approval } } });
        pool.with(&json!({ "spec": { "rollout": budget(), "virtualMachineTemplate": template } })).object()
    }
}

/// The rollout settings at quiet points: not paused, and half of the machines at a time.
pub(crate) fn budget() -> Value {
    json!({ "maxUnavailable": "50%", "paused": null, "revision": null })
}
