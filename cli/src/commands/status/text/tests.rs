use super::*;
use crate::commands::status::view::EventStatus;

fn status() -> PoolOverview {
    let at = |second| Some(Timestamp::from_second(second).unwrap());
    let disk = |name: &str, state: &str| DiskOverview {
        name: name.into(),
        template: Some("root".into()),
        state: state.into(),
        created: at(1000),
        size: Some(10 << 30),
        ..DiskOverview::default()
    };
    PoolOverview {
        platform: "DVP",
        namespace: "team-a".into(),
        pool: "web".into(),
        state: "RollingOut".into(),
        desired: 2,
        replicas: 2,
        ready: 1,
        updated: 1,
        restart_pending: 1,
        revision: "5c1f0e7ab93d2846".into(),
        machines: vec![
            MachineOverview {
                name: "web-7xk2d".into(),
                state: "Running".into(),
                ready: true,
                revision: Some("0".into()),
                restart_pending: true,
                created: at(1000),
                node: Some("node-1".into()),
                addresses: vec!["10.0.0.4".into()],
                disks: vec![disk("web-7xk2d-root", "Ready")],
                ..MachineOverview::default()
            },
            MachineOverview {
                name: "web-b9q4m".into(),
                state: "Pending".into(),
                revision: Some("5c1f0e7ab93d2846".into()),
                current: true,
                created: at(4000),
                disks: vec![disk("web-b9q4m-root", "Missing")],
                problem: Some("no class generic".into()),
                ..MachineOverview::default()
            },
        ],
        free_disks: vec![DiskOverview { free_since: at(2000), ..disk("web-root-x", "Ready") }],
        conditions: vec![ConditionStatus {
            kind: "Synced".into(),
            status: "False".into(),
            reason: "RolloutInProgress".into(),
            message: "the current template is in effect in 1 of 2 machines".into(),
        }],
        blocked: vec!["machine web-7xk2d is reserved".into()],
        events: vec![EventStatus {
            time: at(4500),
            warning: true,
            reason: "FailedCreate".into(),
            message: "quota".into(),
        }],
        activity: vec![
            ActivityStatus {
                time: Timestamp::from_second(1000).unwrap(),
                reason: "Scaled".into(),
                to: Some("2".into()),
                ..ActivityStatus::default()
            },
            ActivityStatus {
                time: Timestamp::from_second(4400).unwrap(),
                reason: "RolloutStarted".into(),
                actor: Some("kubectl-edit".into()),
                from: Some("0".into()),
                to: Some("5c1f0e7ab93d2846".into()),
            },
        ],
        unreadable: vec!["a: first\nsecond".into()],
        ..PoolOverview::default()
    }
}

#[test]
fn the_status_shows_machines_with_their_disks_and_what_the_pool_waits_for() {
    let now = Timestamp::from_second(4600).unwrap();
    let text = render_pool_overview(&status(), now);
    assert!(text.contains('\u{1b}'), "the text has styles for terminals");
    let plain = anstream::adapter::strip_str(&text).to_string();
    insta::assert_snapshot!(plain);
}

#[test]
fn texts_of_other_programs_cannot_control_the_terminal() {
    const FOREIGN: &str = "\u{1b}[31mX\u{1b}]0;title\u{7}";
    let foreign = || Some(FOREIGN.to_owned());
    let mut status = status();
    for text in [&mut status.pool, &mut status.state, &mut status.revision, &mut status.namespace] {
        FOREIGN.clone_into(text);
    }
    for machine in &mut status.machines {
        (machine.node, machine.problem, machine.addresses) = (foreign(), foreign(), vec![FOREIGN.to_owned()]);
        machine.protection =
            Some(ProtectionStatus { by: foreign(), reason: foreign(), ..ProtectionStatus::default() });
    }
    for condition in &mut status.conditions {
        (condition.reason, condition.message) = (FOREIGN.to_owned(), FOREIGN.to_owned());
    }
    for event in &mut status.events {
        (event.reason, event.message) = (FOREIGN.to_owned(), FOREIGN.to_owned());
    }
    for entry in &mut status.activity {
        (entry.actor, entry.to) = (foreign(), foreign());
    }
    let text = render_pool_overview(&status, Timestamp::from_second(4600).unwrap());
    assert!(text.contains("\\u001b[31mX") && !text.contains("\u{1b}[31mX"), "{text:?}");
    assert!(!text.contains("\u{1b}]"), "{text:?}");
}

#[test]
fn a_pool_without_machines_has_no_table() {
    let empty = PoolOverview {
        platform: "DVP",
        pool: "web".into(),
        namespace: "a".into(),
        ..PoolOverview::default()
    };
    let plain =
        anstream::adapter::strip_str(&render_pool_overview(&empty, Timestamp::UNIX_EPOCH)).to_string();
    assert_eq!(
        plain,
        "Pool web in namespace a (DVP)\n  Machines  0 desired, 0 exist, 0 ready, 0 up to date\n"
    );
}

#[test]
fn sizes_have_one_unit() {
    assert_eq!(
        [0, 512, 1 << 10, 10 << 30, 3 << 29, 1 << 41].map(format_bytes).join(" "),
        "0 512 1Ki 10Gi 1.5Gi 2Ti"
    );
}
