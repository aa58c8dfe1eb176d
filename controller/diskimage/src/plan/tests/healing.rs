use rstest::rstest;

use super::*;
use crate::corrections::Corrections;
use crate::model::{BackingDataSource, BackingSnapshot, DataKind};

#[test]
fn a_settled_image_writes_nothing() {
    let case = ImagePassCase::ready();
    let plan = case.clone().after(HOUR).plan();
    assert_eq!((plan.actions, plan.events, plan.again), (vec![], vec![], None));
    assert_eq!(plan.status, case.image.status);
}

#[rstest]
#[case::gone(FoundObject::Missing)]
#[case::edited(FoundObject::Ours(BackingDataSource { target: None, ..snapshot_data_source() }))]
fn a_lost_data_source_is_written_again_and_the_image_stays_ready(
    #[case] found: FoundObject<BackingDataSource>,
) {
    let mut case = ImagePassCase::ready();
    case.backing.data_source = found;
    let plan = case.plan();
    assert_eq!(plan.actions, [ImageAction::ApplyDataSource { target: DataTarget::Snapshot }]);
    assert!(plan.status.is_ready());
    assert_eq!(plan.status.heal_count, 0, "it costs no download, so it does not count");
}

#[rstest]
#[case::with_a_snapshot(ImagePassCase::ready())]
#[case::with_only_its_claim(from_claim())]
fn an_object_that_another_client_changes_again_and_again_is_corrected_after_a_pause(
    #[case] mut case: ImagePassCase,
) {
    let now = HOUR;
    for _ in 0..6 {
        case.corrections.note("uid-source", now);
        case.corrections.note("uid-volume", now);
    }
    let edited = FoundObject::Ours(BackingDataSource { target: None, ..snapshot_data_source() });
    case.backing.data_source = edited.clone();
    case.backing.mislabeled = vec![(DataKind::DataVolume, "uid-volume".to_owned())];
    let is_correction = |action: &ImageAction| {
        matches!(action, ImageAction::ApplyDataSource { .. } | ImageAction::Label { .. })
    };
    let plan = case.plan();
    assert!(!plan.actions.iter().any(is_correction), "{:?}", plan.actions);
    assert_eq!(state(&plan), (ImagePhase::Syncing, DiskImageReason::NameConflict));
    assert_eq!((plan.again, events(&plan)), (Some(Duration::from_secs(8)), vec!["NameConflict"]));
    // The same status while it waits, and after the pause the image is ready.
    case.image.status = plan.status.clone();
    assert_eq!((case.plan().status, events(&case.plan())), (plan.status, vec![]));
    case.corrections = Corrections::default();
    let plan = case.plan();
    assert_eq!(plan.actions.iter().filter(|action| is_correction(action)).count(), 2);
    assert!(plan.status.is_ready());
}

#[test]
fn objects_that_stay_get_their_labels_again() {
    let label = |kind, uid: &str| ImageAction::Label { kind, uid: uid.to_owned() };
    let mut case = ImagePassCase::ready();
    case.backing.mislabeled = vec![
        (DataKind::Snapshot, "uid-snapshot".to_owned()),
        (DataKind::DataSource, "uid-source".to_owned()),
    ];
    let plan = case.plan();
    assert!(plan.status.is_ready());
    let both = [label(DataKind::Snapshot, "uid-snapshot"), label(DataKind::DataSource, "uid-source")];
    assert_eq!(plan.actions, both);
    case.backing.snapshot = broken(|snapshot| snapshot.content_lost = true);
    case.live = true;
    assert_eq!(case.plan().actions, [delete_snapshot(), label(DataKind::DataSource, "uid-source")]);
    case.image.deleting = true;
    let writes = case.plan().actions;
    assert!(!writes.iter().any(|action| matches!(action, ImageAction::Label { .. })), "{writes:?}");
}

fn broken(change: impl FnOnce(&mut BackingSnapshot)) -> FoundObject<BackingSnapshot> {
    let mut snapshot = snapshot_with_readiness(true);
    change(&mut snapshot);
    FoundObject::Ours(snapshot)
}

fn unready(snapshot: &mut BackingSnapshot) {
    snapshot.ready = false;
    snapshot.unready_for = Some(5 * MINUTE);
}

#[rstest]
#[case::gone(FoundObject::Missing, vec![ImageAction::CreateSnapshot])]
#[case::content_gone(broken(|snapshot| snapshot.content_lost = true), vec![delete_snapshot()])]
#[case::error(broken(|snapshot| (snapshot.ready, snapshot.error) = (false, Some("driver".to_owned()))), vec![delete_snapshot()])]
#[case::not_ready(broken(unready), vec![delete_snapshot()])]
fn a_lost_snapshot_is_taken_again_without_a_transfer(
    #[case] found: FoundObject<BackingSnapshot>,
    #[case] actions: Vec<ImageAction>,
) {
    let mut case = ImagePassCase::ready();
    case.backing.snapshot = found;
    let first = case.plan();
    assert_eq!((first.reads.backing, first.status.is_ready()), (true, true), "a cache may be behind");
    assert_eq!(first.actions, []);

    case.live = true;
    let plan = case.plan();
    assert_eq!(plan.actions, actions);
    assert_eq!(state(&plan), (ImagePhase::Syncing, DiskImageReason::SnapshotLost));
    assert_eq!((plan.status.heal_count, plan.status.heal_times.clone()), (1, vec![case.now]));
    assert_eq!(events(&plan), ["Healing"]);
    assert!(!plan.status.transfers(), "it takes no place in the queue");

    case.image.status = plan.status;
    case.backing = complete_backing();
    let plan = case.plan();
    assert!(plan.status.is_ready());
    assert_eq!(events(&plan), ["Healed"]);
}

#[test]
fn a_snapshot_is_taken_again_from_a_claim_whose_data_volume_is_gone() {
    let mut case = ImagePassCase::ready();
    case.backing.data_volume = FoundObject::Missing;
    case.backing.snapshot = FoundObject::Missing;
    case.live = true;
    let plan = case.plan();
    assert_eq!(
        (plan.actions.clone(), state(&plan).1),
        (vec![ImageAction::CreateSnapshot], DiskImageReason::SnapshotLost)
    );
    case.image.status = plan.status;
    case.backing.snapshot = FoundObject::Ours(snapshot_with_readiness(true));
    assert!(case.plan().status.is_ready());
}

/// The snapshot controller reports passing problems, too, and removes them later.
#[rstest]
#[case::that_can_be_cloned(true)]
#[case::that_may_recover(false)]
fn an_error_does_not_delete_the_last_copy_of_the_data(#[case] ready: bool) {
    let mut case = ImagePassCase::ready();
    case.live = true;
    case.backing.claim = FoundObject::Missing;
    case.backing.snapshot = broken(|snapshot| {
        snapshot.error = Some("driver".to_owned());
        snapshot.ready = ready;
        snapshot.unready_for = (!ready).then_some(MINUTE);
    });
    let plan = case.plan();
    assert_eq!(plan.actions, []);
    assert!(plan.status.is_ready());
    if !ready {
        assert_eq!(plan.again, Some(4 * MINUTE));
        case.backing.snapshot = broken(unready);
        assert_eq!(case.plan().actions, [delete_snapshot(), delete_volume()]);
    }
}

#[test]
fn a_snapshot_may_be_unready_for_a_while() {
    let mut case = ImagePassCase::ready();
    case.backing.snapshot = broken(|snapshot| {
        snapshot.ready = false;
        snapshot.unready_for = Some(MINUTE);
    });
    let plan = case.plan();
    assert_eq!((plan.reads.backing, plan.again), (false, Some(4 * MINUTE)));
    assert!(plan.status.is_ready());
}

#[rstest]
#[case::claim(|backing: &mut BackingObjects| backing.claim = FoundObject::Missing)]
#[case::both(|backing: &mut BackingObjects| { backing.claim = FoundObject::Missing; backing.data_volume = FoundObject::Missing })]
#[case::lost(|backing: &mut BackingObjects| backing.claim = FoundObject::Ours(BackingClaim { lost: true, ..bound_claim() }))]
#[case::another(|backing: &mut BackingObjects| backing.claim = FoundObject::Ours(BackingClaim { uid: "uid-second".to_owned(), ..bound_claim() }))]
fn with_its_snapshot_an_image_stays_ready_without_its_claim(#[case] lose: fn(&mut BackingObjects)) {
    let mut case = ImagePassCase::ready();
    lose(&mut case.backing);
    let plan = case.plan();
    assert!(plan.status.is_ready());
    assert_eq!((plan.actions.len(), plan.status.source_volume_lost), (0, Some(true)));
}

#[rstest]
#[case::claim_and_snapshot(FoundObject::Missing, FoundObject::Missing, vec![delete_volume()])]
#[case::lost_claim(FoundObject::Ours(BackingClaim { lost: true, ..bound_claim() }), FoundObject::Missing, vec![delete_volume()])]
#[case::broken_snapshot(
    FoundObject::Missing,
    broken(|snapshot| snapshot.content_lost = true),
    vec![delete_snapshot(), delete_volume()]
)]
#[case::claim_of_unknown_content(FoundObject::Ours(BackingClaim { uid: "uid-second".to_owned(), ..bound_claim() }), FoundObject::Missing, vec![delete_volume()])]
fn lost_data_is_imported_again_through_the_queue(
    #[case] found: FoundObject<BackingClaim>,
    #[case] taken: FoundObject<BackingSnapshot>,
    #[case] deletes: Vec<ImageAction>,
) {
    let mut case = ImagePassCase::ready();
    (case.backing.claim, case.backing.snapshot) = (found, taken);
    let first = case.plan();
    assert_eq!((first.actions.len(), first.reads.backing), (0, true));
    case.live = true;
    let plan = case.plan();
    assert_eq!(plan.actions, deletes);
    assert_eq!(state(&plan), (ImagePhase::Queued, DiskImageReason::BackingDataLost));
    assert_eq!(plan.status.queued_at, Some(case.now), "the deadline counts from now");

    // The leftovers are gone, and the turn comes.
    case.image.status = plan.status;
    case.backing = BackingObjects::empty();
    assert_eq!(case.plan().actions, [ImageAction::CreateDataVolume]);
}

#[test]
fn without_snapshots_an_image_depends_on_its_claim() {
    let mut case = ImagePassCase::ready();
    case.backing.snapshots_served = false;
    case.backing.snapshot = FoundObject::Missing;
    case.backing.data_source =
        FoundObject::Ours(BackingDataSource { target: Some(DataTarget::Claim), ..snapshot_data_source() });
    assert!(case.plan().status.is_ready());
    case.backing.claim = FoundObject::Missing;
    case.live = true;
    assert_eq!(state(&case.plan()), (ImagePhase::Queued, DiskImageReason::BackingDataLost));
}

#[test]
fn snapshots_that_the_cluster_serves_later_are_no_lost_data() {
    let mut case = ImagePassCase::ready();
    case.backing.snapshots_served = false;
    case.backing.snapshot = FoundObject::Missing;
    case.backing.data_source =
        FoundObject::Ours(BackingDataSource { target: Some(DataTarget::Claim), ..snapshot_data_source() });
    case.plan_into_status();
    assert!(case.image.status.is_ready());
    // The snapshot is taken, which neither is a restoration nor counts as one. Meanwhile the image is ready.
    case.backing.snapshots_served = true;
    let plan = case.plan();
    assert_eq!((plan.actions.clone(), events(&plan)), (vec![ImageAction::CreateSnapshot], vec![]));
    assert!(plan.status.is_ready());
    case.image.status = plan.status;
    case.backing.snapshot = FoundObject::Ours(snapshot_with_readiness(false));
    let plan = case.plan();
    assert_eq!((plan.actions.len(), plan.status.is_ready(), events(&plan)), (0, true, vec![]));
    case.image.status = plan.status;
    case.backing.snapshot = FoundObject::Ours(snapshot_with_readiness(true));
    let plan = case.plan();
    assert_eq!(plan.actions, [ImageAction::ApplyDataSource { target: DataTarget::Snapshot }]);
    assert_eq!((plan.status.is_ready(), events(&plan)), (true, vec![]));
    assert_eq!((plan.status.heal_count, plan.status.heal_times.len()), (0, 0));
    // Lost data counts, also if there was never a snapshot.
    case.image.status.phase = Some(ImagePhase::Ready);
    case.image.status.reason = Some(DiskImageReason::Synced);
    (case.backing.snapshot, case.backing.claim, case.live) =
        (FoundObject::Missing, FoundObject::Missing, true);
    assert_eq!(case.plan().status.heal_count, 1);
}

/// A ready image without a snapshot, on a cluster that serves snapshots since its import.
fn from_claim() -> ImagePassCase {
    let mut case = ImagePassCase::ready();
    case.image.status.source_volume_lost = None;
    case.backing.snapshot = FoundObject::Missing;
    case.backing.data_source =
        FoundObject::Ours(BackingDataSource { target: Some(DataTarget::Claim), ..snapshot_data_source() });
    case
}

#[rstest]
#[case::with_an_error(Some("no VolumeSnapshotClass"), 10, "no VolumeSnapshotClass")]
#[case::that_is_never_ready(None, 40, "not ready after 30 minutes")]
fn a_driver_that_cannot_take_snapshots_takes_no_readiness(
    #[case] error: Option<&str>,
    #[case] minutes: u32,
    #[case] text: &str,
) {
    let mut case = from_claim();
    let failing = |minutes: u32| BackingSnapshot {
        error: error.map(str::to_owned),
        unready_for: Some(minutes * MINUTE),
        ..snapshot_with_readiness(false)
    };
    case.backing.snapshot = FoundObject::Ours(failing(minutes));
    let plan = case.plan();
    assert_eq!((plan.actions.clone(), events(&plan)), (vec![], vec![]));
    assert!(plan.status.is_ready() && plan.status.message.contains(text), "{:?}", plan.status);
    assert_eq!((plan.status.failures, plan.status.heal_count), (0, 0));
    // The next one is taken an hour after the last one.
    assert_eq!(plan.again, Some((60 - minutes) * MINUTE));
    case.image.status = plan.status;
    case.backing.snapshot = FoundObject::Ours(failing(60));
    let plan = case.plan();
    assert_eq!(plan.actions, [ImageAction::DeleteSnapshot { uid: "uid-snapshot".to_owned() }]);
    assert!(plan.status.is_ready());
    case.image.status = plan.status;
    case.backing.snapshot = FoundObject::Missing;
    assert_eq!(case.plan().actions, [ImageAction::CreateSnapshot]);
    // The API server refuses it.
    let plan = plan_after_failed_write(&case.world(), &ImageAction::CreateSnapshot, "exceeded quota");
    assert_eq!((plan.status.is_ready(), plan.status.failures, plan.status.heal_count), (true, 0, 0));
}

#[rstest]
#[case::lost(FoundObject::Missing)]
#[case::edited(FoundObject::Ours(BackingDataSource { target: None, ..snapshot_data_source() }))]
fn the_data_source_of_an_image_without_a_snapshot_is_written_again(
    #[case] found: FoundObject<BackingDataSource>,
) {
    let mut case = from_claim();
    case.backing.data_source = found;
    let plan = case.plan();
    let claim = ImageAction::ApplyDataSource { target: DataTarget::Claim };
    assert_eq!(plan.actions, [claim, ImageAction::CreateSnapshot]);
    assert_eq!((plan.status.is_ready(), events(&plan)), (true, vec!["Healing"]));
}

#[rstest]
#[case::after_a_conflict(ImagePhase::Syncing, DiskImageReason::NameConflict)]
#[case::whose_first_snapshot_an_earlier_version_has_waited_for(
    ImagePhase::RetryableFailure,
    DiskImageReason::SnapshotFailed
)]
fn an_image_without_a_snapshot_is_ready_again(#[case] phase: ImagePhase, #[case] reason: DiskImageReason) {
    let mut case = from_claim();
    (case.image.status.phase, case.image.status.reason) = (Some(phase), Some(reason));
    let plan = case.plan();
    assert_eq!((plan.status.is_ready(), plan.actions), (true, vec![ImageAction::CreateSnapshot]));
}

#[rstest]
#[case::the_fifth(4, ImagePhase::Syncing)]
#[case::the_sixth(5, ImagePhase::Failed)]
fn storage_that_loses_data_causes_no_endless_downloads(#[case] earlier: i64, #[case] phase: ImagePhase) {
    let mut case = ImagePassCase::ready();
    case.image.status.heal_times = (0..earlier).map(test_time).collect();
    case.backing.snapshot = FoundObject::Missing;
    case.live = true;
    assert_eq!(state(&case.plan()).0, phase);
    if phase == ImagePhase::Failed {
        assert_eq!(case.plan().actions, [], "the data that is left stays");
        let next_day = case.after(24 * HOUR).plan();
        assert_eq!(state(&next_day).0, ImagePhase::Syncing);
        assert_eq!(next_day.status.heal_times.len(), 1);
    }
}

#[test]
fn a_finalizer_that_was_removed_is_put_back() {
    let mut case = ImagePassCase::ready();
    case.image.protected = false;
    assert_eq!(case.plan().actions, [ImageAction::Protect]);
}

#[test]
fn a_data_volume_without_the_mark_gets_it() {
    let mut case = ImagePassCase::ready();
    case.backing.data_volume = FoundObject::Ours(BackingDataVolume {
        prepopulated: false,
        ..volume_with_transfer(Transfer::Succeeded)
    });
    assert_eq!(case.plan().actions, [ImageAction::MarkPrepopulated { uid: "uid-volume".to_owned() }]);
}

#[test]
fn a_claim_that_was_made_later_is_not_trusted_in_any_later_pass() {
    let mut case = ImagePassCase::ready();
    case.live = true;
    case.backing.claim = FoundObject::Ours(BackingClaim { uid: "uid-other".to_owned(), ..bound_claim() });
    for _ in 0..3 {
        case.plan_into_status();
        assert_eq!(case.image.status.source_volume_lost, Some(true));
        assert_eq!(case.image.status.claim.as_deref(), Some("uid-claim"));
    }
    // No snapshot is taken of it.
    case.backing.snapshot = FoundObject::Missing;
    let plan = case.plan();
    assert_eq!(plan.actions, [delete_volume()]);
    assert_eq!(state(&plan), (ImagePhase::Queued, DiskImageReason::BackingDataLost));
}
