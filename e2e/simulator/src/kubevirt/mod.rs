//! The controllers of KubeVirt and CDI: a pure model that turns events into writes.
//!
//! This code does not wait, read a clock, or send requests. The shell passes observations to a
//! [`KubeVirtModel`] ([`KubeVirtModel::observe`]), obtains the writes ([`KubeVirtModel::step`]), and calls it
//! again no later than [`KubeVirtModel::next_due`].
//!
//! ```text
//!   VirtualMachine ──────────────> VirtualMachineInstance ────────> launcher Pod
//!     │  machine/  run strategy,      instance/  phases,             launcher/
//!     │            status             conditions                        │ mounts.rs
//!     └──────────> DataVolume ─────────────────────────────────> PersistentVolumeClaim
//!                    storage/  phases of the copy                    storage/claim.rs
//!                      │                                                │
//!     DataSource <─────┘ source.rs                    VolumeSnapshot ───┘ snapshot.rs ──> VolumeSnapshotContent
//!       data_source.rs
//! ```
//!
//! Every controller here is level-triggered: it decides from the last observed objects. It keeps in memory
//! only what objects do not show, such as the time when a phase began, and restores this from the objects
//! after a restart.
//!
//! # What is left out
//! Webhooks (see `admission.yaml` beside this crate; CDI's also asks whether the creator of a DataVolume may
//! clone from another namespace), copying instance types and preferences, hot-plugged volumes,
//! migrations and snapshots of machines (knobs set their states), `subresources.kubevirt.io`, and a
//! scheduler: each node suits every instance.

mod dispatch;
mod events;
mod go_encoding;
mod instance;
mod json;
mod launcher;
mod machine;
mod memory;
mod model;
mod mounts;
pub mod objects;
mod sizing;
mod slots;
mod storage;
#[cfg(test)]
mod tests;
mod writes;

pub use events::{
    CloneReview, Download, KubeVirtModelAction, KubeVirtModelEvent, KubeVirtWrite, KubeVirtWriteOutcome,
};
pub use model::KubeVirtModel;
pub(crate) use storage::review_body;

use jiff::Timestamp;
use objects::{KubeVirtObjectId, KubeVirtObjectKind};

impl KubeVirtModel {
    /// Processes an event.
    pub fn observe(&mut self, event: KubeVirtModelEvent, now: Timestamp) {
        match event {
            KubeVirtModelEvent::Seen(key, object) => {
                self.see(&key, object, slots::ObservationSource::Watch, now);
            }
            KubeVirtModelEvent::Gone(id) => self.lose(&id, now),
            KubeVirtModelEvent::Relisted { kind, keys, began } => {
                for key in self.unlisted(kind, &keys, began) {
                    self.lose(&KubeVirtObjectId { kind, key }, now);
                }
            }
            KubeVirtModelEvent::Knobs(namespace, knobs) => {
                match knobs {
                    Some(knobs) => self.knobs.insert(namespace.clone(), *knobs),
                    None => self.knobs.remove(&namespace),
                };
                self.mark_all(|key| key.namespace == namespace);
            }
            KubeVirtModelEvent::Class(name, class) => {
                match class {
                    Some(class) => self.classes.insert(name, class),
                    None => self.classes.remove(&name),
                };
                for key in self.data_volumes.keys() {
                    self.agenda.mark(KubeVirtObjectId { kind: KubeVirtObjectKind::DataVolume, key });
                }
            }
            KubeVirtModelEvent::Written(id, outcome) => self.settle(&id, outcome, now),
            KubeVirtModelEvent::Synced => {
                self.synced = true;
                self.mark_all(|_| true);
            }
        }
    }

    /// Advances all objects that are due, and returns what is to be done, in this order.
    pub fn step(&mut self, now: Timestamp) -> Vec<KubeVirtModelAction> {
        if !self.synced {
            return Vec::new();
        }
        while let Some(KubeVirtObjectId { kind, key }) = self.agenda.next(now) {
            match kind {
                KubeVirtObjectKind::Machine => self.plan_machine(&key, now),
                KubeVirtObjectKind::Instance => self.plan_instance(&key, now),
                KubeVirtObjectKind::DataVolume => self.plan_data_volume(&key, now),
                KubeVirtObjectKind::Claim => self.plan_claim(&key, now),
                KubeVirtObjectKind::Pod => self.plan_pod(&key, now),
                KubeVirtObjectKind::DataSource => self.plan_data_source(&key, now),
                KubeVirtObjectKind::Snapshot => self.plan_snapshot(&key, now),
                KubeVirtObjectKind::Content | KubeVirtObjectKind::Revision => {}
            }
        }
        std::mem::take(&mut self.actions)
    }

    /// When [`Self::step`] has something to do again, unless an event is observed before.
    pub fn next_due(&self) -> Option<Timestamp> {
        if self.synced { self.agenda.next_due() } else { None }
    }
}
