//! The pure core: a model of machines, disks and Pods that converts events to writes.
//!
//! This code does not wait, read a clock, or send requests. The shell passes observations to a [`World`]
//! ([`World::observe`]), obtains the writes ([`World::step`]), and calls it again no later than
//! [`World::next_due`]. An object is processed only if it, or an object on which it depends, has changed, or if a
//! delay has ended. Therefore machines that do not change cost nothing.
//!
//! ```text
//!            seen, gone, written                    due
//!  shell ───────────────────────▶ model ◀──────── agenda
//!                                   │ advance: state → next state, after how long
//!                                   ▼
//!                                publish: model ≠ object → one write at a time per object
//! ```

mod attachment;
mod devices;
mod disk;
mod disk_status;
mod dispatch;
mod events;
mod image;
mod machine;
mod machine_status;
mod model;
mod mounts;
mod operation;
mod pod;
mod provisioning;
mod restart;
#[cfg(test)]
mod tests;
mod transitions;

pub use crate::shared::{Problem, Settings, Violation};
pub use events::{Action, Event, Object, Outcome, Write};
pub use model::World;

use crate::objects::{Id, Kind};
use events::Novelty;
use jiff::Timestamp;

impl World {
    /// Processes an event.
    pub fn observe(&mut self, event: Event, now: Timestamp) {
        match event {
            Event::Seen(key, object) => self.see(&key, object, Novelty::Any, now),
            Event::Gone(id) => self.lose(&id),
            Event::Relisted { kind, keys, began } => self.forget_unlisted(kind, &keys, began),
            Event::Knobs(namespace, knobs) => {
                match knobs {
                    Some(knobs) => self.knobs.insert(namespace.clone(), *knobs),
                    None => self.knobs.remove(&namespace),
                };
                self.mark_namespace(&namespace);
            }
            Event::Class(name, class) => {
                match class {
                    Some(class) => self.classes.insert(name, class),
                    None => self.classes.remove(&name),
                };
                self.mark_disks_that_wait();
            }
            Event::Written(id, outcome) => self.settle(&id, outcome, now),
            Event::Synced => {
                self.synced = true;
                self.take_over();
            }
        }
    }

    /// Processes all objects that are due, and returns the actions in order.
    pub fn step(&mut self, now: Timestamp) -> Vec<Action> {
        if !self.synced {
            return Vec::new();
        }
        while let Some(Id { kind, key }) = self.agenda.next(now) {
            match kind {
                Kind::Machine => self.plan_machine(&key, now),
                Kind::Disk => self.plan_disk(&key, now),
                Kind::Image | Kind::ClusterImage => self.plan_image(&Id { kind, key }, now),
                Kind::Operation => self.plan_operation(&key, now),
                Kind::Attachment => self.plan_attachment(&key, now),
                Kind::Pod => self.plan_pod(&key, now),
            }
        }
        std::mem::take(&mut self.actions)
    }

    /// When [`Self::step`] must be called again if no event is observed before.
    pub fn next_due(&self) -> Option<Timestamp> {
        if self.synced { self.agenda.next_due() } else { None }
    }
}
