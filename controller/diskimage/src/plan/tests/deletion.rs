use rstest::rstest;

use super::*;
use crate::model::{
    DeletionBlocked, ImageReference, ObjectKey, ReferenceCounts, ReferenceList, ReferrerKind,
};

fn deleting() -> ImagePassCase {
    let mut case = ImagePassCase::ready();
    case.image.deleting = true;
    case
}

fn references(count: usize, live: bool) -> ReferenceList {
    let list: Vec<ImageReference> = (0..count)
        .map(|at| ImageReference {
            key: ObjectKey::new("team-a", format!("web-{at:02}")),
            kind: ReferrerKind::Machine,
            uid: format!("uid-{at}"),
        })
        .collect();
    ReferenceList { counts: ReferenceCounts { machines: count, ..ReferenceCounts::default() }, list, live }
}

#[rstest]
#[case::in_the_cache(false)]
#[case::in_a_list(true)]
fn a_deletion_waits_for_references_and_names_them(#[case] live: bool) {
    let mut case = deleting();
    case.references = references(12, live);
    let plan = case.plan();
    assert_eq!((plan.actions.clone(), plan.reads), (vec![], RequiredReads::default()));
    assert_eq!(plan.status.deletion, Some(DeletionBlocked::InUse));
    let message = &plan.status.message;
    assert!(
        message.contains("VirtualMachine team-a/web-00") && message.ends_with("web-09 and 2 more"),
        "{message}"
    );
    assert!(plan.status.is_usable(), "the references keep working");
    assert_eq!(events(&plan), ["DeletionBlocked"]);

    case.image.status = plan.status;
    assert_eq!(events(&case.plan()), Vec::<&str>::new());
    case.references = references(11, live);
    assert_eq!(events(&case.plan()), ["DeletionBlocked"], "the count has changed");
}

#[test]
fn a_cache_that_shows_no_reference_deletes_nothing() {
    let plan = deleting().plan();
    assert_eq!((plan.actions, plan.reads.references), (vec![], true));
}

#[test]
fn without_references_the_data_goes_in_its_order_and_then_the_finalizer() {
    let mut case = deleting();
    case.references = references(0, true);
    let plan = case.plan();
    let delete_source = ImageAction::DeleteDataSource { uid: "uid-source".to_owned() };
    assert_eq!(plan.actions, [delete_source, delete_snapshot(), delete_volume()]);
    assert_eq!(plan.status.deletion, Some(DeletionBlocked::CleanupPending));

    // The garbage collector has not deleted the claim.
    case.image.status = plan.status;
    case.backing = BackingObjects { claim: FoundObject::Ours(bound_claim()), ..BackingObjects::empty() };
    let plan = case.plan();
    assert_eq!((plan.actions.len(), plan.status.deletion), (0, Some(DeletionBlocked::CleanupPending)));

    case.backing = BackingObjects::empty();
    let plan = case.plan();
    assert_eq!((plan.actions.len(), plan.reads.backing), (0, true), "a cache may be behind");
    case.live = true;
    assert_eq!(case.plan().actions, [ImageAction::Unprotect]);
}

#[test]
fn a_claim_that_no_object_owns_blocks_no_deletion() {
    let mut case = deleting();
    case.references = references(0, true);
    case.live = true;
    case.backing = BackingObjects {
        claim: FoundObject::Ours(BackingClaim { owned: false, ..bound_claim() }),
        ..BackingObjects::empty()
    };
    let plan = case.plan();
    assert_eq!(plan.actions, [ImageAction::Unprotect]);
    assert_eq!(events(&plan), ["ClaimKept"]);
    case.backing = BackingObjects::empty();
    assert_eq!(events(&case.plan()), [""; 0]);
}

#[test]
fn foreign_objects_are_neither_deleted_nor_waited_for() {
    let mut case = deleting();
    case.references = references(0, true);
    case.live = true;
    case.backing = BackingObjects {
        data_volume: FoundObject::Foreign,
        claim: FoundObject::Foreign,
        snapshot: FoundObject::Foreign,
        data_source: FoundObject::Foreign,
        ..BackingObjects::empty()
    };
    assert_eq!(case.plan().actions, [ImageAction::Unprotect]);
}

#[test]
fn a_deletion_heals_and_imports_nothing() {
    for phase in ImagePhase::ALL {
        let mut case = ImagePassCase::in_phase(*phase, DiskImageReason::Syncing);
        case.image.deleting = true;
        case.references = references(1, true);
        case.live = true;
        assert_eq!(case.plan().actions, [], "{phase}");
    }
}

#[rstest]
#[case::during_the_transfer(Transfer::InProgress, MINUTE, true)]
#[case::after_its_success(Transfer::Succeeded, MINUTE, false)]
#[case::after_its_failure(Transfer::Failed, MINUTE, false)]
#[case::after_the_longest_attempt(Transfer::InProgress, HOUR, false)]
fn a_blocked_deletion_keeps_the_place_of_its_import_while_it_transfers(
    #[case] transfer: Transfer,
    #[case] elapsed: Duration,
    #[case] keeps: bool,
) {
    let mut case = ImagePassCase::syncing(volume_with_transfer(transfer)).after(elapsed);
    case.image.deleting = true;
    case.references = references(1, true);
    let plan = case.plan();
    assert_eq!((plan.actions.clone(), plan.status.phase), (vec![], Some(ImagePhase::Syncing)));
    assert_eq!(plan.status.sync_started_at.is_some(), keeps);
    case.image.status = plan.status;
    let mut queue = crate::queue::ImportQueue::default();
    queue.observe(&case.image);
    assert_eq!(queue.transferring(), usize::from(keeps));
}

#[test]
fn a_running_import_is_canceled_by_the_clean_up() {
    let mut case = ImagePassCase::syncing(volume_with_transfer(Transfer::InProgress));
    case.image.deleting = true;
    case.references = references(0, true);
    assert_eq!(case.plan().actions, [delete_volume()]);
}

#[test]
fn the_annotation_releases_an_image_that_is_in_use() {
    let mut case = deleting();
    case.image.force_release = true;
    case.references = references(1, false);
    let plan = case.plan();
    assert_eq!(plan.actions.len(), 3);
    assert_eq!(events(&plan), ["ForcedRelease"]);
    assert!(!plan.events[0].warning, "the user asked for it");
    assert!(!plan.status.is_usable(), "no new machine uses data that is being deleted");
    case.image.status = plan.status;
    assert_eq!(events(&case.plan()), Vec::<&str>::new());
}

#[test]
fn an_image_without_the_finalizer_is_left_to_the_garbage_collector() {
    let mut case = deleting();
    case.image.protected = false;
    let plan = case.plan();
    assert_eq!((plan.actions, plan.status), (vec![], case.image.status.clone()));
}

#[test]
fn a_deletion_that_continues_reports_it() {
    let mut case = deleting();
    case.references = references(1, false);
    case.plan_into_status();
    case.references = references(0, true);
    assert_eq!(events(&case.plan()), ["DeletionUnblocked"]);
}

/// The user has withdrawn the release after the clean-up began: what is left is kept for the references.
#[rstest]
#[case::while_data_is_left(ImagePassCase::ready().backing)]
#[case::after_the_last_object_is_gone(BackingObjects::empty())]
fn a_clean_up_stops_when_the_release_of_an_image_in_use_is_withdrawn(#[case] backing: BackingObjects) {
    let mut case = deleting();
    case.image.force_release = true;
    case.references = references(1, true);
    case.plan_into_status();
    assert_eq!(case.image.status.deletion, Some(DeletionBlocked::CleanupPending));
    case.image.force_release = false;
    case.backing = backing;
    case.live = true;
    let plan = case.plan();
    assert_eq!((plan.actions, plan.status.deletion), (vec![], Some(DeletionBlocked::InUse)));
}
