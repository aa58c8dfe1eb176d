//! What the demo shows, apart from the programs that it runs.
//!
//! * [`screen`] writes lines, log lines and one live table, and is the only writer of the terminal;
//! * [`rollout`] judges a rollout by the recorded changes of its pool;
//! * [`terminal`] is a terminal in memory, with which tests read what a user would see.

pub mod rollout;
pub mod screen;
pub mod terminal;
