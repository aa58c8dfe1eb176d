//! The stories of removals, on a server in memory.

mod basics;
mod crashes;
mod parallel;
mod trouble;
