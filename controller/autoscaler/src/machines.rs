//! The machines of a pool, as far as the autoscaler reads them.

use jiff::Timestamp;
use vmpool_api::ObjectId;

/// One live machine of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolMachine {
    /// Name and UID.
    pub id: ObjectId,
    /// When the API server created it.
    pub created: Timestamp,
    /// What it does.
    pub state: PoolMachineState,
}

/// What a machine of a pool does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PoolMachineState {
    /// It has not been ready yet.
    Provisioning,
    /// It can be claimed.
    Free,
    /// Neither of the others: it restarts, is stopped, is not ready any more or is about to be removed.
    Other,
    /// It is protected.
    Busy,
}

/// The numbers of machines in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DemandCounts {
    /// All machines.
    pub all: u32,
    /// Protected machines.
    pub busy: u32,
    /// Machines that can be claimed.
    pub free: u32,
    /// Machines that have not been ready yet.
    pub provisioning: u32,
}

impl DemandCounts {
    /// The numbers of these machines.
    pub fn of<'m>(machines: impl IntoIterator<Item = &'m PoolMachine>) -> Self {
        let mut counts = Self::default();
        for machine in machines {
            counts.all += 1;
            match machine.state {
                PoolMachineState::Busy => counts.busy += 1,
                PoolMachineState::Free => counts.free += 1,
                PoolMachineState::Provisioning => counts.provisioning += 1,
                PoolMachineState::Other => {}
            }
        }
        counts
    }
}

/// The machines that a lowering of a pool with the policy Explicit from `replicas` to `lowered` removes:
/// those that have not been ready, then the free ones, each the newest first. A protected machine is never
/// one of them.
///
/// Machines that do not exist, for example because the controller cannot create them, cannot be removed by
/// name. Others do not leave in their place: the pool keeps `lowered` machines.
pub fn choose_removed_machines(machines: &[PoolMachine], replicas: u32, lowered: u32) -> Vec<ObjectId> {
    let existing = u32::try_from(machines.len()).unwrap_or(u32::MAX);
    let surplus = existing.min(replicas).saturating_sub(lowered);
    let is_removable = |machine: &&PoolMachine| {
        matches!(machine.state, PoolMachineState::Provisioning | PoolMachineState::Free)
    };
    let mut removable: Vec<&PoolMachine> = machines.iter().filter(is_removable).collect();
    removable
        .sort_by(|a, b| a.state.cmp(&b.state).then(b.created.cmp(&a.created)).then_with(|| b.id.cmp(&a.id)));
    let count = usize::try_from(surplus).unwrap_or(usize::MAX);
    removable.into_iter().take(count).map(|machine| machine.id.clone()).collect()
}

#[cfg(test)]
mod tests;
