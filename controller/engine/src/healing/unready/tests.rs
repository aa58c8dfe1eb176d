use rstest::rstest;

use super::*;
use crate::model::MachineActivity;
use crate::testing::{observation_time, running_machine};

fn unready(edit: impl FnOnce(&mut Machine)) -> Arc<Machine> {
    let mut machine = running_machine("web-1", 0);
    machine.activity = MachineActivity::NotRunning;
    edit(&mut machine);
    Arc::new(machine)
}

/// How long the last of these machines has not been ready, if they were observed one minute after the other.
fn unready_for(machines: &[Arc<Machine>]) -> Option<u64> {
    let mut memory = UnreadyMachines::default();
    let mut uptime = Duration::from_mins(100);
    for machine in machines {
        uptime += Duration::from_mins(1);
        memory.observe([machine].into_iter(), uptime);
    }
    let time = memory.unready_for(machines.last()?, observation_time(), uptime)?;
    Some(time.as_secs() / 60)
}

fn reported(minutes: i64) -> Arc<Machine> {
    unready(|machine| {
        let since = observation_time() - jiff::SignedDuration::from_mins(minutes);
        machine.start_health.not_ready_since = Some(since);
    })
}

#[test]
fn the_longer_of_what_the_platform_reports_and_what_the_leader_saw_counts() {
    let silent = unready(|_| {});
    assert_eq!(unready_for(std::slice::from_ref(&silent)), Some(0));
    assert_eq!(unready_for(&[silent.clone(), silent.clone(), silent.clone()]), Some(2));
    assert_eq!(unready_for(&[reported(7)]), Some(7));
    assert_eq!(unready_for(&[silent.clone(), silent, reported(1)]), Some(2));
    assert_eq!(unready_for(&[reported(-7)]), Some(0), "a time in the future");
}

#[test]
fn the_time_begins_again_when_the_machine_was_ready() {
    let ready = Arc::new(running_machine("web-1", 0));
    let silent = unready(|_| {});
    assert_eq!(unready_for(&[silent.clone(), ready.clone(), silent.clone(), silent]), Some(1));
    assert_eq!(unready_for(&[ready]), None);
}

#[test]
fn the_time_before_an_excuse_does_not_count() {
    let paused = unready(|machine| machine.unready_on_purpose = true);
    assert_eq!(unready_for(&[reported(60), paused.clone(), reported(60)]), Some(1));
    assert_eq!(unready_for(&[paused]), None);
}

#[rstest]
#[case::ready(|machine: &mut Machine| machine.activity = MachineActivity::Running)]
#[case::on_purpose(|machine: &mut Machine| machine.unready_on_purpose = true)]
#[case::stopping(|machine: &mut Machine| machine.activity = MachineActivity::Stopping)]
#[case::about_to_stop_or_restart(|machine: &mut Machine| machine.stop_requested = true)]
#[case::restored(|machine: &mut Machine| machine.restoring = true)]
#[case::leaving(|machine: &mut Machine| machine.terminating = true)]
fn these_machines_are_not_unready(#[case] edit: fn(&mut Machine)) {
    assert_eq!(unready_for(&[unready(edit)]), None);
}
