//! Scenarios that measure a promise in seconds, or that no request fails.
//!
//! `cargo xtask verify` runs them one after the other while no other test runs: beside other tests they would measure the
//! machine.

mod certificates;
mod takeover;
