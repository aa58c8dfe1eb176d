use super::*;
use crate::model::DiskImageStatus;
use crate::testing;

fn image(name: &str, phase: ImagePhase, reason: DiskImageReason, queued: i64) -> DiskImage {
    let status = DiskImageStatus {
        phase: Some(phase),
        reason: Some(reason),
        queued_at: Some(Timestamp::from_second(queued).unwrap()),
        ..DiskImageStatus::default()
    };
    DiskImage { key: ObjectKey::new("images", name), status, ..testing::image_without_status() }
}

fn waiting(name: &str, queued: i64) -> DiskImage {
    image(name, ImagePhase::Queued, DiskImageReason::Queued, queued)
}

fn queue(images: &[DiskImage]) -> ImportQueue {
    let mut queue = ImportQueue::default();
    for image in images {
        queue.observe(image);
    }
    queue
}

/// Places of which one namespace can take all.
fn places(all: usize) -> ImportConcurrency {
    ImportConcurrency { all, per_namespace: all }
}

fn turn(queue: &mut ImportQueue, name: &str) -> bool {
    queue.admit_import(&ObjectKey::new("images", name), places(2))
}

#[test]
fn the_longest_waiting_images_start_first() {
    let mut queue = queue(&[waiting("a", 30), waiting("b", 10), waiting("c", 20), waiting("d", 20)]);
    assert!(!turn(&mut queue, "a"));
    assert!(!turn(&mut queue, "d"), "the name decides between equal times");
    assert!(turn(&mut queue, "b"));
    assert!(turn(&mut queue, "c"));
    assert!(!turn(&mut queue, "d"));
    assert_eq!((queue.transferring(), queue.len()), (2, 2));
}

#[test]
fn the_limit_holds_while_the_cache_is_behind() {
    let images = [waiting("a", 1), waiting("b", 2), waiting("c", 3)];
    let mut queue = queue(&images);
    assert!(turn(&mut queue, "a") && turn(&mut queue, "b"));
    // The cache still shows all three as queued.
    for image in &images {
        queue.observe(image);
    }
    assert!(!turn(&mut queue, "c"));
    assert!(turn(&mut queue, "a"), "its pass is repeated");
}

#[test]
fn a_new_leader_counts_the_running_imports() {
    let mut queue = queue(&[
        image("a", ImagePhase::Syncing, DiskImageReason::Syncing, 1),
        image("b", ImagePhase::Syncing, DiskImageReason::Syncing, 2),
        waiting("c", 3),
    ]);
    assert!(!turn(&mut queue, "c"));
    queue.observe(&image("a", ImagePhase::RetryableFailure, DiskImageReason::UnknownSyncFailure, 1));
    assert!(turn(&mut queue, "c"));
}

#[test]
fn only_transfers_take_a_place() {
    let mut queue = queue(&[
        image("a", ImagePhase::Syncing, DiskImageReason::SnapshotPending, 1),
        image("b", ImagePhase::Syncing, DiskImageReason::SnapshotLost, 1),
        image("c", ImagePhase::Queued, DiskImageReason::NameConflict, 1),
        image("d", ImagePhase::Queued, DiskImageReason::ResourceCreationFailed, 1),
        image("e", ImagePhase::Ready, DiskImageReason::Synced, 1),
        image("f", ImagePhase::Failed, DiskImageReason::SyncDeadlineExceeded, 1),
        waiting("g", 9),
        waiting("h", 9),
    ]);
    assert!(turn(&mut queue, "g") && turn(&mut queue, "h"));
    assert!(!turn(&mut queue, "c"), "an image that cannot start gets no turn");
}

#[test]
fn lost_data_is_imported_through_the_queue() {
    let mut queue = queue(&[image("a", ImagePhase::Queued, DiskImageReason::BackingDataLost, 1)]);
    assert!(turn(&mut queue, "a"));
}

#[test]
fn a_turn_that_is_not_used_is_free_again() {
    let mut queue = queue(&[waiting("a", 1), waiting("b", 2), waiting("c", 3)]);
    assert!(turn(&mut queue, "a") && turn(&mut queue, "b"));
    queue.revoke_admission(&waiting("a", 1));
    queue.remove(&ObjectKey::new("images", "b"));
    assert_eq!(queue.transferring(), 0);
    assert_eq!(queue.next(places(2)), [ObjectKey::new("images", "c")]);
    assert!(turn(&mut queue, "c"));
}

#[test]
fn an_image_that_is_deleted_during_its_import_keeps_its_place() {
    // The first pass over the deletion changes the reason, and the import continues. Its end clears the time.
    for reason in [DiskImageReason::Syncing, DiskImageReason::Terminating] {
        let mut deleted = DiskImage { deleting: true, ..image("a", ImagePhase::Syncing, reason, 1) };
        deleted.status.sync_started_at = Some(Timestamp::from_second(2).unwrap());
        assert_eq!(queue(&[deleted.clone()]).transferring(), 1, "{reason:?}");
        deleted.status.sync_started_at = None;
        assert_eq!(queue(&[deleted]).transferring(), 0, "{reason:?}");
    }
    let waiting = DiskImage { deleting: true, ..waiting("b", 1) };
    assert!(queue(&[waiting]).is_empty());
}

#[test]
fn an_image_with_a_conflict_during_its_import_keeps_its_place() {
    let mut conflict = image("a", ImagePhase::Syncing, DiskImageReason::NameConflict, 1);
    conflict.status.sync_started_at = Some(Timestamp::from_second(2).unwrap());
    assert_eq!(queue(&[conflict.clone()]).transferring(), 1);
    conflict.status.sync_started_at = None;
    assert_eq!(queue(&[conflict]).transferring(), 0);
}

fn at_version(version: &str, image: DiskImage) -> DiskImage {
    DiskImage { resource_version: version.to_owned(), ..image }
}

#[test]
fn an_older_observation_changes_nothing() {
    let running = at_version("9", image("a", ImagePhase::Syncing, DiskImageReason::Syncing, 1));
    let mut queue = queue(&[running]);
    queue.observe(&at_version("8", waiting("a", 1)));
    assert_eq!((queue.transferring(), queue.len()), (1, 0));
    // Also after the import ended.
    queue.observe(&at_version("12", image("a", ImagePhase::Ready, DiskImageReason::Synced, 1)));
    queue.observe(&at_version("9", image("a", ImagePhase::Syncing, DiskImageReason::Syncing, 1)));
    assert_eq!((queue.transferring(), queue.len()), (0, 0));
}

#[test]
fn a_successor_does_not_inherit_a_turn() {
    let mut queue = queue(&[at_version("5", waiting("a", 1))]);
    assert!(queue.admit_import(&ObjectKey::new("images", "a"), places(1)));
    let successor = DiskImage { uid: "uid-successor".to_owned(), ..at_version("7", waiting("a", 9)) };
    queue.observe(&successor);
    assert_eq!((queue.transferring(), queue.len()), (0, 1));
    // The predecessor's last version comes late.
    queue.observe(&at_version("6", image("a", ImagePhase::Syncing, DiskImageReason::Syncing, 1)));
    assert_eq!((queue.transferring(), queue.len()), (0, 1));
}

#[test]
fn an_image_that_cannot_start_keeps_no_other_image_waiting() {
    let images = [waiting("a", 1), waiting("b", 2)];
    let key = |name| ObjectKey::new("images", name);
    let mut queue = queue(&images);
    assert!(queue.admit_import(&key("a"), places(1)));
    queue.revoke_admission(&images[0]);
    queue.observe(&images[0]);
    assert_eq!(queue.next(places(1)), [key("b")]);
    assert!(queue.admit_import(&key("b"), places(1)));
    // Meanwhile the first one could start. When the place is free, it is the next one.
    assert!(!queue.admit_import(&key("a"), places(1)));
    queue.remove(&key("b"));
    assert_eq!(queue.next(places(1)), [key("a")]);
    assert!(queue.admit_import(&key("a"), places(1)));
}

/// An image of a namespace that waits since a moment.
fn of(namespace: &str, name: &str, queued: i64) -> DiskImage {
    DiskImage { key: ObjectKey::new(namespace, name), ..waiting(name, queued) }
}

fn key(namespace: &str, name: &str) -> ObjectKey {
    ObjectKey::new(namespace, name)
}

#[test]
fn imports_of_one_namespace_keep_no_other_namespace_waiting() {
    let places = ImportConcurrency { all: 10, per_namespace: 5 };
    let mut queue = ImportQueue::default();
    for number in 0..12 {
        queue.observe(&of("greedy", &format!("hangs-{number:02}"), 1));
    }
    let started =
        (0..12).filter(|number| queue.admit_import(&key("greedy", &format!("hangs-{number:02}")), places));
    assert_eq!(started.count(), 5);
    queue.observe(&of("other", "debian", 99));
    assert_eq!(queue.next(places), [key("other", "debian")]);
    assert!(queue.admit_import(&key("other", "debian"), places));
}

#[test]
fn a_free_place_goes_to_the_namespace_with_the_fewest_imports() {
    let mut queue = queue(&[of("a", "1", 1), of("a", "2", 2), of("a", "3", 3), of("b", "1", 4)]);
    assert!(queue.admit_import(&key("a", "1"), places(1)));
    assert_eq!(queue.next(places(2)), [key("b", "1")]);
    assert_eq!(queue.next(places(4)), [key("b", "1"), key("a", "2"), key("a", "3")]);
}

#[test]
fn namespaces_take_turns_also_with_one_place() {
    let mut queue = ImportQueue::default();
    for number in 1..=3 {
        queue.observe(&of("a", &number.to_string(), number));
        queue.observe(&of("b", &number.to_string(), 100 + number));
    }
    let mut order = Vec::new();
    while let Some(next) = queue.next(places(1)).pop() {
        assert!(queue.admit_import(&next, places(1)));
        queue.remove(&next);
        order.push(next.to_string());
    }
    assert_eq!(order, ["a/1", "b/1", "a/2", "b/2", "a/3", "b/3"]);
}

#[test]
fn an_empty_disk_needs_no_place() {
    let blank = |name, phase, reason| DiskImage { blank: true, ..image(name, phase, reason, 1) };
    let mut queue = queue(&[
        blank("a", ImagePhase::Syncing, DiskImageReason::Syncing),
        blank("b", ImagePhase::Queued, DiskImageReason::Queued),
        waiting("c", 2),
    ]);
    assert_eq!((queue.transferring(), queue.len()), (0, 1));
    assert!(queue.admit_import(&key("images", "c"), places(1)));
}

#[test]
fn an_image_that_waits_for_an_upload_keeps_no_other_image_waiting() {
    let upload = DiskImage { upload: true, ..image("a", ImagePhase::Syncing, DiskImageReason::Syncing, 1) };
    let mut queue = queue(&[upload, waiting("b", 2)]);
    assert_eq!((queue.transferring(), queue.len()), (0, 1));
    assert!(queue.admit_import(&key("images", "b"), places(1)));
}
