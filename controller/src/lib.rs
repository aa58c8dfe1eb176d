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
//! Each controller has a folder: `pools`, `images`, `autoscalers`, and `copies` for the copies and the
//! protection of instance types. Their docs list the layers inside. A file imports only files of lower
//! layers, or files of its own layer that do not import it. The files have no import cycle. From the lowest
//! layer:
//!
//! 1. `settings`, `plain_events`, `merge_patch`, `observed_requests`, then `server_clock` and [`metrics`];
//! 2. `pools`, without its leadership;
//! 3. `leadership`: what all controllers of a leader share;
//! 4. `autoscalers`, `copies`, `images`, and the leadership of pools;
//! 5. `process`: [`options`], the leadership of all controllers, the uninstallation, and the process.
//!
//! What does not depend on what is reconciled is in [`vmpool_kit`].

mod access;
mod autoscalers;
mod copies;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod images;
mod leadership;
mod merge_patch;
pub mod metrics;
mod observed_requests;
mod plain_events;
mod platform_state;
mod pools;
mod process;
mod server_clock;
mod settings;
#[cfg(test)]
mod testing;

pub use vmpool_kit::write::{WriteError, WriteLimits, Writer};
pub use vmpool_platforms as platform;

pub use images::ImageSettings;
pub use leadership::{Dependencies, LeaderHealth};
pub use pools::events::EventReason;
pub use pools::lead::lead_platform;
pub use pools::live::ReadError;
pub use pools::preview::{Preview, preview_pool};
pub use process::options;
pub use process::platforms::lead_all;
pub use process::run::{ControllerRunError, run_controller, run_leader_election};
pub use process::uninstall::UninstallError;
pub use server_clock::SharedServerClock;
pub use settings::{ControllerSettings, ImageRefreshSettings};

// The kit reads objects without their innermost values. What is left of a template that it cut is still
// deeper than any template that is used.
const _: () = assert!(vmpool_kit::decode::MAX_LEVELS > vmpool_engine::limits::NESTING + 10);
const _: () = assert!(vmpool_engine::limits::NESTING == vmpool_diskimage::limits::NESTING);
