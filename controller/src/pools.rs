//! The controller of pools: observe, plan, apply, report.
//!
//! Layers, from the lowest:
//!
//! 1. `announced_problems`, `definitions`, `pool_key`, `seen_facts`, `status_conflict`,
//!    then `shared_slots`;
//! 2. `cache`, then `cache_sink`;
//! 3. `events`, `pool_entry`, the data of `revisions`, `sources`, `disk_sources`, `preserved`;
//! 4. `kstatus_conditions`, `context`: the state that all passes share;
//! 5. `live` (reads from the API server), then `pool_exporter`; the functions of `revisions`, `watches`,
//!    `class_slots`;
//! 6. the steps of a pass: `observe`, then `apply`, then `report`;
//! 7. `reconcile`: a pass; `preview`: its plan without writes;
//! 8. `lead`, `other_controller`, `source_watches`, `disk_source_watches`, `preserved_watches`,
//!    `release`, then `release_copies` and `release_conditions`, then `served`: a leadership.

pub(crate) mod announced_problems;
pub(crate) mod apply;
pub(crate) mod cache;
pub(crate) mod cache_sink;
pub(crate) mod class_slots;
pub(crate) mod context;
pub(crate) mod definitions;
pub(crate) mod disk_source_watches;
pub(crate) mod disk_sources;
pub(crate) mod events;
pub(crate) mod kstatus_conditions;
pub(crate) mod lead;
pub(crate) mod live;
pub(crate) mod losses;
pub(crate) mod observe;
pub(crate) mod other_controller;
pub(crate) mod pool_entry;
mod pool_exporter;
pub(crate) mod pool_key;
pub(crate) mod preserved;
pub(crate) mod preserved_watches;
pub(crate) mod preview;
pub(crate) mod reconcile;
pub(crate) mod release;
pub(crate) mod release_conditions;
pub(crate) mod release_copies;
pub(crate) mod report;
pub(crate) mod revisions;
pub(crate) mod seen_facts;
pub(crate) mod served;
pub(crate) mod shared_slots;
pub(crate) mod source_watches;
pub(crate) mod sources;
pub(crate) mod status_conflict;
pub(crate) mod storage_problem;
pub(crate) mod waiting_storage;
pub(crate) mod watches;
