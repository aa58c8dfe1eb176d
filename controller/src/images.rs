//! Disk images: a leader watches them and the objects with their data, and carries out the plans of
//! [`vmpool_diskimage`].
//!
//! ```text
//!  API server --watch--> Store (images, their objects, an index of referrers) --changed keys--> Queue of images
//!      ^                   |                                                                      |
//!      |                   v                                                                      v
//!      |              facts of one image ----------------> vmpool_diskimage::plan ----> apply ----> status
//!      +---- Writer: fenced by the lease, never retried ----------------------------------+-----------+
//! ```
//!
//! The response of each write replaces the object in the store, so that the next pass sees it. A version that
//! is older than the stored one is ignored.
//!
//! Wrappers and grants share the store. Their passes have queues of their own. Those of wrappers run with the
//! feature gate MachineWrapper.
//!
//! Layers, from the lowest: `kinds`, `settings`, `table`; `wrapped`; `store`; `gate`; `context`; `feed`,
//! `readiness`, `live`, `writes`; `permission`, `apply`, `wrapper_facts`, `wrapper_apply`; `pass`,
//! `wrapper_pass`, `grant_pass`; `lead`. The names of the importer's and the snapshot kinds come from their
//! types.

mod apply;
mod context;
mod feed;
mod gate;
mod grant_pass;
mod kinds;
mod lead;
mod live;
mod pass;
mod permission;
mod permission_pass;
mod readiness;
mod settings;
mod store;
mod table;
mod wrapped;
mod wrapper_apply;
mod wrapper_facts;
mod wrapper_pass;
mod writes;

#[cfg(test)]
mod tests;

pub(crate) use gate::ImageGate;
pub(crate) use kinds::{ImageSnapshotKind, ImageSourceKind, ImageVolumeKind};
pub(crate) use lead::{definitions_for_images, lead_images};
pub use settings::ImageSettings;
