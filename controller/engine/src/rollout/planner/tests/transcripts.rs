//! Transcripts of complete rollouts. In each round the controller runs a pass, and then the platform runs
//! once.

use super::model::{ModelRequestDelivery, RolloutModel};
use super::*;
use crate::condition::ConditionType;

/// A template with a change that needs a restart, which the platform does by itself.
const AUTOMATIC: u64 = 6;
/// A template with a change that needs an approved restart.
const MANUAL: u64 = 3;

/// Runs a round and records the pass's actions, the pool's condition, and the machines after the platform
/// evaluated them.
fn round(model: &mut RolloutModel, transcript: &mut Vec<String>) -> bool {
    model.watch();
    let plan = model.pass(|| ModelRequestDelivery::Answered);
    let number = |machine: &crate::ObjectId| {
        model.machines.iter().position(|known| known.facts.id == *machine).expect("it exists")
    };
    let acts = plan.actions.iter().map(|action| match action {
        PoolAction::Update { machine, to, .. } => format!("{to} to {}", number(machine)),
        PoolAction::RecordRevision { machine, to, .. } => format!("{} is at {to}", number(machine)),
        other => panic!("{other:?}"),
    });
    let acts: Vec<_> = acts.collect();
    let status = crate::compute_status(&model.world.observed(&model.world.snapshot()), None);
    let synced = status.conditions.iter().find(|known| known.is(ConditionType::Synced)).expect("it is shown");
    let acts = if acts.is_empty() { "-".to_owned() } else { acts.join(", ") };
    let message =
        model.machines.iter().enumerate().fold(synced.message.clone(), |message, (index, machine)| {
            message.replace(&*machine.facts.id.name, &index.to_string())
        });
    transcript.push(format!("{acts} | {} {message}", synced.reason));
    for machine in &mut model.machines {
        if machine.facts.activity == MachineActivity::NotRunning {
            machine.go(MachineActivity::Running);
        }
        machine.evaluate();
        if machine.facts.restart_pending && machine.facts.restarts_itself {
            machine.go(MachineActivity::NotRunning);
        }
    }
    model.world.uptime += Duration::from_mins(1);
    plan != Plan::default()
}

fn run_to_end(model: &mut RolloutModel, transcript: &mut Vec<String>) {
    for _ in 0..40 {
        if !round(model, transcript) {
            return;
        }
    }
    panic!("the rollout does not end: {transcript:#?}");
}

fn roll(model: &mut RolloutModel, to: u64) {
    model.world.pool.revision.id = format!("r{to}").as_str().into();
}

#[test]
fn machines_are_restarted_two_at_a_time() {
    let (mut model, mut lines) = (RolloutModel::new(5, 2), Vec::new());
    roll(&mut model, AUTOMATIC);
    run_to_end(&mut model, &mut lines);
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn with_manual_restarts_all_machines_are_updated_and_wait() {
    let (mut model, mut lines) = (RolloutModel::new(4, 2), Vec::new());
    roll(&mut model, MANUAL);
    run_to_end(&mut model, &mut lines);
    lines.push("a user restarts 1 and 2".into());
    for machine in &mut model.machines[1..3] {
        machine.go(MachineActivity::NotRunning);
    }
    run_to_end(&mut model, &mut lines);
    lines.push("the template goes back".into());
    roll(&mut model, 0);
    run_to_end(&mut model, &mut lines);
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn a_rejected_template_stops_the_rollout_and_a_better_one_continues() {
    let (mut model, mut lines) = (RolloutModel::new(6, 3), Vec::new());
    for index in [0, 2, 4] {
        model.machines[index].stubborn = true;
    }
    roll(&mut model, AUTOMATIC);
    for _ in 0..8 {
        round(&mut model, &mut lines);
    }
    lines.push("a template that all take".into());
    for machine in &mut model.machines {
        machine.stubborn = false;
    }
    roll(&mut model, AUTOMATIC + 2);
    run_to_end(&mut model, &mut lines);
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn a_paused_rollout_finishes_started_updates_and_continues_later() {
    let (mut model, mut lines) = (RolloutModel::new(3, 1), Vec::new());
    roll(&mut model, AUTOMATIC);
    round(&mut model, &mut lines);
    lines.push("paused".into());
    model.world.pool.rollout.paused = true;
    for _ in 0..5 {
        round(&mut model, &mut lines);
    }
    lines.push("resumed".into());
    model.world.pool.rollout.paused = false;
    run_to_end(&mut model, &mut lines);
    insta::assert_snapshot!(lines.join("\n"));
}
