//! Shrinks a failing schedule.

use crate::fault::InjectedFaults;
use crate::operation::ScheduleOperation;
use crate::schedule::Schedule;
use crate::world::SimulatedWorldOptions;

impl Schedule {
    /// A schedule that also fails, with as few steps and faults as possible. Random faults become planned
    /// ones, and only the necessary ones remain.
    #[must_use]
    pub fn shrink(&self) -> Self {
        let mut smallest = self.clone();
        let InjectedFaults { write_faults, read_faults } = self.run().injected;
        smallest.try_change(|planned| {
            (planned.options.write_faults_per_mille, planned.options.read_faults_per_mille) = (0, 0);
            (planned.write_faults, planned.read_faults) = (write_faults, read_faults);
        });
        smallest.remove_unneeded(|schedule| &mut schedule.write_faults);
        smallest.remove_unneeded(|schedule| &mut schedule.read_faults);
        smallest.remove_unneeded_steps();
        for simpler in [
            |options: &mut SimulatedWorldOptions| options.webhook = false,
            |options: &mut SimulatedWorldOptions| options.page = 0,
            |options: &mut SimulatedWorldOptions| options.old = 0,
            |options: &mut SimulatedWorldOptions| options.provisioning_limit = 0,
            |options: &mut SimulatedWorldOptions| options.standby = 0,
            |options: &mut SimulatedWorldOptions| options.apiservers = options.apiservers.min(1),
            |options: &mut SimulatedWorldOptions| options.apiservers = 0,
            |options: &mut SimulatedWorldOptions| options.controllers = 1,
            |options: &mut SimulatedWorldOptions| options.latency = 10,
        ] {
            smallest.try_change(|schedule| simpler(&mut schedule.options));
        }
        // The numbers of writes have changed after steps were removed.
        smallest.remove_unneeded(|schedule| &mut schedule.write_faults);
        smallest.remove_unneeded_steps();
        smallest
    }

    /// Applies `change` if the result still fails.
    fn try_change(&mut self, change: impl FnOnce(&mut Self)) -> bool {
        let mut other = self.clone();
        change(&mut other);
        let violations = !other.run().violations.is_empty();
        if violations {
            *self = other;
        }
        violations
    }

    /// Removes the unnecessary entries of a list, large parts first.
    fn remove_unneeded<T>(&mut self, list: fn(&mut Self) -> &mut Vec<T>) {
        let mut part = list(self).len();
        while part > 0 {
            let mut end = list(self).len();
            while end > 0 {
                let begin = end.saturating_sub(part);
                self.try_change(|schedule| _ = list(schedule).drain(begin..end));
                end = begin;
            }
            part /= 2;
        }
    }

    /// Removes unnecessary steps, the last ones first, because later steps may depend on earlier ones.
    fn remove_unneeded_steps(&mut self) {
        for index in (0..self.steps.len()).rev() {
            let without = |steps: &mut Vec<(u64, ScheduleOperation)>| {
                let (pause, _) = steps.remove(index);
                if let Some(next) = steps.get_mut(index) {
                    next.0 += pause;
                }
            };
            self.try_change(|schedule| without(&mut schedule.steps));
        }
    }
}
