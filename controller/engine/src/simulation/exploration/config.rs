//! Configurations that are small enough to visit all their states.

use super::super::instances::TemplateDifference;
use crate::model::{Naming, ScaleDownPolicy};
use crate::standby::WarmUp;

/// The actions of users.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "any of them may come with any other")]
pub(super) struct ExploredUserActions {
    /// They change the number of replicas.
    pub(super) scale: bool,
    /// They remove machines with targeted removals, one at a time.
    pub(super) name: bool,
    /// They delete machines.
    pub(super) delete: bool,
    /// They change the template.
    pub(super) revise: bool,
    /// They remove the owner reference of machines, and add it again.
    pub(super) detach: bool,
    /// They protect machines.
    pub(super) protect: bool,
    /// They set hooks of machines, and release them with the id of the present drain or of an earlier one.
    pub(super) hook: bool,
    /// No users, but guests and nodes: machines stop being ready. The pool has healing.
    pub(super) fail: bool,
    /// They request the replacement of machines.
    pub(super) recycle: bool,
    /// They change the content of the images of disks, and change it back. The pool follows its images.
    pub(super) image: bool,
    /// They change the number of standby machines, and start stopped ones.
    pub(super) standby: bool,
    /// They delete the pool.
    pub(super) end: bool,
}

/// A small configuration.
#[derive(Clone, Copy, Debug)]
pub(super) struct ExplorationConfig {
    pub(super) called: &'static str,
    pub(super) naming: Naming,
    pub(super) scale_down_policy: ScaleDownPolicy,
    /// Number of running machines at the start.
    pub(super) start: usize,
    /// Maximum number of desired machines.
    pub(super) machines: usize,
    /// Whether each machine also has a retained disk, with or without a time to live.
    pub(super) keeps: Option<FreeDiskDeletion>,
    /// What the standby machine of the pool does before it is stopped; `None` for a pool without one.
    pub(super) standby: Option<WarmUp>,
    /// Whether machines have instances, finalizers and storage of their own, and what a different template
    /// changes.
    pub(super) instances: Option<TemplateDifference>,
    pub(super) users: ExploredUserActions,
    /// Number of actions of users; `None` means unlimited.
    pub(super) edits: Option<u8>,
    /// Number of crashes and lost responses.
    pub(super) faults: u8,
    /// Maximum delay of each watch, in events.
    pub(super) behind: usize,
}

/// Whether garbage collection deletes free disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FreeDiskDeletion {
    Never,
    AtOnce,
}
