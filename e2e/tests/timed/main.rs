//! Scenarios that measure a duration, or check that no request fails.
//!
//! `cargo xtask verify` runs them one after another while no other test runs, because the load of other tests
//! would change the results.

mod certificates;
mod hostile;
mod takeover;
