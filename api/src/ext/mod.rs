//! Handwritten additions to the generated types.

mod accessors;
pub mod conditions;
pub mod crds;
pub(crate) mod duration;
pub mod finalizers;
pub(crate) mod keys;
pub(crate) mod quantity;
pub(crate) mod share;
pub(crate) mod sketch;
pub mod words;
