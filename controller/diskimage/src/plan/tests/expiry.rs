use rstest::rstest;

use super::*;
use crate::model::{ReferenceCounts, ReferenceList};

fn used() -> ReferenceList {
    ReferenceList {
        counts: ReferenceCounts { pools: 1, ..ReferenceCounts::default() },
        ..ReferenceList::default()
    }
}

/// A ready image with a time to live of an hour, unreferenced since the beginning.
fn unreferenced() -> ImagePassCase {
    let mut case = ImagePassCase::ready();
    case.image.ttl = Some(HOUR);
    case.image.status.unreferenced_since = Some(test_time(0));
    case.plan_into_status();
    case
}

#[rstest]
#[case::ready(ImagePassCase::ready(), true)]
#[case::failed(ImagePassCase::in_phase(ImagePhase::Failed, DiskImageReason::SyncDeadlineExceeded), true)]
#[case::queued(ImagePassCase::in_phase(ImagePhase::Queued, DiskImageReason::Queued), false)]
#[case::syncing(ImagePassCase::syncing(volume_with_transfer(Transfer::InProgress)), false)]
fn the_time_runs_after_the_first_import_has_ended(#[case] mut case: ImagePassCase, #[case] runs: bool) {
    case.image.status.unreferenced_since = None;
    assert_eq!(case.plan().status.unreferenced_since, runs.then_some(case.now));
}

#[test]
fn a_reference_stops_the_time() {
    let mut case = unreferenced().after(2 * HOUR);
    case.references = used();
    let plan = case.plan();
    assert_eq!((plan.status.unreferenced_since, plan.status.expires_at), (None, None));
    assert_eq!((plan.actions, plan.reads), (vec![], RequiredReads::default()));
}

#[test]
fn the_end_is_computed_again_if_the_time_to_live_changes() {
    let mut case = unreferenced();
    assert_eq!(case.plan().status.expires_at, Some(test_time(3600)));
    case.image.ttl = Some(2 * HOUR);
    assert_eq!(case.plan().status.expires_at, Some(test_time(7200)));
    case.image.ttl = None;
    let plan = case.plan();
    assert_eq!((plan.status.expires_at, plan.status.unreferenced_since), (None, Some(test_time(0))));
}

#[test]
fn an_image_without_a_time_to_live_is_never_removed() {
    let plan = ImagePassCase::ready().after(10_000 * HOUR).plan();
    assert_eq!((plan.actions, plan.reads, plan.again), (vec![], RequiredReads::default(), None));
}

#[test]
fn before_the_end_nothing_is_removed() {
    let plan = unreferenced().plan();
    assert_eq!((plan.actions, plan.reads), (vec![], RequiredReads::default()));
    assert_eq!(plan.again, Some(Duration::from_secs(3500)));
}

#[test]
fn at_the_end_a_list_decides() {
    let mut case = unreferenced().after(HOUR);
    let plan = case.plan();
    assert_eq!((plan.actions, plan.reads.references), (vec![], true));

    case.references.live = true;
    let plan = case.plan();
    assert_eq!(
        plan.actions,
        [ImageAction::Expire { uid: "uid-image".to_owned(), resource_version: "7".to_owned() }]
    );
    assert_eq!(events(&plan), ["Expired"]);

    case.references = ReferenceList { live: true, ..used() };
    let plan = case.plan();
    assert_eq!((plan.actions.len(), plan.status.unreferenced_since), (0, None));
}

#[test]
fn an_image_is_not_removed_during_an_import() {
    let mut case = ImagePassCase::syncing(volume_with_transfer(Transfer::InProgress)).after(10 * MINUTE);
    case.image.ttl = Some(MINUTE);
    case.image.status.unreferenced_since = Some(test_time(0));
    case.references.live = true;
    assert_eq!(case.plan().actions, []);
}

#[test]
fn an_end_beyond_the_calendar_is_no_end() {
    let mut case = unreferenced();
    case.image.ttl = Some(Duration::MAX);
    assert_eq!(case.plan().status.expires_at, None);
}
