//! The least that is needed for something to go wrong.

use crate::op::Op;
use crate::schedule::Schedule;
use crate::trouble::Happened;
use crate::world::Options;

impl Schedule {
    /// A schedule that is wrong like this one, with as little in it as can be: troubles that came by chance are planned
    /// ones there, and only those that are needed.
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
        // Numbers of writes mean others by now.
        least.leave_out(|schedule| &mut schedule.troubles);
        least.leave_out_steps();
        least
    }

    /// Becomes what `change` makes of it, if that is wrong, too.
    fn try_instead(&mut self, change: impl FnOnce(&mut Self)) -> bool {
        let mut other = self.clone();
        change(&mut other);
        let wrong = !other.run().wrong.is_empty();
        if wrong {
            *self = other;
        }
        wrong
    }

    /// Leaves out what is not needed of a list: large parts first.
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

    /// Leaves out steps; later ones first, since what an earlier one prepares can go only when nobody needs it.
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
