//! I16: a create commits only while fewer machines provision than the limit that was planned with.

use super::api::{Api, BrokenInvariant, ModelWatchEvent, RequestBasis, check_invariant};
use crate::model::{Machine, MachineActivity};
use crate::plan::START_TIMEOUT;

impl Api {
    /// I16, after a create of the present leader. `strays` is the number of machines that no plan of this
    /// leader could know: creates of former leaders, and machines that a user returned.
    pub(super) fn check_provisioning(
        &self,
        basis: RequestBasis,
        strays: usize,
    ) -> Result<(), BrokenInvariant> {
        let limits = self.history[basis.pool..].iter().map(super::api::PoolHistoryEntry::provisioning_limit);
        // Without a limit at one of these times, a plan had none.
        let Some(limits) = limits.collect::<Option<Vec<usize>>>() else { return Ok(()) };
        let bound = limits.into_iter().max().unwrap_or_default() + strays;
        let provisioning = self.owned_machines().filter(|machine| self.is_provisioning(machine)).count();
        check_invariant(provisioning <= bound, || {
            format!("I16: {provisioning} machines provision where at most {bound} may")
        })
    }

    /// Whether the machine has neither been ready nor stopped so far. The repetition of a create without a
    /// response does not count.
    fn is_provisioning(&self, machine: &Machine) -> bool {
        let has_settled = |machine: &Machine| {
            matches!(machine.activity, MachineActivity::Running | MachineActivity::Stopped)
        };
        let had_settled = || {
            self.machines.log.iter().any(|event| {
                matches!(event, ModelWatchEvent::Put(seen)
                    if seen.facts.id == machine.id && (seen.facts.been_ready || has_settled(&seen.facts)))
            })
        };
        let age = self.timestamp().duration_since(machine.created);
        let is_new = !machine.terminating && machine.activated.is_none();
        // A leader adds at most its requests under way.
        let is_late = self.repeated_creates.contains(&machine.id.name);
        is_new && !is_late && age.unsigned_abs() < START_TIMEOUT && !had_settled()
    }
}
