use rstest::rstest;
use vmpool_engine::limits;
use vmpool_platforms::DefaultWording;

use super::*;

fn event(reason: EventReason, number: usize, note: &str) -> PoolEvent {
    PoolEvent { reason, name: format!("web-{number}"), note: note.to_owned() }
}

fn created(count: usize) -> Vec<PoolEvent> {
    (0..count)
        .map(|number| event(EventReason::SuccessfulCreate, number, &format!("created machine web-{number}")))
        .collect()
}

#[rstest]
#[case::none(0, 0)]
#[case::few(3, 3)]
#[case::as_many_as_stand_alone(10, 10)]
#[case::one_more(11, 11)]
#[case::a_hundred(100, 11)]
fn up_to_ten_events_are_single_and_the_rest_is_a_summary(#[case] happened: usize, #[case] told: usize) {
    let notes = condense_events(created(happened));
    assert_eq!(notes.len(), told);
    for (number, (_, note)) in notes.iter().take(INDIVIDUAL).enumerate() {
        assert_eq!(*note, format!("created machine web-{number}"));
    }
}

#[test]
fn the_rest_lists_the_names() {
    let notes = condense_events(created(13));
    assert_eq!(
        notes[10],
        (
            EventReason::SuccessfulCreate,
            "and 3 more, the first: created machine web-10; all: web-10, web-11, web-12".to_owned()
        )
    );
}

#[test]
fn the_rest_contains_a_cause_and_the_names_although_the_cause_is_long() {
    let cause = format!("creating machine: {}", "é".repeat(400));
    let failed = (0..13).map(|n| event(EventReason::FailedCreate, n, &format!("{n} {cause}"))).collect();
    let (_, note) = condense_events(failed).remove(INDIVIDUAL);
    assert!(note.starts_with("and 3 more, the first: 10 creating machine: é"), "{note}");
    assert!(note.ends_with("; all: web-10, web-11, web-12"), "{note}");
}

#[test]
fn each_reason_has_ten_single_events() {
    let mut events = created(12);
    events.extend(
        (0..12).map(|n| event(EventReason::SuccessfulDelete, n, &format!("deleted machine web-{n}"))),
    );
    let notes = condense_events(events);
    let of = |reason| notes.iter().filter(|(other, _)| *other == reason).count();
    assert_eq!((of(EventReason::SuccessfulCreate), of(EventReason::SuccessfulDelete)), (11, 11));
}

#[test]
fn equal_notes_are_one_note() {
    let same = (0..50).map(|number| event(EventReason::FailedCreate, number, "exceeded quota")).collect();
    assert_eq!(condense_events(same), [(EventReason::FailedCreate, "exceeded quota".to_owned())]);
}

#[rstest]
#[case::ascii("x")]
#[case::two_bytes("é")]
#[case::three_bytes("€")]
#[case::four_bytes("😀")]
fn a_long_note_is_cut_between_two_characters(#[case] character: &str) {
    for offset in 0..4 {
        let note = format!("{}{}", "-".repeat(offset), character.repeat(2000));
        let (_, cut) = condense_events(vec![event(EventReason::FailedCreate, 0, &note)]).remove(0);
        let kept = cut.strip_suffix(" ...").unwrap();
        assert!(note.starts_with(kept));
        assert!((limits::MESSAGE - 8..=limits::MESSAGE).contains(&cut.len()), "{}", cut.len());
    }
}

#[test]
fn a_note_of_the_longest_length_is_kept() {
    let note = "x".repeat(limits::MESSAGE);
    assert_eq!(condense_events(vec![event(EventReason::FailedCreate, 0, &note)])[0].1, note);
}

#[rstest]
#[case(EventReason::SuccessfulCreate, false)]
#[case(EventReason::SuccessfulDelete, false)]
#[case(EventReason::DiskCreated, false)]
#[case(EventReason::FailedCreate, true)]
#[case(EventReason::FailedDelete, true)]
#[case(EventReason::FailedDisk, true)]
#[case(EventReason::FailedRepair, true)]
#[case(EventReason::ReservationExpired, true)]
fn failures_are_warnings(#[case] reason: EventReason, #[case] is_warning: bool) {
    let kind = pool_event_kind::<DefaultWording>(reason);
    assert_eq!((kind.is_warning, &*kind.reason), (is_warning, reason.as_str()));
}

#[test]
fn an_event_names_the_controller_and_the_action() {
    let kind = pool_event_kind::<DefaultWording>(EventReason::FailedCreate);
    assert_eq!((kind.source, kind.action), ("vmpool.dev/controller", "Create"));
}
