//! Steps of other clients and of the platform on retained disks.

use std::sync::Arc;
use std::time::Duration;

use super::api::Api;
use super::world::{EngineSimulation, pick_by_number};
use crate::model::{DiskRef, DiskState, Lifetime, Machine, MachineActivity, ObjectId, PoolDiskTemplate};
use crate::testing::RETAINED;

/// One step on disks. The argument selects an object.
#[derive(Clone, Copy, Debug)]
pub(super) enum DiskStep {
    /// The platform updates the status of a disk.
    Tell(usize),
    /// A user stops a machine.
    Stop(usize),
    /// A user attaches a disk to a foreign machine.
    Attach(usize),
    /// The user detaches it again.
    Detach,
    /// A disk fails or loses its volume.
    Break(usize),
    /// A user changes the size in the disk template.
    Resize(usize),
    /// The platform starts or stops rejecting expansions.
    Refuse(bool),
    /// A user changes `keep` and `ttl`.
    Keep(usize),
}

impl DiskStep {
    pub(super) fn from_number(kind: u32, argument: usize) -> Self {
        match kind {
            0..=11 => Self::Tell(argument),
            12..=13 => Self::Stop(argument),
            14..=16 => Self::Attach(argument),
            17..=18 => Self::Detach,
            19..=20 => Self::Break(argument),
            21..=22 => Self::Resize(argument),
            23 => Self::Refuse(argument.is_multiple_of(2)),
            _ => Self::Keep(argument),
        }
    }
}

/// The foreign machine that disks are attached to.
fn foreign_machine(api: &Api) -> Option<&Machine> {
    let unlabelled = |machine: &&Arc<Machine>| machine.owner.is_none() && machine.pool_uid_label.is_none();
    let machines = api.machines.objects.values().map(|seen| &seen.facts);
    machines
        .filter(unlabelled)
        .find(|machine| !api.is_pool_machine(&machine.id.uid))
        .map(|machine| &**machine)
}

impl EngineSimulation {
    /// A pool whose machines have one disk of each lifetime.
    pub(super) fn keeping(desired: usize, opened: u64, edit: impl FnOnce(&mut PoolDiskTemplate)) -> Self {
        let mut world = Self::new(crate::model::Naming::Random, desired, opened);
        let mut template = PoolDiskTemplate::new(RETAINED, Lifetime::Retained);
        edit(&mut template);
        world.api.edit_pool(|pool| pool.disks.push(template));
        world
    }

    fn retained_disks(&self) -> Vec<ObjectId> {
        self.api.retained_disks().map(|disk| disk.id.clone()).collect()
    }

    pub(super) fn disk_step(&mut self, step: DiskStep) {
        match step {
            DiskStep::Tell(which) => {
                if let Some(disk) = pick_by_number(&self.api.stale_disks(), which) {
                    self.api.tell_status(disk);
                    self.tell(format_args!("the platform tells what {disk} is"));
                }
            }
            DiskStep::Stop(which) => {
                let machines: Vec<ObjectId> =
                    self.api.pool_machines().map(|machine| machine.id.clone()).collect();
                if let Some(id) = pick_by_number(&machines, which) {
                    self.api.stop(id, MachineActivity::Stopped);
                    self.tell(format_args!("{id} is stopped"));
                }
            }
            DiskStep::Attach(which) => {
                let stranger = foreign_machine(&self.api).map(|machine| machine.id.clone());
                if let Some((disk, id)) = pick_by_number(&self.retained_disks(), which).cloned().zip(stranger)
                {
                    self.api.retained.excused += 1;
                    self.api.edit_machine(&id, |machine| {
                        machine.disks.push(DiskRef { template: None, disk: disk.name.clone(), position: 9 });
                    });
                    let starts = which.is_multiple_of(2) && self.api.start(&id);
                    let runs = if starts { " and runs on it" } else { "" };
                    self.tell(format_args!("a user attaches {disk} to {id}{runs}"));
                }
            }
            DiskStep::Detach => {
                if let Some(id) = foreign_machine(&self.api).map(|machine| machine.id.clone()) {
                    self.api.stop(&id, MachineActivity::NotRunning);
                    let own = |device: &DiskRef| device.template.is_some();
                    self.api.edit_machine(&id, |machine| machine.disks.retain(own));
                    self.tell(format_args!("{id} has no disk of the pool"));
                }
            }
            DiskStep::Break(which) => {
                if let Some(disk) = pick_by_number(&self.retained_disks(), which) {
                    let state = if which.is_multiple_of(2) { DiskState::Failed } else { DiskState::Lost };
                    self.api.break_disk(disk, state);
                    self.tell(format_args!("{disk} is {state:?}, unless a machine runs on it"));
                }
            }
            DiskStep::Resize(which) => {
                let size = 10 + which as u64 % 20;
                self.edit_kept_template(|template| template.size = Some(size));
                self.tell(format_args!("owner: disks of {size} bytes"));
            }
            DiskStep::Refuse(refuses) => {
                self.api.retained.refuses_growth = refuses;
                self.tell(format_args!("the platform lets disks grow: {}", !refuses));
            }
            DiskStep::Keep(which) => {
                let keep = which % 3;
                let ttl =
                    (!which.is_multiple_of(4)).then(|| Duration::from_secs(10 * (1 + which as u64 % 7)));
                self.edit_kept_template(|template| (template.keep_free, template.ttl) = (keep, ttl));
                self.tell(format_args!("owner: keep {keep}, ttl {ttl:?}"));
            }
        }
    }

    fn edit_kept_template(&mut self, edit: impl Fn(&mut PoolDiskTemplate)) {
        self.api.edit_pool(|pool| {
            let retained = pool.disks.iter_mut().filter(|template| template.lifetime == Lifetime::Retained);
            retained.for_each(edit);
        });
    }

    /// All pending work of the platform on disks.
    pub(super) fn settle_disks(&mut self) {
        while let Some(disk) = self.api.stale_disks().first() {
            self.api.tell_status(&disk.clone());
        }
    }
}
