//! A pool and its machines, as far as an autoscaler reads them.

use std::collections::BTreeSet;

use jiff::Timestamp;
use kube::Resource;
use vmpool_api::annotations::WAITING_CLAIMS;
use vmpool_autoscaler::demand::Demand;
use vmpool_autoscaler::machines::{DemandCounts, PoolMachine, PoolMachineState, choose_removed_machines};
use vmpool_autoscaler::waiting::{WaitingClaimKey, WaitingClaims};
use vmpool_engine::model::{MachineActivity, ScaleDownPolicy};
use vmpool_engine::protection::{CLOCK_SKEW, Protection, time_after};
use vmpool_engine::{Machine, ObjectId, Pool, Uid};

/// A pool and its machines.
#[derive(Clone, Debug)]
pub(super) struct AutoscaledPoolFacts {
    /// Name and UID.
    pub(super) id: ObjectId,
    /// The version that was read.
    pub(super) version: Option<String>,
    /// `spec.replicas`.
    pub(super) replicas: u32,
    pub(super) state: AutoscaledPoolState,
    /// Whether the spec of the pool is invalid: the controller then removes no machine of it, and its policy
    /// is not known.
    pub(super) is_invalid: bool,
    /// Whether only targeted removal removes machines of it.
    pub(super) is_explicit: bool,
    /// Its machines that are not being deleted.
    pub(super) machines: Vec<PoolMachine>,
    /// Number of its standby machines, which no other number contains.
    pub(super) standby: u32,
    /// The claims that wait for a machine.
    pub(super) waiting: BTreeSet<WaitingClaimKey>,
    /// The claims that machines of the pool have.
    pub(super) answered: BTreeSet<WaitingClaimKey>,
    /// When a waiting claim or the protection of a machine ends.
    pub(super) next_change: Option<Timestamp>,
}

/// Whether the controller changes a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AutoscaledPoolState {
    /// The controller creates and removes its machines.
    Active,
    /// It is paused.
    Paused,
    /// It is being deleted, whether it is paused or not.
    Deleting,
}

impl AutoscaledPoolFacts {
    /// Reads a pool. `machines` may contain machines of other pools.
    pub(super) fn read<'m, K: Resource, R>(
        object: &K,
        pool: &Pool<R>,
        machines: impl IntoIterator<Item = &'m Machine>,
        now: Timestamp,
    ) -> Self {
        let targets: BTreeSet<&Uid> =
            pool.record.reserved().chain(pool.record.accepted()).map(|target| &target.uid).collect();
        let of_pool = |machine: &&Machine| machine.belongs_to(&pool.id) && !machine.terminating;
        let (machines, standby): (Vec<&Machine>, Vec<&Machine>) =
            machines.into_iter().filter(of_pool).partition(|machine| machine.standby.is_none());
        let answered: BTreeSet<WaitingClaimKey> =
            machines.iter().filter_map(|machine| claim_key(machine, pool, now)).collect();
        let waiting = read_waiting_claims(object, now);
        let ends = waiting.next_end().and_then(|second| Timestamp::from_second(second).ok());
        let unprotected = machines.iter().filter_map(|machine| end_of_protection(machine, now)).min();
        Self {
            id: pool.id.clone(),
            version: object.meta().resource_version.clone(),
            replicas: u32::try_from(pool.desired).unwrap_or(u32::MAX),
            state: read_pool_state(pool),
            is_invalid: !pool.validation_errors.is_empty(),
            is_explicit: pool.scale_down_policy == ScaleDownPolicy::Explicit,
            waiting: waiting.without(&answered),
            answered,
            next_change: ends.into_iter().chain(unprotected).min(),
            machines: machines
                .iter()
                .map(|machine| read_pool_machine(machine, pool.may_claim(machine, now), &targets, now))
                .collect(),
            standby: u32::try_from(standby.len()).unwrap_or(u32::MAX),
        }
    }

    /// The numbers of its machines.
    pub(super) fn counts(&self) -> DemandCounts {
        DemandCounts::of(&self.machines)
    }

    /// Whether the controller may lower its replicas.
    pub(super) fn may_shrink(&self) -> bool {
        self.state == AutoscaledPoolState::Active && !self.is_invalid
    }

    /// The machines that targeted removal removes to lower its replicas to this number.
    pub(super) fn removed_machines(&self, lowered: u32) -> Vec<ObjectId> {
        choose_removed_machines(&self.machines, self.replicas, lowered)
    }

    /// What its machines and its claims need.
    pub(super) fn demand(&self) -> Demand {
        let waiting = u32::try_from(self.waiting.len()).unwrap_or(u32::MAX);
        Demand { busy: self.counts().busy, waiting }
    }
}

fn read_pool_state<R>(pool: &Pool<R>) -> AutoscaledPoolState {
    match pool {
        _ if pool.deleting => AutoscaledPoolState::Deleting,
        _ if pool.paused => AutoscaledPoolState::Paused,
        _ => AutoscaledPoolState::Active,
    }
}

/// The claims in the annotation of a pool.
fn read_waiting_claims<K: Resource>(object: &K, now: Timestamp) -> WaitingClaims {
    let annotations = object.meta().annotations.as_ref();
    let text = annotations.and_then(|annotations| annotations.get(WAITING_CLAIMS));
    text.map(|text| WaitingClaims::parse(text, now.as_second())).unwrap_or_default()
}

/// The claim that a machine answers.
fn claim_key<R>(machine: &Machine, pool: &Pool<R>, now: Timestamp) -> Option<WaitingClaimKey> {
    let protection = machine.protection.as_ref().filter(|_| machine.is_protected(now));
    let claim = protection?.claim_of(pool.id.uid.as_str())?;
    Some(WaitingClaimKey::new(&claim.user, &claim.id))
}

/// When a protected machine ceases to be protected.
fn end_of_protection(machine: &Machine, now: Timestamp) -> Option<Timestamp> {
    let protection = machine.protection.as_deref().filter(|protection| protection.protects(now));
    protection.and_then(Protection::end).map(|end| time_after(end, CLOCK_SKEW))
}

fn read_pool_machine(
    machine: &Machine,
    is_free: bool,
    targets: &BTreeSet<&Uid>,
    now: Timestamp,
) -> PoolMachine {
    let is_target = targets.contains(&machine.id.uid);
    let is_starting = !machine.been_ready && machine.activity == MachineActivity::NotRunning;
    let state = match machine {
        // A protected machine that drains leaves soon, and no claim can renew it.
        _ if machine.is_protected(now) && machine.drain_mark().is_some() => PoolMachineState::Other,
        _ if machine.is_protected(now) => PoolMachineState::Busy,
        _ if is_target => PoolMachineState::Other,
        _ if is_free => PoolMachineState::Free,
        _ if is_starting => PoolMachineState::Provisioning,
        _ => PoolMachineState::Other,
    };
    PoolMachine { id: machine.id.clone(), created: machine.created, state }
}
