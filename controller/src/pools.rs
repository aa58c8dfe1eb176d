//! The controller of pools: observe, plan, apply, report.
//!
//! Layers, from the lowest: `pool_key`, `status_conflict`; `cache`; `events`, `pool_entry`, the data of
//! `revisions`, `sources`, `preserved`; `context`; `live`, the functions of `revisions`, `watches`; `observe`,
//! then `apply`, then `report`; `reconcile`, `preview`; `other_controller`, `source_watches`,
//! `preserved_watches`, `release_copies`.

pub(crate) mod apply;
pub(crate) mod cache;
pub(crate) mod cache_sink;
pub(crate) mod context;
pub(crate) mod definitions;
pub(crate) mod events;
pub(crate) mod lead;
pub(crate) mod live;
pub(crate) mod losses;
pub(crate) mod observe;
pub(crate) mod other_controller;
pub(crate) mod pool_entry;
pub(crate) mod pool_key;
pub(crate) mod preserved;
pub(crate) mod preserved_watches;
pub(crate) mod preview;
pub(crate) mod reconcile;
pub(crate) mod release_copies;
pub(crate) mod report;
pub(crate) mod revisions;
pub(crate) mod seen_facts;
pub(crate) mod served;
pub(crate) mod source_watches;
pub(crate) mod sources;
pub(crate) mod status_conflict;
pub(crate) mod storage_problem;
pub(crate) mod waiting_storage;
pub(crate) mod watches;
