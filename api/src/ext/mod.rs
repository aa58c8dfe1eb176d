//! What is added to the generated types by hand.

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
