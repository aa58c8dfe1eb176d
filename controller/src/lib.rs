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
//! Each controller has a folder: `pools`, `images`, and `copies` for the copies and the protection of instance
//! types. Their docs list the layers inside. A file imports only files of lower layers, or files of its own
//! layer that do not import it. The files have no import cycle. From the lowest layer:
//!
//! 1. `settings`, `object`, `rejection`, `list`, `response_body`, and [`metrics`];
//! 2. `write`, `queue`;
//! 3. `leader_handles`, `watch`, then `definitions`;
//! 4. `pools`;
//! 5. `lead`, then `copies`, `images`;
//! 6. `process`: [`options`], the leadership of all controllers, the uninstallation, and the process.

mod access;
mod copies;
mod decode;
mod definitions;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod images;
mod lead;
mod leader_handles;
mod list;
pub mod metrics;
mod object;
mod passes;
mod pools;
mod process;
mod queue;
mod rejection;
mod response_body;
mod settings;
#[cfg(test)]
mod testing;
mod watch;
mod write;

pub use vmpool_platforms as platform;

pub use images::ImageSettings;
pub use lead::{Dependencies, LeaderHealth, lead_platform};
pub use pools::events::EventReason;
pub use pools::live::ReadError;
pub use pools::preview::{Preview, preview_pool};
pub use process::options;
pub use process::platforms::lead_all;
pub use process::run::{ControllerRunError, run_controller, run_leader_election};
pub use process::uninstall::UninstallError;
pub use settings::ControllerSettings;
pub use write::{WriteError, WriteLimits, Writer};
