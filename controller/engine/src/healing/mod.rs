//! Healing: which machines the controller replaces because they do not start, or are not ready.
//!
//! Read here why a machine was replaced, or why it was not:
//!
//! * `heal`: autohealing of KubeVirt pools, which replaces machines that do not start.
//! * `start_failures`: since when a machine does not start, and how often the controller has replaced it.
//! * `setting`: the setting of healing, on all platforms.
//! * `unready`: since when a machine is not ready.
//! * `replace`: the planner that replaces machines which have not been ready for too long.
//! * `deletion`: the deletions of both planners, in their order.
//! * `stuck`: machines whose deletion does not end, and that count as gone.

mod deletion;
pub(crate) mod heal;
pub(crate) mod replace;
pub mod setting;
pub(crate) mod start_failures;
pub(crate) mod stuck;
pub(crate) mod unready;

pub use replace::count_unhealthy;
