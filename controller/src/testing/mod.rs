//! A world for tests of the shell: the model of the API server, a clock that only tests advance, and a
//! leader.
//!
//! Parts that the model lacks are tested on a real API server.

mod world;

pub(crate) use vmpool_model::{
    ApiError as Refusal, Call, Handling as Conduct, NAMESPACE, RecordingApiServer, RequestOutcome as Fate,
    Verb,
};

pub(crate) use world::{LeaderWorld, machine_names, pool_manifest};

/// The patch types of the controller, without and with preconditions on the content.
pub(crate) const MERGE_PATCH: Verb = Verb::Patch(vmpool_model::PatchKind::Merge);
pub(crate) const JSON_PATCH: Verb = Verb::Patch(vmpool_model::PatchKind::Json);
