//! The vmpool controller. It observes pools, applies the plans of the engine, and reports the results.
//!
//! ```text
//!  API server --watch--> Cache (facts, indexed by owner) --changed facts--> Queue (debounced, one pass per pool)
//!      ^                    |                                                    |
//!      |                    v                                                    v
//!      |               Snapshot + ledger ----> vmpool_engine::plan ----> apply ----> report
//!      +---- Writer: fenced by the lease, bounded in flight, never retried -------+----+
//! ```
//!
//! The crate uses time, randomness, tasks and the API server only through [`Dependencies`]. Its lints ban all other
//! access to them.

mod apply;
mod cache;
mod context;
mod events;
mod lead;
mod list;
pub mod metrics;
mod observe;
pub mod options;
mod queue;
mod reconcile;
mod report;
mod response_body;
mod revisions;
mod run;
mod status_conflict;
#[cfg(test)]
mod testing;
mod watch;
mod watches;
mod write;

pub use vmpool_platforms as platform;

pub use context::Settings;
pub use events::Reason;
pub use lead::{Dependencies, LeaderHealth, lead};
pub use run::{RunError, run, serve};
pub use write::{WriteError, Writer};
