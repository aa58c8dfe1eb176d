//! The scenario language and the end-to-end tests of vmpool.
//!
//! From the top layer down:
//!
//! * [`scenario`] runs a scenario as a test, with its own namespace and controllers;
//! * [`smoke`] contains scenarios for any cluster with the chart installed;
//! * [`world`] is the language of scenarios, and [`autoscaling`] its part about autoscalers. It checks the
//!   invariants of [`vmpool_invariants`] after each step;
//! * [`wait`] polls for what the world does not record;
//! * [`crash`] kills controllers at a selected write;
//! * [`documentation`] runs the commands of the documentation;
//! * [`schemas`] reads the schemas of pools;
//! * [`harness`] is the shared state of the scenarios of one test binary: clusters with an installation of
//!   [`vmpool_installation`].
//!
//! Progress is logged through `tracing`, at level info.

pub mod autoscaling;
pub mod crash;
pub mod documentation;
pub mod harness;
pub mod scenario;
pub mod schemas;
pub mod smoke;
pub mod wait;
pub mod world;
