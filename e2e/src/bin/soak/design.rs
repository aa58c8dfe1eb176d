//! The pools of the soak test: one of each typical configuration of a platform.

use serde_json::Value;
use vmpool_e2e::world::{PoolScaleDownPolicy, ScenarioWorld};
use vmpool_invariants::object::JsonObject;

/// Machines of each pool at quiet points.
pub(crate) const QUIET_REPLICAS: usize = 5;

/// Maximum number of replicas that a user requests.
pub(crate) const MAX_REPLICAS: u64 = 10;

/// A disk template that is added and removed.
pub(crate) const EXTRA: &str = "extra";

/// The `ttl` of free disks in pools that reuse them soon. It is longer than the time between two quiet
/// points.
pub(crate) const LONG: &str = "10m";

/// The configuration of a pool.
#[derive(Debug)]
pub(crate) struct SoakPoolConfig {
    /// Name of the pool.
    pub(crate) name: &'static str,
    /// The scale-down policy.
    pub(crate) policy: PoolScaleDownPolicy,
    /// Whether machines restart automatically for a change.
    pub(crate) automatic: bool,
    /// Disk templates. For disks that remain after their machine, with the number of free disks to keep, and
    /// the `ttl` of the others, where the platform has these settings.
    pub(crate) disks: &'static [(&'static str, Option<(u32, &'static str)>)],
}

/// How a platform writes what the operations of users change. Every patch is a merge patch of the pool's
/// spec.
pub(crate) trait SoakPlatform: Sync {
    /// All configurations.
    fn pools(&self) -> &'static [SoakPoolConfig];
    /// A pool as it is created, with this number of replicas.
    fn object(&self, world: &ScenarioWorld, design: &SoakPoolConfig, replicas: i64) -> Value;
    /// The settings of a pool at quiet points.
    fn quiet_settings(&self, design: &SoakPoolConfig) -> Value;
    /// Whether a pool has the settings of quiet points.
    fn has_quiet_settings(&self, design: &SoakPoolConfig, pool: &JsonObject) -> bool;
    /// A change of the template that needs a restart.
    fn cores(&self, cores: u64) -> Value;
    /// Pauses, or ends the pause.
    fn paused(&self, paused: bool) -> Value;
    /// Sets `maxUnavailable`.
    fn disruption_budget(&self, machines: u64) -> Value;
    /// Another way to apply the template: a stored revision, or another strategy; or back.
    fn other_rollout(&self, pool: &JsonObject) -> Value;
    /// Adds a disk template with the name [`EXTRA`]; `None` if there is one.
    fn with_disk(&self, pool: &JsonObject) -> Option<Value>;
    /// Removes the disk template [`EXTRA`]; `None` if there is none.
    fn without_disk(&self, pool: &JsonObject) -> Option<Value>;
    /// Sets the size of disks; `None` if that is no change of the platform's pools.
    fn disk_size(&self, pool: &JsonObject, mib: u64) -> Option<Value>;
    /// A patch of a machine's labels that the controller undoes, or releases the machine for.
    fn relabeled(&self) -> Value;
    /// Whether a disk that the pool owned may be deleted by a user, because no machine uses it.
    fn is_free(&self, disk: &JsonObject) -> bool;
}
