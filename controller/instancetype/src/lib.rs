//! KubeVirt instance types and preferences.
pub mod apply;
pub mod conflict;
pub mod fields;
pub mod model;
pub mod quantity;
#[cfg(test)]
mod testing;
pub mod topology;
mod tree;

pub use tree::Malformed;
