//! Machines: the facts that the engine reads.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use jiff::Timestamp;

use crate::draining::{DrainMark, DrainReason, Draining};
use crate::ids::{ObjectId, Uid};
use crate::membership::owner::Owner;
use crate::protection::Protection;
use crate::recycling::RecycleFacts;
use crate::revisions::{LiveParts, RevisionId};
use crate::selector::LabelMap;
use crate::standby::{StandbyPhase, StandbyState};

/// What a machine is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MachineActivity {
    /// Its guest runs, or is being live-migrated.
    Running,
    /// It is stopped until a user starts it. An update of a stopped machine disrupts no workload.
    Stopped,
    /// Its guest shuts down, for a stop or for a restart.
    Stopping,
    /// It is not started, starting or failed.
    NotRunning,
}

/// A device of a machine that is a disk object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskRef {
    /// The disk template that it fills, from the disk map of the machine. `None` for a disk that is not in
    /// the disk map.
    pub template: Option<Arc<str>>,
    /// Name of the disk.
    pub disk: Arc<str>,
    /// Position in the machine's list of devices.
    pub position: usize,
}

/// A disk that the disk map of a machine names and that no device of the machine refers to, because a user
/// removed the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DetachedDisk {
    /// The disk template that it fills.
    pub template: Arc<str>,
    /// Name of the disk.
    pub disk: Arc<str>,
}

/// What the selectors of a pool are compared with. Machines of one revision share it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Selectable {
    /// The labels of the machine object; `None` if they are too large to be kept. The machine then counts as
    /// selected, because to release it would be the destructive error.
    pub labels: Option<LabelMap>,
    /// The labels that its instances get; `None` if they are too large to be kept. The machine is then not
    /// selected.
    pub instance_labels: Option<LabelMap>,
    /// The node selector that its instances get; `None` if it is too large to be kept. The machine is then
    /// not selected.
    pub node_selector: Option<LabelMap>,
}

impl Selectable {
    /// Without labels, for platforms whose pools have no selectors.
    pub fn none() -> Arc<Self> {
        static NONE: LazyLock<Arc<Selectable>> = LazyLock::new(|| {
            let none = || Some(LabelMap::new());
            Arc::new(Selectable { labels: none(), instance_labels: none(), node_selector: none() })
        });
        NONE.clone()
    }
}

/// The objects outside the pool that a machine refers to. Machines of one revision share it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct MachineReferences {
    /// All references, in one spelling; empty if there are none.
    pub text: Arc<str>,
    /// The names of the pinned copies among them.
    pub copies: Vec<Arc<str>>,
}

impl MachineReferences {
    /// Without references.
    pub fn none() -> Arc<Self> {
        static NONE: LazyLock<Arc<MachineReferences>> = LazyLock::new(Arc::default);
        NONE.clone()
    }
}

/// The instance of a machine, on a platform where it is an object of its own: it exists from a start of the
/// guest to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// Name and UID. It has the name of its machine.
    pub id: ObjectId,
    /// The UID of its machine, which has the name of the instance and owns it.
    pub machine: Option<Uid>,
    /// Whether it has a deletionTimestamp.
    pub terminating: bool,
    /// The revision that it was started with, or that was recorded on it afterwards.
    pub revision: Option<RevisionId>,
    /// What its guest has now of the parts that the platform can change while it runs.
    pub live: LiveParts,
    /// Why its guest does not have all of its spec yet, in the words of the platform; `None` if it has.
    pub pending_update: Option<Arc<str>>,
    /// Whether its guest has shut down by itself. The platform keeps such an instance until the machine
    /// starts again or is deleted.
    pub ended: bool,
    /// Whether its guest runs and is ready.
    pub ready: bool,
}

/// What the platform reports about the starts of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StartHealth {
    /// Number of starts that failed one after the other.
    pub failed_starts: u32,
    /// Whether the platform reports a state that does not end without help, for example an image that cannot
    /// be pulled.
    pub failing: bool,
    /// Whether the platform reports that the machine is not ready.
    pub not_ready: bool,
    /// When the machine last stopped being ready, as far as the platform reports it.
    pub not_ready_since: Option<Timestamp>,
}

/// One machine of the namespace. It belongs to the pool if the pool is its controller owner.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts: any of them may come with any other")]
pub struct Machine {
    /// Name and UID.
    pub id: ObjectId,
    /// `metadata.creationTimestamp`; whole seconds, as the API server keeps it.
    pub created: Timestamp,
    /// Whether it has a deletionTimestamp.
    pub terminating: bool,
    /// When its deletion was requested, as far as its object shows it.
    pub terminating_since: Option<Timestamp>,
    /// Its controller owner. Machines of one pool share it.
    pub owner: Option<Arc<Owner>>,
    /// The managed label that holds a pool's UID.
    pub pool_uid_label: Option<Uid>,
    /// The managed label that holds a pool's name.
    pub pool_label: Option<Arc<str>>,
    /// The revision that its label names. On a platform where instances are no objects, it is in effect.
    pub revision: Option<RevisionId>,
    /// The revision that the controller last wrote to it.
    pub written: Option<RevisionId>,
    /// The revision from whose templates its storage was created, if an update has written other templates
    /// since. `None` on a platform where disks are objects of their own.
    pub storage_revision: Option<RevisionId>,
    /// Whether the platform has evaluated its current spec.
    pub evaluated: bool,
    /// Its state.
    pub activity: MachineActivity,
    /// Whether it has been ready before this state, as far as the platform shows it or this leader has seen
    /// it. No write records it.
    pub been_ready: bool,
    /// Whether a change of its spec takes effect only after a restart.
    pub restart_pending: bool,
    /// Whether the platform restarts it for such a change without approval.
    pub restarts_itself: bool,
    /// Whether the controller can restart it, if that is the controller's task.
    pub restartable: bool,
    /// Its disks.
    pub disks: Vec<DiskRef>,
    /// Whether the platform restores it or its disks. Until the end, disks that it refers to can be missing.
    pub restoring: bool,
    /// The disks of its disk map that no device refers to.
    pub detached: Vec<DetachedDisk>,
    /// Whether the platform is about to stop or restart its guest, which still seems to run.
    pub stop_requested: bool,
    /// The disk that it boots from: the one with the smallest boot order, or else the first device. `None` if
    /// it does not boot from a disk.
    pub boot_disk: Option<Arc<str>>,
    /// Disks that its status still shows and its spec does not. They may still be mounted.
    pub lingering: Vec<Arc<str>>,
    /// Whether the platform reports that all its devices are ready.
    pub devices_ready: bool,
    /// Whether it has the finalizer of the controller, so that it does not vanish before the controller has
    /// released it.
    pub has_finalizer: bool,
    /// Whether its deletion deletes its storage before the machine. The controller requests this if the next
    /// machine with its name needs new storage, so the object itself records that decision.
    pub discards_storage: bool,
    /// When its deletion began, if no component but the garbage collector holds it any more, because its
    /// dependents are deleted first.
    pub awaits_dependents_since: Option<Timestamp>,
    /// What the selectors of the pool are compared with.
    pub selectable: Arc<Selectable>,
    /// Its instance, on a platform where that is an object of its own.
    pub instance: Option<Arc<Instance>>,
    /// What the platform reports about its starts.
    pub start_health: StartHealth,
    /// Whether the platform reports a state in which it is not ready on purpose: stopped by a user, by its
    /// run policy, or from inside the guest where that policy permits it, paused, migrating, or part of a
    /// snapshot.
    pub unready_on_purpose: bool,
    /// Why it is not ready and does not become ready by itself, in the words of the platform: it cannot
    /// start, it failed, it is paused, or it is stopped and the platform does not start it. `None` for a
    /// ready machine, and for one that is starting.
    pub problem: Option<Arc<str>>,
    /// Whether it waits for storage that the platform creates for it, so that only this storage knows what it
    /// waits for.
    pub waits_for_storage: bool,
    /// What its annotations say about protection; `None` if they say nothing.
    pub protection: Option<Arc<Protection>>,
    /// What its annotations say about draining; `None` if they say nothing.
    pub draining: Option<Arc<Draining>>,
    /// From which content its disks were created, as
    /// [`read_disk_sources`](crate::image_refresh::read_disk_sources) reads it. `None` if it is not recorded.
    pub disk_sources: Option<Arc<str>>,
    /// What its annotations say about its replacement; `None` if they say nothing.
    pub recycling: Option<Arc<RecycleFacts>>,
    /// Its state as a standby machine; `None` for an active machine.
    pub standby: Option<Arc<StandbyState>>,
    /// When it was activated, if it was a standby machine before.
    pub activated: Option<Timestamp>,
    /// Whether it was activated and the platform does not start it by itself.
    pub awaits_start: bool,
    /// What it refers to outside the pool, such as pinned copies.
    pub references: Arc<MachineReferences>,
    /// Names of its volumes, on a platform that creates storage from templates in the machine. Machines of
    /// one revision share the list.
    pub volumes: Arc<[Arc<str>]>,
}

impl Machine {
    /// The revision in effect: that of its instance, if it has one.
    pub fn effective_revision(&self) -> Option<&RevisionId> {
        match &self.instance {
            Some(instance) => instance.revision.as_ref(),
            None => self.revision.as_ref(),
        }
    }

    /// All revisions that it or its instance names.
    pub fn revisions(&self) -> impl Iterator<Item = &RevisionId> {
        let of_storage = self.storage_revision.as_ref();
        [self.effective_revision(), self.written.as_ref(), self.revision.as_ref(), of_storage]
            .into_iter()
            .flatten()
    }

    /// A machine without owner, labels, revision and disks that does not run. Its creation time is the Unix
    /// epoch.
    pub fn blank(id: ObjectId) -> Self {
        Self {
            id,
            created: Timestamp::UNIX_EPOCH,
            terminating: false,
            terminating_since: None,
            owner: None,
            pool_uid_label: None,
            pool_label: None,
            revision: None,
            written: None,
            storage_revision: None,
            evaluated: false,
            activity: MachineActivity::NotRunning,
            been_ready: false,
            restart_pending: false,
            stop_requested: false,
            restarts_itself: false,
            restartable: true,
            disks: Vec::new(),
            restoring: false,
            detached: Vec::new(),
            boot_disk: None,
            lingering: Vec::new(),
            devices_ready: false,
            has_finalizer: false,
            discards_storage: false,
            awaits_dependents_since: None,
            selectable: Selectable::none(),
            instance: None,
            start_health: StartHealth::default(),
            unready_on_purpose: false,
            problem: None,
            waits_for_storage: false,
            protection: None,
            draining: None,
            disk_sources: None,
            recycling: None,
            standby: None,
            activated: None,
            awaits_start: false,
            references: MachineReferences::none(),
            volumes: Arc::default(),
        }
    }

    /// Whether this pool, which is in its namespace, is its controller owner.
    pub fn belongs_to(&self, pool: &ObjectId) -> bool {
        self.owner.as_ref().is_some_and(|owner| owner.is_pool(pool))
    }

    /// Whether it is protected at this time: a scale-down, autohealing and restarts of a rollout leave it as
    /// it is.
    pub fn is_protected(&self, now: Timestamp) -> bool {
        self.protection.as_ref().is_some_and(|protection| protection.protects(now))
    }

    /// Whether it is a standby machine that the controller can start: it is stopped, and its disks are ready.
    pub fn is_ready_standby(&self) -> bool {
        let is_stopped = |state: &StandbyState| state.phase == StandbyPhase::Stopped && state.kept_off;
        self.standby.as_deref().is_some_and(is_stopped)
            && self.is_off()
            && self.devices_ready
            && !self.waits_for_storage
            && !self.terminating
    }

    /// Whether the controller is restarting it, and must complete that although it is protected by now.
    pub fn is_restarting(&self) -> bool {
        self.protection.as_ref().is_some_and(|protection| protection.restarting.is_some())
    }

    /// Whether a client can claim it at this time, if no removal names it: its guest is ready, and neither a
    /// protection nor a restart concerns it.
    pub fn is_claimable(&self, now: Timestamp) -> bool {
        self.activity == MachineActivity::Running
            && self.standby.is_none()
            && !self.is_protected(now)
            && !self.is_restarting()
            && self.drain_mark().is_none()
            && !self.stop_requested
    }

    /// How often it was claimed.
    pub fn claims(&self) -> u32 {
        self.recycling.as_ref().map_or(0, |known| known.claims)
    }

    /// The mark of its drain; `None` if it is not draining.
    pub fn drain_mark(&self) -> Option<&DrainMark> {
        self.draining.as_ref()?.mark.as_ref()
    }

    /// Whether its guest runs, or has run, and a hook holds up its deletion and its restart: its drain has
    /// not begun, or waits. `timeout` is the setting of its pool.
    pub fn must_drain(&self, now: Timestamp, timeout: Duration) -> bool {
        let holds = |draining: &Draining| {
            !draining.hooks.is_empty()
                && (draining.mark.is_none() || draining.waiting_mark(now, timeout).is_some())
        };
        let has_work = !self.is_off() && (self.runs() || self.been_ready);
        has_work && !timeout.is_zero() && self.draining.as_deref().is_some_and(holds)
    }

    /// Whether the controller may write this mark now. Another mark stays, because the owners of hooks may
    /// have read its id. An accepted removal drains its target although it became protected.
    pub fn may_begin_drain(&self, mark: &DrainMark, now: Timestamp) -> bool {
        let Some(draining) = self.draining.as_deref() else { return false };
        let is_protected = self.is_protected(now) && mark.reason != DrainReason::TargetedRemoval;
        !self.terminating
            && !is_protected
            && !draining.hooks.is_empty()
            && draining.mark.as_ref().is_none_or(|mark| mark.is_forged(now))
    }

    /// Whether the controller may remove the mark, so that clients can use the machine again. If the owner of
    /// a hook has released the machine meanwhile, its agent may have stopped.
    pub fn may_end_drain(&self, now: Timestamp) -> bool {
        let Some(draining) = self.draining.as_deref() else { return false };
        draining.mark.is_some() && (self.is_protected(now) || !draining.is_released_by_owner())
    }

    /// Whether a user has stopped it, so that it needs nothing until it is started, and its deletion stops no
    /// guest. A machine that waits for a guest of another cluster has an instance.
    pub(crate) fn is_off(&self) -> bool {
        self.activity == MachineActivity::Stopped && self.instance.is_none()
    }

    /// Whether its deletion stops no guest: a user has stopped it, or its guest has shut down by itself and
    /// the platform does not start it again.
    pub(crate) fn runs_no_guest(&self) -> bool {
        let has_ended = self.instance.as_ref().is_some_and(|instance| instance.ended);
        self.is_off() || self.activity == MachineActivity::Stopped && has_ended
    }

    /// Whether its guest does not have all of the spec of its instance yet.
    pub(crate) fn has_pending_update(&self) -> bool {
        self.instance.as_ref().is_some_and(|instance| instance.pending_update.is_some())
    }

    /// Whether its guest runs.
    pub(crate) fn runs(&self) -> bool {
        self.activity == MachineActivity::Running
    }

    /// Whether it is a standby machine that warms up.
    pub(crate) fn is_warming(&self) -> bool {
        self.standby.as_ref().is_some_and(|state| state.phase == StandbyPhase::Warming)
    }

    /// Whether its guest runs, or its instance already is ready.
    pub(crate) fn is_ready(&self) -> bool {
        self.runs() || self.instance.as_ref().is_some_and(|instance| instance.ready)
    }

    /// Whether it should be ready and is not: it neither stops, restarts nor leaves, and the platform reports
    /// no purpose.
    pub(crate) fn is_unready(&self) -> bool {
        let has_purpose = self.unready_on_purpose
            || self.activity == MachineActivity::Stopping
            || self.stop_requested
            || self.is_restarting()
            || self.restoring;
        !(self.terminating || self.is_ready() || has_purpose)
    }

    /// Whether the spec that was last written is in effect: the platform has evaluated it, and the machine
    /// neither needs a restart for it nor stops for that restart.
    pub fn has_spec_in_effect(&self) -> bool {
        self.evaluated && !self.restart_pending && self.activity != MachineActivity::Stopping
    }

    /// The disks that are not free while the machine exists: those of its devices, those that only its disk
    /// map names, and those that may still be mounted. A disk can occur twice.
    pub fn held_disks(&self) -> impl Iterator<Item = &Arc<str>> {
        let devices = self.disks.iter().map(|device| &device.disk);
        devices.chain(self.detached.iter().map(|detached| &detached.disk)).chain(&self.lingering)
    }
}
