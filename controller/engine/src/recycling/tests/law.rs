//! I12, I19 and I21, as laws of every plan.

use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use proptest::prelude::*;

use super::super::*;
use crate::draining::{DrainHook, DrainMark, DrainReason, Draining};
use crate::model::{DisruptionBudget, Machine, MachineActivity};
use crate::plan::DeleteReason;
use crate::protection::{Protection, ProtectionEnd};
use crate::scale_down::policy::ScaleDownPolicy;
use crate::testing::{PoolWorld, observation_time};
use crate::{Plan, PoolAction};

/// One machine, as random numbers.
type Choices = (u8, u8, u8, u8, u8);

fn draining(choice: u8) -> Option<Arc<Draining>> {
    let since =
        observation_time() - SignedDuration::from_secs(if choice.is_multiple_of(3) { 30 } else { 900 });
    let reasons =
        [None, Some(DrainReason::ScaleDown), Some(DrainReason::Recycling), Some(DrainReason::Rollout)];
    let mark = reasons[usize::from(choice / 3 % 4)].map(|reason| DrainMark {
        id: "d1".to_owned(),
        reason,
        since,
        deadline: since + Duration::from_mins(10),
    });
    let hook = |name: &str, value: &str| DrainHook { name: name.into(), value: value.into() };
    let hooks = match choice / 12 % 4 {
        0 => Vec::new(),
        1 => vec![hook("a", "")],
        2 => vec![hook("a", "d1")],
        _ => vec![hook("a", "d1"), hook("b", "")],
    };
    let draining = Draining { hooks, mark };
    (draining != Draining::default()).then(|| Arc::new(draining))
}

fn machine(choices: Choices) -> impl FnOnce(&mut Machine) {
    let (activity, protection, drain, recycle, written) = choices;
    move |machine| {
        let activities = [
            MachineActivity::Running,
            MachineActivity::Running,
            MachineActivity::Running,
            MachineActivity::NotRunning,
            MachineActivity::Stopped,
            MachineActivity::Stopping,
        ];
        machine.activity = activities[usize::from(activity) % activities.len()];
        (machine.been_ready, machine.terminating) = (true, activity % 16 == 15);
        machine.restarts_itself = true;
        if protection.is_multiple_of(4) {
            let until = Some(ProtectionEnd::At(observation_time() + SignedDuration::from_hours(1)));
            machine.protection = Some(Arc::new(Protection { until, ..Protection::default() }));
        }
        machine.draining = draining(drain);
        let requested = recycle.is_multiple_of(3).then(|| observation_time() - SignedDuration::from_secs(5));
        let claims = u32::from(recycle % 5);
        machine.recycling = Some(Arc::new(RecycleFacts { requested, claims }));
        if written.is_multiple_of(4) {
            machine.written = Some("r0".into());
        }
    }
}

fn replaced(plan: &Plan) -> Vec<&crate::Uid> {
    let replaced = plan.actions.iter().filter_map(|action| match action {
        PoolAction::Delete { machine, reason: DeleteReason::Recycled { .. } } => Some(&machine.uid),
        _ => None,
    });
    replaced.collect()
}

fn begun(plan: &Plan) -> Vec<&crate::Uid> {
    let begun = plan.actions.iter().filter_map(|action| match action {
        PoolAction::BeginDrain { machine, mark } if mark.reason == DrainReason::Recycling => {
            Some(&machine.uid)
        }
        _ => None,
    });
    begun.collect()
}

/// Whether the disruption budget counts the machine as available.
fn is_available(machine: &Machine) -> bool {
    let marked = machine
        .drain_mark()
        .is_some_and(|mark| matches!(mark.reason, DrainReason::Recycling | DrainReason::Rollout));
    !machine.terminating
        && !marked
        && matches!(machine.activity, MachineActivity::Running | MachineActivity::Stopped)
}

proptest! {
    #[test]
    fn replacements_keep_protection_hooks_and_the_disruption_budget(
        machines in prop::collection::vec(any::<Choices>(), 0..9),
        desired in 0usize..9,
        budget in 1usize..4,
        explicit in any::<bool>(),
    ) {
        let mut world = PoolWorld::desiring(desired).with_machines(machines.len() as u64).pool(|pool| {
            pool.recycle.max_claims = Some(3);
            pool.rollout.budget = DisruptionBudget::Machines(budget);
            pool.scale_down_policy = if explicit { ScaleDownPolicy::Explicit } else { ScaleDownPolicy::NewestFirst };
        });
        let names: Vec<String> = world.machines.iter().map(|machine| machine.id.name.to_string()).collect();
        for (name, choices) in names.iter().zip(machines) {
            world = world.edit(name, machine(choices));
        }
        let (plan, now) = (world.plan(), observation_time());
        let (replaced, begun) = (replaced(&plan), begun(&plan));
        let staying = world.machines.iter().filter(|machine| !machine.terminating).count();
        prop_assert!(staying <= desired || replaced.is_empty() && begun.is_empty(), "replaced in a surplus");
        let mut disrupts = false;
        for machine in &world.machines {
            let uid = &machine.id.uid;
            if replaced.contains(&uid) {
                prop_assert!(!machine.is_protected(now), "I12");
                prop_assert!(!machine.must_drain(now, world.pool.drain_timeout), "I19");
            }
            if replaced.contains(&uid) || begun.contains(&uid) {
                disrupts |= is_available(machine);
            }
        }
        // What the plan takes away besides, for the rollout.
        let disrupted = |machine: &Machine| plan.actions.iter().any(|action| match action {
            PoolAction::Update { machine: id, .. }
            | PoolAction::Delete { machine: id, .. }
            | PoolAction::BeginDrain { machine: id, .. } => id.uid == machine.id.uid,
            _ => false,
        });
        let available = world.machines.iter().filter(|machine| is_available(machine) && !disrupted(machine));
        let available = available.count();
        prop_assert!(!disrupts || available + budget >= desired, "I21: {available} of {desired}, {budget}");
        // A machine that drains within the budget is still available: its deletion needs budget, too.
        let deleted = |machine: &Machine| plan.actions.iter().any(|action| match action {
            PoolAction::Update { machine: id, .. } | PoolAction::Delete { machine: id, .. } => id.uid == machine.id.uid,
            _ => false,
        });
        let serves = |machine: &&Arc<Machine>| {
            !machine.terminating && matches!(machine.activity, MachineActivity::Running | MachineActivity::Stopped)
        };
        let serving = world.machines.iter().filter(serves);
        let (leaving, staying): (Vec<_>, Vec<_>) = serving.partition(|machine| deleted(machine));
        let replaces = leaving.iter().any(|machine| replaced.contains(&&machine.id.uid));
        prop_assert!(!replaces || staying.len() + budget >= desired, "I21: {} of {desired}, {budget}", staying.len());
    }
}
