//! Every number in the message of a condition is that of a field of the status, or of the desired number.

use proptest::prelude::*;

use crate::condition::ConditionType;
use crate::memory::PROBLEM_AGE;
use crate::model::{MachineActivity, Restarts, ScaleDownPolicy, StatusContent};
use crate::status::{ComputedStatus, compute_status, measure_distance};
use crate::testing::{PoolWorld, numbered_machine_name};

/// A machine of a random pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DrawnMachine {
    Ready,
    Starting,
    Stopped,
    Outdated,
    Terminating,
    AwaitsApproval,
    RestartsItself,
    /// It does not become ready, and the platform says why.
    Stuck,
}

impl DrawnMachine {
    const ALL: [Self; 8] = [
        Self::Ready,
        Self::Starting,
        Self::Stopped,
        Self::Outdated,
        Self::Terminating,
        Self::AwaitsApproval,
        Self::RestartsItself,
        Self::Stuck,
    ];

    fn draw(self, world: PoolWorld, number: usize) -> PoolWorld {
        let number = u64::try_from(number).unwrap();
        world.edit(&numbered_machine_name(number), |machine| match self {
            Self::Ready => {}
            Self::Starting => machine.activity = MachineActivity::NotRunning,
            Self::Stopped => machine.activity = MachineActivity::Stopped,
            Self::Outdated => {
                machine.revision = Some("old".into());
                machine.written = Some("old".into());
            }
            Self::Terminating => machine.terminating = true,
            Self::AwaitsApproval => machine.restart_pending = true,
            Self::RestartsItself => {
                machine.restart_pending = true;
                machine.restarts_itself = true;
            }
            Self::Stuck => {
                machine.activity = MachineActivity::NotRunning;
                machine.problem = Some("no class".into());
            }
        })
    }
}

/// A pool with these machines, whose problems have lasted.
fn drawn_world(desired: usize, machines: &[DrawnMachine]) -> PoolWorld {
    let world = PoolWorld::desiring(desired).with_machines(u64::try_from(machines.len()).unwrap());
    let mut world =
        machines.iter().enumerate().fold(world, |world, (number, machine)| machine.draw(world, number));
    let existing = world.machines.clone();
    world.memory.observe_machines(existing.iter(), world.uptime);
    world.uptime += PROBLEM_AGE;
    world
}

/// What a number in a message counts.
#[derive(Clone, Copy, Debug)]
enum CountedNumber {
    Replicas,
    Ready,
    Updated,
    Desired,
    Terminating,
    /// Machines that are not being deleted.
    Live,
    /// A number that is in no field of the status.
    Other,
}

impl CountedNumber {
    /// The number; `None` if no field has it.
    fn expected(self, status: &ComputedStatus, terminating: usize, desired: usize) -> Option<usize> {
        let summary = &status.summary;
        match self {
            Self::Replicas => Some(summary.replicas),
            Self::Ready => Some(summary.ready),
            Self::Updated => Some(summary.updated),
            Self::Desired => Some(desired),
            Self::Terminating => Some(terminating),
            Self::Live => Some(summary.replicas - terminating),
            Self::Other => None,
        }
    }
}

/// A sentence in the plural with `#` for its numbers, and the numbers.
fn sentence_pattern(sentence: &str) -> (String, Vec<usize>) {
    let mut numbers = Vec::new();
    let mut words = Vec::new();
    for word in sentence.split(' ') {
        let digits = word.trim_end_matches([',', ':']);
        if let Ok(number) = digits.parse::<usize>() {
            numbers.push(number);
            words.push(word.replace(digits, "#"));
            continue;
        }
        let plural = match word {
            "machine" => "machines",
            "is" => "are",
            "exists" => "exist",
            "exists," => "exist,",
            "needs" => "need",
            "restarts" => "restart",
            other => other,
        };
        words.push(plural.to_owned());
    }
    (words.join(" "), numbers)
}

/// What the numbers of a sentence count; `None` for a sentence that this law does not know.
fn counted_numbers(pattern: &str) -> Option<Vec<CountedNumber>> {
    use CountedNumber as Number;
    let counted = match pattern {
        "# of # desired machines exist"
        | "creating machines: # of # exist"
        | "deleting machines: # exist, # desired"
        | "# machines exist, # desired" => vec![Number::Replicas, Number::Desired],
        "# of # machines are ready" | "# machines are ready, # desired" => {
            vec![Number::Ready, Number::Desired]
        }
        "# machines are ready" | "# machines are ready and up to date" => vec![Number::Ready],
        "# of # machines are terminating, # desired" => {
            vec![Number::Terminating, Number::Replicas, Number::Desired]
        }
        "# of # machines are up to date"
        | "# of # machines are up to date, and the rollout are paused"
        | "# of # machines are up to date, and the controller leaves the others as they are"
        | "the current template are in effect in # of # machines" => vec![Number::Updated, Number::Live],
        "the current template are in effect in all # machines" => vec![Number::Live],
        "# machines need a restart for it, which you must approve"
        | "# machines restart to apply it"
        | "# more machines are not ready"
        | "to complete the rollout, approve the restart of # machines" => vec![Number::Other],
        "waiting: # machines are unavailable, and the disruption budget are #" => {
            vec![Number::Other, Number::Other]
        }
        _ => return None,
    };
    Some(counted)
}

proptest! {
    #[test]
    fn every_number_in_a_message_is_that_of_its_field(
        desired in 0_usize..6,
        machines in prop::collection::vec(prop::sample::select(DrawnMachine::ALL.to_vec()), 0..6),
        policy in prop::sample::select(vec![ScaleDownPolicy::NewestFirst, ScaleDownPolicy::StoppedOnly]),
        content in prop::sample::select(vec![StatusContent::Complete, StatusContent::FailureAndPause]),
        restarts in prop::sample::select(vec![Restarts::ByPlatform, Restarts::ByController, Restarts::ByUser]),
        paused in any::<bool>(),
        rollout_paused in any::<bool>(),
        rollout_disabled in any::<bool>(),
    ) {
        let world = drawn_world(desired, &machines).pool(|pool| {
            pool.scale_down_policy = policy;
            pool.status_content = content;
            pool.paused = paused;
            pool.rollout.restarts = restarts;
            pool.rollout.paused = rollout_paused;
            pool.rollout.disabled = rollout_disabled;
        });
        let status = compute_status(&world.observed(&world.snapshot()), None);
        let terminating = machines.iter().filter(|machine| **machine == DrawnMachine::Terminating).count();
        let live = status.summary.replicas - terminating;
        for condition in &status.conditions {
            for sentence in condition.message.split("; ") {
                let (pattern, numbers) = sentence_pattern(sentence);
                if numbers.is_empty() {
                    continue;
                }
                let counted = counted_numbers(&pattern);
                prop_assert!(counted.is_some(), "{pattern:?} in {condition:?} is not known to this law");
                let counted = counted.unwrap_or_default();
                prop_assert_eq!(counted.len(), numbers.len());
                for (counted, number) in counted.into_iter().zip(numbers) {
                    let expected = counted.expected(&status, terminating, desired);
                    prop_assert_eq!(expected.unwrap_or(number), number, "{:?} in {:?}", counted, condition);
                }
                if pattern.ends_with("ready and up to date") || pattern.contains("in effect in all") {
                    prop_assert_eq!(status.summary.updated, live, "{:?}", condition);
                }
            }
        }
    }

    #[test]
    fn no_condition_says_that_no_action_is_needed_while_a_machine_is_stuck(
        desired in 1_usize..6,
        machines in prop::collection::vec(prop::sample::select(DrawnMachine::ALL.to_vec()), 0..6),
        paused in any::<bool>(),
    ) {
        let world = drawn_world(desired, &machines).pool(|pool| pool.paused = paused);
        let status = compute_status(&world.observed(&world.snapshot()), None);
        let stuck = machines.iter().filter(|machine| **machine == DrawnMachine::Stuck).count();
        if stuck > 0 && status.summary.ready < desired {
            let message = |kind: ConditionType| {
                let condition = status.conditions.iter().find(|condition| condition.is(kind));
                condition.map(|condition| condition.message.clone()).unwrap_or_default()
            };
            prop_assert!(!message(ConditionType::Stalled).contains("no user action"));
            for kind in [ConditionType::Ready, ConditionType::Reconciling] {
                let named = message(kind).matches("is not ready: no class").count();
                prop_assert_eq!(named, stuck.min(3), "{}", message(kind));
            }
        }
    }

    /// A pool that has work left at its deadline is `Stalled`, so that no client waits for it without end.
    #[test]
    fn a_pool_is_never_ready_and_stalled_and_reconciles_no_longer_than_its_deadline(
        desired in 0_usize..6,
        machines in prop::collection::vec(prop::sample::select(DrawnMachine::ALL.to_vec()), 0..6),
        content in prop::sample::select(vec![StatusContent::Complete, StatusContent::FailureAndPause]),
        restarts in prop::sample::select(vec![Restarts::ByPlatform, Restarts::ByController, Restarts::ByUser]),
        paused in any::<bool>(),
    ) {
        let mut world = drawn_world(desired, &machines).pool(|pool| {
            pool.status_content = content;
            pool.rollout.restarts = restarts;
            pool.paused = paused;
        });
        let distance = measure_distance(&world.observed(&world.snapshot()));
        world.memory.record_distance(distance, world.uptime);
        world.uptime += world.pool.progress_deadline;
        world.memory.record_distance(distance, world.uptime);
        let status = compute_status(&world.observed(&world.snapshot()), None);
        let holds = |kind: ConditionType| {
            status.conditions.iter().any(|condition| condition.is(kind) && condition.status == "True")
        };
        let [ready, reconciling, stalled] =
            [ConditionType::Ready, ConditionType::Reconciling, ConditionType::Stalled].map(holds);
        prop_assert!(usize::from(ready) + usize::from(reconciling) + usize::from(stalled) <= 1);
        prop_assert_eq!(stalled, distance.is_some(), "{:?}", status.conditions);
        prop_assert!(!paused || !stalled);
    }
}
