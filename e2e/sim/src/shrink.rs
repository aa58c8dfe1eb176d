//! Shrinks a failing schedule.

use crate::op::Op;
use crate::schedule::Schedule;
use crate::trouble::Happened;
use crate::world::Options;

impl Schedule {
    /// A schedule that also fails, with as few steps and faults as possible. Random faults become planned ones, and
    /// only the necessary ones remain.
    #[must_use]
    pub fn shrunk(&self) -> Self {
        let mut least = self.clone();
        let Happened { troubles, unread } = self.run().happened;
        least.try_instead(|planned| {
            (planned.options.trouble, planned.options.unread) = (0, 0);
            (planned.troubles, planned.unread) = (troubles, unread);
        });
        least.leave_out(|schedule| &mut schedule.troubles);
        least.leave_out(|schedule| &mut schedule.unread);
        least.leave_out_steps();
        for simpler in [
            |options: &mut Options| options.webhook = false,
            |options: &mut Options| options.page = 0,
            |options: &mut Options| options.old = 0,
            |options: &mut Options| options.apiservers = options.apiservers.min(1),
            |options: &mut Options| options.apiservers = 0,
            |options: &mut Options| options.controllers = 1,
            |options: &mut Options| options.latency = 10,
        ] {
            least.try_instead(|schedule| simpler(&mut schedule.options));
        }
        // The numbers of writes have changed after steps were removed.
        least.leave_out(|schedule| &mut schedule.troubles);
        least.leave_out_steps();
        least
    }

    /// Applies `change` if the result still fails.
    fn try_instead(&mut self, change: impl FnOnce(&mut Self)) -> bool {
        let mut other = self.clone();
        change(&mut other);
        let wrong = !other.run().wrong.is_empty();
        if wrong {
            *self = other;
        }
        wrong
    }

    /// Removes the unnecessary entries of a list, large parts first.
    fn leave_out<T>(&mut self, list: fn(&mut Self) -> &mut Vec<T>) {
        let mut part = list(self).len();
        while part > 0 {
            let mut end = list(self).len();
            while end > 0 {
                let begin = end.saturating_sub(part);
                self.try_instead(|schedule| _ = list(schedule).drain(begin..end));
                end = begin;
            }
            part /= 2;
        }
    }

    /// Removes unnecessary steps, the last ones first, because later steps may depend on earlier ones.
    fn leave_out_steps(&mut self) {
        for index in (0..self.steps.len()).rev() {
            let without = |steps: &mut Vec<(u64, Op)>| {
                let (pause, _) = steps.remove(index);
                if let Some(next) = steps.get_mut(index) {
                    next.0 += pause;
                }
            };
            self.try_instead(|schedule| without(&mut schedule.steps));
        }
    }
}
