//! Plays the virtual machine and disk controllers of the platform, for tests and demos.
//!
//! [`world`] is the pure core, driven with a virtual clock in its tests; [`shell`] connects it to an API server.

pub mod cli;
pub mod duration;
pub mod knobs;
pub mod kubevirt;
pub mod objects;
pub mod quantity;
pub mod shared;
pub mod shell;
pub mod world;
