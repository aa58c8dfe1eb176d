//! A world for tests of the shell: the model of the API server, a clock that moves only when told to, and a
//! leader.
//!
//! What the model leaves out is tested on a real API server.

mod server;
mod world;

pub(crate) use server::Server;
pub(crate) use vmpool_model::{ApiError as Refusal, Call, Handling as Conduct, Outcome as Fate, Verb};
pub(crate) use world::{NAMESPACE, World, machine_names, pool};

/// How the controller changes objects, and how if it must know what was there.
pub(crate) const MERGE_PATCH: Verb = Verb::Patch(vmpool_model::PatchKind::Merge);
pub(crate) const JSON_PATCH: Verb = Verb::Patch(vmpool_model::PatchKind::Json);
