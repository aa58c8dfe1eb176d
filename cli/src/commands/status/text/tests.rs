use super::*;
use crate::leader::LeaderState;
use crate::observation::UnobservedSpec;
use crate::shown::{ShownCondition, ShownEvent};

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
        conditions: vec![
            ShownCondition {
                kind: "Synced".into(),
                status: "False".into(),
                reason: "RolloutInProgress".into(),
                message: "the current template is in effect in 1 of 2 machines".into(),
            },
            ShownCondition {
                kind: "ReplicaFailure".into(),
                status: "True".into(),
                reason: "FailedCreate".into(),
                message: "machine web-b9q4m: quota".into(),
            },
        ],
        blocked: vec!["machine web-7xk2d is reserved".into()],
        events: vec![ShownEvent {
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
    let text = render_pool_overview(&status(), TextExtent::Screen, now);
    assert!(text.contains('\u{1b}'), "the text has styles for terminals");
    let plain = anstream::adapter::strip_str(&text).to_string();
    insta::assert_snapshot!(plain);
}

fn plain_text(status: &PoolOverview, extent: TextExtent) -> String {
    let now = Timestamp::from_second(4600).unwrap();
    anstream::adapter::strip_str(&render_pool_overview(status, extent, now)).to_string()
}

/// A pool with machines of two lines each, of which the last `unready` are not ready.
fn large_pool(machines: usize, unready: usize) -> PoolOverview {
    let machine = |number: usize| MachineOverview {
        name: format!("web-{number:03}"),
        state: if number + unready < machines { "Running" } else { "Stopped" }.into(),
        ready: number + unready < machines,
        disks: vec![DiskOverview { name: format!("disk-{number:03}"), ..DiskOverview::default() }],
        ..MachineOverview::default()
    };
    PoolOverview { machines: (0..machines).map(machine).collect(), ..status() }
}

/// The lines that begin with a name of a machine of the table.
fn table_names(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.split(' ').next()).filter(|word| word.starts_with("web-")).collect()
}

#[test]
fn a_long_list_of_machines_is_cut_and_unready_machines_come_first() {
    let pool = large_pool(60, 2);
    let text = plain_text(&pool, TextExtent::Screen);
    let names = table_names(&text);
    assert_eq!(names[..3], ["web-058", "web-059", "web-000"], "{text}");
    // Ten machines with one disk each are 20 lines. The free disk has a table of its own.
    assert_eq!(names.iter().filter(|name| **name != "web-root-x").count(), 10, "{text}");
    assert!(text.contains("\nand 50 more of 60 machines; --all shows them\n"), "{text}");
}

#[test]
fn all_machines_are_shown_on_request() {
    let text = plain_text(&large_pool(60, 15), TextExtent::Complete);
    assert_eq!(table_names(&text).iter().filter(|name| **name != "web-root-x").count(), 60, "{text}");
    assert!(!text.contains("--all"), "{text}");
    assert_eq!(text.matches("  machine web-0").count(), 15, "{text}");
}

#[test]
fn a_machine_with_many_disks_is_shown_completely() {
    let mut pool = large_pool(2, 0);
    pool.machines[0].disks = vec![DiskOverview { name: "disk-a".into(), ..DiskOverview::default() }; 30];
    let text = plain_text(&pool, TextExtent::Screen);
    assert_eq!(text.matches("disk-a").count(), 30, "{text}");
    assert!(text.contains("and 1 more of 2 machines"), "{text}");
}

#[test]
fn a_long_list_of_free_disks_is_cut() {
    let mut status = status();
    let disk = |number| DiskOverview { name: format!("web-root-{number}"), ..DiskOverview::default() };
    status.free_disks = (0..60).map(disk).collect();
    let lines = |extent| {
        let text = plain_text(&status, extent);
        (text.lines().filter(|line| line.starts_with("web-root-")).count(), text)
    };
    let (shown, text) = lines(TextExtent::Screen);
    assert!(shown == 10 && text.contains("\nand 50 more of 60 free disks; --all shows them\n"), "{text}");
    let (shown, text) = lines(TextExtent::Complete);
    assert!(shown == 60 && !text.contains("free disks; --all"), "{text}");
}

#[test]
fn many_unready_machines_are_counted() {
    let text = plain_text(&large_pool(60, 15), TextExtent::Screen);
    assert_eq!(text.matches("  machine web-0").count(), 10, "{text}");
    assert!(text.contains("  and 5 more; --all shows them\n"), "{text}");
}

#[test]
fn what_needs_attention_is_above_the_machines() {
    let unobserved = Some(UnobservedSpec { generation: 4, observed: Some(3), since: None });
    let pool = PoolOverview { unobserved, ..status() };
    let text = plain_text(&pool, TextExtent::Screen);
    assert!(text.starts_with("Pool web in namespace team-a (DVP): NotObserved (was RollingOut)\n"), "{text}");
    let places: Vec<usize> = [
        "\nCauses\n  generation 4 of the pool is not observed: state and conditions are those of generation 3; `kubectl \
         vmpool doctor` checks whether a controller works\n  ReplicaFailure=True",
        "\nWaiting for\n",
        "\nNot ready\n  machine web-b9q4m: Pending, created 10m ago: no class generic\n",
        "\nConditions\n  Synced=False",
        "\nMACHINE ",
        "\nEvents\n",
    ]
    .iter()
    .map(|part| text.find(part).unwrap_or_else(|| panic!("{part} is missing:\n{text}")))
    .collect();
    assert!(places.is_sorted(), "{text}");
}

#[test]
fn a_message_of_several_conditions_is_one_cause() {
    let mut pool = status();
    let stalled = ShownCondition { kind: "Stalled".into(), ..pool.conditions[1].clone() };
    pool.conditions.push(stalled);
    let text = plain_text(&pool, TextExtent::Screen);
    let (causes, conditions) = text.split_once("\nConditions\n").unwrap();
    assert_eq!(causes.matches("machine web-b9q4m: quota").count(), 1, "{text}");
    assert!(conditions.contains("Stalled=True"), "{text}");
}

#[test]
fn published_counters_are_shown_if_they_differ() {
    let pool = PoolOverview { published: Some(PublishedCounters { replicas: 4, ready: 3 }), ..status() };
    let text = plain_text(&pool, TextExtent::Screen);
    assert!(
        text.contains("\n  Published 4 exist, 3 ready, in the last status of the controller\n"),
        "{text}"
    );
}

#[test]
fn a_claim_shows_the_id_that_releases_it() {
    let mut pool = status();
    pool.machines[0].protection = Some(ProtectionStatus {
        until: Some(Timestamp::from_second(8200).unwrap()),
        by: Some("jo".into()),
        claimed: true,
        id: Some("job-4711".into()),
        ..ProtectionStatus::default()
    });
    let text = plain_text(&pool, TextExtent::Screen);
    assert!(text.contains("claimed as job-4711 until 1970-01-01T02:16:40Z (60m) by jo"), "{text}");
}

#[test]
fn a_draining_machine_shows_its_hooks_and_its_deadline() {
    let mut pool = status();
    pool.draining = 1;
    pool.machines[0].drain = Some(DrainStatus {
        step: "its deletion in a scale-down",
        deadline: Some(Timestamp::from_second(8200).unwrap()),
        hooks: vec!["job".into()],
    });
    let text = plain_text(&pool, TextExtent::Screen);
    assert!(text.contains(", 1 draining\n"), "{text}");
    let note = "drains before its deletion in a scale-down, waits for job, until 1970-01-01T02:16:40Z";
    assert!(text.contains(note), "{text}");
}

#[test]
fn a_standby_machine_is_counted_apart_and_is_not_called_unready() {
    let mut pool = status();
    (pool.standby, pool.ready_standby) = (2, 1);
    pool.machines[0].ready = false;
    pool.machines[0].standby = Some("stopped");
    let text = plain_text(&pool, TextExtent::Screen);
    assert!(text.contains(", 1 of 2 standby machines ready\n"), "{text}");
    assert!(text.contains("standby machine, stopped"), "{text}");
    assert!(!text.contains(&format!("machine {}: ", pool.machines[0].name)), "{text}");
}

#[test]
fn machines_from_an_earlier_image_are_counted() {
    let mut pool = status();
    pool.image_outdated = 2;
    let text = plain_text(&pool, TextExtent::Screen);
    assert!(text.contains(", 2 from an earlier image\n"), "{text}");
}

#[test]
fn a_machine_shows_the_request_to_replace_it() {
    let mut pool = status();
    let requested = Some(Timestamp::from_second(8200).unwrap());
    pool.machines[0].recycling = Some(RecyclingStatus { requested, claims: 2 });
    pool.machines[1].recycling = Some(RecyclingStatus { requested: None, claims: 2 });
    let text = plain_text(&pool, TextExtent::Screen);
    let note = "its replacement was requested at";
    assert_eq!(text.matches(note).count(), 1, "{text}");
    assert!(text.contains(&format!("{note} 1970-01-01T02:16:40Z")), "{text}");
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
        machine.protection = Some(ProtectionStatus {
            by: foreign(),
            reason: foreign(),
            id: foreign(),
            ..ProtectionStatus::default()
        });
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
    let text = render_pool_overview(&status, TextExtent::Screen, Timestamp::from_second(4600).unwrap());
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
    assert_eq!(
        plain_text(&empty, TextExtent::Screen),
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

#[test]
fn a_silent_leader_is_the_first_cause_and_the_state_is_not_green() {
    let leader = LeaderState::Silent { holder: "a".into(), renewed: Timestamp::from_second(4000).unwrap() };
    let pool = PoolOverview { state: "Ready".into(), leader: Some(leader), ..status() };
    let styled = render_pool_overview(&pool, TextExtent::Screen, Timestamp::from_second(4600).unwrap());
    assert!(styled.contains(&Tone::Notice.paint("Ready")), "{styled}");
    let text = plain_text(&pool, TextExtent::Screen);
    assert!(
        text.contains("\nCauses\n  the leader a has been silent for 10m: state and conditions"),
        "{text}"
    );
}
