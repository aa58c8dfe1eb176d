//! Disk images and the wrapper of a machine, as pure functions.
//!
//! An *image* is data of a disk that is imported once and cloned by machines. A *wrapper* is a KubeVirt
//! machine that is created only after the data of its image is there. The crate decides: what to write, what
//! the status says, what must be read first. It has no client, no runtime, no clock and no randomness. A
//! shell reads objects into [`model`], plans, and writes.
//!
//! # Layers
//!
//! Each layer uses those below it.
//!
//! ```text
//!  plan         one pass of an image                  wrapper      one pass of a wrapper
//!  admission    reviews of images, wrappers, grants   read         stored objects
//!  objects      the objects with the data             status       the status as it is stored
//!  queue        whose import starts                   references   which objects refer to an image
//!  grants       what other namespaces may do          clone_permission   the permission to clone from them
//!  aliases      DataSources that lead to images
//!  source       the URL of an image                   model        what the planner knows
//!  failure      reasons, and messages of CDI          settings     limits of imports
//!  limits       limits of texts                       owner        kinds of owners
//!  backup       what a restored image may adopt
//! ```
//!
//! # An image that is referenced is never deleted
//!
//! This is invariant I11. It holds for every order of events, for caches that are behind, for restarts and
//! for two leaders, because of four rules:
//!
//! 1. Nothing is removed on the word of a cache. [`plan::RequiredReads`] requests a list from the API server,
//!    and only a list that began after the fact that makes the decision final counts: the deletion timestamp,
//!    or the end of the time to live.
//! 2. The end of the time to live deletes the image at the version that the plan used, and only sets the
//!    deletion timestamp. Its deletion then counts again.
//! 3. A wrapper writes its mark before it reads the image, and the deletion sets its timestamp before it
//!    lists the wrappers. One of them sees the other one ([`wrapper`]).
//! 4. Every delete has the UID as a precondition.
//!
//! `exploration` checks this exhaustively for small worlds, with these planners.
//!
//! # What other programs must leave alone
//!
//! The finalizer, the owner references and the labels with the prefix [`vmpool_api::diskimage::PREFIX`].
//! Objects are recognized by their owner, with namespace, group, kind, name and UID, never by a label with a
//! name. Objects of other namespaces have no effect on an image or a wrapper, except that references count
//! which a grant permits (I14).

pub mod admission;
pub mod aliases;
pub mod backup;
pub mod clone_permission;
mod conditions;
pub mod corrections;
pub mod failure;
pub mod grants;
pub mod limits;
pub mod model;
pub mod objects;
pub mod owner;
pub mod plan;
pub mod queue;
pub mod read;
pub mod references;
pub mod settings;
pub mod source;
pub mod status;
pub mod wrapper;

#[cfg(test)]
mod exploration;
#[cfg(test)]
mod testing;
