//! Copies of instance types and preferences for single machines, and the protection of both kinds.
//!
//! In a cluster without the platform's own controller, a leader watches the machines and carries out the
//! plans of [`vmpool_platforms::instancetype::copies`].
//!
//! ```text
//!  API server --watch--> Store (machines, copies) --changed machines--> Queue of machines
//!      ^                    |                                             |
//!      |                    v                                             v
//!      +---- Writer <---- pass: plan ──needs an object──> cache, or a read ──> plan ...
//! ```
//!
//! A second queue has the instance types and the preferences. A pass of one gives it a finalizer, or releases
//! it ([`vmpool_platforms::instancetype::type_protection`]). This is so in all clusters. Beside the
//! platform's own controller, which makes the copies, the leader stores no machines, and a change of a
//! machine or a pool only wakes what is still needed.
//!
//! Layers, from the lowest: `store`; `types`; `blocked_types`; `context`; `pass`, `protection`;
//! `lead`.

mod blocked_types;
mod context;
mod lead;
mod pass;
mod protection;
mod store;
mod types;

pub(crate) use lead::{definitions_for_copies, lead_copies};

#[cfg(test)]
mod tests;
