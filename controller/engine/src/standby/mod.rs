//! Standby machines: stopped machines in reserve, which the controller starts instead of creating new ones.
//!
//! ```text
//!             FirstReady                ready for warmUpDelay, or its guest shut down
//!  create ---------------> warming ---------------------------------------------------+
//!     |        None                                                                   v
//!     +--------------------------------------------------------------------------> stopped ----> active
//!                                                                                  a machine is missing
//! ```
//!
//! The label [`STANDBY`] is the whole state of a standby machine: a new leader, a lost response or an old
//! cache cannot count a machine twice. A machine without it is *active*: `replicas`, the disruption budget,
//! healing and the status speak of active machines.
//!
//! * `state`: what the labels and annotations of a machine say.
//! * `setting`: what a pool wants.
//! * `activation`: which standby machines become active because machines are missing.
//! * `planner`: which standby machines are stopped, deleted or replaced.
//!
//! `scale_up::refill` creates missing standby machines.

mod activation;
mod planner;
mod setting;
mod state;

pub(crate) use activation::{count_activating, plan_activations};
pub(crate) use planner::plan_standby;
pub use setting::{
    LONGEST_WARM_UP_DELAY, STANDBY_FIELD, STANDBY_SETTING, StandbySettingError, StandbySettings, WarmUp,
    describe_standby_obstacle, parse_standby, read_standby,
};
pub use state::{ACTIVATED_AT, STANDBY, StandbyCounts, StandbyPhase, StandbyState, read_activated_at};

#[cfg(test)]
mod tests;
