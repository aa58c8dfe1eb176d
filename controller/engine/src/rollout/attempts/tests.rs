use super::*;
use crate::testing::running_machine;

const R: &str = "r2";
const T0: Duration = Duration::from_secs(100);

fn revision() -> RevisionId {
    RevisionId::from(R)
}

fn seen(name: &str, edit: impl FnOnce(&mut Machine)) -> Arc<Machine> {
    let mut machine = running_machine(name, 0);
    edit(&mut machine);
    Arc::new(machine)
}

fn uid(name: &str) -> Uid {
    running_machine(name, 0).id.uid
}

#[test]
fn a_refusal_is_of_one_revision_and_ends_when_the_machine_takes_it_or_goes() {
    let mut attempts = RolloutAttempts::default();
    let machines = [seen("a", |_| {}), seen("b", |_| {}), seen("c", |_| {})];
    for machine in &machines {
        attempts.record(&machine.id.uid, &revision(), UpdateOutcome::Refused, T0);
    }
    attempts.observe(machines.iter(), T0);
    assert!(machines.iter().all(|machine| attempts.refuses(&machine.id.uid, &revision())));
    assert!(!attempts.refuses(&uid("a"), &"r3".into()));

    attempts.record(&uid("a"), &revision(), UpdateOutcome::Accepted, T0);
    let written = seen("b", |machine| machine.written = Some(revision()));
    attempts.observe([machines[0].clone(), written].iter(), T0);
    assert!(!attempts.refuses(&uid("a"), &revision()), "it accepted");
    assert!(!attempts.refuses(&uid("b"), &revision()), "the machine has the revision");
    assert!(!attempts.refuses(&uid("c"), &revision()), "it is gone");
    assert!(attempts.refused.is_empty());
}

#[test]
fn what_differs_is_known_until_the_machine_has_the_revision_or_goes() {
    let mut attempts = RolloutAttempts::default();
    let machines = [seen("a", |_| {}), seen("b", |_| {}), seen("c", |_| {})];
    for machine in &machines {
        attempts.record(&machine.id.uid, &revision(), UpdateOutcome::Differs, T0);
    }
    assert!(attempts.differs(&uid("a"), &revision()) && !attempts.differs(&uid("a"), &"r3".into()));
    assert!(!attempts.refuses(&uid("a"), &revision()), "that is no refusal");
    let written = seen("b", |machine| machine.written = Some(revision()));
    attempts.observe([machines[0].clone(), written].iter(), T0);
    assert!(attempts.differs(&uid("a"), &revision()));
    assert_eq!(attempts.differing.len(), 1, "one has it, the other is gone");
}

#[test]
fn a_lost_answer_counts_until_the_request_cannot_be_carried_out_any_more() {
    let mut attempts = RolloutAttempts::default();
    attempts.record(&uid("a"), &revision(), UpdateOutcome::Unconfirmed, T0);
    assert!(attempts.is_unconfirmed(&uid("a"), T0 + REQUEST_TIMEOUT / 2));
    assert_eq!(attempts.next_confirmed(T0 + REQUEST_TIMEOUT / 2), Some(REQUEST_TIMEOUT / 2));
    assert!(!attempts.is_unconfirmed(&uid("a"), T0 + REQUEST_TIMEOUT));
    // A later refusal does not resolve an unconfirmed update, and a later success does.
    attempts.record(&uid("a"), &revision(), UpdateOutcome::Refused, T0);
    assert!(attempts.is_unconfirmed(&uid("a"), T0));
    attempts.record(&uid("a"), &revision(), UpdateOutcome::Accepted, T0);
    assert!(!attempts.is_unconfirmed(&uid("a"), T0));
    assert_eq!(attempts.next_confirmed(T0), None);
    // An unconfirmed update expires.
    attempts.record(&uid("a"), &revision(), UpdateOutcome::Unconfirmed, T0);
    attempts.observe([seen("a", |_| {})].iter(), T0 + REQUEST_TIMEOUT);
    assert!(attempts.unconfirmed.is_empty());
}

#[test]
fn what_is_not_evaluated_is_overdue_after_ten_minutes_of_our_own_clock() {
    let mut attempts = RolloutAttempts::default();
    let changed = |name| seen(name, |machine| machine.evaluated = false);
    attempts.observe([changed("a"), seen("b", |_| {})].iter(), T0);
    let later = T0 + Duration::from_mins(4);
    attempts.observe([changed("a"), changed("b")].iter(), later);
    assert_eq!(attempts.overdue(T0 + Duration::from_secs(599)), (0, None));
    assert_eq!(attempts.next_overdue(later), Some(Duration::from_mins(6)));
    assert_eq!(attempts.overdue(T0 + Duration::from_mins(10)), (1, Some(&uid("a"))));
    assert_eq!(attempts.next_overdue(T0 + Duration::from_mins(10)), Some(Duration::from_mins(4)));
    assert_eq!(attempts.overdue(T0 + Duration::from_mins(14)), (2, Some(&uid("a"))));
    assert_eq!(attempts.next_overdue(T0 + Duration::from_mins(14)), None);

    // The attempts of an evaluated machine start again, and the attempts of a machine that left are
    // forgotten.
    attempts.observe([seen("a", |_| {}), changed("b")].iter(), T0 + Duration::from_mins(14));
    assert_eq!(attempts.overdue(T0 + Duration::from_mins(14)), (1, Some(&uid("b"))));
    let leaving = seen("b", |machine| (machine.evaluated, machine.terminating) = (false, true));
    attempts.observe([changed("a"), leaving].iter(), T0 + Duration::from_mins(15));
    assert_eq!(attempts.overdue(T0 + Duration::from_mins(15)), (0, None));
    assert_eq!(attempts.next_overdue(T0 + Duration::from_mins(15)), Some(EVALUATION_AGE));
}
