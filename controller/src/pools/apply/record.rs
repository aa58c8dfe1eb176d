//! The effects of actions on the memory.

use vmpool_engine::PassMemory;
use vmpool_engine::membership::losses::{Loss, LossKind};
use vmpool_kit::write::WriteError;
use vmpool_platforms::Platform;

use super::outcome::Effect;
use super::rejected_disks::{record_failed_disks, record_rejected_disks};
use crate::pools::context::PoolContext;
use crate::pools::pool_entry::PoolEntry;
use crate::pools::revisions::pool_revisions::RevisionChange;

/// Records the effects of an action that ended with `error`. Changes of the stored revisions go into
/// `revisions`.
pub(super) fn record_effects<P: Platform>(
    effects: Vec<Effect>,
    error: Option<&WriteError>,
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    memory: &mut PassMemory,
    revisions: &mut Vec<RevisionChange>,
) {
    let uptime = context.leader.env.uptime();
    for effect in effects {
        match effect {
            Effect::Machine(seen) => memory.machines.written(seen, uptime),
            Effect::NumberUsed(number) => memory.next_number = memory.next_number.max(number + 1),
            Effect::MachineCreated(id) => {
                memory.machine_created(uptime);
                memory.machine_losses.created(&id, pool.facts.machine_loss_limit(), uptime);
            }
            Effect::MachineLost(message) => memory.machine_losses.lost(at_birth(message), uptime),
            Effect::RehearsalLost(message) => memory.machine_losses.rehearsal_lost(message, uptime),
            Effect::DiskCreated(id) => {
                memory.disk_losses.created(&id, pool.facts.disk_loss_limit(), uptime);
            }
            Effect::DiskLost(message) => memory.disk_losses.lost(at_birth(message), uptime),
            Effect::CreateUnconfirmed(name, number) => {
                memory.machines.create_unconfirmed(&name, number, uptime);
            }
            Effect::StandbyUnconfirmed(name, number) => {
                memory.machines.standby_unconfirmed(&name, number, uptime);
            }
            Effect::ActivationUnconfirmed(machine) => {
                memory.machines.activation_unconfirmed(&machine, uptime);
            }
            Effect::StartRequested(machine) => memory.request_start(&machine),
            Effect::NameTaken(id) => {
                if memory.machines.name_taken(&id.name) {
                    memory.machine_losses.watch(&id, uptime);
                }
            }
            Effect::StorageConflict(name, why) => memory.record_storage_conflict(&name, why, uptime),
            Effect::MachineDeleted(id) => {
                if let Some(known) = context.known_machine(&pool.facts, memory, &id) {
                    memory.machines.deleted(&known, uptime);
                }
            }
            // While the deletion is unconfirmed, the plan deletes no other machine in its place.
            Effect::DeleteUnconfirmed(machine) => memory.delete_unconfirmed(&machine, uptime),
            Effect::Healed(id) => memory.heal(&id, uptime),
            Effect::UnreadyReplaced(id) => memory.replace_unready(&id, uptime),
            Effect::Update(machine, to, outcome) => {
                memory.rollout_attempts.record(&machine, &to, outcome, uptime);
            }
            Effect::Overridden(machine, fields) => memory.overridden.record(&machine, fields),
            Effect::Restart(instance) => memory.restarts.request(&instance, uptime),
            Effect::UnconfirmedRestart(instance) => memory.restarts.request_unconfirmed(&instance, uptime),
            Effect::Disk(seen) => memory.disks.written(seen, uptime),
            // If its machine is deleted, another machine waits for the disk instead of getting a new one.
            Effect::DiskUnconfirmed(name) => memory.disks.create_unconfirmed(&name, 0, uptime),
            Effect::DiskDeleted(disk) => memory.disks.deleted(&disk, uptime),
            Effect::DisksAccepted(disks) => memory.accept_disks(disks.iter().map(|disk| &disk.name)),
            Effect::DisksFailed(disks) => {
                if let Some(error) = error {
                    record_failed_disks(memory, &disks, error);
                }
            }
            Effect::DisksRejected(disks) => record_rejected_disks(memory, &disks, uptime),
            Effect::Revision(change) => revisions.push(change),
        }
    }
}

fn at_birth(message: String) -> Loss {
    Loss { kind: LossKind::AtBirth, message }
}
