//! Scenarios.
mod cluster;
