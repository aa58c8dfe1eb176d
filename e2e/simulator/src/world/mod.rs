//! The pure core: a model of machines, disks and Pods that converts events to writes.
//!
//! This code does not wait, read a clock, or send requests. The shell passes observations to a [`DvpModel`]
//! ([`DvpModel::observe`]), obtains the writes ([`DvpModel::step`]), and calls it again no later than
//! [`DvpModel::next_due`]. An object is processed only if it, or an object on which it depends, has changed,
//! or if a delay has ended. Therefore machines that do not change cost nothing.
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

pub use crate::shared::{DiskViolation, DiskViolationKind, SimulatorSettings};
pub use events::{DvpModelAction, DvpModelEvent, DvpWrite, DvpWriteOutcome, ObservedDvpObject};
pub use model::DvpModel;

use crate::objects::{DvpObjectId, DvpObjectKind};
use events::DvpObservationSource;
use jiff::Timestamp;

impl DvpModel {
    /// Processes an event.
    pub fn observe(&mut self, event: DvpModelEvent, now: Timestamp) {
        match event {
            DvpModelEvent::Seen(key, object) => self.see(&key, object, DvpObservationSource::Any, now),
            DvpModelEvent::Gone(id) => self.lose(&id),
            DvpModelEvent::Relisted { kind, keys, began } => self.forget_unlisted(kind, &keys, began),
            DvpModelEvent::Knobs(namespace, knobs) => {
                match knobs {
                    Some(knobs) => self.knobs.insert(namespace.clone(), *knobs),
                    None => self.knobs.remove(&namespace),
                };
                self.mark_namespace(&namespace);
            }
            DvpModelEvent::Class(name, class) => {
                match class {
                    Some(class) => self.classes.insert(name, class),
                    None => self.classes.remove(&name),
                };
                self.mark_disks_that_wait();
            }
            DvpModelEvent::Written(id, outcome) => self.settle(&id, outcome, now),
            DvpModelEvent::Synced => {
                self.synced = true;
                self.enqueue_all();
            }
        }
    }

    /// Processes all objects that are due, and returns the actions in order.
    pub fn step(&mut self, now: Timestamp) -> Vec<DvpModelAction> {
        if !self.synced {
            return Vec::new();
        }
        while let Some(DvpObjectId { kind, key }) = self.agenda.next(now) {
            match kind {
                DvpObjectKind::Machine => self.plan_machine(&key, now),
                DvpObjectKind::Disk => self.plan_disk(&key, now),
                DvpObjectKind::Image | DvpObjectKind::ClusterImage => {
                    self.plan_image(&DvpObjectId { kind, key }, now);
                }
                DvpObjectKind::Operation => self.plan_operation(&key, now),
                DvpObjectKind::Attachment => self.plan_attachment(&key, now),
                DvpObjectKind::Pod => self.plan_pod(&key, now),
            }
        }
        std::mem::take(&mut self.actions)
    }

    /// When [`Self::step`] must be called again if no event is observed before.
    pub fn next_due(&self) -> Option<Timestamp> {
        if self.synced { self.agenda.next_due() } else { None }
    }
}
