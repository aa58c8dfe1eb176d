//! Waiting for a pool: tests on a pool that can be absent, in the form of `kube::runtime::wait::Condition`.
//!
//! Each function returns a closure `Fn(Option<&Pool>) -> bool`. This crate has no runtime; the function
//! `await_condition` of kube accepts the closures as they are:
//!
//! ```text
//! let ready = await_condition(pools, "runners", wait::pool_is_ready());
//! tokio::time::timeout(Duration::from_secs(600), ready).await??;
//! ```
//!
//! A status is that of an older spec until the controller has processed the change. Therefore the closures
//! about conditions are false until [`AnyPool::is_observed`], and a program that has just changed a pool
//! cannot take the old status for the result.
//!
//! ```
//! use vmpool_api::enums::ScaleDownPolicy;
//! use vmpool_api::v1alpha2::VirtualMachinePool;
//! use vmpool_api::wait;
//!
//! let is_ready = wait::pool_is_ready::<VirtualMachinePool>();
//! assert!(!is_ready(None));
//! let new = VirtualMachinePool::builder("runners", ScaleDownPolicy::Explicit).build();
//! assert!(!is_ready(Some(&new)));
//! ```

use kube::Resource;

use crate::{
    conditions::{ConditionFields, Conditions, pool},
    kubevirt, v1alpha2,
};

#[cfg(test)]
mod tests;

/// A pool of either platform: what programs that wait read from it.
pub trait AnyPool: Conditions + Resource {
    /// `status.observedGeneration`: the `metadata.generation` that the controller last processed.
    fn observed_generation(&self) -> Option<i64>;

    /// The desired number of machines.
    fn desired_machines(&self) -> usize;

    /// The number of existing machines, including those that are being deleted.
    fn current_machines(&self) -> usize;

    /// The number of ready machines.
    fn ready_machines(&self) -> usize;

    /// The number of machines that run with the current template.
    fn updated_machines(&self) -> usize;

    /// Whether the status is that of the current spec.
    fn is_observed(&self) -> bool {
        self.observed_generation().is_some() && self.observed_generation() == self.meta().generation
    }

    /// The phase of the pool: the reason of the condition [`pool::READY`]. [`pool::reason`] lists the phases
    /// first.
    fn pool_phase(&self) -> Option<&str> {
        self.condition(pool::READY).and_then(ConditionFields::reason)
    }
}

/// A count of the status. An absent count and a negative one, which the schema refuses, are 0.
fn count_machines(count: Option<i32>) -> usize {
    count.and_then(|count| usize::try_from(count).ok()).unwrap_or(0)
}

macro_rules! any_pool {
    ($kind:ty) => {
        impl AnyPool for $kind {
            fn observed_generation(&self) -> Option<i64> {
                self.status.as_ref()?.observed_generation
            }

            fn desired_machines(&self) -> usize {
                self.desired_replicas()
            }

            fn current_machines(&self) -> usize {
                count_machines(self.status.as_ref().and_then(|status| status.replicas))
            }

            fn ready_machines(&self) -> usize {
                count_machines(self.status.as_ref().and_then(|status| status.ready_replicas))
            }

            fn updated_machines(&self) -> usize {
                count_machines(self.status.as_ref().and_then(|status| status.updated_replicas))
            }
        }
    };
}

any_pool!(v1alpha2::VirtualMachinePool);
any_pool!(kubevirt::VirtualMachinePool);

/// Whether a condition of the pool has a status that was computed for the current spec.
fn has_current_status<P: AnyPool>(pool: &P, type_: &str, status: &str) -> bool {
    pool.is_observed() && pool.condition(type_).is_some_and(|condition| condition.status() == status)
}

/// True if the pool is as its spec describes it: all desired machines are ready and have the current
/// template. A pool that is being deleted is not ready.
pub fn pool_is_ready<P: AnyPool>() -> impl Fn(Option<&P>) -> bool {
    |pool: Option<&P>| {
        pool.is_some_and(|pool| {
            pool.meta().deletion_timestamp.is_none() && has_current_status(pool, pool::READY, "True")
        })
    }
}

/// True if the controller waits for a user action, which the message of the condition [`pool::STALLED`]
/// describes. If a program that waits for [`pool_is_ready`] also waits for this, it stops as soon as the pool
/// cannot become ready by itself.
pub fn pool_is_stalled<P: AnyPool>() -> impl Fn(Option<&P>) -> bool {
    pool_condition_is(pool::STALLED, "True")
}

/// True if a condition of the pool has this status: `True`, `False` or `Unknown`. [`pool`] lists the types.
pub fn pool_condition_is<P: AnyPool>(type_: &str, status: &str) -> impl Fn(Option<&P>) -> bool {
    move |pool: Option<&P>| pool.is_some_and(|pool| has_current_status(pool, type_, status))
}

/// True if at least this number of machines is ready, for example before a program claims them.
///
/// A ready machine is ready whatever the spec says, so the status can be that of an older spec.
pub fn pool_has_ready_machines<P: AnyPool>(machines: usize) -> impl Fn(Option<&P>) -> bool {
    move |pool: Option<&P>| pool.is_some_and(|pool| pool.ready_machines() >= machines)
}
