use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use rstest::rstest;
use vmpool_api::diskimage::values::ImagePhase;
use vmpool_api::diskimage::{VmDiskImage, VmDiskImageSpec};

use super::*;
use crate::model::{NotRunning, ObjectKey, ReferenceList, Transfer};
use crate::read;
use crate::testing::{ImagePassCase, test_time, volume_with_transfer};

/// The status that a pass stores, and the one that the next pass reads.
fn stored(case: &ImagePassCase) -> (VmDiskImageStatus, DiskImageStatus, DiskImageStatus) {
    let planned = case.plan().status;
    let written =
        render_image_status(&case.image, None, &planned, &case.backing, &case.references.list, case.now);
    let mut object = VmDiskImage::new("debian", VmDiskImageSpec::default());
    object.status = Some(written.clone());
    let read = read::image::read_image(&object, &[]).status;
    (written, planned, read)
}

fn in_use() -> ImagePassCase {
    let reference = ImageReference {
        key: ObjectKey::new("a", "web"),
        kind: ReferrerKind::Machine,
        uid: "uid-web".to_owned(),
    };
    let mut case = ImagePassCase::ready();
    case.references = ReferenceList {
        counts: ReferenceCounts { machines: 1, pools: 0, clones: 0 },
        list: vec![reference],
        live: false,
    };
    case
}

fn blocked() -> ImagePassCase {
    let mut case = in_use();
    case.image.deleting = true;
    case
}

fn failed() -> ImagePassCase {
    let mut volume = volume_with_transfer(Transfer::InProgress);
    volume.restarts = 3;
    ImagePassCase::syncing(volume)
}

fn deadline() -> ImagePassCase {
    let mut case = ImagePassCase::in_phase(ImagePhase::Failed, DiskImageReason::SyncDeadlineExceeded);
    case.image.status.failures = 7;
    case.image.status.last_failure = Some(test_time(90));
    case.image.status.retry_token = Some("1".to_owned());
    case.image.status.heal_times = vec![test_time(1), test_time(2)];
    case.image.status.heal_count = 2;
    case
}

#[rstest]
#[case::a_new_image(ImagePassCase::new())]
#[case::an_import(ImagePassCase::syncing(volume_with_transfer(Transfer::InProgress)))]
#[case::a_ready_image(ImagePassCase::ready())]
#[case::an_image_in_use(in_use())]
#[case::a_deletion_that_waits(blocked())]
#[case::a_failed_attempt(failed())]
#[case::a_failed_import(deadline())]
fn what_is_stored_is_read_back_and_not_written_again(#[case] case: ImagePassCase) {
    let (written, planned, read) = stored(&case);
    assert_eq!(read, planned);
    // A later pass with the same result has the same status, so it writes nothing.
    let later = test_time(5000);
    let again =
        render_image_status(&case.image, Some(&written), &read, &case.backing, &case.references.list, later);
    assert_eq!(again, written);
}

#[test]
fn the_transition_time_changes_with_the_status_only() {
    let syncing = ImagePassCase::syncing(volume_with_transfer(Transfer::InProgress));
    let (written, ..) = stored(&syncing);
    let mut planned = syncing.plan().status;
    let ready = |status: &VmDiskImageStatus| {
        let conditions = status.conditions.clone().unwrap_or_default();
        conditions.into_iter().find(|condition| condition.type_ == "Ready").unwrap()
    };
    planned.reason = Some(DiskImageReason::SnapshotPending);
    let pending =
        render_image_status(&syncing.image, Some(&written), &planned, &syncing.backing, &[], test_time(5000));
    assert_eq!(ready(&pending).last_transition_time, ready(&written).last_transition_time);
    assert_eq!(ready(&pending).reason, "SnapshotPending");
    planned.reason = Some(DiskImageReason::Synced);
    let synced =
        render_image_status(&syncing.image, Some(&written), &planned, &syncing.backing, &[], test_time(5000));
    assert_eq!(ready(&synced).last_transition_time, Time(test_time(5000)));
    assert_eq!(ready(&synced).status, "True");
}

#[test]
fn no_text_of_another_object_makes_the_status_too_long() {
    let mut volume = volume_with_transfer(Transfer::InProgress);
    volume.progress = Some("z".repeat(100));
    volume.not_running = Some(NotRunning { reason: "Error".to_owned(), message: "y".repeat(40_000) });
    let (written, ..) = stored(&ImagePassCase::syncing(volume));
    assert!(written.progress.unwrap().len() <= 64);
    assert!(written.message.unwrap().len() <= 32_768);
    assert!(written.conditions.unwrap().iter().all(|condition| condition.message.len() <= 32_768));
}
