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
//! The crate uses time, randomness, tasks and the API server only through [`Dependencies`]. Its lints ban all
//! other access to them.
//!
//! # Layers
//!
//! A file imports only files of lower layers, or files of its own layer that do not import it. The files have
//! no import cycle. From the lowest layer:
//!
//! 1. `settings`, `object`, `rejection`, `list`, `response_body`, `status_conflict`, and [`metrics`];
//! 2. `write`, `queue`, `cache`;
//! 3. `events`, `leader_handles`, `pool_entry`, the data of `revisions`, `watch`, then `definitions` and
//!    `sources`;
//! 4. `context`: the state that all passes share;
//! 5. `live` (reads from the API server), the functions of `revisions`, `watches`;
//! 6. the steps of a pass: `observe`, then `apply`, then `report`;
//! 7. `reconcile`: a pass; `preview`: its plan without writes;
//! 8. `platform_state`, `lead`, then `copies`, `images`, `other_controller`, `source_watches`, `platforms`,
//!    `uninstall`, [`options`] and `run`: a leadership, and the process.

mod access;
mod apply;
mod cache;
mod context;
mod copies;
mod decode;
mod definitions;
mod events;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod images;
mod lead;
mod leader_handles;
mod list;
mod live;
mod losses;
pub mod metrics;
mod object;
mod observe;
pub mod options;
mod other_controller;
mod passes;
mod platform_state;
mod platforms;
mod pool_entry;
mod pool_key;
mod preserved;
mod preserved_watches;
mod preview;
mod queue;
mod reconcile;
mod rejection;
mod release_copies;
mod report;
mod response_body;
mod revisions;
mod run;
mod settings;
mod source_watches;
mod sources;
mod status_conflict;
mod storage_problem;
#[cfg(test)]
mod testing;
mod uninstall;
mod waiting_storage;
mod watch;
mod watches;
mod write;

pub use vmpool_platforms as platform;

pub use events::EventReason;
pub use images::ImageSettings;
pub use lead::{Dependencies, LeaderHealth, lead_platform};
pub use live::ReadError;
pub use platforms::lead_all;
pub use preview::{Preview, preview_pool};
pub use run::{ControllerRunError, run_controller, run_leader_election};
pub use settings::ControllerSettings;
pub use uninstall::UninstallError;
pub use write::{WriteError, WriteLimits, Writer};
