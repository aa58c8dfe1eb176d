//! The input of a plan.

#[expect(clippy::disallowed_types, reason = "looked up by name, never walked")]
use std::collections::HashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::ids::{ObjectId, Uid};
use crate::ledger::UnconfirmedCreate;
use crate::memory::PassMemory;
use crate::model::{Disk, DiskState, Machine, Pool};
use crate::revisions::RevisionId;
use crate::scale_down::removal::RESERVATION_AGE;
use crate::scale_up::class_slots::ClassSlots;
use crate::server_clock::ServerClock;
use crate::standby::StandbySettings;

/// The names that are in use in the pool's namespace.
pub trait NamesInUse {
    /// Whether a machine object has this name.
    fn has_machine(&self, name: &str) -> bool;
    /// Whether a disk object has this name.
    fn has_disk(&self, name: &str) -> bool;
}

/// The usual [`PlanSettings::collection_grace`].
pub const COLLECTION_GRACE: Duration = Duration::from_secs(30);

/// Disks by name.
#[expect(clippy::disallowed_types, reason = "looked up by name for each disk of a machine, never walked")]
pub type DisksByName = HashMap<Arc<str>, Arc<Disk>>;

/// The time and the objects that a pass reads once. The ledger is already overlaid on the cache.
#[derive(Clone, Debug)]
pub struct PoolSnapshot {
    /// When it was taken. The engine has no other clock.
    pub now: Timestamp,
    /// The same time on the monotonic clock.
    pub uptime: Duration,
    /// The clock of the API server; `None` if no response has shown it.
    pub server_clock: Option<ServerClock>,
    /// Machines of the pool's namespace that the pool owns or that have its UID as a label.
    pub machines: Vec<Arc<Machine>>,
    /// The existing disks that the machines refer to, by name.
    pub disks: DisksByName,
    /// The disks that the pool owns or that have its UID as a label. Disks that a machine owns may be
    /// omitted.
    pub pool_disks: Vec<Arc<Disk>>,
    /// Other users of [`PoolSnapshot::pool_disks`], by disk: machines that do not belong to the pool, and
    /// attachments that users created.
    pub other_users: BTreeMap<Arc<str>, Vec<Arc<str>>>,
    /// Disks that the platform deleted in order to restore them, by name, and the uptime at which they were
    /// gone.
    pub replaced_disks: BTreeMap<Arc<str>, Duration>,
    /// Unconfirmed creates of machines.
    pub unconfirmed_creates: Vec<UnconfirmedCreate>,
}

/// Marks a disk that waits for a source which its disk template in `pool` no longer names.
pub fn mark_superseded(pool: &Pool, disk: &mut Arc<Disk>) {
    if pool.supersedes(disk) {
        Arc::make_mut(disk).state = DiskState::Superseded;
    }
}

impl PoolSnapshot {
    /// Marks the disks that wait for a source which their disk template in `pool` no longer names.
    pub fn mark_superseded_disks(&mut self, pool: &Pool) {
        for disk in self.disks.values_mut().chain(&mut self.pool_disks) {
            mark_superseded(pool, disk);
        }
    }

    /// Marks the machines of this pool that are not in `staying`, the result of a live list, as terminating.
    /// They do not count as machines that stay. The controller replaces them only when a snapshot shows that
    /// they are gone.
    pub fn count_live(&mut self, pool: &ObjectId, staying: &BTreeSet<Uid>) {
        for machine in &mut self.machines {
            let live = machine.belongs_to(pool) && !machine.terminating;
            if live && !staying.contains(&machine.id.uid) {
                Arc::make_mut(machine).terminating = true;
            }
        }
    }
}

/// The settings of the controller that plans depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanSettings {
    /// Time between the mark and the deletion of a disk. In this time, a use that has just begun becomes
    /// visible.
    pub collection_grace: Duration,
    /// Age at which the controller drops a reservation that is not accepted.
    pub reservation_timeout: Duration,
    /// Whether pools can limit how many of their machines provision at the same time.
    pub limits_provisioning: bool,
    /// Whether pools can have standby machines. If not, existing ones stay as they are.
    pub keeps_standby: bool,
}

impl Default for PlanSettings {
    fn default() -> Self {
        Self {
            collection_grace: COLLECTION_GRACE,
            reservation_timeout: RESERVATION_AGE,
            limits_provisioning: true,
            keeps_standby: true,
        }
    }
}

/// All inputs of a plan.
pub struct ObservedPool<'a> {
    /// [`PoolSnapshot::now`].
    pub now: Timestamp,
    /// [`PoolSnapshot::uptime`].
    pub uptime: Duration,
    /// [`PoolSnapshot::server_clock`].
    pub server_clock: Option<ServerClock>,
    /// The pool.
    pub pool: &'a Pool,
    /// [`PoolSnapshot::machines`].
    pub machines: &'a [Arc<Machine>],
    /// [`PoolSnapshot::disks`].
    pub disks: &'a DisksByName,
    /// [`PoolSnapshot::pool_disks`].
    pub pool_disks: &'a [Arc<Disk>],
    /// [`PoolSnapshot::other_users`].
    pub other_users: &'a BTreeMap<Arc<str>, Vec<Arc<str>>>,
    /// [`PoolSnapshot::replaced_disks`].
    pub replaced_disks: &'a BTreeMap<Arc<str>, Duration>,
    /// [`PoolSnapshot::unconfirmed_creates`].
    pub unconfirmed_creates: &'a [UnconfirmedCreate],
    /// The revisions that are stored, oldest first.
    pub stored: &'a [RevisionId],
    /// The settings.
    pub settings: PlanSettings,
    /// The memory of the pool.
    pub memory: &'a PassMemory,
    /// Names in use.
    pub names_in_use: &'a dyn NamesInUse,
    /// What the limit on provisioning over all pools leaves; `None` without that limit.
    pub class_slots: Option<ClassSlots>,
}

impl<'a> ObservedPool<'a> {
    /// The inputs with this snapshot.
    pub fn new(
        snapshot: &'a PoolSnapshot,
        pool: &'a Pool,
        stored: &'a [RevisionId],
        settings: PlanSettings,
        memory: &'a PassMemory,
        names_in_use: &'a dyn NamesInUse,
    ) -> Self {
        Self {
            now: snapshot.now,
            uptime: snapshot.uptime,
            server_clock: snapshot.server_clock,
            pool,
            machines: &snapshot.machines,
            disks: &snapshot.disks,
            pool_disks: &snapshot.pool_disks,
            other_users: &snapshot.other_users,
            replaced_disks: &snapshot.replaced_disks,
            unconfirmed_creates: &snapshot.unconfirmed_creates,
            stored,
            settings,
            memory,
            names_in_use,
            class_slots: None,
        }
    }

    /// The number below which the creates of all machines are settled. A new leader can go on from it: only a
    /// create that may still be under way has this number or a greater one.
    pub fn settled_numbers(&self) -> u64 {
        let unconfirmed = self.unconfirmed_creates.iter().map(|unconfirmed| unconfirmed.number);
        unconfirmed.fold(self.memory.next_number, u64::min)
    }

    /// Whether the machine is ready or has been ready. A machine that was older than the start timeout when
    /// this leader first observed the pool counts as such: otherwise a change of leaders during an outage
    /// would make old machines look new.
    pub(crate) fn has_been_ready(&self, machine: &Machine) -> bool {
        machine.runs()
            || machine.been_ready
            || self.age_of(machine)
                >= self.memory.led_for(self.uptime).saturating_add(self.pool.start_timeout())
    }

    /// The time since the start of the machine, which is its creation or its activation; zero if that is in
    /// the future.
    pub(crate) fn age_of(&self, machine: &Machine) -> Duration {
        let created = self.time_since_timestamp(machine.created);
        // A leader wrote the time of the activation by its wall clock.
        self.activation_of(machine).map_or(created, |activated| self.elapsed_since(activated).min(created))
    }

    /// The time since the API server wrote this creation or deletion timestamp; zero if that is in the
    /// future. If the clock of the controller is ahead, it must not make new objects old. If it is behind,
    /// they seem to be younger.
    pub(crate) fn time_since_timestamp(&self, written: Timestamp) -> Duration {
        let elapsed = self.elapsed_since(written);
        self.server_clock.map_or(elapsed, |clock| elapsed.min(clock.longest_since(written, self.uptime)))
    }

    /// The time since this moment, by the wall clock; zero if that is in the future.
    fn elapsed_since(&self, moment: Timestamp) -> Duration {
        Duration::try_from(self.now.duration_since(moment)).unwrap_or_default()
    }

    /// When the machine was activated; `None` if it was not, or if the annotation contains a time in the
    /// future.
    pub(crate) fn activation_of(&self, machine: &Machine) -> Option<Timestamp> {
        machine.activated.filter(|activated| *activated <= self.now && machine.standby.is_none())
    }

    /// The standby machines that the pool wants; `None` if the controller leaves those that exist.
    pub fn standby_settings(&self) -> Option<StandbySettings> {
        self.pool.standby.filter(|_| self.settings.keeps_standby)
    }

    /// Whether an activation of the standby machine is unconfirmed. It then counts as an active machine.
    pub(crate) fn is_activating(&self, machine: &Machine) -> bool {
        machine.standby.is_some() && self.memory.machines.is_activation_unconfirmed(&machine.id)
    }

    /// How many machines of the pool may provision at the same time; `None` without a limit.
    pub fn provisioning_limit(&self) -> Option<usize> {
        let limit = self.pool.max_provisioning.filter(|_| self.settings.limits_provisioning)?;
        Some(limit.of(self.pool.desired))
    }

    /// Whether more machines stay than desired. The targets of accepted removals do not stay.
    pub(crate) fn has_surplus(&self) -> bool {
        let targets = self.pool.record.accepted_uids();
        let stays = |machine: &&Arc<Machine>| !machine.terminating && !targets.contains(&machine.id.uid);
        self.pool_machines().filter(stays).count() > self.pool.desired
    }

    /// The active machines of the pool: its machines without standby machines.
    pub fn pool_machines(&self) -> impl Iterator<Item = &'a Arc<Machine>> {
        self.owned_machines().filter(|machine| machine.standby.is_none())
    }

    /// The standby machines of the pool.
    pub fn standby_machines(&self) -> impl Iterator<Item = &'a Arc<Machine>> {
        self.owned_machines().filter(|machine| machine.standby.is_some())
    }

    /// All machines of the pool: those whose controller owner reference names the pool, without those that
    /// the pool releases because their labels do not match its selector any more. A machine that is being
    /// deleted is not released.
    pub fn owned_machines(&self) -> impl Iterator<Item = &'a Arc<Machine>> {
        let pool = self.pool;
        let leaves = |machine: &Machine| machine.terminating && machine.belongs_to(&pool.id);
        self.machines.iter().filter(move |machine| pool.includes(machine) || leaves(machine))
    }
}
