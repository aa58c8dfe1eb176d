//! Pools: the spec, and the state that annotations and status store.

use std::sync::Arc;
use std::time::Duration;

use crate::condition::Condition;
use crate::failure::{Failure, FailureReason};
use crate::ids::ObjectId;
use crate::names::NameBlock;
use crate::removal::RemovalRecord;
use crate::revision::RevisionId;

/// How the machines of a pool are named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// `<pool>-<five characters>`, from [`crate::names`]. The pool never reuses a name.
    Random,
    /// `<pool>-<ordinal>`, with the smallest ordinal that no object of the namespace has.
    Ordinal,
}

/// Which machines a scale-down deletes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScaleDownPolicy {
    /// The youngest first.
    NewestFirst,
    /// The oldest first.
    OldestFirst,
    /// The smallest ordinal first.
    LowestOrdinalFirst,
    /// The greatest ordinal first, as a StatefulSet does.
    HighestOrdinalFirst,
    /// None. The controller deletes only the targets of targeted removals.
    Explicit,
}

/// How long a disk lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// As long as its machine, which owns it.
    Ephemeral,
    /// Until garbage collection: the pool owns it and allocates it to another machine.
    Retained,
}

/// One disk template of the pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskTemplate {
    /// Name of the template, unique within the pool.
    pub name: Arc<str>,
    /// What happens to its disks when their machine is deleted.
    pub lifetime: Lifetime,
    /// Number of its free disks that garbage collection keeps regardless of their age.
    pub keep_free: usize,
    /// Age at which garbage collection deletes a free disk beyond [`DiskTemplate::keep_free`]. With `None` it deletes
    /// none.
    pub ttl: Option<Duration>,
    /// Minimum size of its disks, in bytes. With `None` the controller does not expand them.
    pub size: Option<u64>,
    /// Whether machines of the pool's current revision have a device for it. Garbage collection keeps the disks of a
    /// template without a device.
    pub used: bool,
}

impl DiskTemplate {
    /// A template of the current revision with a device, no free disks to keep, no time to live and no minimum size.
    pub fn new(name: &str, lifetime: Lifetime) -> Self {
        Self { name: name.into(), lifetime, keep_free: 0, ttl: None, size: None, used: true }
    }
}

/// How the controller applies a changed template to existing machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rollout {
    /// Whether the rollout is paused: the controller updates no further machine.
    pub paused: bool,
    /// The disruption budget: how many machines may be unavailable at the same time because of the rollout.
    pub budget: Budget,
    /// Number of revisions to keep besides the current one and those that machines refer to.
    pub history: usize,
    /// The stored revision that replaces the template in the spec.
    pub pinned: Option<RevisionId>,
    /// Whether the requested revision cannot be read or is not stored. If so, the controller updates no machine and
    /// creates new machines from the last stored revision. `pinned` contains that revision as soon as the stored
    /// revisions are known.
    pub held: bool,
}

impl Rollout {
    /// Whether the rollout is paused or held, so that the controller updates no further machine.
    pub fn stands_still(&self) -> bool {
        self.paused || self.held
    }
}

impl Default for Rollout {
    fn default() -> Self {
        Self { paused: false, budget: Budget::default(), history: 10, pinned: None, held: false }
    }
}

/// A number of machines, or a share of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    /// A number of machines, at least one.
    Machines(usize),
    /// A percentage of the desired machines, rounded down, but at least one machine.
    Percent(u8),
}

impl Default for Budget {
    /// A quarter.
    fn default() -> Self {
        Self::Percent(25)
    }
}

impl Budget {
    /// How many of `desired` machines it allows: at least one.
    pub fn of(self, desired: usize) -> usize {
        match self {
            Self::Machines(machines) => machines,
            Self::Percent(percent) => desired.saturating_mul(usize::from(percent)) / 100,
        }
        .max(1)
    }
}

/// A pool: its spec, and the state that its annotations and its status store.
#[derive(Clone, Debug, PartialEq)]
pub struct Pool {
    /// Name and UID.
    pub id: ObjectId,
    /// `metadata.namespace`.
    pub namespace: Arc<str>,
    /// `metadata.generation`, which counts changes of the spec.
    pub generation: i64,
    /// Whether the API server has accepted its deletion.
    pub deleting: bool,
    /// Desired number of machines: `spec.replicas`.
    pub desired: usize,
    /// Which machines a scale-down deletes.
    pub scale_down_policy: ScaleDownPolicy,
    /// How the controller names machines.
    pub naming: Naming,
    /// Identity of the current revision.
    pub revision: RevisionId,
    /// Whether that revision is stored, so that its identity is fixed.
    pub revision_stored: bool,
    /// How the controller applies it to existing machines.
    pub rollout: Rollout,
    /// The disk templates. The list is empty if the platform stores disks inside the machine object.
    pub disks: Vec<DiskTemplate>,
    /// The current name block; `None` before the first one.
    pub name_block: Option<NameBlock>,
    /// The removal record. If it cannot be read, it is empty and [`Pool::validation_errors`] contains the error.
    pub record: RemovalRecord,
    /// The last published status.
    pub published: Published,
    /// Messages about fields that cannot be read and that the controller needs to create machines.
    pub validation_errors: Vec<String>,
    /// Messages about settings that cannot be read. The controller uses the safe value of each, and continues to
    /// reconcile the pool.
    pub invalid_settings: Vec<String>,
}

impl Pool {
    /// The validation error that prevents the controller from creating machines of this pool.
    pub(crate) fn invalid_spec(&self) -> Option<Failure> {
        let message = format!("the spec of the pool is invalid: {}", self.validation_errors.first()?);
        Some(Failure { reason: FailureReason::FailedCreate, message })
    }

    /// Whether the pool has a disk template of this name.
    pub(crate) fn has_disk_template(&self, name: &str) -> bool {
        self.disks.iter().any(|known| *known.name == *name)
    }
}

/// The status that the pool object shows now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Published {
    /// All conditions, including those of other controllers.
    pub conditions: Vec<Condition>,
    /// The counters and identities; `None` while the status is incomplete.
    pub summary: Option<Summary>,
    /// The desired template hash in the status, and the generation that the status observed. It can be present without
    /// a summary, because another controller may omit counters.
    pub desired_revision: Option<(RevisionId, i64)>,
}

/// The counters and identities of a status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The generation that the pass used.
    pub observed_generation: i64,
    /// Machines that exist, including terminating and stopped ones, because they still use resources.
    pub replicas: usize,
    /// Live machines that run.
    pub ready: usize,
    /// Live machines in which the current revision is in effect.
    pub updated: usize,
    /// Live machines with the current revision that need a restart.
    pub restart_pending: usize,
    /// Identity of the current revision.
    pub revision: RevisionId,
}
