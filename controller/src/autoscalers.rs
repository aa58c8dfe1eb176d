//! Autoscalers: a leader watches them, and carries out the decisions of [`vmpool_autoscaler`] on pools of
//! both platforms.
//!
//! ```text
//!  caches of pools and machines --changed pools--> PoolHub --> Queue of autoscalers
//!                                                                |
//!                                                                v
//!  Store (autoscalers, HorizontalPodAutoscalers) ----> pass: observe, vmpool_autoscaler, apply, report
//! ```
//!
//! An autoscaler reads pools through the [`PoolHub`], which the leadership of each platform serves. A raise
//! uses the version of the pool in the cache. A lowering is decided again on live reads of the pool and of
//! its machines. Both are writes of `/scale` with the version that was read, so that no change of a client is
//! lost. Pools with the policy Explicit shrink through targeted removal.
//!
//! Layers, from the lowest: `pool_facts`; `hub`; `source`, `store`; `context`; `decide`; `apply`, `report`;
//! `pass`; `lead`.

mod apply;
mod context;
mod decide;
mod hub;
mod lead;
mod pass;
mod pool_facts;
mod report;
mod source;
mod store;

#[cfg(test)]
mod tests;

pub(crate) use hub::PoolHub;
pub(crate) use lead::{definitions_for_autoscalers, lead_autoscalers};
pub(crate) use source::serve_pools;
