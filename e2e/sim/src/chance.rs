//! Seeded random decisions.

pub use vmpool_e2e::chance::Chance;
