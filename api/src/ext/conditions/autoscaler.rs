//! Types and reasons of the conditions of an autoscaler.

use crate::ext::constants::text_constants;

text_constants! {
    "All types of conditions that vmpool publishes in an autoscaler.";
    /// Whether all fields of the autoscaler can be read and its pool exists.
    READY = "Ready";
    /// Whether the controller scales the pool.
    ACTIVE = "Active";
    /// Whether a limit determines the number of machines, and not the demand.
    LIMITED = "Limited";
    /// Whether another object scales the pool, too.
    CONFLICTING = "Conflicting";
}

/// Reasons of the conditions of an autoscaler.
pub mod reason {
    use crate::ext::constants::text_constants;

    text_constants! {
        "All reasons of conditions that vmpool publishes in an autoscaler.";
        /// `Ready` is True: the controller can read all fields and finds the pool.
        READABLE = "Readable";
        /// `Ready` is False: fields cannot be read. The controller skips them.
        INVALID_SPEC = "InvalidSpec";
        /// `Ready` and `Active` are False: the pool does not exist.
        POOL_NOT_FOUND = "PoolNotFound";
        /// `Ready` and `Active` are False: the controller does not reconcile pools of this kind.
        POOL_NOT_SERVED = "PoolNotServed";
        /// `Active` is True: the controller sets the replicas of the pool.
        SCALING = "Scaling";
        /// `Active` is False: the autoscaler is paused.
        PAUSED = "Paused";
        /// `Active` is False: the pool is paused.
        POOL_PAUSED = "PoolPaused";
        /// `Active` is False: the pool is being deleted.
        POOL_DELETING = "PoolDeleting";
        /// `Active` is False: another object scales the pool.
        CONFLICT = "Conflict";
        /// `Active` is False: the last write failed. The controller tries again.
        FAILED_SCALE = "FailedScale";
        /// `Limited` is True: the demand exceeds `maxReplicas`.
        TOO_MANY_REPLICAS = "TooManyReplicas";
        /// `Limited` is True: the demand is below `minReplicas`.
        TOO_FEW_REPLICAS = "TooFewReplicas";
        /// `Limited` is False: the demand is between the limits.
        WITHIN_LIMITS = "WithinLimits";
        /// `Conflicting` is True: a HorizontalPodAutoscaler names the pool.
        HORIZONTAL_POD_AUTOSCALER = "HorizontalPodAutoscaler";
        /// `Conflicting` is True: an older PoolAutoscaler names the pool.
        OLDER_AUTOSCALER = "OlderAutoscaler";
        /// `Conflicting` is False: no other object scales the pool.
        NO_CONFLICT = "NoConflict";
    }
}
