use rstest::rstest;

use super::*;
use crate::model::{BackingSnapshot, NotRunning};

#[test]
fn a_new_image_is_protected_and_imported_when_its_turn_comes() {
    let mut case = ImagePassCase::new();
    case.image.protected = false;
    case.turn = QueueDecision::NotAsked;
    let plan = case.plan();
    assert_eq!(plan.actions, [ImageAction::Protect]);
    assert_eq!(state(&plan), (ImagePhase::Queued, DiskImageReason::Queued));
    assert_eq!(plan.status.queued_at, Some(case.now));
    assert_eq!(events(&plan), ["Queued"]);

    case.image.protected = true;
    case.plan_into_status();
    let waiting = case.clone().after(HOUR).plan();
    assert_eq!(
        waiting.status, case.image.status,
        "a waiting image writes nothing, so the queue keeps its order"
    );
    assert_eq!((waiting.actions, waiting.events), (vec![], vec![]));

    case.turn = QueueDecision::MayStart;
    let plan = case.plan();
    assert_eq!(plan.actions, [ImageAction::CreateDataVolume]);
    assert_eq!(state(&plan), (ImagePhase::Syncing, DiskImageReason::Syncing));
    assert_eq!(events(&plan), ["SyncStarted"]);
}

#[test]
fn an_image_that_waits_for_others_says_so_once() {
    let mut case = ImagePassCase::in_phase(ImagePhase::Queued, DiskImageReason::Queued);
    case.turn = QueueDecision::MustWait;
    let plan = case.plan();
    assert_eq!(events(&plan), ["WaitingToSync"]);
    assert_eq!((plan.actions, state(&case.plan())), (vec![], (ImagePhase::Queued, DiskImageReason::Queued)));
    // The next leader knows only what is stored.
    case.plan_into_status();
    assert_eq!(events(&case.plan()), Vec::<&str>::new());
    // An image that is imported again waits anew.
    case.turn = QueueDecision::MayStart;
    case.plan_into_status();
    assert_eq!(state(&case.plan()).0, ImagePhase::Syncing);
    let mut case = ImagePassCase::in_phase(ImagePhase::Queued, DiskImageReason::BackingDataLost);
    case.turn = QueueDecision::MustWait;
    assert_eq!(
        (events(&case.plan()), state(&case.plan()).1),
        (vec!["WaitingToSync"], DiskImageReason::BackingDataLost)
    );
}

#[test]
fn an_upload_waits_for_a_user_until_the_limit_of_all_attempts() {
    let mut case = ImagePassCase::syncing(volume_with_transfer(Transfer::InProgress));
    case.image.upload = true;
    let late = case.settings.max_attempt_duration + HOUR;
    let plan = case.clone().after(late).plan();
    assert_eq!((plan.actions.len(), state(&plan)), (0, (ImagePhase::Syncing, DiskImageReason::Syncing)));
    assert!(plan.status.message.contains("virtctl image-upload dv debian --no-create"), "{plan:?}");
    let all = case.settings.max_sync_duration;
    let plan = case.after(all).plan();
    assert_eq!(state(&plan), (ImagePhase::Failed, DiskImageReason::SyncDeadlineExceeded));
    assert!(matches!(plan.actions[..], [ImageAction::DeleteDataVolume { .. }]), "{plan:?}");
}

#[test]
fn a_transfer_shows_its_progress_and_no_query() {
    let stopped =
        running(|volume| volume.not_running = stopped("Error", "cannot read https://h/a?sig=secret now"));
    let case = ImagePassCase::syncing(stopped);
    let plan = case.plan();
    assert_eq!(plan.status.progress.as_deref(), Some("42.10%"));
    assert_eq!(plan.status.message, "Error: cannot read https://h/a now");
    assert_eq!(plan.actions, []);
    assert_eq!(plan.again, Some(Duration::from_secs(3500)));
}

#[test]
fn the_snapshot_follows_the_data_and_the_phase_follows_the_snapshot() {
    let mut case = ImagePassCase::syncing(BackingDataVolume {
        prepopulated: false,
        ..volume_with_transfer(Transfer::Succeeded)
    });
    let plan = case.plan();
    let mark = ImageAction::MarkPrepopulated { uid: "uid-volume".to_owned() };
    assert_eq!(plan.actions, [mark, ImageAction::CreateSnapshot]);
    assert_eq!(state(&plan), (ImagePhase::Syncing, DiskImageReason::SnapshotPending));

    case.image.status = plan.status;
    case.backing.data_volume = FoundObject::Ours(volume_with_transfer(Transfer::Succeeded));
    case.backing.snapshot = FoundObject::Ours(snapshot_with_readiness(false));
    let plan = case.plan();
    assert_eq!(
        (plan.actions.len(), state(&plan)),
        (0, (ImagePhase::Syncing, DiskImageReason::SnapshotPending))
    );

    case.backing.snapshot = FoundObject::Ours(snapshot_with_readiness(true));
    let plan = case.plan();
    assert_eq!(plan.actions, [ImageAction::ApplyDataSource { target: DataTarget::Snapshot }]);
    assert_eq!(state(&plan), (ImagePhase::Ready, DiskImageReason::Synced));
    assert_eq!((plan.status.ready_at, plan.status.queued_at), (Some(case.now), None));
    assert_eq!(events(&plan), ["SyncCompleted"]);

    case.image.status = plan.status;
    case.backing.data_source = FoundObject::Ours(snapshot_data_source());
    case.plan_into_status();
    let settled = case.plan();
    assert_eq!(
        (settled.status, settled.actions, settled.events),
        (case.image.status.clone(), vec![], vec![])
    );
}

#[test]
fn without_snapshots_the_data_source_points_to_the_claim() {
    let mut case = ImagePassCase::syncing(volume_with_transfer(Transfer::Succeeded));
    case.backing.snapshots_served = false;
    let plan = case.plan();
    assert_eq!(plan.actions, [ImageAction::ApplyDataSource { target: DataTarget::Claim }]);
    assert!(plan.status.message.contains("does not serve snapshots"), "{}", plan.status.message);
    assert_eq!(state(&plan), (ImagePhase::Ready, DiskImageReason::Synced));
}

#[test]
fn nothing_is_ready_without_its_objects() {
    let mut case = ImagePassCase::syncing(volume_with_transfer(Transfer::Succeeded));
    case.backing.data_volume = FoundObject::Missing;
    case.backing.claim = FoundObject::Missing;
    case.backing.snapshot = FoundObject::Missing;
    assert!(!case.plan().status.is_ready());
    // Nor with a claim alone, whose content is unknown.
    case.backing.claim = FoundObject::Ours(bound_claim());
    case.backing.snapshot = FoundObject::Ours(snapshot_with_readiness(true));
    assert_eq!(state(&case.plan()), (ImagePhase::RetryableFailure, DiskImageReason::UnknownSyncFailure));
}

/// A user deletes the claim between the transfer and the snapshot. CDI does not create it again.
#[test]
fn a_claim_that_is_lost_after_the_transfer_ends_the_attempt_at_once() {
    let mut case = ImagePassCase::syncing(volume_with_transfer(Transfer::Succeeded));
    case.backing.claim = FoundObject::Missing;
    let plan = case.plan();
    assert_eq!((plan.actions, plan.reads.backing), (vec![], true), "a cache may be behind");
    case.live = true;
    assert_eq!(state(&case.plan()), (ImagePhase::RetryableFailure, DiskImageReason::UnknownSyncFailure));
}

fn running(change: impl FnOnce(&mut BackingDataVolume)) -> BackingDataVolume {
    let mut volume = volume_with_transfer(Transfer::InProgress);
    change(&mut volume);
    volume
}

#[expect(clippy::unnecessary_wraps, reason = "the field is optional")]
fn stopped(reason: &str, message: &str) -> Option<NotRunning> {
    Some(NotRunning { reason: reason.to_owned(), message: message.to_owned() })
}

#[rstest]
#[case::too_long(running(|_| ()), HOUR, DiskImageReason::SyncAttemptDurationExceeded)]
#[case::restarts(running(|volume| volume.restarts = 3), MINUTE, DiskImageReason::RetryLimitExceeded)]
#[case::missing(
    running(|volume| volume.not_running = stopped("Error", "expected status code 200, got 404. Status: 404 Not Found")),
    MINUTE,
    DiskImageReason::MissingSourceArtifact
)]
#[case::failed(volume_with_transfer(Transfer::Failed), MINUTE, DiskImageReason::UnknownSyncFailure)]
fn an_attempt_fails_with_its_reason(
    #[case] volume: BackingDataVolume,
    #[case] after: Duration,
    #[case] reason: DiskImageReason,
) {
    let case = ImagePassCase::syncing(volume).after(after);
    let plan = case.plan();
    assert_eq!(state(&plan), (ImagePhase::RetryableFailure, reason));
    assert_eq!((plan.status.failures, plan.status.last_failure), (1, Some(case.now)));
    assert_eq!(plan.actions, [delete_volume()], "the finalizer stays");
    assert_eq!(plan.again, Some(3 * MINUTE));
    assert_eq!(events(&plan), ["SyncErrorOccurred"]);
}

#[test]
fn an_import_knows_nothing_of_the_objects_of_an_earlier_one() {
    // Given an image that waits until the claim of its lost data is gone,
    let mut case = ImagePassCase::in_phase(ImagePhase::Queued, DiskImageReason::BackingDataLost);
    case.backing.data_volume =
        FoundObject::Ours(BackingDataVolume { deleting: true, ..volume_with_transfer(Transfer::Succeeded) });
    case.backing.claim = FoundObject::Ours(bound_claim());
    case.live = true;
    case.plan_into_status();
    assert_eq!(state(&case.plan()).0, ImagePhase::Queued);
    // when it is gone and the import begins,
    case.backing = BackingObjects::empty();
    let plan = case.plan();
    assert_eq!(plan.actions, [ImageAction::CreateDataVolume]);
    case.plan_into_status();
    // then a create whose response was lost is repeated,
    assert_eq!(case.plan().actions, [ImageAction::CreateDataVolume]);
    // and the new claim is not another one.
    case.backing.data_volume =
        FoundObject::Ours(running(|volume| volume.uid = "uid-other-volume".to_owned()));
    case.backing.claim =
        FoundObject::Ours(BackingClaim { uid: "uid-other-claim".to_owned(), ..bound_claim() });
    let plan = case.plan();
    assert_eq!(state(&plan), (ImagePhase::Syncing, DiskImageReason::Syncing), "{}", plan.status.message);
}

#[test]
fn a_quota_is_shown_and_is_no_missing_artifact() {
    let text = "exceeded quota: 404 Not Found, requested: requests.storage=10Gi";
    let full = running(|volume| volume.over_quota = Some(text.to_owned()));
    let plan = ImagePassCase::syncing(full.clone()).plan();
    assert_eq!(
        (state(&plan), plan.status.message.as_str()),
        ((ImagePhase::Syncing, DiskImageReason::Syncing), text)
    );
    let plan = ImagePassCase::syncing(full).after(HOUR).plan();
    assert_eq!(state(&plan).1, DiskImageReason::SyncAttemptDurationExceeded);
    assert!(plan.status.message.ends_with(text), "{}", plan.status.message);
}

#[rstest]
#[case::reason_and_message("ErrImagePull", "no such host", None, "ErrImagePull: no such host")]
#[case::a_reason_alone("ErrImagePull", "", None, "ErrImagePull")]
#[case::a_message_alone("", "no such host", None, "no such host")]
#[case::a_quota_says_more_than_a_reason("Pending", "", Some("exceeded quota: q"), "exceeded quota: q")]
#[case::the_importer_before_a_quota("Error", "EOF", Some("exceeded quota: q"), "Error: EOF")]
#[case::a_reason_is_no_answer_of_the_source("Error", "404 of 2048 bytes", None, "Error: 404 of 2048 bytes")]
fn the_message_of_an_import_has_what_the_importer_reports(
    #[case] reason: &str,
    #[case] message: &str,
    #[case] quota: Option<&str>,
    #[case] text: &str,
) {
    let plan = ImagePassCase::syncing(running(|volume| {
        volume.not_running = stopped(reason, message);
        volume.over_quota = quota.map(str::to_owned);
    }))
    .plan();
    assert_eq!((state(&plan).1, plan.status.message.as_str()), (DiskImageReason::Syncing, text));
}

#[rstest]
#[case::two_restarts(running(|volume| volume.restarts = 2), test_time(100))]
#[case::a_start_in_the_future(running(|_| ()), test_time(-9_000))]
#[case::a_missing_claim_in_another_message(running(|volume| volume.not_running = stopped("Error", "PVC not found")), test_time(100))]
fn an_attempt_goes_on(#[case] volume: BackingDataVolume, #[case] now: Timestamp) {
    let case = ImagePassCase { now, ..ImagePassCase::syncing(volume) };
    assert_eq!(state(&case.plan()), (ImagePhase::Syncing, DiskImageReason::Syncing));
}

#[rstest]
#[case::claim_gone(FoundObject::Missing)]
#[case::another_claim(FoundObject::Ours(BackingClaim { uid: "uid-second".to_owned(), ..bound_claim() }))]
#[case::claim_lost(FoundObject::Ours(BackingClaim { lost: true, ..bound_claim() }))]
fn a_claim_that_is_lost_ends_the_attempt(#[case] found: FoundObject<BackingClaim>) {
    let mut case = ImagePassCase::syncing(volume_with_transfer(Transfer::InProgress));
    case.plan_into_status();
    case.backing.claim = found;
    assert_eq!(state(&case.plan()), (ImagePhase::RetryableFailure, DiskImageReason::UnknownSyncFailure));
}

#[test]
fn a_data_volume_that_is_deleted_ends_the_attempt() {
    let mut case = ImagePassCase::syncing(volume_with_transfer(Transfer::InProgress));
    case.backing.data_volume = FoundObject::Missing;
    assert_eq!(state(&case.plan()), (ImagePhase::RetryableFailure, DiskImageReason::UnknownSyncFailure));
}

#[test]
fn an_unconfirmed_create_is_repeated() {
    let mut case = ImagePassCase::syncing(volume_with_transfer(Transfer::InProgress));
    case.image.status.data_volume = None;
    case.backing = BackingObjects::empty();
    let plan = case.plan();
    assert_eq!(plan.actions, [ImageAction::CreateDataVolume]);
    assert_eq!(state(&plan), (ImagePhase::Syncing, DiskImageReason::Syncing));
}

/// A user deleted the DataVolume before its UID was stored, and kept the claim. CDI would not import into
/// this claim.
#[test]
fn a_create_is_not_repeated_beside_a_claim() {
    let mut case = ImagePassCase::syncing(volume_with_transfer(Transfer::InProgress));
    case.image.status.data_volume = None;
    case.backing.data_volume = FoundObject::Missing;
    case.backing.claim = FoundObject::Ours(bound_claim());
    case.live = false;
    let plan = case.plan();
    assert!(plan.actions.is_empty() && plan.reads.backing, "the cache may lack the DataVolume: {plan:?}");
    case.live = true;
    let plan = case.plan();
    assert_eq!(state(&plan), (ImagePhase::RetryableFailure, DiskImageReason::UnknownSyncFailure));
    assert!(!plan.actions.contains(&ImageAction::CreateDataVolume), "{plan:?}");
}

#[test]
fn after_the_backoff_the_image_is_queued_again_in_its_old_place() {
    let mut case = ImagePassCase::syncing(volume_with_transfer(Transfer::Failed));
    case.plan_into_status();
    case.backing.data_volume =
        FoundObject::Ours(BackingDataVolume { deleting: true, ..volume_with_transfer(Transfer::Failed) });
    let early = case.clone().after(2 * MINUTE).plan();
    assert_eq!((state(&early).0, early.again), (ImagePhase::RetryableFailure, Some(MINUTE)));
    let leaving = case.clone().after(3 * MINUTE).plan();
    assert_eq!(state(&leaving).0, ImagePhase::RetryableFailure, "the former DataVolume is not gone");
    case.backing = BackingObjects::empty();
    case.turn = QueueDecision::NotAsked;
    let due = case.after(3 * MINUTE).plan();
    assert_eq!(state(&due), (ImagePhase::Queued, DiskImageReason::Queued));
    assert_eq!((due.status.queued_at, due.status.failures), (Some(test_time(0)), 1));
}

#[test]
fn a_failure_after_the_deadline_is_final_until_a_user_asks() {
    let mut case = ImagePassCase::syncing(volume_with_transfer(Transfer::Failed)).after(12 * HOUR);
    let plan = case.plan();
    assert_eq!(state(&plan), (ImagePhase::Failed, DiskImageReason::SyncDeadlineExceeded));
    assert_eq!(plan.again, None);
    assert!(events(&plan).contains(&"SyncFailed"));

    case.image.status = plan.status;
    case.backing = BackingObjects::empty();
    let settled = case.clone().after(100 * HOUR);
    assert_eq!((settled.plan().actions, state(&settled.plan()).0), (vec![], ImagePhase::Failed));

    case.image.retry = Some("again".to_owned());
    case.turn = QueueDecision::NotAsked;
    let plan = case.plan();
    assert_eq!(state(&plan).0, ImagePhase::Queued);
    assert_eq!((plan.status.failures, plan.status.queued_at), (0, Some(case.now)));
    assert_eq!(plan.status.retry_token.as_deref(), Some("again"));
}

/// An image that has failed once, whose next attempt would begin after the deadline or is running then.
#[rstest]
#[case::in_its_backoff(ImagePhase::RetryableFailure, None)]
#[case::in_the_queue(ImagePhase::Queued, None)]
#[case::found_again_in_the_queue(ImagePhase::Queued, Some(volume_with_transfer(Transfer::InProgress)))]
#[case::running(ImagePhase::Syncing, Some(volume_with_transfer(Transfer::InProgress)))]
fn no_data_is_transferred_after_the_deadline(
    #[case] phase: ImagePhase,
    #[case] data_volume: Option<BackingDataVolume>,
) {
    let mut case = ImagePassCase::in_phase(phase, DiskImageReason::UnknownSyncFailure);
    case.now = test_time(0);
    case.backing = data_volume.clone().map_or_else(BackingObjects::empty, |volume| BackingObjects {
        data_volume: FoundObject::Ours(volume),
        ..BackingObjects::empty()
    });
    let last_failure = 11 * HOUR + 50 * MINUTE;
    case.image.status.queued_at = Some(test_time(0));
    case.image.status.last_failure = Some(test_time(0).checked_add(last_failure).unwrap());
    case.image.status.failures = 4;
    case.image.status.message = "no route to host".to_owned();
    case.turn = QueueDecision::MayStart;
    let mut case = case.after(11 * HOUR + 59 * MINUTE);
    case.image.status.sync_started_at = (phase == ImagePhase::Syncing).then_some(case.now);
    let before = case.plan();
    assert_ne!(state(&before).0, ImagePhase::Failed);
    assert!(before.again.is_some_and(|again| again <= MINUTE), "the deadline wakes it: {:?}", before.again);

    let at_the_end = case.after(MINUTE).plan();
    assert_eq!(state(&at_the_end), (ImagePhase::Failed, DiskImageReason::SyncDeadlineExceeded));
    let expected: &[ImageAction] = if data_volume.is_some() { &[delete_volume()] } else { &[] };
    assert_eq!(at_the_end.actions, expected);
    let cause = if phase == ImagePhase::Syncing { "was still running" } else { "no route to host" };
    assert!(at_the_end.status.message.contains(cause), "{}", at_the_end.status.message);
}

#[test]
fn the_first_attempt_after_a_long_wait_in_the_queue_gets_its_time() {
    let mut case = ImagePassCase::in_phase(ImagePhase::Queued, DiskImageReason::Queued).after(50 * HOUR);
    case.turn = QueueDecision::MayStart;
    let plan = case.plan();
    assert_eq!((state(&plan).0, plan.again), (ImagePhase::Syncing, Some(HOUR)));
}

#[test]
fn a_token_that_was_handled_starts_nothing() {
    let mut case = ImagePassCase::in_phase(ImagePhase::Failed, DiskImageReason::SyncDeadlineExceeded);
    case.image.retry = Some("again".to_owned());
    case.image.status.retry_token = Some("again".to_owned());
    assert_eq!(state(&case.plan()).0, ImagePhase::Failed);
}

#[test]
fn a_long_wait_in_the_queue_is_no_failure() {
    let mut case = ImagePassCase::in_phase(ImagePhase::Queued, DiskImageReason::Queued).after(50 * HOUR);
    case.turn = QueueDecision::NotAsked;
    assert_eq!(state(&case.plan()), (ImagePhase::Queued, DiskImageReason::Queued));
}

#[rstest]
#[case::error(|found: &mut BackingSnapshot| found.error = Some("driver".to_owned()))]
#[case::content(|found: &mut BackingSnapshot| found.content_lost = true)]
#[case::timeout(|found: &mut BackingSnapshot| (found.ready, found.unready_for) = (false, Some(30 * MINUTE)))]
fn a_failed_snapshot_is_tried_again_without_another_transfer(#[case] break_it: fn(&mut BackingSnapshot)) {
    let mut broken = snapshot_with_readiness(true);
    break_it(&mut broken);
    let mut case = ImagePassCase::syncing(volume_with_transfer(Transfer::Succeeded));
    case.backing.snapshot = FoundObject::Ours(broken);
    case.live = true;
    let plan = case.plan();
    assert_eq!(state(&plan), (ImagePhase::RetryableFailure, DiskImageReason::SnapshotFailed));
    assert_eq!(plan.actions, [delete_snapshot()], "the DataVolume stays");

    case.image.status = plan.status;
    case.backing.snapshot = FoundObject::Missing;
    case.turn = QueueDecision::NotAsked;
    let plan = case.after(3 * MINUTE).plan();
    assert_eq!(plan.actions, [ImageAction::CreateSnapshot], "it needs no turn");
    assert_eq!(state(&plan), (ImagePhase::Syncing, DiskImageReason::SnapshotPending));
}

/// If the clock of the controller is ahead, a new snapshot looks old.
#[rstest]
#[case::ahead(test_time(100) - HOUR)]
#[case::behind(test_time(100) + HOUR)]
fn the_time_of_a_snapshot_does_not_depend_on_the_clock_of_the_api_server(#[case] created: Timestamp) {
    let mut case =
        ImagePassCase::syncing(BackingDataVolume { created, ..volume_with_transfer(Transfer::Succeeded) });
    case.backing.snapshot = FoundObject::Ours(BackingSnapshot {
        created,
        unready_for: Some(10 * MINUTE),
        ..snapshot_with_readiness(false)
    });
    let plan = case.plan();
    assert_eq!((plan.actions.clone(), plan.again), (vec![], Some(20 * MINUTE)));
    assert_eq!(state(&plan), (ImagePhase::Syncing, DiskImageReason::SnapshotPending));
}

/// The status loses the time while the DataVolume is a foreign one, for example because it lacks its label.
#[rstest]
#[case::without_a_conflict(false)]
#[case::during_a_conflict(true)]
fn an_attempt_whose_begin_is_not_recorded_begins_now(#[case] conflict: bool) {
    let mut case =
        ImagePassCase::syncing(BackingDataVolume { created: test_time(0) - 2 * HOUR, ..running(|_| ()) });
    case.image.status.sync_started_at = None;
    if conflict {
        case.backing.data_source = FoundObject::Foreign;
    }
    let plan = case.plan();
    assert_eq!((plan.actions.clone(), state(&plan).0), (vec![], ImagePhase::Syncing));
    assert_eq!(plan.status.sync_started_at, Some(case.now));
    case.image.status = plan.status;
    assert_eq!(case.after(HOUR).plan().status.failures, 1);
}

#[test]
fn a_snapshot_of_earlier_data_is_not_published() {
    let mut case = ImagePassCase::syncing(BackingDataVolume {
        created: test_time(50),
        ..volume_with_transfer(Transfer::Succeeded)
    });
    case.backing.snapshot = FoundObject::Ours(snapshot_with_readiness(true));
    let plan = case.plan();
    assert_eq!(plan.actions, [delete_snapshot()]);
    assert!(!plan.status.is_ready());
}

#[test]
fn a_cluster_without_cdi_is_no_failed_attempt() {
    let mut case = ImagePassCase::new();
    case.backing.importer_served = false;
    let plan = case.plan();
    assert_eq!(state(&plan), (ImagePhase::Queued, DiskImageReason::ResourceCreationFailed));
    assert!(plan.status.message.contains("DataVolume"), "{}", plan.status.message);
    assert_eq!((plan.status.failures, plan.again), (0, Some(MINUTE)));
    assert_eq!(plan.actions, []);
}

#[test]
fn an_invalid_spec_imports_nothing() {
    let mut case = ImagePassCase::new();
    case.image.invalid = Some("the url must not contain a loopback address".to_owned());
    let plan = case.plan();
    assert_eq!(
        (plan.actions.clone(), plan.status.message.as_str()),
        (vec![], "the url must not contain a loopback address")
    );
    assert_eq!(state(&plan), (ImagePhase::Queued, DiskImageReason::ResourceCreationFailed));
}

#[rstest]
#[case::create(ImageAction::CreateDataVolume, Some(DiskImageReason::ResourceCreationFailed))]
#[case::snapshot(ImageAction::CreateSnapshot, Some(DiskImageReason::ResourceCreationFailed))]
#[case::source(ImageAction::ApplyDataSource { target: DataTarget::Snapshot }, Some(DiskImageReason::ResourceUpdateFailed))]
#[case::deletion(delete_volume(), None)]
fn a_failed_write_is_a_failed_attempt(#[case] action: ImageAction, #[case] reason: Option<DiskImageReason>) {
    let case = ImagePassCase::in_phase(ImagePhase::Queued, DiskImageReason::Queued);
    let plan = plan_after_failed_write(&case.world(), &action, "exceeded quota");
    match reason {
        Some(reason) => {
            assert_eq!(state(&plan), (ImagePhase::RetryableFailure, reason));
            assert_eq!((plan.status.failures, plan.status.last_failure), (1, Some(case.now)));
            assert_eq!(plan.status.message, "exceeded quota");
        }
        None => assert_eq!(state(&plan), (ImagePhase::Queued, DiskImageReason::Queued)),
    }
}

#[test]
fn each_refused_snapshot_is_a_failed_attempt_until_the_deadline() {
    let mut case =
        ImagePassCase::in_phase(ImagePhase::RetryableFailure, DiskImageReason::ResourceCreationFailed);
    case.backing = BackingObjects {
        snapshot: FoundObject::Missing,
        data_source: FoundObject::Missing,
        ..complete_backing()
    };
    (case.image.status.queued_at, case.image.status.last_failure) = (Some(case.now), Some(case.now));
    case.image.status.failures = 1;
    let mut case = case.after(3 * MINUTE);
    assert_eq!(case.plan().actions, [ImageAction::CreateSnapshot], "only the snapshot is taken again");
    let plan = plan_after_failed_write(&case.world(), &ImageAction::CreateSnapshot, "exceeded quota");
    assert_eq!(state(&plan), (ImagePhase::RetryableFailure, DiskImageReason::ResourceCreationFailed));
    assert_eq!((plan.status.failures, plan.status.last_failure), (2, Some(case.now)));
    let kept = (plan.status.data_volume.as_deref(), plan.status.claim.as_deref());
    assert_eq!(kept, (Some("uid-volume"), Some("uid-claim")), "they are the objects of the image");
    case.image.status = plan.status;
    assert_eq!(case.clone().after(3 * MINUTE).plan().actions, [], "the backoff increases");
    let case = case.after(12 * HOUR);
    let plan = plan_after_failed_write(&case.world(), &ImageAction::CreateSnapshot, "exceeded quota");
    assert_eq!(state(&plan), (ImagePhase::Failed, DiskImageReason::SyncDeadlineExceeded));
}

#[test]
fn an_image_whose_lost_snapshot_cannot_be_taken_again_is_not_ready() {
    let mut case = ImagePassCase::ready();
    case.live = true;
    case.backing.snapshot = FoundObject::Missing;
    assert_eq!(case.plan().actions, [ImageAction::CreateSnapshot]);
    let plan = plan_after_failed_write(&case.world(), &ImageAction::CreateSnapshot, "exceeded quota");
    assert_eq!(state(&plan), (ImagePhase::RetryableFailure, DiskImageReason::ResourceCreationFailed));
    assert_eq!((plan.status.failures, plan.status.message.as_str()), (1, "exceeded quota"));
    assert_eq!((plan.status.heal_count, plan.status.heal_times.len()), (1, 1));
    case.image.status = plan.status;
    let mut case = case.after(3 * MINUTE);
    let plan = case.plan();
    assert_eq!(plan.actions, [ImageAction::CreateSnapshot]);
    case.image.status = plan.status;
    case.backing.snapshot = FoundObject::Ours(snapshot_with_readiness(true));
    let plan = case.plan();
    assert!(plan.status.is_ready());
    assert_eq!(plan.status.heal_count, 1);
}

#[test]
fn a_failed_write_to_a_ready_image_leaves_it_ready() {
    let case = ImagePassCase::ready();
    let action = ImageAction::ApplyDataSource { target: DataTarget::Snapshot };
    assert!(plan_after_failed_write(&case.world(), &action, "timeout").status.is_ready());
}

#[rstest]
#[case::queued(ImagePassCase::in_phase(ImagePhase::Queued, DiskImageReason::Queued), ImagePhase::Queued)]
#[case::new(ImagePassCase::new(), ImagePhase::Queued)]
#[case::ready(ImagePassCase::ready(), ImagePhase::Syncing)]
fn nothing_is_touched_while_a_foreign_object_has_the_name(
    #[case] mut case: ImagePassCase,
    #[case] phase: ImagePhase,
) {
    case.backing.data_source = FoundObject::Foreign;
    let plan = case.plan();
    assert_eq!(state(&plan), (phase, DiskImageReason::NameConflict));
    assert_eq!((plan.actions.len(), plan.again), (0, Some(MINUTE)));
    assert!(plan.status.message.contains("DataSource"), "{}", plan.status.message);
    assert_eq!(events(&plan), ["NameConflict"]);
    case.image.status = plan.status;
    assert_eq!(events(&case.plan()), Vec::<&str>::new(), "one event for each conflict");
}

#[rstest]
#[case::too_long(running(|_| ()), HOUR, true)]
#[case::restarts(running(|volume| volume.restarts = 3), MINUTE, true)]
#[case::in_time(running(|_| ()), MINUTE, false)]
fn the_limits_of_an_attempt_hold_during_a_conflict(
    #[case] volume: BackingDataVolume,
    #[case] after: Duration,
    #[case] ends: bool,
) {
    let mut case = ImagePassCase::syncing(volume);
    case.backing.data_source = FoundObject::Foreign;
    case.plan_into_status();
    if case.image.status.reason == Some(DiskImageReason::NameConflict) {
        assert!(case.image.status.sync_started_at.is_some(), "it keeps its place in the queue");
        case = case.after(after);
        case.plan_into_status();
    }
    assert_eq!(case.image.status.failures, u32::from(ends));
    let plan = case.plan();
    assert_eq!(state(&plan).1, DiskImageReason::NameConflict);
    assert_eq!(state(&plan).0, if ends { ImagePhase::RetryableFailure } else { ImagePhase::Syncing });
}

#[rstest]
#[case::that_runs(running(|_| ()), vec![delete_volume()])]
#[case::that_is_complete(volume_with_transfer(Transfer::Succeeded), vec![])]
fn past_its_limits_a_conflict_ends_only_an_own_import(
    #[case] volume: BackingDataVolume,
    #[case] actions: Vec<ImageAction>,
    #[values("claim", "snapshot", "source")] foreign: &str,
) {
    let mut case = ImagePassCase::syncing(volume);
    match foreign {
        "claim" => case.backing.claim = FoundObject::Foreign,
        "snapshot" => case.backing.snapshot = FoundObject::Foreign,
        _ => case.backing.data_source = FoundObject::Foreign,
    }
    assert_eq!(case.after(HOUR).plan().actions, actions);
}

#[test]
fn a_conflict_after_the_transfer_takes_no_place_among_the_imports() {
    let mut case = ImagePassCase::syncing(volume_with_transfer(Transfer::Succeeded));
    case.backing.data_source = FoundObject::Foreign;
    assert_eq!(case.plan().status.sync_started_at, None);
}

#[test]
fn after_a_conflict_the_image_is_ready_again() {
    let mut case = ImagePassCase::ready();
    case.backing.data_source = FoundObject::Foreign;
    case.plan_into_status();
    case.backing = complete_backing();
    assert!(case.plan().status.is_ready());
}

#[rstest]
#[case::by_a_claim(|backing: &mut BackingObjects| backing.claim = FoundObject::Foreign)]
#[case::by_a_data_source(|backing: &mut BackingObjects| backing.data_source = FoundObject::Foreign)]
fn a_conflict_leaves_the_snapshot_of_an_image_whose_claim_is_lost(#[case] add: fn(&mut BackingObjects)) {
    let mut case = ImagePassCase::ready();
    case.live = true;
    case.backing.claim = FoundObject::Missing;
    case.plan_into_status();
    assert_eq!(case.image.status.source_volume_lost, Some(true));
    let before = case.backing.clone();
    add(&mut case.backing);
    let plan = case.plan();
    assert_eq!(
        (plan.actions.clone(), state(&plan)),
        (vec![], (ImagePhase::Syncing, DiskImageReason::NameConflict))
    );
    case.image.status = plan.status;
    case.backing = before;
    let plan = case.plan();
    assert_eq!(plan.actions, []);
    assert!(plan.status.is_ready(), "{:?}", plan.status);
    assert_eq!(plan.status.source_volume_lost, Some(true));
}

#[test]
fn a_conflict_leaves_a_snapshot_that_may_recover() {
    let mut case = ImagePassCase::ready();
    case.live = true;
    case.backing.claim = FoundObject::Foreign;
    case.plan_into_status();
    case.backing.claim = FoundObject::Missing;
    case.backing.snapshot = FoundObject::Ours(BackingSnapshot {
        unready_for: Some(Duration::ZERO),
        ..snapshot_with_readiness(false)
    });
    let plan = case.plan();
    assert_eq!(
        (plan.actions.clone(), state(&plan)),
        (vec![], (ImagePhase::Syncing, DiskImageReason::SnapshotPending))
    );
    case.image.status = plan.status;
    case.backing.snapshot = FoundObject::Ours(snapshot_with_readiness(true));
    assert!(case.plan().status.is_ready());
}

#[test]
fn a_failed_image_whose_data_is_there_again_is_ready_after_a_request() {
    let mut case = ImagePassCase::in_phase(ImagePhase::Failed, DiskImageReason::HealLimitExceeded);
    case.live = true;
    case.image.status.ready_at = Some(test_time(20));
    case.image.status.data_volume = Some("uid-volume".to_owned());
    case.backing = complete_backing();
    case.backing.claim = FoundObject::Missing;
    assert_eq!(case.plan().actions, [], "without a request");
    case.image.retry = Some("2".to_owned());
    let plan = case.plan();
    assert_eq!(plan.actions, []);
    assert!(plan.status.is_ready(), "{:?}", plan.status);
    assert_eq!(plan.status.heal_times, []);
}

#[test]
fn a_request_during_a_conflict_keeps_the_last_copy_of_the_data() {
    let mut case = ImagePassCase::in_phase(ImagePhase::Failed, DiskImageReason::HealLimitExceeded);
    case.live = true;
    case.image.status.ready_at = Some(test_time(20));
    case.backing = complete_backing();
    // Given a user who has made a claim of this name, and asks for another import,
    case.backing.claim = FoundObject::Foreign;
    case.plan_into_status();
    assert_eq!(case.image.status.reason, Some(DiskImageReason::NameConflict));
    case.image.retry = Some("2".to_owned());
    case.plan_into_status();
    // when the claim is gone again, then the image is ready from its snapshot.
    case.backing.claim = FoundObject::Missing;
    let plan = case.plan();
    assert_eq!(plan.actions, []);
    assert!(plan.status.is_ready(), "{:?}", plan.status);
}

/// CDI can remove a DataVolume after its success.
#[rstest]
#[case::after_a_failed_snapshot(true)]
#[case::after_a_request(false)]
fn a_snapshot_is_tried_again_from_a_claim_whose_data_volume_is_gone(#[case] fails: bool) {
    let mut case = ImagePassCase::ready();
    case.live = true;
    case.backing.data_volume = FoundObject::Missing;
    case.backing.snapshot = FoundObject::Missing;
    if fails {
        case.plan_into_status();
        assert_eq!(case.image.status.reason, Some(DiskImageReason::SnapshotLost));
        case.backing.snapshot = broken_snapshot();
        let plan = case.plan();
        assert_eq!(state(&plan), (ImagePhase::RetryableFailure, DiskImageReason::SnapshotFailed));
        case.image.status = plan.status;
        case.backing.snapshot = FoundObject::Missing;
    } else {
        case.image.status.phase = Some(ImagePhase::Failed);
        case.image.status.reason = Some(DiskImageReason::HealLimitExceeded);
        case.image.retry = Some("2".to_owned());
    }
    case.turn = QueueDecision::NotAsked;
    let mut case = case.after(4 * MINUTE);
    let plan = case.plan();
    assert_eq!(plan.actions, [ImageAction::CreateSnapshot]);
    assert_eq!(
        state(&plan),
        (ImagePhase::Syncing, DiskImageReason::SnapshotPending),
        "{}",
        plan.status.message
    );
    case.image.status = plan.status;
    case.backing.snapshot = FoundObject::Ours(snapshot_with_readiness(true));
    assert!(case.plan().status.is_ready());
}

fn broken_snapshot() -> FoundObject<BackingSnapshot> {
    FoundObject::Ours(BackingSnapshot { error: Some("driver".to_owned()), ..snapshot_with_readiness(false) })
}

#[test]
fn the_content_of_a_new_snapshot_is_looked_for_before_the_snapshot_fails() {
    let mut case = ImagePassCase::syncing(volume_with_transfer(Transfer::Succeeded));
    case.backing.snapshot =
        FoundObject::Ours(BackingSnapshot { content_lost: true, ..snapshot_with_readiness(false) });
    let plan = case.plan();
    assert_eq!(
        (plan.actions.clone(), plan.reads.backing),
        (vec![], true),
        "the cache of contents may be behind"
    );
    assert_eq!(state(&plan), (ImagePhase::Syncing, DiskImageReason::SnapshotPending));
    case.live = true;
    let plan = case.plan();
    assert_eq!(
        (plan.actions.clone(), state(&plan)),
        (vec![delete_snapshot()], (ImagePhase::RetryableFailure, DiskImageReason::SnapshotFailed))
    );
}

#[test]
fn times_of_a_clock_that_ran_ahead_count_as_now() {
    let mut case = ImagePassCase::in_phase(ImagePhase::RetryableFailure, DiskImageReason::UnknownSyncFailure);
    case.image.status.failures = 1;
    case.image.status.last_failure = Some(test_time(100_000));
    let plan = case.plan();
    assert_eq!(plan.status.last_failure, Some(case.now));
    case.image.status = plan.status;
    let backoff = case.settings.backoff(1);
    let case = case.after(backoff);
    assert_eq!(state(&case.plan()).0, ImagePhase::Syncing);
}

#[rstest]
#[case::deadline(DiskImageReason::SyncDeadlineExceeded, 3)]
#[case::lost_too_often(DiskImageReason::HealLimitExceeded, 0)]
fn after_a_conflict_a_failed_image_has_its_reason_again(
    #[case] reason: DiskImageReason,
    #[case] failures: u32,
) {
    let mut case = ImagePassCase::in_phase(ImagePhase::Failed, reason);
    case.image.status.failures = failures;
    case.backing.data_volume = FoundObject::Ours(volume_with_transfer(Transfer::Succeeded));
    case.backing.snapshot = FoundObject::Foreign;
    case.plan_into_status();
    assert_eq!(case.image.status.reason, Some(DiskImageReason::NameConflict));
    case.backing.snapshot = FoundObject::Missing;
    let plan = case.plan();
    assert_eq!((state(&plan), events(&plan)), ((ImagePhase::Failed, reason), vec![]));
    assert!(!plan.status.message.contains("do not belong"), "{}", plan.status.message);
    let deletes = if reason == DiskImageReason::HealLimitExceeded { vec![] } else { vec![delete_volume()] };
    assert_eq!(plan.actions, deletes, "the data that is left of lost data stays");
}

#[test]
fn after_a_conflict_a_failed_attempt_still_waits_for_its_backoff() {
    let mut case = ImagePassCase::in_phase(ImagePhase::RetryableFailure, DiskImageReason::RetryLimitExceeded);
    (case.image.status.failures, case.image.status.last_failure) = (1, Some(test_time(40)));
    case.backing.snapshot = FoundObject::Foreign;
    case.plan_into_status();
    assert_eq!(case.image.status.reason, Some(DiskImageReason::NameConflict));
    case.backing.snapshot = FoundObject::Missing;
    let plan = case.plan();
    assert_eq!(state(&plan), (ImagePhase::RetryableFailure, DiskImageReason::UnknownSyncFailure));
    assert!(plan.status.message.contains("backoff"), "{}", plan.status.message);
    assert_eq!((plan.actions.len(), plan.again), (0, Some(2 * MINUTE)));
}

#[test]
fn an_import_that_its_controller_left_is_continued() {
    let mut case = ImagePassCase::in_phase(ImagePhase::Queued, DiskImageReason::Queued);
    case.backing.data_volume = FoundObject::Ours(volume_with_transfer(Transfer::InProgress));
    case.turn = QueueDecision::NotAsked;
    let plan = case.plan();
    assert_eq!(
        (plan.actions.clone(), state(&plan)),
        (vec![], (ImagePhase::Syncing, DiskImageReason::Syncing))
    );
}

/// The plan for a DataVolume whose claim a user has kept, after a live read.
fn plan_beside_kept_claim(phase: ImagePhase, reason: DiskImageReason) -> ImagePlan {
    let mut case = ImagePassCase::in_phase(phase, reason);
    case.backing.data_volume = FoundObject::Ours(volume_with_transfer(Transfer::InProgress));
    case.backing.claim = FoundObject::Ours(BackingClaim { owned: false, ..bound_claim() });
    case.live = false;
    assert!(case.plan().reads.backing, "the cache may lack the owner of the claim");
    case.live = true;
    case.plan()
}

/// A former leader created the DataVolume after a user had kept the claim of the one before.
#[test]
fn a_data_volume_beside_a_kept_claim_is_no_import() {
    let plan = plan_beside_kept_claim(ImagePhase::Queued, DiskImageReason::Queued);
    assert_eq!((plan.actions.clone(), state(&plan).0), (vec![delete_volume()], ImagePhase::Queued));
}

/// A create of the DataVolume arrived after a user had deleted it and kept its claim.
#[test]
fn an_import_beside_a_kept_claim_fails_at_once() {
    let plan = plan_beside_kept_claim(ImagePhase::Syncing, DiskImageReason::Syncing);
    assert_eq!(state(&plan), (ImagePhase::RetryableFailure, DiskImageReason::UnknownSyncFailure));
    assert!(plan.status.message.contains("a user has kept it"), "{}", plan.status.message);
}

/// The status of the pass that began the import was not written. That of an earlier pass has the UID of the
/// former claim.
#[rstest]
#[case::in_progress(Transfer::InProgress, DiskImageReason::Syncing)]
#[case::succeeded(Transfer::Succeeded, DiskImageReason::SnapshotPending)]
fn an_import_that_its_controller_left_has_a_claim_of_its_own(
    #[case] transfer: Transfer,
    #[case] reason: DiskImageReason,
) {
    let mut case = ImagePassCase::in_phase(ImagePhase::Queued, DiskImageReason::BackingDataLost);
    case.image.status.claim = Some("uid-old".to_owned());
    case.image.status.data_volume = Some("uid-old-volume".to_owned());
    case.backing.data_volume = FoundObject::Ours(volume_with_transfer(transfer));
    case.backing.claim = FoundObject::Ours(bound_claim());
    (case.turn, case.live) = (QueueDecision::NotAsked, true);
    for _ in 0..2 {
        let plan = case.plan();
        assert!(!plan.actions.contains(&delete_volume()), "{:?}", plan.actions);
        assert_eq!(state(&plan), (ImagePhase::Syncing, reason), "{}", plan.status.message);
        case.image.status = plan.status;
    }
    assert_eq!(case.image.status.claim.as_deref(), Some("uid-claim"));
}

/// A claim of the former DataVolume says nothing about the new one.
#[test]
fn the_former_claim_is_not_that_of_an_import_that_its_controller_left() {
    let mut case = ImagePassCase::in_phase(ImagePhase::Queued, DiskImageReason::BackingDataLost);
    case.image.status.claim = Some("uid-claim".to_owned());
    case.image.status.data_volume = Some("uid-volume".to_owned());
    case.backing.data_volume = FoundObject::Ours(BackingDataVolume {
        prepopulated: true,
        ..volume_with_transfer(Transfer::Succeeded)
    });
    case.backing.claim = FoundObject::Ours(BackingClaim { uid: "uid-other".to_owned(), ..bound_claim() });
    case.live = true;
    assert_eq!(case.plan().actions, [delete_volume()], "the content of a later claim is unknown");
}

#[rstest]
#[case::volume(|backing: &mut BackingObjects| backing.data_volume = FoundObject::Ours(volume_with_transfer(Transfer::Failed)), vec![delete_volume()])]
#[case::snapshot(|backing: &mut BackingObjects| backing.snapshot = FoundObject::Ours(snapshot_with_readiness(true)), vec![delete_snapshot()])]
#[case::claim(|backing: &mut BackingObjects| backing.claim = FoundObject::Ours(bound_claim()), vec![])]
fn an_import_waits_until_earlier_data_is_gone(
    #[case] add: fn(&mut BackingObjects),
    #[case] deletes: Vec<ImageAction>,
) {
    let mut case = ImagePassCase::in_phase(ImagePhase::Queued, DiskImageReason::BackingDataLost);
    add(&mut case.backing);
    let plan = case.plan();
    assert_eq!((plan.actions.len(), plan.reads.backing), (0, true), "a cache may be behind");
    case.live = true;
    let plan = case.plan();
    assert_eq!(plan.actions, deletes);
    assert_eq!(state(&plan), (ImagePhase::Queued, DiskImageReason::BackingDataLost));
}
