use rstest::rstest;

use super::*;
use crate::model::{NotRunning, Snapshot};

#[test]
fn a_new_image_is_protected_and_imported_when_its_turn_comes() {
    let mut case = Case::new();
    case.image.protected = false;
    case.turn = Turn::Unasked;
    let plan = case.plan();
    assert_eq!(plan.actions, [Action::Protect]);
    assert_eq!(state(&plan), (ImagePhase::Queued, Reason::Queued));
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

    case.turn = Turn::Given;
    let plan = case.plan();
    assert_eq!(plan.actions, [Action::CreateDataVolume]);
    assert_eq!(state(&plan), (ImagePhase::Syncing, Reason::Syncing));
    assert_eq!(events(&plan), ["SyncStarted"]);
}

#[test]
fn an_image_that_waits_for_others_says_so_once() {
    let mut case = Case::in_phase(ImagePhase::Queued, Reason::Queued);
    case.turn = Turn::Waits;
    let plan = case.plan();
    assert_eq!(events(&plan), ["WaitingToSync"]);
    assert_eq!((plan.actions, state(&case.plan())), (vec![], (ImagePhase::Queued, Reason::Queued)));
    // The next leader knows only what is stored.
    case.plan_into_status();
    assert_eq!(events(&case.plan()), Vec::<&str>::new());
    // An image that is imported again waits anew.
    case.turn = Turn::Given;
    case.plan_into_status();
    assert_eq!(state(&case.plan()).0, ImagePhase::Syncing);
    let mut case = Case::in_phase(ImagePhase::Queued, Reason::BackingDataLost);
    case.turn = Turn::Waits;
    assert_eq!(
        (events(&case.plan()), state(&case.plan()).1),
        (vec!["WaitingToSync"], Reason::BackingDataLost)
    );
}

#[test]
fn a_transfer_shows_its_progress_and_no_query() {
    let stopped =
        running(|volume| volume.not_running = stopped("Error", "cannot read https://h/a?sig=secret now"));
    let case = Case::syncing(stopped);
    let plan = case.plan();
    assert_eq!(plan.status.progress.as_deref(), Some("42.10%"));
    assert_eq!(plan.status.message, "Error: cannot read https://h/a now");
    assert_eq!(plan.actions, []);
    assert_eq!(plan.again, Some(Duration::from_secs(3500)));
}

#[test]
fn the_snapshot_follows_the_data_and_the_phase_follows_the_snapshot() {
    let mut case = Case::syncing(DataVolume { prepopulated: false, ..volume(Transfer::Succeeded) });
    let plan = case.plan();
    let mark = Action::MarkPrepopulated { uid: "uid-volume".to_owned() };
    assert_eq!(plan.actions, [mark, Action::CreateSnapshot]);
    assert_eq!(state(&plan), (ImagePhase::Syncing, Reason::SnapshotPending));

    case.image.status = plan.status;
    case.backing.data_volume = Found::Ours(volume(Transfer::Succeeded));
    case.backing.snapshot = Found::Ours(snapshot(false));
    let plan = case.plan();
    assert_eq!((plan.actions.len(), state(&plan)), (0, (ImagePhase::Syncing, Reason::SnapshotPending)));

    case.backing.snapshot = Found::Ours(snapshot(true));
    let plan = case.plan();
    assert_eq!(plan.actions, [Action::ApplyDataSource { target: DataTarget::Snapshot }]);
    assert_eq!(state(&plan), (ImagePhase::Ready, Reason::Synced));
    assert_eq!((plan.status.ready_at, plan.status.queued_at), (Some(case.now), None));
    assert_eq!(events(&plan), ["SyncCompleted"]);

    case.image.status = plan.status;
    case.backing.data_source = Found::Ours(source());
    case.plan_into_status();
    let settled = case.plan();
    assert_eq!(
        (settled.status, settled.actions, settled.events),
        (case.image.status.clone(), vec![], vec![])
    );
}

#[test]
fn without_snapshots_the_data_source_points_to_the_claim() {
    let mut case = Case::syncing(volume(Transfer::Succeeded));
    case.backing.snapshots_served = false;
    let plan = case.plan();
    assert_eq!(plan.actions, [Action::ApplyDataSource { target: DataTarget::Claim }]);
    assert!(plan.status.message.contains("does not serve snapshots"), "{}", plan.status.message);
    assert_eq!(state(&plan), (ImagePhase::Ready, Reason::Synced));
}

#[test]
fn nothing_is_ready_without_its_objects() {
    let mut case = Case::syncing(volume(Transfer::Succeeded));
    case.backing.data_volume = Found::Missing;
    case.backing.claim = Found::Missing;
    case.backing.snapshot = Found::Missing;
    assert!(!case.plan().status.is_ready());
    // Nor with a claim alone, whose content is unknown.
    case.backing.claim = Found::Ours(claim());
    case.backing.snapshot = Found::Ours(snapshot(true));
    assert_eq!(state(&case.plan()), (ImagePhase::RetryableFailure, Reason::UnknownSyncFailure));
}

/// A user deletes the claim between the transfer and the snapshot. CDI does not create it again.
#[test]
fn a_claim_that_is_lost_after_the_transfer_ends_the_attempt_at_once() {
    let mut case = Case::syncing(volume(Transfer::Succeeded));
    case.backing.claim = Found::Missing;
    let plan = case.plan();
    assert_eq!((plan.actions, plan.reads.backing), (vec![], true), "a cache may be behind");
    case.live = true;
    assert_eq!(state(&case.plan()), (ImagePhase::RetryableFailure, Reason::UnknownSyncFailure));
}

fn running(change: impl FnOnce(&mut DataVolume)) -> DataVolume {
    let mut volume = volume(Transfer::InProgress);
    change(&mut volume);
    volume
}

#[expect(clippy::unnecessary_wraps, reason = "the field is optional")]
fn stopped(reason: &str, message: &str) -> Option<NotRunning> {
    Some(NotRunning { reason: reason.to_owned(), message: message.to_owned() })
}

#[rstest]
#[case::too_long(running(|_| ()), HOUR, Reason::SyncAttemptDurationExceeded)]
#[case::restarts(running(|volume| volume.restarts = 3), MINUTE, Reason::RetryLimitExceeded)]
#[case::missing(
    running(|volume| volume.not_running = stopped("Error", "expected status code 200, got 404. Status: 404 Not Found")),
    MINUTE,
    Reason::MissingSourceArtifact
)]
#[case::failed(volume(Transfer::Failed), MINUTE, Reason::UnknownSyncFailure)]
fn an_attempt_fails_with_its_reason(
    #[case] volume: DataVolume,
    #[case] after: Duration,
    #[case] reason: Reason,
) {
    let case = Case::syncing(volume).after(after);
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
    let mut case = Case::in_phase(ImagePhase::Queued, Reason::BackingDataLost);
    case.backing.data_volume = Found::Ours(DataVolume { deleting: true, ..volume(Transfer::Succeeded) });
    case.backing.claim = Found::Ours(claim());
    case.live = true;
    case.plan_into_status();
    assert_eq!(state(&case.plan()).0, ImagePhase::Queued);
    // when it is gone and the import begins,
    case.backing = Backing::empty();
    let plan = case.plan();
    assert_eq!(plan.actions, [Action::CreateDataVolume]);
    case.plan_into_status();
    // then a create whose response was lost is repeated,
    assert_eq!(case.plan().actions, [Action::CreateDataVolume]);
    // and the new claim is not another one.
    case.backing.data_volume = Found::Ours(running(|volume| volume.uid = "uid-other-volume".to_owned()));
    case.backing.claim = Found::Ours(Claim { uid: "uid-other-claim".to_owned(), ..claim() });
    let plan = case.plan();
    assert_eq!(state(&plan), (ImagePhase::Syncing, Reason::Syncing), "{}", plan.status.message);
}

#[test]
fn a_quota_is_shown_and_is_no_missing_artifact() {
    let text = "exceeded quota: 404 Not Found, requested: requests.storage=10Gi";
    let full = running(|volume| volume.over_quota = Some(text.to_owned()));
    let plan = Case::syncing(full.clone()).plan();
    assert_eq!((state(&plan), plan.status.message.as_str()), ((ImagePhase::Syncing, Reason::Syncing), text));
    let plan = Case::syncing(full).after(HOUR).plan();
    assert_eq!(state(&plan).1, Reason::SyncAttemptDurationExceeded);
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
    let plan = Case::syncing(running(|volume| {
        volume.not_running = stopped(reason, message);
        volume.over_quota = quota.map(str::to_owned);
    }))
    .plan();
    assert_eq!((state(&plan).1, plan.status.message.as_str()), (Reason::Syncing, text));
}

#[rstest]
#[case::two_restarts(running(|volume| volume.restarts = 2), at(100))]
#[case::a_start_in_the_future(running(|_| ()), at(-9_000))]
#[case::a_missing_claim_in_another_message(running(|volume| volume.not_running = stopped("Error", "PVC not found")), at(100))]
fn an_attempt_goes_on(#[case] volume: DataVolume, #[case] now: Timestamp) {
    let case = Case { now, ..Case::syncing(volume) };
    assert_eq!(state(&case.plan()), (ImagePhase::Syncing, Reason::Syncing));
}

#[rstest]
#[case::claim_gone(Found::Missing)]
#[case::another_claim(Found::Ours(Claim { uid: "uid-second".to_owned(), ..claim() }))]
#[case::claim_lost(Found::Ours(Claim { lost: true, ..claim() }))]
fn a_claim_that_is_lost_ends_the_attempt(#[case] found: Found<Claim>) {
    let mut case = Case::syncing(volume(Transfer::InProgress));
    case.plan_into_status();
    case.backing.claim = found;
    assert_eq!(state(&case.plan()), (ImagePhase::RetryableFailure, Reason::UnknownSyncFailure));
}

#[test]
fn a_data_volume_that_is_deleted_ends_the_attempt() {
    let mut case = Case::syncing(volume(Transfer::InProgress));
    case.backing.data_volume = Found::Missing;
    assert_eq!(state(&case.plan()), (ImagePhase::RetryableFailure, Reason::UnknownSyncFailure));
}

#[test]
fn an_unconfirmed_create_is_repeated() {
    let mut case = Case::syncing(volume(Transfer::InProgress));
    case.image.status.data_volume = None;
    case.backing = Backing::empty();
    let plan = case.plan();
    assert_eq!(plan.actions, [Action::CreateDataVolume]);
    assert_eq!(state(&plan), (ImagePhase::Syncing, Reason::Syncing));
}

/// A user deleted the DataVolume before its UID was stored, and kept the claim. CDI would not import into this claim.
#[test]
fn a_create_is_not_repeated_beside_a_claim() {
    let mut case = Case::syncing(volume(Transfer::InProgress));
    case.image.status.data_volume = None;
    case.backing.data_volume = Found::Missing;
    case.backing.claim = Found::Ours(claim());
    case.live = false;
    let plan = case.plan();
    assert!(plan.actions.is_empty() && plan.reads.backing, "the cache may lack the DataVolume: {plan:?}");
    case.live = true;
    let plan = case.plan();
    assert_eq!(state(&plan), (ImagePhase::RetryableFailure, Reason::UnknownSyncFailure));
    assert!(!plan.actions.contains(&Action::CreateDataVolume), "{plan:?}");
}

#[test]
fn after_the_backoff_the_image_is_queued_again_in_its_old_place() {
    let mut case = Case::syncing(volume(Transfer::Failed));
    case.plan_into_status();
    case.backing.data_volume = Found::Ours(DataVolume { deleting: true, ..volume(Transfer::Failed) });
    let early = case.clone().after(2 * MINUTE).plan();
    assert_eq!((state(&early).0, early.again), (ImagePhase::RetryableFailure, Some(MINUTE)));
    let leaving = case.clone().after(3 * MINUTE).plan();
    assert_eq!(state(&leaving).0, ImagePhase::RetryableFailure, "the former DataVolume is not gone");
    case.backing = Backing::empty();
    case.turn = Turn::Unasked;
    let due = case.after(3 * MINUTE).plan();
    assert_eq!(state(&due), (ImagePhase::Queued, Reason::Queued));
    assert_eq!((due.status.queued_at, due.status.failures), (Some(at(0)), 1));
}

#[test]
fn a_failure_after_the_deadline_is_final_until_a_user_asks() {
    let mut case = Case::syncing(volume(Transfer::Failed)).after(12 * HOUR);
    let plan = case.plan();
    assert_eq!(state(&plan), (ImagePhase::Failed, Reason::SyncDeadlineExceeded));
    assert_eq!(plan.again, None);
    assert!(events(&plan).contains(&"SyncFailed"));

    case.image.status = plan.status;
    case.backing = Backing::empty();
    let settled = case.clone().after(100 * HOUR);
    assert_eq!((settled.plan().actions, state(&settled.plan()).0), (vec![], ImagePhase::Failed));

    case.image.retry = Some("again".to_owned());
    case.turn = Turn::Unasked;
    let plan = case.plan();
    assert_eq!(state(&plan).0, ImagePhase::Queued);
    assert_eq!((plan.status.failures, plan.status.queued_at), (0, Some(case.now)));
    assert_eq!(plan.status.retry_token.as_deref(), Some("again"));
}

/// An image that has failed once, whose next attempt would begin after the deadline or is running then.
#[rstest]
#[case::in_its_backoff(ImagePhase::RetryableFailure, None)]
#[case::in_the_queue(ImagePhase::Queued, None)]
#[case::found_again_in_the_queue(ImagePhase::Queued, Some(volume(Transfer::InProgress)))]
#[case::running(ImagePhase::Syncing, Some(volume(Transfer::InProgress)))]
fn no_data_is_transferred_after_the_deadline(
    #[case] phase: ImagePhase,
    #[case] data_volume: Option<DataVolume>,
) {
    let mut case = Case::in_phase(phase, Reason::UnknownSyncFailure);
    case.now = at(0);
    case.backing = data_volume.clone().map_or_else(Backing::empty, |volume| Backing {
        data_volume: Found::Ours(volume),
        ..Backing::empty()
    });
    let last_failure = 11 * HOUR + 50 * MINUTE;
    case.image.status.queued_at = Some(at(0));
    case.image.status.last_failure = Some(at(0).checked_add(last_failure).unwrap());
    case.image.status.failures = 4;
    case.image.status.message = "no route to host".to_owned();
    case.turn = Turn::Given;
    let mut case = case.after(11 * HOUR + 59 * MINUTE);
    case.image.status.sync_started_at = (phase == ImagePhase::Syncing).then_some(case.now);
    let before = case.plan();
    assert_ne!(state(&before).0, ImagePhase::Failed);
    assert!(before.again.is_some_and(|again| again <= MINUTE), "the deadline wakes it: {:?}", before.again);

    let at_the_end = case.after(MINUTE).plan();
    assert_eq!(state(&at_the_end), (ImagePhase::Failed, Reason::SyncDeadlineExceeded));
    let expected: &[Action] = if data_volume.is_some() { &[delete_volume()] } else { &[] };
    assert_eq!(at_the_end.actions, expected);
    let cause = if phase == ImagePhase::Syncing { "was still running" } else { "no route to host" };
    assert!(at_the_end.status.message.contains(cause), "{}", at_the_end.status.message);
}

#[test]
fn the_first_attempt_after_a_long_wait_in_the_queue_gets_its_time() {
    let mut case = Case::in_phase(ImagePhase::Queued, Reason::Queued).after(50 * HOUR);
    case.turn = Turn::Given;
    let plan = case.plan();
    assert_eq!((state(&plan).0, plan.again), (ImagePhase::Syncing, Some(HOUR)));
}

#[test]
fn a_token_that_was_handled_starts_nothing() {
    let mut case = Case::in_phase(ImagePhase::Failed, Reason::SyncDeadlineExceeded);
    case.image.retry = Some("again".to_owned());
    case.image.status.retry_token = Some("again".to_owned());
    assert_eq!(state(&case.plan()).0, ImagePhase::Failed);
}

#[test]
fn a_long_wait_in_the_queue_is_no_failure() {
    let mut case = Case::in_phase(ImagePhase::Queued, Reason::Queued).after(50 * HOUR);
    case.turn = Turn::Unasked;
    assert_eq!(state(&case.plan()), (ImagePhase::Queued, Reason::Queued));
}

#[rstest]
#[case::error(|found: &mut Snapshot| found.error = Some("driver".to_owned()))]
#[case::content(|found: &mut Snapshot| found.content_lost = true)]
#[case::timeout(|found: &mut Snapshot| (found.ready, found.unready_for) = (false, Some(30 * MINUTE)))]
fn a_failed_snapshot_is_tried_again_without_another_transfer(#[case] break_it: fn(&mut Snapshot)) {
    let mut broken = snapshot(true);
    break_it(&mut broken);
    let mut case = Case::syncing(volume(Transfer::Succeeded));
    case.backing.snapshot = Found::Ours(broken);
    case.live = true;
    let plan = case.plan();
    assert_eq!(state(&plan), (ImagePhase::RetryableFailure, Reason::SnapshotFailed));
    assert_eq!(plan.actions, [delete_snapshot()], "the DataVolume stays");

    case.image.status = plan.status;
    case.backing.snapshot = Found::Missing;
    case.turn = Turn::Unasked;
    let plan = case.after(3 * MINUTE).plan();
    assert_eq!(plan.actions, [Action::CreateSnapshot], "it needs no turn");
    assert_eq!(state(&plan), (ImagePhase::Syncing, Reason::SnapshotPending));
}

/// If the clock of the controller is ahead, a new snapshot looks old.
#[rstest]
#[case::ahead(at(100) - HOUR)]
#[case::behind(at(100) + HOUR)]
fn the_time_of_a_snapshot_does_not_depend_on_the_clock_of_the_api_server(#[case] created: Timestamp) {
    let mut case = Case::syncing(DataVolume { created, ..volume(Transfer::Succeeded) });
    case.backing.snapshot =
        Found::Ours(Snapshot { created, unready_for: Some(10 * MINUTE), ..snapshot(false) });
    let plan = case.plan();
    assert_eq!((plan.actions.clone(), plan.again), (vec![], Some(20 * MINUTE)));
    assert_eq!(state(&plan), (ImagePhase::Syncing, Reason::SnapshotPending));
}

/// The status loses the time while the DataVolume is a foreign one, for example because it lacks its label.
#[rstest]
#[case::without_a_conflict(false)]
#[case::during_a_conflict(true)]
fn an_attempt_whose_begin_is_not_recorded_begins_now(#[case] conflict: bool) {
    let mut case = Case::syncing(DataVolume { created: at(0) - 2 * HOUR, ..running(|_| ()) });
    case.image.status.sync_started_at = None;
    if conflict {
        case.backing.data_source = Found::Foreign;
    }
    let plan = case.plan();
    assert_eq!((plan.actions.clone(), state(&plan).0), (vec![], ImagePhase::Syncing));
    assert_eq!(plan.status.sync_started_at, Some(case.now));
    case.image.status = plan.status;
    assert_eq!(case.after(HOUR).plan().status.failures, 1);
}

#[test]
fn a_snapshot_of_earlier_data_is_not_published() {
    let mut case = Case::syncing(DataVolume { created: at(50), ..volume(Transfer::Succeeded) });
    case.backing.snapshot = Found::Ours(snapshot(true));
    let plan = case.plan();
    assert_eq!(plan.actions, [delete_snapshot()]);
    assert!(!plan.status.is_ready());
}

#[test]
fn a_cluster_without_cdi_is_no_failed_attempt() {
    let mut case = Case::new();
    case.backing.importer_served = false;
    let plan = case.plan();
    assert_eq!(state(&plan), (ImagePhase::Queued, Reason::ResourceCreationFailed));
    assert!(plan.status.message.contains("DataVolume"), "{}", plan.status.message);
    assert_eq!((plan.status.failures, plan.again), (0, Some(MINUTE)));
    assert_eq!(plan.actions, []);
}

#[test]
fn an_invalid_spec_imports_nothing() {
    let mut case = Case::new();
    case.image.invalid = Some("the url must not contain a loopback address".to_owned());
    let plan = case.plan();
    assert_eq!(
        (plan.actions.clone(), plan.status.message.as_str()),
        (vec![], "the url must not contain a loopback address")
    );
    assert_eq!(state(&plan), (ImagePhase::Queued, Reason::ResourceCreationFailed));
}

#[rstest]
#[case::create(Action::CreateDataVolume, Some(Reason::ResourceCreationFailed))]
#[case::snapshot(Action::CreateSnapshot, Some(Reason::ResourceCreationFailed))]
#[case::source(Action::ApplyDataSource { target: DataTarget::Snapshot }, Some(Reason::ResourceUpdateFailed))]
#[case::deletion(delete_volume(), None)]
fn a_failed_write_is_a_failed_attempt(#[case] action: Action, #[case] reason: Option<Reason>) {
    let case = Case::in_phase(ImagePhase::Queued, Reason::Queued);
    let plan = write_failed(&case.world(), &action, "exceeded quota");
    match reason {
        Some(reason) => {
            assert_eq!(state(&plan), (ImagePhase::RetryableFailure, reason));
            assert_eq!((plan.status.failures, plan.status.last_failure), (1, Some(case.now)));
            assert_eq!(plan.status.message, "exceeded quota");
        }
        None => assert_eq!(state(&plan), (ImagePhase::Queued, Reason::Queued)),
    }
}

#[test]
fn each_refused_snapshot_is_a_failed_attempt_until_the_deadline() {
    let mut case = Case::in_phase(ImagePhase::RetryableFailure, Reason::ResourceCreationFailed);
    case.backing = Backing { snapshot: Found::Missing, data_source: Found::Missing, ..complete() };
    (case.image.status.queued_at, case.image.status.last_failure) = (Some(case.now), Some(case.now));
    case.image.status.failures = 1;
    let mut case = case.after(3 * MINUTE);
    assert_eq!(case.plan().actions, [Action::CreateSnapshot], "only the snapshot is taken again");
    let plan = write_failed(&case.world(), &Action::CreateSnapshot, "exceeded quota");
    assert_eq!(state(&plan), (ImagePhase::RetryableFailure, Reason::ResourceCreationFailed));
    assert_eq!((plan.status.failures, plan.status.last_failure), (2, Some(case.now)));
    let kept = (plan.status.data_volume.as_deref(), plan.status.claim.as_deref());
    assert_eq!(kept, (Some("uid-volume"), Some("uid-claim")), "they are the objects of the image");
    case.image.status = plan.status;
    assert_eq!(case.clone().after(3 * MINUTE).plan().actions, [], "the backoff increases");
    let case = case.after(12 * HOUR);
    let plan = write_failed(&case.world(), &Action::CreateSnapshot, "exceeded quota");
    assert_eq!(state(&plan), (ImagePhase::Failed, Reason::SyncDeadlineExceeded));
}

#[test]
fn an_image_whose_lost_snapshot_cannot_be_taken_again_is_not_ready() {
    let mut case = Case::ready();
    case.live = true;
    case.backing.snapshot = Found::Missing;
    assert_eq!(case.plan().actions, [Action::CreateSnapshot]);
    let plan = write_failed(&case.world(), &Action::CreateSnapshot, "exceeded quota");
    assert_eq!(state(&plan), (ImagePhase::RetryableFailure, Reason::ResourceCreationFailed));
    assert_eq!((plan.status.failures, plan.status.message.as_str()), (1, "exceeded quota"));
    assert_eq!((plan.status.heal_count, plan.status.heal_times.len()), (1, 1));
    case.image.status = plan.status;
    let mut case = case.after(3 * MINUTE);
    let plan = case.plan();
    assert_eq!(plan.actions, [Action::CreateSnapshot]);
    case.image.status = plan.status;
    case.backing.snapshot = Found::Ours(snapshot(true));
    let plan = case.plan();
    assert!(plan.status.is_ready());
    assert_eq!(plan.status.heal_count, 1);
}

#[test]
fn a_failed_write_to_a_ready_image_leaves_it_ready() {
    let case = Case::ready();
    let action = Action::ApplyDataSource { target: DataTarget::Snapshot };
    assert!(write_failed(&case.world(), &action, "timeout").status.is_ready());
}

#[rstest]
#[case::queued(Case::in_phase(ImagePhase::Queued, Reason::Queued), ImagePhase::Queued)]
#[case::new(Case::new(), ImagePhase::Queued)]
#[case::ready(Case::ready(), ImagePhase::Syncing)]
fn nothing_is_touched_while_a_foreign_object_has_the_name(#[case] mut case: Case, #[case] phase: ImagePhase) {
    case.backing.data_source = Found::Foreign;
    let plan = case.plan();
    assert_eq!(state(&plan), (phase, Reason::NameConflict));
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
    #[case] volume: DataVolume,
    #[case] after: Duration,
    #[case] ends: bool,
) {
    let mut case = Case::syncing(volume);
    case.backing.data_source = Found::Foreign;
    case.plan_into_status();
    if case.image.status.reason == Some(Reason::NameConflict) {
        assert!(case.image.status.sync_started_at.is_some(), "it keeps its place in the queue");
        case = case.after(after);
        case.plan_into_status();
    }
    assert_eq!(case.image.status.failures, u32::from(ends));
    let plan = case.plan();
    assert_eq!(state(&plan).1, Reason::NameConflict);
    assert_eq!(state(&plan).0, if ends { ImagePhase::RetryableFailure } else { ImagePhase::Syncing });
}

#[rstest]
#[case::that_runs(running(|_| ()), vec![delete_volume()])]
#[case::that_is_complete(volume(Transfer::Succeeded), vec![])]
fn past_its_limits_a_conflict_ends_only_an_own_import(
    #[case] volume: DataVolume,
    #[case] actions: Vec<Action>,
    #[values("claim", "snapshot", "source")] foreign: &str,
) {
    let mut case = Case::syncing(volume);
    match foreign {
        "claim" => case.backing.claim = Found::Foreign,
        "snapshot" => case.backing.snapshot = Found::Foreign,
        _ => case.backing.data_source = Found::Foreign,
    }
    assert_eq!(case.after(HOUR).plan().actions, actions);
}

#[test]
fn a_conflict_after_the_transfer_takes_no_place_among_the_imports() {
    let mut case = Case::syncing(volume(Transfer::Succeeded));
    case.backing.data_source = Found::Foreign;
    assert_eq!(case.plan().status.sync_started_at, None);
}

#[test]
fn after_a_conflict_the_image_is_ready_again() {
    let mut case = Case::ready();
    case.backing.data_source = Found::Foreign;
    case.plan_into_status();
    case.backing = complete();
    assert!(case.plan().status.is_ready());
}

#[rstest]
#[case::by_a_claim(|backing: &mut Backing| backing.claim = Found::Foreign)]
#[case::by_a_data_source(|backing: &mut Backing| backing.data_source = Found::Foreign)]
fn a_conflict_leaves_the_snapshot_of_an_image_whose_claim_is_lost(#[case] add: fn(&mut Backing)) {
    let mut case = Case::ready();
    case.live = true;
    case.backing.claim = Found::Missing;
    case.plan_into_status();
    assert_eq!(case.image.status.source_volume_lost, Some(true));
    let before = case.backing.clone();
    add(&mut case.backing);
    let plan = case.plan();
    assert_eq!((plan.actions.clone(), state(&plan)), (vec![], (ImagePhase::Syncing, Reason::NameConflict)));
    case.image.status = plan.status;
    case.backing = before;
    let plan = case.plan();
    assert_eq!(plan.actions, []);
    assert!(plan.status.is_ready(), "{:?}", plan.status);
    assert_eq!(plan.status.source_volume_lost, Some(true));
}

#[test]
fn a_conflict_leaves_a_snapshot_that_may_recover() {
    let mut case = Case::ready();
    case.live = true;
    case.backing.claim = Found::Foreign;
    case.plan_into_status();
    case.backing.claim = Found::Missing;
    case.backing.snapshot = Found::Ours(Snapshot { unready_for: Some(Duration::ZERO), ..snapshot(false) });
    let plan = case.plan();
    assert_eq!(
        (plan.actions.clone(), state(&plan)),
        (vec![], (ImagePhase::Syncing, Reason::SnapshotPending))
    );
    case.image.status = plan.status;
    case.backing.snapshot = Found::Ours(snapshot(true));
    assert!(case.plan().status.is_ready());
}

#[test]
fn a_failed_image_whose_data_is_there_again_is_ready_after_a_request() {
    let mut case = Case::in_phase(ImagePhase::Failed, Reason::HealLimitExceeded);
    case.live = true;
    case.image.status.ready_at = Some(at(20));
    case.image.status.data_volume = Some("uid-volume".to_owned());
    case.backing = complete();
    case.backing.claim = Found::Missing;
    assert_eq!(case.plan().actions, [], "without a request");
    case.image.retry = Some("2".to_owned());
    let plan = case.plan();
    assert_eq!(plan.actions, []);
    assert!(plan.status.is_ready(), "{:?}", plan.status);
    assert_eq!(plan.status.heal_times, []);
}

#[test]
fn a_request_during_a_conflict_keeps_the_last_copy_of_the_data() {
    let mut case = Case::in_phase(ImagePhase::Failed, Reason::HealLimitExceeded);
    case.live = true;
    case.image.status.ready_at = Some(at(20));
    case.backing = complete();
    // Given a user who has made a claim of this name, and asks for another import,
    case.backing.claim = Found::Foreign;
    case.plan_into_status();
    assert_eq!(case.image.status.reason, Some(Reason::NameConflict));
    case.image.retry = Some("2".to_owned());
    case.plan_into_status();
    // when the claim is gone again, then the image is ready from its snapshot.
    case.backing.claim = Found::Missing;
    let plan = case.plan();
    assert_eq!(plan.actions, []);
    assert!(plan.status.is_ready(), "{:?}", plan.status);
}

/// CDI can remove a DataVolume after its success.
#[rstest]
#[case::after_a_failed_snapshot(true)]
#[case::after_a_request(false)]
fn a_snapshot_is_tried_again_from_a_claim_whose_data_volume_is_gone(#[case] fails: bool) {
    let mut case = Case::ready();
    case.live = true;
    case.backing.data_volume = Found::Missing;
    case.backing.snapshot = Found::Missing;
    if fails {
        case.plan_into_status();
        assert_eq!(case.image.status.reason, Some(Reason::SnapshotLost));
        case.backing.snapshot = broken_snapshot();
        let plan = case.plan();
        assert_eq!(state(&plan), (ImagePhase::RetryableFailure, Reason::SnapshotFailed));
        case.image.status = plan.status;
        case.backing.snapshot = Found::Missing;
    } else {
        case.image.status.phase = Some(ImagePhase::Failed);
        case.image.status.reason = Some(Reason::HealLimitExceeded);
        case.image.retry = Some("2".to_owned());
    }
    case.turn = Turn::Unasked;
    let mut case = case.after(4 * MINUTE);
    let plan = case.plan();
    assert_eq!(plan.actions, [Action::CreateSnapshot]);
    assert_eq!(state(&plan), (ImagePhase::Syncing, Reason::SnapshotPending), "{}", plan.status.message);
    case.image.status = plan.status;
    case.backing.snapshot = Found::Ours(snapshot(true));
    assert!(case.plan().status.is_ready());
}

fn broken_snapshot() -> Found<Snapshot> {
    Found::Ours(Snapshot { error: Some("driver".to_owned()), ..snapshot(false) })
}

#[test]
fn the_content_of_a_new_snapshot_is_looked_for_before_the_snapshot_fails() {
    let mut case = Case::syncing(volume(Transfer::Succeeded));
    case.backing.snapshot = Found::Ours(Snapshot { content_lost: true, ..snapshot(false) });
    let plan = case.plan();
    assert_eq!(
        (plan.actions.clone(), plan.reads.backing),
        (vec![], true),
        "the cache of contents may be behind"
    );
    assert_eq!(state(&plan), (ImagePhase::Syncing, Reason::SnapshotPending));
    case.live = true;
    let plan = case.plan();
    assert_eq!(
        (plan.actions.clone(), state(&plan)),
        (vec![delete_snapshot()], (ImagePhase::RetryableFailure, Reason::SnapshotFailed))
    );
}

#[test]
fn times_of_a_clock_that_ran_ahead_count_as_now() {
    let mut case = Case::in_phase(ImagePhase::RetryableFailure, Reason::UnknownSyncFailure);
    case.image.status.failures = 1;
    case.image.status.last_failure = Some(at(100_000));
    let plan = case.plan();
    assert_eq!(plan.status.last_failure, Some(case.now));
    case.image.status = plan.status;
    let backoff = case.settings.backoff(1);
    let case = case.after(backoff);
    assert_eq!(state(&case.plan()).0, ImagePhase::Syncing);
}

#[rstest]
#[case::deadline(Reason::SyncDeadlineExceeded, 3)]
#[case::lost_too_often(Reason::HealLimitExceeded, 0)]
fn after_a_conflict_a_failed_image_has_its_reason_again(#[case] reason: Reason, #[case] failures: u32) {
    let mut case = Case::in_phase(ImagePhase::Failed, reason);
    case.image.status.failures = failures;
    case.backing.data_volume = Found::Ours(volume(Transfer::Succeeded));
    case.backing.snapshot = Found::Foreign;
    case.plan_into_status();
    assert_eq!(case.image.status.reason, Some(Reason::NameConflict));
    case.backing.snapshot = Found::Missing;
    let plan = case.plan();
    assert_eq!((state(&plan), events(&plan)), ((ImagePhase::Failed, reason), vec![]));
    assert!(!plan.status.message.contains("do not belong"), "{}", plan.status.message);
    let deletes = if reason == Reason::HealLimitExceeded { vec![] } else { vec![delete_volume()] };
    assert_eq!(plan.actions, deletes, "the data that is left of lost data stays");
}

#[test]
fn after_a_conflict_a_failed_attempt_still_waits_for_its_backoff() {
    let mut case = Case::in_phase(ImagePhase::RetryableFailure, Reason::RetryLimitExceeded);
    (case.image.status.failures, case.image.status.last_failure) = (1, Some(at(40)));
    case.backing.snapshot = Found::Foreign;
    case.plan_into_status();
    assert_eq!(case.image.status.reason, Some(Reason::NameConflict));
    case.backing.snapshot = Found::Missing;
    let plan = case.plan();
    assert_eq!(state(&plan), (ImagePhase::RetryableFailure, Reason::UnknownSyncFailure));
    assert!(plan.status.message.contains("backoff"), "{}", plan.status.message);
    assert_eq!((plan.actions.len(), plan.again), (0, Some(2 * MINUTE)));
}

#[test]
fn an_import_that_its_controller_left_is_continued() {
    let mut case = Case::in_phase(ImagePhase::Queued, Reason::Queued);
    case.backing.data_volume = Found::Ours(volume(Transfer::InProgress));
    case.turn = Turn::Unasked;
    let plan = case.plan();
    assert_eq!((plan.actions.clone(), state(&plan)), (vec![], (ImagePhase::Syncing, Reason::Syncing)));
}

/// A former leader created the DataVolume after a user had kept the claim of the one before.
#[test]
fn a_data_volume_beside_a_kept_claim_is_no_import() {
    let mut case = Case::in_phase(ImagePhase::Queued, Reason::Queued);
    case.backing.data_volume = Found::Ours(volume(Transfer::InProgress));
    case.backing.claim = Found::Ours(Claim { owned: false, ..claim() });
    case.live = false;
    assert!(case.plan().reads.backing, "the cache may lack the owner of the claim");
    case.live = true;
    let plan = case.plan();
    assert_eq!((plan.actions.clone(), state(&plan).0), (vec![delete_volume()], ImagePhase::Queued));
}

/// The status of the pass that began the import was not written. That of an earlier pass has the UID of the former claim.
#[rstest]
#[case::in_progress(Transfer::InProgress, Reason::Syncing)]
#[case::succeeded(Transfer::Succeeded, Reason::SnapshotPending)]
fn an_import_that_its_controller_left_has_a_claim_of_its_own(
    #[case] transfer: Transfer,
    #[case] reason: Reason,
) {
    let mut case = Case::in_phase(ImagePhase::Queued, Reason::BackingDataLost);
    case.image.status.claim = Some("uid-old".to_owned());
    case.image.status.data_volume = Some("uid-old-volume".to_owned());
    case.backing.data_volume = Found::Ours(volume(transfer));
    case.backing.claim = Found::Ours(claim());
    (case.turn, case.live) = (Turn::Unasked, true);
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
    let mut case = Case::in_phase(ImagePhase::Queued, Reason::BackingDataLost);
    case.image.status.claim = Some("uid-claim".to_owned());
    case.image.status.data_volume = Some("uid-volume".to_owned());
    case.backing.data_volume = Found::Ours(DataVolume { prepopulated: true, ..volume(Transfer::Succeeded) });
    case.backing.claim = Found::Ours(Claim { uid: "uid-other".to_owned(), ..claim() });
    case.live = true;
    assert_eq!(case.plan().actions, [delete_volume()], "the content of a later claim is unknown");
}

#[rstest]
#[case::volume(|backing: &mut Backing| backing.data_volume = Found::Ours(volume(Transfer::Failed)), vec![delete_volume()])]
#[case::snapshot(|backing: &mut Backing| backing.snapshot = Found::Ours(snapshot(true)), vec![delete_snapshot()])]
#[case::claim(|backing: &mut Backing| backing.claim = Found::Ours(claim()), vec![])]
fn an_import_waits_until_earlier_data_is_gone(#[case] add: fn(&mut Backing), #[case] deletes: Vec<Action>) {
    let mut case = Case::in_phase(ImagePhase::Queued, Reason::BackingDataLost);
    add(&mut case.backing);
    let plan = case.plan();
    assert_eq!((plan.actions.len(), plan.reads.backing), (0, true), "a cache may be behind");
    case.live = true;
    let plan = case.plan();
    assert_eq!(plan.actions, deletes);
    assert_eq!(state(&plan), (ImagePhase::Queued, Reason::BackingDataLost));
}
