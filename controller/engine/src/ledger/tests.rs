use std::collections::{BTreeMap, BTreeSet};

use rstest::rstest;

use super::*;
use crate::testing::{own_disk, running_machine};

/// The cache content that a test sets.
#[derive(Default)]
struct Shown {
    objects: BTreeMap<String, VersionedFacts<Machine>>,
    deleted: BTreeSet<Uid>,
    relist_began: Option<Duration>,
}

impl LedgerCache<Machine> for Shown {
    fn get(&self, name: &str) -> Option<VersionedFacts<Machine>> {
        self.objects.get(name).cloned()
    }
    fn saw_deleted(&self, uid: &Uid) -> bool {
        self.deleted.contains(uid)
    }
    fn relisted_since(&self, uptime: Duration) -> bool {
        self.relist_began.is_some_and(|began| began > uptime)
    }
}

/// The time of all writes.
const AT: Duration = Duration::from_secs(10);
const VERSION: u64 = 50;

fn web_a(uid: &str, terminating: bool) -> Machine {
    Machine { id: ObjectId::new("web-a", uid), terminating, ..running_machine("web-a", 1) }
}

fn seen(uid: &str, version: u64) -> VersionedFacts<Machine> {
    VersionedFacts { facts: Arc::new(web_a(uid, false)), version }
}

fn dying(uid: &str, version: u64) -> VersionedFacts<Machine> {
    VersionedFacts { facts: Arc::new(web_a(uid, true)), version }
}

fn nothing() -> Shown {
    Shown::default()
}

fn showing(object: VersionedFacts<Machine>) -> Shown {
    Shown { objects: [("web-a".into(), object)].into(), ..nothing() }
}

fn saw_deleted(uid: &str) -> Shown {
    Shown { deleted: [Uid::from(uid)].into(), ..nothing() }
}

fn relist_that_began(seconds: u64) -> Shown {
    Shown { relist_began: Some(Duration::from_secs(seconds)), ..nothing() }
}

fn unknown() -> Ledger<Machine> {
    let mut ledger = Ledger::default();
    ledger.create_unconfirmed(&"web-a".into(), 7, AT);
    ledger
}

fn written() -> Ledger<Machine> {
    let mut ledger = Ledger::default();
    ledger.written(seen("u1", VERSION), AT);
    ledger
}

fn deleted() -> Ledger<Machine> {
    let mut ledger = Ledger::default();
    ledger.deleted(&web_a("u1", false), AT);
    ledger
}

/// A create and a deletion that the cache has not shown.
fn written_and_deleted() -> Ledger<Machine> {
    let mut ledger = written();
    ledger.deleted(&web_a("u1", false), AT);
    ledger
}

/// The deletion of another object of the same name as a created one.
fn another_deleted() -> Ledger<Machine> {
    let mut ledger = written();
    ledger.deleted(&web_a("u2", false), AT);
    ledger
}

fn gone() -> Ledger<Machine> {
    let mut ledger = deleted();
    ledger.gone(&ObjectId::new("web-a", "u1"));
    ledger
}

#[rstest]
#[case::an_unknown_create_stays_while_nothing_is_seen(unknown(), nothing(), true)]
#[case::an_unknown_create_outlives_a_relist(unknown(), relist_that_began(11), true)]
#[case::an_unknown_create_leaves_when_its_name_is_seen(unknown(), showing(seen("u9", 1)), false)]
#[case::plain_absence_is_not_gone(written(), nothing(), true)]
#[case::an_older_version_is_not_news(written(), showing(seen("u1", VERSION - 1)), true)]
#[case::the_written_version_settles(written(), showing(seen("u1", VERSION)), false)]
#[case::a_newer_version_settles(written(), showing(seen("u1", VERSION + 1)), false)]
#[case::an_earlier_object_of_the_name_says_nothing(written(), showing(seen("u0", VERSION - 1)), true)]
#[case::a_later_object_of_the_name_replaced_it(written(), showing(seen("u2", VERSION + 1)), false)]
#[case::a_watch_event_said_deleted(written(), saw_deleted("u1"), false)]
#[case::the_deletion_of_another_uid_says_nothing(written(), saw_deleted("u0"), true)]
#[case::absent_after_a_relist_that_began_later(written(), relist_that_began(11), false)]
#[case::a_relist_that_began_before_the_answer_says_nothing(written(), relist_that_began(10), true)]
#[case::a_deletion_stays_while_the_object_looks_alive(deleted(), showing(seen("u1", VERSION)), true)]
#[case::a_deletion_leaves_when_the_object_is_terminating(deleted(), showing(dying("u1", VERSION)), false)]
#[case::absence_alone_does_not_settle_a_deletion(deleted(), nothing(), true)]
#[case::a_watch_event_settles_a_deletion(deleted(), saw_deleted("u1"), false)]
#[case::a_later_relist_settles_a_deletion(deleted(), relist_that_began(11), false)]
#[case::a_deletion_leaves_when_the_name_has_a_new_owner(deleted(), showing(seen("u2", VERSION)), false)]
#[case::created_and_deleted_unseen_stays(written_and_deleted(), showing(seen("u0", VERSION - 1)), true)]
#[case::created_and_deleted_and_replaced_leaves(written_and_deleted(), showing(seen("u2", VERSION + 1)), false)]
#[case::what_was_written_as_another_says_nothing(another_deleted(), showing(seen("u3", VERSION - 1)), false)]
#[case::gone_stays_while_the_cache_shows_it(gone(), showing(seen("u1", VERSION)), true)]
#[case::gone_stays_while_the_cache_shows_it_terminating(gone(), showing(dying("u1", VERSION)), true)]
#[case::gone_leaves_with_the_watch_event(gone(), saw_deleted("u1"), false)]
#[case::gone_leaves_with_a_relist(gone(), relist_that_began(11), false)]
#[case::gone_leaves_when_the_name_returns(gone(), showing(seen("u2", VERSION)), false)]
fn what_the_cache_settles(#[case] mut ledger: Ledger<Machine>, #[case] cache: Shown, #[case] stays: bool) {
    ledger.settle(&cache);
    assert_eq!(!ledger.is_empty(), stays);
    assert_eq!(ledger.len(), usize::from(stays));
    assert_eq!(ledger.oldest(), stays.then_some(AT));
}

/// `(uid, terminating)` of the objects of a snapshot with the ledger applied.
fn overlaid(ledger: &Ledger<Machine>, snapshot: &[VersionedFacts<Machine>]) -> Vec<(String, bool)> {
    let mut snapshot: Vec<Arc<Machine>> = snapshot.iter().map(|seen| seen.facts.clone()).collect();
    ledger.overlay(&mut snapshot);
    snapshot.iter().map(|facts| (facts.id.uid.to_string(), facts.terminating)).collect()
}

#[rstest]
#[case::nothing_is_laid_over(Ledger::default(), &[seen("u1", 1)], &[("u1", false)])]
#[case::a_lost_answer_is_no_object(unknown(), &[], &[])]
#[case::a_create_is_there_at_once(written(), &[], &[("u1", false)])]
#[case::a_patch_replaces_what_is_shown(written(), &[dying("u1", VERSION - 1)], &[("u1", false)])]
#[case::a_create_hides_the_earlier_object_of_its_name(written(), &[seen("u0", VERSION - 1)], &[("u1", false)])]
#[case::a_deletion_shows_at_once(deleted(), &[seen("u1", VERSION)], &[("u1", true)])]
#[case::a_deleted_machine_counts_until_the_cache_shows_the_deletion(written_and_deleted(), &[], &[("u1", true)])]
#[case::what_is_gone_is_hidden(gone(), &[seen("u1", VERSION)], &[])]
#[case::another_object_of_the_name_is_not(gone(), &[seen("u2", VERSION)], &[("u2", false)])]
fn what_is_laid_over_a_snapshot(
    #[case] ledger: Ledger<Machine>,
    #[case] snapshot: &[VersionedFacts<Machine>],
    #[case] expected: &[(&str, bool)],
) {
    let expected: Vec<(String, bool)> = expected.iter().map(|(uid, dying)| ((*uid).into(), *dying)).collect();
    assert_eq!(overlaid(&ledger, snapshot), expected);
    let known = ledger.get("web-a").map(|facts| facts.id.uid.as_str());
    assert!(known.is_none_or(|uid| expected.iter().any(|(expected, _)| expected == uid)));
}

#[rstest]
#[case::repeated_and_answered(|ledger: &mut Ledger<Machine>| ledger.written(seen("u1", VERSION), AT), 0, 1)]
#[case::repeated_and_lost_again(|ledger: &mut Ledger<Machine>| ledger.create_unconfirmed(&"web-a".into(), 7, AT * 2), 1, 1)]
#[case::a_foreign_object_has_the_name(|ledger: &mut Ledger<Machine>| assert!(ledger.name_taken("web-a")), 0, 0)]
#[case::a_foreign_object_has_another_name(|ledger: &mut Ledger<Machine>| assert!(!ledger.name_taken("web-b")), 1, 1)]
fn how_a_lost_answer_ends(
    #[case] event: fn(&mut Ledger<Machine>),
    #[case] unconfirmed_creates: usize,
    #[case] entries: usize,
) {
    let mut ledger = unknown();
    event(&mut ledger);
    assert_eq!((ledger.unconfirmed_creates().len(), ledger.len()), (unconfirmed_creates, entries));
}

#[test]
fn an_unconfirmed_create_has_its_number_and_its_last_attempt() {
    let mut ledger = unknown();
    ledger.create_unconfirmed(&"web-a".into(), 7, AT * 3);
    assert_eq!(
        ledger.unconfirmed_creates(),
        [UnconfirmedCreate { name: "web-a".into(), number: 7, since: AT * 3, standby: false }]
    );
}

#[test]
fn a_refusal_forgets_only_lost_answers() {
    let mut ledger = written();
    ledger.name_taken("web-a");
    assert_eq!(ledger.len(), 1);
}

#[test]
fn what_is_gone_under_another_uid_stays() {
    let mut ledger = written();
    ledger.gone(&ObjectId::new("web-a", "u0"));
    assert_eq!(overlaid(&ledger, &[]), [("u1".to_string(), false)]);
}

#[rstest]
#[case::an_answered_create(written(), SAFETY_AGE)]
#[case::a_deletion(deleted(), SAFETY_AGE)]
#[case::something_gone(gone(), SAFETY_AGE)]
#[case::a_lost_answer_may_be_committed_for_longer(unknown(), REQUEST_TIMEOUT)]
fn an_entry_that_grows_old_asks_for_a_live_read(#[case] ledger: Ledger<Machine>, #[case] limit: Duration) {
    assert_eq!(ledger.overdue((AT + limit).saturating_sub(Duration::from_millis(1))), [""; 0].map(Arc::from));
    assert_eq!(ledger.overdue(AT + limit), ["web-a"].map(Arc::from));
}

const LATER: Duration = Duration::from_secs(100);

#[rstest]
#[case::a_written_object_is_there_and_newer(written(), Some(seen("u1", 60)), &[], &[("u1", false)])]
#[case::a_written_object_is_terminating(written(), Some(dying("u1", 60)), &[], &[("u1", true)])]
#[case::a_written_object_is_not_there(written(), None, &[seen("u1", VERSION)], &[])]
#[case::a_written_object_was_replaced(written(), Some(seen("u2", 60)), &[seen("u1", VERSION)], &[])]
#[case::a_deletion_left_its_trace(deleted(), Some(dying("u1", 60)), &[seen("u1", VERSION)], &[("u1", true)])]
#[case::a_deletion_never_happened(deleted(), Some(seen("u1", 60)), &[seen("u1", VERSION)], &[("u1", false)])]
#[case::a_deleted_object_is_not_there(deleted(), None, &[seen("u1", VERSION)], &[])]
#[case::a_deleted_object_was_replaced(deleted(), Some(seen("u2", 60)), &[seen("u1", VERSION)], &[])]
#[case::a_lost_create_had_succeeded(unknown(), Some(seen("u1", 60)), &[], &[("u1", false)])]
#[case::a_lost_create_is_impossible_by_now(unknown(), None, &[], &[])]
#[case::something_gone_is_still_shown(gone(), None, &[seen("u1", VERSION)], &[])]
fn how_a_live_read_settles(
    #[case] mut ledger: Ledger<Machine>,
    #[case] live: Option<VersionedFacts<Machine>>,
    #[case] snapshot: &[VersionedFacts<Machine>],
    #[case] expected: &[(&str, bool)],
) {
    ledger.resolve("web-a", live, LATER);
    let expected: Vec<(String, bool)> = expected.iter().map(|(uid, dying)| ((*uid).into(), *dying)).collect();
    assert_eq!(overlaid(&ledger, snapshot), expected);
    assert_eq!(ledger.overdue(LATER), [""; 0].map(Arc::from), "no live read soon after a live read");
}

#[test]
fn gone_is_forgotten_when_neither_the_cache_nor_a_live_read_shows_it() {
    let mut ledger = gone();
    ledger.settle(&showing(seen("u1", VERSION)));
    ledger.resolve("web-a", None, LATER);
    assert_eq!(ledger.len(), 1, "the cache still shows it");
    ledger.settle(&nothing());
    ledger.resolve("web-a", None, LATER);
    assert!(ledger.is_empty());
}

#[test]
fn a_live_read_of_a_settled_name_changes_nothing() {
    let mut ledger = Ledger::default();
    ledger.resolve("web-a", Some(seen("u1", VERSION)), LATER);
    assert!(ledger.is_empty());
    assert_eq!(ledger.oldest(), None);
}

/// The cache may not show the machine yet when its activation is sent.
#[test]
fn an_unconfirmed_activation_of_a_machine_that_the_cache_does_not_show_counts() {
    let mut ledger = written();
    let id = seen("u1", VERSION).facts.id.clone();
    ledger.activation_unconfirmed(&id, LATER);
    ledger.activation_unconfirmed(&id, LATER);
    ledger.settle(&nothing());
    assert!(ledger.is_activation_unconfirmed(&id));
    assert_eq!(overlaid(&ledger, &[]), [("u1".to_owned(), false)]);
    assert_eq!(overlaid(&ledger, &[seen("u1", VERSION - 1)]), [("u1".to_owned(), false)]);
    ledger.settle(&showing(seen("u1", VERSION + 1)));
    assert!(ledger.is_empty(), "the cache shows an active machine");
}

#[test]
fn disks_are_tracked_like_machines() {
    let disk = own_disk("web-a-root", &running_machine("web-a", 1));
    let mut ledger = Ledger::default();
    ledger.written(VersionedFacts { facts: Arc::new(disk.clone()), version: VERSION }, AT);
    assert_eq!(ledger.get("web-a-root").map(|disk| disk.terminating), Some(false));
    assert!(!LedgerFacts::is_terminating(&disk));
    ledger.deleted(&disk, AT);
    assert_eq!(ledger.get("web-a-root").map(|disk| disk.terminating), Some(true));
    assert!(
        ledger.get("web-a-root").is_some_and(|disk| disk.is_terminating() && disk.id().name == disk.id.name)
    );
}

#[test]
fn reports_when_its_first_entry_is_due() {
    let mut ledger = Ledger::default();
    assert_eq!(ledger.due_in(Duration::ZERO), None);
    let machine = crate::testing::running_machine("web-a", 1);
    ledger.written(VersionedFacts { facts: Arc::new(machine), version: 5 }, Duration::from_secs(10));
    ledger.create_unconfirmed(&"web-b".into(), 7, Duration::from_secs(1));
    assert_eq!(ledger.due_in(Duration::from_secs(20)), Some(Duration::from_secs(20)));
    assert_eq!(ledger.due_in(Duration::from_secs(40)), Some(Duration::ZERO));
    assert_eq!(ledger.overdue(Duration::from_secs(40)), [Arc::from("web-a")]);
}

#[test]
fn only_what_the_server_answered_with_has_a_version() {
    let mut ledger = Ledger::default();
    assert!(ledger.written_as("web-a").is_none());
    ledger.create_unconfirmed(&"web-a".into(), 0, AT);
    assert!(ledger.written_as("web-a").is_none());
    ledger.written(seen("a", VERSION), AT);
    assert_eq!(ledger.written_as("web-a").map(|seen| seen.version), Some(VERSION));
    ledger.deleted(&web_a("a", false), AT);
    assert!(ledger.written_as("web-a").is_none(), "a terminating object is not deleted again");
}
