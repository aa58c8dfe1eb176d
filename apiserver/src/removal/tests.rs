//! Removals on an API server in memory.

mod basics;
mod crashes;
mod draining;
mod faults;
mod kubevirt;
mod parallel;
