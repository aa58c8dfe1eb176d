//! Worlds that are small enough for all of their states to be visited.

use crate::model::{Naming, ScaleDownPolicy};

/// What users do.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "any of them may come with any other")]
pub(super) struct Users {
    /// They change the number of replicas.
    pub(super) scale: bool,
    /// They remove machines by name, one at a time.
    pub(super) name: bool,
    /// They delete machines.
    pub(super) delete: bool,
    /// They change the template.
    pub(super) revise: bool,
    /// They delete the pool.
    pub(super) end: bool,
}

/// A world that is small enough.
#[derive(Clone, Copy, Debug)]
pub(super) struct Config {
    pub(super) called: &'static str,
    pub(super) naming: Naming,
    pub(super) scale_down_policy: ScaleDownPolicy,
    /// Replicas that are there, and run, when the story begins.
    pub(super) start: usize,
    /// Most replicas that anybody asks for.
    pub(super) machines: usize,
    /// Whether each machine has, beside the disk that ends with it, one that outlives it; without an end, or with one.
    pub(super) keeps: Option<Ends>,
    pub(super) users: Users,
    /// How often users do something; `None`: as often as they like.
    pub(super) edits: Option<u8>,
    /// Crashes and lost answers.
    pub(super) faults: u8,
    /// How many events each watch may be behind, whenever it likes.
    pub(super) behind: usize,
}

/// Whether kept disks are deleted when they have been free for long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ends {
    Never,
    AtOnce,
}
