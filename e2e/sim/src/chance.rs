//! Decisions that a seed makes.

pub use vmpool_e2e::chance::Chance;
