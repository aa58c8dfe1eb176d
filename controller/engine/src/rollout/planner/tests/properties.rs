//! Properties of every rollout.

use proptest::prelude::*;

use super::model::{ModelRequestDelivery, RolloutModel, SAME, id};
use crate::model::MachineActivity;
use crate::testing::sequence_config;

proptest! {
    #![proptest_config(sequence_config())]

    #[test]
    fn no_more_machines_are_taken_away_at_once_than_may_be_and_the_rollout_ends(
        machines in 1usize..7,
        budget in 1usize..4,
        anothers in 0usize..4,
        steps in prop::collection::vec(any::<u32>(), 0..250),
    ) {
        let mut model = RolloutModel::new(machines, budget);
        for machine in model.machines.iter_mut().take(anothers) {
            machine.make_anothers();
        }
        model.watch();
        for step in steps {
            model.step(step);
        }
        model.settle();
        let status = crate::compute_status(&model.world.observed(&model.world.snapshot()), None);
        prop_assert_eq!(status.summary.updated, machines);
    }

    /// A machine of an adopted pool does not start. The other machines get markers and no other change.
    #[test]
    fn labels_of_machines_of_another_controller_cause_no_disruption(machines in 2usize..7) {
        let mut model = RolloutModel::new(machines, 1);
        for machine in &mut model.machines {
            machine.make_anothers();
        }
        model.machines[0].go(MachineActivity::NotRunning);
        model.world.pool.revision.id = id(SAME);
        model.watch();
        model.pass(|| ModelRequestDelivery::Answered);
        for machine in &model.machines[1..] {
            prop_assert_eq!(machine.facts.written.as_ref(), Some(&id(SAME)));
            prop_assert!(machine.facts.evaluated && machine.updates == 1);
        }
    }

    #[test]
    fn a_rollout_costs_every_machine_one_write_and_one_word(
        machines in 1usize..7,
        budget in 1usize..4,
        templates in prop::collection::vec(1u64..9, 1..3),
    ) {
        let mut model = RolloutModel::new(machines, budget);
        let mut current = 0;
        for template in templates {
            for machine in &mut model.machines {
                (machine.updates, machine.advances) = (0, 0);
            }
            model.world.pool.revision.id = id(template);
            model.settle();
            let expected = usize::from(template != current);
            for machine in &model.machines {
                prop_assert_eq!((machine.updates, machine.advances), (expected, expected));
            }
            current = template;
        }
    }
}
