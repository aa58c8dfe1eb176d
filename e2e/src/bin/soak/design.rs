//! The pools: one of each kind that users have.

use serde_json::{Value, json};
use vmpool_e2e::world::{Policy, World};

/// Machines of each pool at quiet points.
pub(crate) const CALM: usize = 5;

/// Most machines that somebody asks for.
pub(crate) const MOST: u64 = 10;

/// A disk template that comes and goes.
pub(crate) const EXTRA: &str = "extra";

/// How long free disks stay in pools that are about to use them again: longer than from one quiet point to the next.
pub(crate) const LONG: &str = "10m";

/// A kind of pool.
#[derive(Debug)]
pub(crate) struct Design {
    /// Name of the pool.
    pub(crate) name: &'static str,
    /// Who leaves first.
    pub(crate) policy: Policy,
    /// Whether machines restart by themselves for a change.
    pub(crate) automatic: bool,
    /// Disk templates, each with how many free disks are kept, and for how long the others, if disks outlive machines.
    pub(crate) disks: &'static [(&'static str, Option<(u32, &'static str)>)],
}

/// All of them.
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
    /// The pool as it is created, with so many machines.
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

/// Rollouts as they are at quiet points: under way, and half of the machines at a time.
pub(crate) fn budget() -> Value {
    json!({ "maxUnavailable": "50%", "paused": null, "revision": null })
}
