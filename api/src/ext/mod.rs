//! Handwritten additions to the generated types.

mod accessors;
pub(crate) mod builder;
pub mod conditions;
pub(crate) mod constants;
pub mod crds;
pub(crate) mod duration;
pub mod enums;
pub(crate) mod identity;
pub(crate) mod json_brackets;
pub(crate) mod keys;
pub mod names;
pub(crate) mod owner;
pub(crate) mod quantity;
pub(crate) mod share;
pub mod subresources;
pub mod wait;
