use proptest::prelude::*;
use rstest::rstest;

use super::*;

fn id(name: &str) -> ObjectId {
    ObjectId::new(name, &format!("uid-{name}"))
}

fn ids(names: &[&str]) -> Vec<ObjectId> {
    names.iter().map(|name| id(name)).collect()
}

fn uids(names: &[&str]) -> BTreeSet<Uid> {
    names.iter().map(|name| id(name).uid).collect()
}

fn reserved(requests: &[(&str, &[&str])]) -> RemovalRecord {
    let mut record = RemovalRecord::default();
    for (request, names) in requests {
        record.reserve(request, &ids(names)).unwrap();
    }
    record
}

fn names<'a>(targets: impl Iterator<Item = &'a ObjectId>) -> Vec<&'a str> {
    targets.map(|target| &*target.name).collect()
}

#[test]
fn the_annotation_reads_as_agreed() {
    let mut record = reserved(&[("r1", &["a"]), ("r2", &["b"])]);
    record.accept("r1");
    let text = r#"[{"name":"a","uid":"uid-a"},{"name":"b","uid":"uid-b","reserved":"r2"}]"#;
    assert_eq!(record.to_string(), text);
    assert_eq!(RemovalRecord::parse(text), Ok(record));
}

#[rstest]
#[case::an_empty_list("[]", &[])]
#[case::no_text("", &[])]
#[case::blanks(" \n", &[])]
#[case::fields_of_a_later_version(r#"[{"name":"a","uid":"u","for":"carol","at":{"x":[1]}}]"#, &["a"])]
#[case::a_repeated_entry(r#"[{"name":"a","uid":"u"},{"name":"a","uid":"u"}]"#, &["a"])]
#[case::a_repeated_uid_under_another_name(r#"[{"name":"a","uid":"u"},{"name":"b","uid":"u"}]"#, &["a"])]
#[case::escapes(r#"[{"name":"\u0061","uid":"u"}]"#, &["a"])]
fn a_lenient_reading(#[case] text: &str, #[case] accepted: &[&str]) {
    assert_eq!(names(RemovalRecord::parse(text).unwrap().accepted()), accepted);
}

#[rstest]
#[case::not_a_list("{}")]
#[case::null("null")]
#[case::no_uid(r#"[{"name":"a"}]"#)]
#[case::no_name(r#"[{"uid":"a"}]"#)]
#[case::an_empty_uid(r#"[{"name":"a","uid":""}]"#)]
#[case::an_empty_name(r#"[{"name":"","uid":"u"}]"#)]
#[case::an_empty_reservation(r#"[{"name":"a","uid":"u","reserved":""}]"#)]
#[case::a_reservation_that_is_null(r#"[{"name":"a","uid":"u","reserved":null}]"#)]
#[case::a_reservation_that_is_a_number(r#"[{"name":"a","uid":"u","reserved":1}]"#)]
#[case::half_a_record(r#"[{"name":"a","uid":"u"}"#)]
#[case::more_than_a_record("[] []")]
fn what_is_no_record_is_refused(#[case] text: &str) {
    assert!(RemovalRecord::parse(text).is_err());
}

#[test]
fn a_target_that_is_named_twice_counts_once() {
    let mut record = reserved(&[("r", &["a", "b", "a"])]);
    record.reserve("r", &ids(&["b"])).unwrap();
    assert_eq!(record.entries().len(), 2);
    assert_eq!(record.accept("r"), 2);
}

#[test]
fn accepting_twice_counts_once() {
    let mut record = reserved(&[("r", &["a", "b"])]);
    assert_eq!((record.accept("r"), record.accept("r")), (2, 0));
    assert_eq!(names(record.accepted()), ["a", "b"]);
}

#[test]
fn of_two_requests_for_one_machine_only_the_first_to_accept_counts() {
    let mut record = reserved(&[("r1", &["a", "b"]), ("r2", &["b", "c"])]);
    assert_eq!(names(record.reserved()), ["a", "b", "c"]);
    assert_eq!(record.accept("r2"), 2);
    assert_eq!(names(record.reserved()), ["a"]);
    assert_eq!(record.accept("r1"), 1);
    assert_eq!(names(record.reserved()), Vec::<&str>::new());
    assert_eq!(record.accepted().count(), 3);
}

#[test]
fn withdrawing_takes_nothing_from_others() {
    let mut record = reserved(&[("r1", &["a", "b"]), ("r2", &["b"])]);
    record.withdraw("r1");
    assert!(!record.holds("r1", &id("b").uid) && record.holds("r2", &id("b").uid));
    assert_eq!(names(record.reserved()), ["b"]);
    assert_eq!(record.accept("r2"), 1);
    record.withdraw("r2");
    assert!(record.is_accepted(&id("b").uid));
}

#[test]
fn an_accepted_target_that_is_reserved_again_is_not_counted_as_present() {
    let mut record = reserved(&[("r1", &["a"])]);
    record.accept("r1");
    record.reserve("r2", &ids(&["a"])).unwrap();
    assert_eq!(record.reserved().count(), 0);
    assert_eq!(record.requests().len(), 1);
    assert_eq!(record.accept("r2"), 0);
}

#[test]
fn an_entry_stays_until_no_request_could_count_it_again() {
    let mut record = reserved(&[("r1", &["a", "b"]), ("r2", &["a"])]);
    record.accept("r1");
    assert_eq!(names(record.may_leave()), ["b"]);
    record.prune(&uids(&["a", "b"]));
    assert_eq!(record.accept("r2"), 0, "the machine is gone, and its removal was counted");
    record.prune(&uids(&["a"]));
    assert!(record.is_empty());
}

#[test]
fn a_reservation_is_not_settled_by_the_machine_being_gone() {
    let mut record = reserved(&[("r", &["a"])]);
    record.prune(&uids(&["a"]));
    assert_eq!(names(record.reserved()), ["a"]);
}

#[test]
fn there_is_room_for_a_thousand_entries_and_a_refusal_changes_nothing() {
    let many: Vec<ObjectId> = (0..LIMIT).map(|number| id(&format!("web-{number}"))).collect();
    let mut record = RemovalRecord::default();
    record.reserve("r1", &many).unwrap();
    let before = record.clone();
    let full = record.reserve("r2", &ids(&["a"])).unwrap_err();
    assert_eq!(full.entries, LIMIT + 1);
    assert_eq!(record, before);
    assert_eq!(record.reserve("r1", &many), Ok(()), "a repeated reservation needs no room");
    assert_eq!(record.accept("r1"), LIMIT);
}

#[test]
fn long_names_leave_room_for_other_annotations() {
    let many: Vec<ObjectId> = (0..LIMIT).map(|number| id(&format!("{}-{number}", "x".repeat(250)))).collect();
    let mut record = RemovalRecord::default();
    assert!(record.reserve("r", &many).unwrap_err().bytes > LIMIT_BYTES);
    assert!(record.is_empty());
    // Machines with names of the maximum length fit.
    let many: Vec<ObjectId> =
        (0..LIMIT).map(|number| ObjectId::new(&format!("{number:063}"), &format!("{number:036}"))).collect();
    assert_eq!(record.reserve(&"r".repeat(36), &many), Ok(()));
}

/// The requester of each entry.
fn askers(record: &RemovalRecord) -> Vec<Option<&str>> {
    record.entries().iter().map(|entry| entry.by.as_deref()).collect()
}

#[test]
fn a_name_is_written_once_for_the_entries_that_follow_it() {
    let mut record = RemovalRecord::default();
    record.reserve_for("jane", "r1", &ids(&["a", "b"])).unwrap();
    record.reserve("r2", &ids(&["c"])).unwrap();
    record.reserve_for("carol", "r3", &ids(&["b", "d"])).unwrap();
    let text = concat!(
        r#"[{"name":"a","uid":"uid-a","reserved":"r1","by":"jane"},{"name":"b","uid":"uid-b","reserved":"r1"},"#,
        r#"{"name":"c","uid":"uid-c","reserved":"r2","by":""},"#,
        r#"{"name":"b","uid":"uid-b","reserved":"r3","by":"carol"},{"name":"d","uid":"uid-d","reserved":"r3"}]"#,
    );
    assert_eq!(record.to_string(), text);
    assert_eq!(RemovalRecord::parse(text), Ok(record.clone()));
    // The request that is accepted first becomes the requester, and a requester stays with its entries when
    // other entries are removed.
    assert_eq!((record.accept("r3"), record.accept("r1")), (2, 1));
    record.prune(&uids(&["a"]));
    assert_eq!(askers(&record), [None, Some("carol"), Some("carol")]);
    assert_eq!(RemovalRecord::parse(&record.to_string()), Ok(record));
}

#[test]
fn a_record_of_an_earlier_version_has_no_users_and_accepts_users() {
    let mut record =
        RemovalRecord::parse(r#"[{"name":"a","uid":"uid-a"},{"name":"b","uid":"uid-b"}]"#).unwrap();
    record.reserve_for("jane", "r", &ids(&["c"])).unwrap();
    assert_eq!(askers(&record), [None, None, Some("jane")]);
}

#[test]
fn the_largest_record_has_space_for_users_with_the_longest_names() {
    let many: Vec<ObjectId> =
        (0..LIMIT).map(|number| ObjectId::new(&format!("{number:063}"), &format!("{number:036}"))).collect();
    let mut record = RemovalRecord::default();
    let user = "\u{e9}".repeat(4000);
    assert_eq!(record.reserve_for(&user, &"r".repeat(36), &many), Ok(()));
    let kept = record.entries()[LIMIT - 1].by.as_deref().unwrap();
    assert!(user.starts_with(kept) && (LIMIT_NAME - 3..=LIMIT_NAME).contains(&kept.len()), "{}", kept.len());
    assert!(record.to_string().len() <= LIMIT_BYTES);
}

/// Many different requesters are no reason to refuse an entry.
#[test]
fn names_that_there_is_no_room_for_are_left_out() {
    const BEFORE: usize = LIMIT - 200;
    let target = |number: usize| ObjectId::new(&format!("{number:063}"), &format!("{number:036}"));
    let mut record = RemovalRecord::default();
    let before: Vec<ObjectId> = (0..BEFORE).map(target).collect();
    assert_eq!(record.reserve(&format!("{:016}", 0), &before), Ok(()));
    for number in BEFORE..LIMIT {
        let (user, request) = (format!("{number:0250}"), format!("{number:016}"));
        assert_eq!(record.reserve_for(&user, &request, &[target(number)]), Ok(()), "{number}");
    }
    assert!(record.to_string().len() <= LIMIT_BYTES);
    assert!(askers(&record)[BEFORE].is_some() && askers(&record)[LIMIT - 1].is_none());
}

/// An operation on a record.
#[derive(Clone, Debug)]
enum Event {
    Reserve(u8, Vec<u8>),
    Withdraw(u8),
    Accept(u8),
    Settle(Vec<u8>),
}

fn event() -> impl Strategy<Value = Event> {
    let targets = || prop::collection::vec(0u8..5, 0..4);
    prop_oneof![
        (0u8..3, targets()).prop_map(|(request, targets)| Event::Reserve(request, targets)),
        (0u8..3).prop_map(Event::Withdraw),
        (0u8..3).prop_map(Event::Accept),
        targets().prop_map(Event::Settle),
    ]
}

fn numbered(targets: &[u8]) -> Vec<ObjectId> {
    targets.iter().map(|target| id(&format!("m\"\\\u{e9}{target}"))).collect()
}

proptest! {
    #[test]
    fn what_is_written_reads_back_and_each_target_counts_once(
        events in prop::collection::vec(event(), 0..30),
    ) {
        let mut record = RemovalRecord::default();
        for event in events {
            let accepted: BTreeSet<Uid> = record.accepted().map(|target| target.uid.clone()).collect();
            match event {
                Event::Reserve(request, targets) => {
                    let user = ["", "jane", "c\"arol"][usize::from(request)];
                    record.reserve_for(user, &format!("r{request}"), &numbered(&targets)).unwrap();
                }
                Event::Withdraw(request) => record.withdraw(&format!("r{request}")),
                Event::Accept(request) => {
                    let request = format!("r{request}");
                    let held: BTreeSet<Uid> = record
                        .entries()
                        .iter()
                        .map(|entry| entry.target.uid.clone())
                        .filter(|uid| record.holds(&request, uid))
                        .collect();
                    prop_assert_eq!(record.accept(&request), held.difference(&accepted).count());
                    prop_assert!(held.iter().all(|uid| record.is_accepted(uid) && !record.holds(&request, uid)));
                }
                Event::Settle(targets) => {
                    record.prune(&numbered(&targets).into_iter().map(|target| target.uid).collect());
                }
            }
            prop_assert_eq!(RemovalRecord::parse(&record.to_string()), Ok(record.clone()));
            let distinct: BTreeSet<&Uid> = record.accepted().map(|target| &target.uid).collect();
            prop_assert_eq!(distinct.len(), record.accepted().count());
            prop_assert!(record.reserved().all(|target| !record.is_accepted(&target.uid)));
        }
    }

    #[test]
    fn no_text_makes_it_panic(text in ".*") {
        let _ = RemovalRecord::parse(&text);
    }

    #[test]
    fn no_json_makes_it_panic(text in r#"\[(\{"(name|uid|reserved|x)":("[a-c]?"|null|1)(,"(name|uid|reserved|by)":("[a-c]?"|null|1)){0,3}\},?){0,3}\]"#) {
        if let Ok(record) = RemovalRecord::parse(&text) {
            prop_assert_eq!(RemovalRecord::parse(&record.to_string()), Ok(record));
        }
    }
}
