//! Admission policies that take the owner from created objects. I15: the objects that the pool creates and
//! does not keep are bounded.

use std::time::Duration;

use super::api::{Api, BrokenInvariant, check_invariant};
use crate::membership::losses::{MOST_LOSSES, RETRY};
use crate::model::{Machine, ObjectId};

/// What policies do to created objects.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ModelAdmissionPolicy {
    /// They remove the owner of machines.
    pub(super) machines: bool,
    /// They remove the owner and the labels of disks.
    pub(super) disks: bool,
}

/// The objects that the pool did not keep, and what bounds them.
#[derive(Clone, Debug, Default)]
pub(super) struct TakenObjects {
    machines: usize,
    disks: usize,
    /// Number of leaders after the first one, which know nothing of the losses before.
    pub(super) leaders: usize,
    /// Number of changes of the policies.
    pub(super) policies: usize,
    /// Number of requests whose response was lost. The controller cannot count what they create.
    pub(super) responses_lost: usize,
}

impl Api {
    /// The machine as the policies change it.
    pub(super) fn admit_machine(&mut self, mut machine: Machine) -> Result<Machine, BrokenInvariant> {
        if self.policy.machines {
            machine.owner = None;
            self.taken.machines += 1;
            self.retained.excused += 1;
            self.check_taken(self.taken.machines)?;
        }
        Ok(machine)
    }

    /// The owner of a disk as the policies change it.
    pub(super) fn admit_disk(&mut self, owner: ObjectId) -> Result<Option<ObjectId>, BrokenInvariant> {
        if !self.policy.disks {
            return Ok(Some(owner));
        }
        self.taken.disks += 1;
        self.check_taken(self.taken.disks)?;
        Ok(None)
    }

    /// A leader loses a few objects in a row, and one more with each change of the spec and each ten minutes.
    /// A machine that is kept ends the row, so a policy that comes and goes begins a new one.
    fn check_taken(&self, taken: usize) -> Result<(), BrokenInvariant> {
        let started = Duration::from_secs(1000);
        let retries = self.now.saturating_sub(started).div_duration_f64(RETRY);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a small positive number"
        )]
        let retries = retries.ceil() as usize;
        let rows = 1 + self.taken.leaders + self.taken.policies;
        let bound = rows * MOST_LOSSES + self.history.len() + retries + self.taken.responses_lost;
        check_invariant(taken <= bound, || {
            format!("I15: {taken} objects were created and not kept; at most {bound} may be")
        })
    }
}
