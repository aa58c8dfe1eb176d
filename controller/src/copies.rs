//! Copies of instance types and preferences for single machines: a leader watches the machines and carries out the plans of
//! [`vmpool_platforms::kubevirt::copies`]. It does so only in a cluster without the platform's own controller.
//!
//! ```text
//!  API server --watch--> Store (machines, copies) --changed machines--> Queue of machines
//!      ^                    |                                             |
//!      |                    v                                             v
//!      +---- Writer <---- pass: plan ──needs an object──> cache, or a read ──> plan ...
//! ```
//!
//! A second queue has the instance types and the preferences. A pass of one gives it a finalizer, or releases it
//! ([`vmpool_platforms::kubevirt::protection`]).
//!
//! Layers, from the lowest: `store`; `types`; `context`; `pass`, `protection`; `lead`.

mod context;
mod lead;
mod pass;
mod protection;
mod store;
mod types;

pub(crate) use lead::{definitions, lead};
