//! Hooks of machines: their owners, the marks of the controller, and what a drain guarantees.
//!
//! An owner may be slow or exit: then it does nothing until the deadline. It may release the hook with the id
//! of the present drain or of an earlier one, remove it, or set it again.

use std::sync::Arc;

use super::api::{Api, BrokenInvariant, RequestRefusal, check_invariant};
use crate::draining::{DrainHook, DrainMark, Draining};
use crate::ledger::VersionedFacts;
use crate::model::{Machine, ObjectId};

/// The value that releases a hook of an earlier drain.
const EARLIER: &str = "earlier";

/// What the owner of a hook does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HookStep {
    /// It sets the hook, because work begins.
    Set,
    /// It removes the hook.
    Remove,
    /// It releases the hook with the id of the present drain. Without a drain, nothing happens.
    Release,
    /// It releases the hook with the id of an earlier drain.
    ReleaseEarlier,
}

impl HookStep {
    const ALL: [Self; 6] =
        [Self::Set, Self::Set, Self::Release, Self::Release, Self::ReleaseEarlier, Self::Remove];

    pub(super) fn from_number(number: usize) -> Self {
        Self::ALL[number % Self::ALL.len()]
    }

    /// The hook after the step; `None` without a hook.
    fn value(self, draining: &Draining) -> Option<Arc<str>> {
        let before = || draining.hooks.first().map(|hook| hook.value.clone());
        match self {
            Self::Set => Some("".into()),
            Self::Remove => None,
            Self::Release => draining.mark.as_ref().map_or_else(before, |mark| Some((&*mark.id).into())),
            Self::ReleaseEarlier => Some(EARLIER.into()),
        }
    }
}

impl Api {
    /// The owner of the hook of a machine takes a step.
    pub(super) fn hook_step(&mut self, id: &ObjectId, step: HookStep) {
        self.edit_machine(id, |machine| {
            let draining = machine.draining.as_deref().cloned().unwrap_or_default();
            let hook = step.value(&draining).map(|value| DrainHook { name: "job".into(), value });
            let after = Draining { hooks: hook.into_iter().collect(), mark: draining.mark };
            machine.draining = (after != Draining::default()).then(|| Arc::new(after));
        });
    }

    /// The controller marks a machine with hooks, at the version that was read.
    pub(super) fn begin_drain(
        &mut self,
        id: &ObjectId,
        mark: &DrainMark,
        read: Option<u64>,
    ) -> Result<VersionedFacts<Machine>, RequestRefusal> {
        let machine = self.as_read(id, read)?;
        if !machine.may_begin_drain(mark, self.timestamp()) || !machine.belongs_to(&self.pool.id) {
            return Err(RequestRefusal::Conflict);
        }
        let mut draining = Arc::unwrap_or_clone(machine.draining.ok_or(RequestRefusal::Conflict)?);
        draining.mark = Some(mark.clone());
        self.change(id, |machine| machine.draining = Some(Arc::new(draining)))
    }

    /// The controller removes the mark of a drain.
    pub(super) fn end_drain(
        &mut self,
        id: &ObjectId,
        read: Option<u64>,
    ) -> Result<VersionedFacts<Machine>, RequestRefusal> {
        let machine = self.as_read(id, read)?;
        if !machine.may_end_drain(self.timestamp()) {
            return Err(RequestRefusal::Conflict);
        }
        self.change(id, remove_mark)
    }

    /// I19: the guest of a machine with hooks is stopped only if all of them are released, or after the
    /// deadline.
    pub(super) fn check_drained(&self, machine: &Machine) -> Result<(), BrokenInvariant> {
        let Some(draining) = machine.draining.as_deref().filter(|_| machine.runs()) else { return Ok(()) };
        let deadline = draining.mark.as_ref().map(|mark| mark.deadline);
        let has_passed = deadline.is_some_and(|deadline| self.timestamp() >= deadline);
        let id = draining.mark.as_ref().map(|mark| mark.id.as_str());
        let is_released = draining.hooks.iter().all(|hook| Some(&*hook.value) == id);
        check_invariant(is_released || has_passed, || {
            format!("I19: {} is stopped while it waits for a hook: {draining:?}", machine.id)
        })
    }
}

/// Removes the mark, and keeps the hooks.
pub(super) fn remove_mark(machine: &mut Machine) {
    let hooks = machine.draining.as_deref().map(|draining| draining.hooks.clone()).unwrap_or_default();
    machine.draining = (!hooks.is_empty()).then(|| Arc::new(Draining { hooks, mark: None }));
}
