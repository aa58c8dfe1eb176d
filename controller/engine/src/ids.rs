//! Identities of objects.

pub use vmpool_api::{ObjectId, Uid};
