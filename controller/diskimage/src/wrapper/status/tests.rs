use rstest::rstest;
use serde_json::json;
use vmpool_api::diskimage::values::WrapperPhase;

use super::*;
use crate::testing::test_time;

fn wrapper() -> VirtualMachine {
    serde_json::from_value(json!({
        "apiVersion": "vmpool.dev/v1alpha1", "kind": "VirtualMachine",
        "metadata": { "name": "web", "namespace": "team-a", "uid": "uid-web", "generation": 2 },
        "spec": {
            "vmDiskImageRef": { "name": "debian" },
            "vmDiskImageTemplate": { "sourceType": "blank", "diskSize": "1Gi" },
            "virtualMachineTemplate": { "spec": { "template": {} } },
        },
    }))
    .unwrap()
}

fn ready() -> WrapperStatus {
    WrapperStatus {
        phase: Some(WrapperPhase::Ready),
        message: String::new(),
        mark: Some(ImageMark { image: ObjectKey::new("team-a", "debian"), uid: "uid-image".to_owned() }),
        bound: true,
        machine: Some("uid-machine".to_owned()),
        started: true,
        disk: Some(RecordedDisk { volume: "uid-disk".to_owned(), claim: Some("uid-claim".to_owned()) }),
        kicks: 2,
        last_kick: Some(test_time(9)),
        image: Some(WrapperImageReason::ImageReady),
        virtual_machine: Some(WrapperMachineReason::MachineReady),
        differences: Some(vec![]),
        compared: 1,
        ready: true,
    }
}

fn failing(reason: WrapperImageReason) -> WrapperStatus {
    WrapperStatus {
        phase: Some(WrapperPhase::Provisioning),
        message: "why".to_owned(),
        image: Some(reason),
        virtual_machine: Some(WrapperMachineReason::NotCreated),
        ready: false,
        ..WrapperStatus::default()
    }
}

fn reasons(stored: Option<&WrapperStatus>, now: &WrapperStatus) -> Vec<&'static str> {
    let mut wrapper = wrapper();
    wrapper.status = stored.map(|stored| render_wrapper_status(&wrapper, stored, test_time(1)));
    let rendered = render_wrapper_status(&wrapper, now, test_time(2));
    wrapper_events(wrapper.status.as_ref(), &rendered).into_iter().map(|event| event.reason).collect()
}

#[test]
fn a_stored_status_is_read_back_and_rendered_equally() {
    let mut wrapper = wrapper();
    let planned = ready();
    let stored = render_wrapper_status(&wrapper, &planned, test_time(1));
    wrapper.status = Some(stored.clone());
    assert_eq!(
        read_wrapper_status(&stored),
        WrapperStatus { differences: None, compared: 0, ..planned.clone() }
    );
    // A later pass changes nothing.
    assert_eq!(render_wrapper_status(&wrapper, &planned, test_time(99)), stored);
}

#[test]
fn the_condition_ready_has_the_reason_of_what_is_missing() {
    let reason = |status: &WrapperStatus| {
        let rendered = render_wrapper_status(&wrapper(), status, test_time(1));
        wrapper_condition(&rendered, WrapperConditionType::Ready)
            .map(|ready| (ready.status.clone(), ready.reason.clone()))
            .unwrap()
    };
    assert_eq!(reason(&ready()), ("True".to_owned(), "MachineReady".to_owned()));
    let waits = failing(WrapperImageReason::ImageSyncing);
    assert_eq!(reason(&waits), ("False".to_owned(), "ImageSyncing".to_owned()));
    let off =
        WrapperStatus { virtual_machine: Some(WrapperMachineReason::DiskNotReady), ready: false, ..ready() };
    assert_eq!(reason(&off), ("False".to_owned(), "DiskNotReady".to_owned()));
}

#[test]
fn a_time_changes_only_with_the_status_of_its_condition() {
    let mut wrapper = wrapper();
    wrapper.status =
        Some(render_wrapper_status(&wrapper, &failing(WrapperImageReason::ImageSyncing), test_time(1)));
    let since = |status: &VirtualMachineStatus| {
        wrapper_condition(status, WrapperConditionType::Ready).unwrap().last_transition_time.0
    };
    assert_eq!(
        since(&render_wrapper_status(&wrapper, &failing(WrapperImageReason::ImageFailed), test_time(2))),
        test_time(1)
    );
    assert_eq!(since(&render_wrapper_status(&wrapper, &ready(), test_time(3))), test_time(3));
}

#[test]
fn events_are_about_changes() {
    assert_eq!(reasons(None, &ready()), ["ImageBound"]);
    assert_eq!(reasons(Some(&ready()), &ready()), Vec::<&str>::new());
    for reason in [
        WrapperImageReason::ImageNotFound,
        WrapperImageReason::ImageTerminating,
        WrapperImageReason::RefNotPermitted,
        WrapperImageReason::CreateNotPermitted,
    ] {
        assert_eq!(reasons(None, &failing(reason)), [reason.as_str()]);
        assert_eq!(reasons(Some(&failing(reason)), &failing(reason)), Vec::<&str>::new());
    }
    assert_eq!(reasons(None, &failing(WrapperImageReason::ImageSyncing)), Vec::<&str>::new());
    let conflict = WrapperStatus { virtual_machine: Some(WrapperMachineReason::NameConflict), ..ready() };
    assert_eq!(reasons(Some(&ready()), &conflict), ["NameConflict"]);
}

#[rstest]
#[case::the_same("uid-disk", Some("uid-claim"), false)]
#[case::another_volume("uid-new", Some("uid-claim"), true)]
#[case::another_volume_without_a_claim_yet("uid-new", None, true)]
#[case::another_claim("uid-disk", Some("uid-new"), true)]
#[case::a_claim_that_is_gone("uid-disk", None, false)]
fn a_disk_in_the_place_of_the_known_one_is_reported_once(
    #[case] volume: &str,
    #[case] claim: Option<&str>,
    #[case] lost: bool,
) {
    let disk = RecordedDisk { volume: volume.to_owned(), claim: claim.map(str::to_owned) };
    let now = WrapperStatus { disk: Some(disk), ..ready() };
    let expected = if lost { vec![DISK_RECREATED] } else { vec![] };
    assert_eq!(reasons(Some(&ready()), &now), expected);
    assert_eq!(reasons(Some(&now), &now), Vec::<&str>::new());
    // The disk of another machine is another disk, and a status of an older version has none.
    let other = WrapperStatus { machine: Some("uid-second".to_owned()), ..now.clone() };
    assert_eq!(reasons(Some(&ready()), &other), Vec::<&str>::new());
    assert_eq!(reasons(Some(&WrapperStatus { disk: None, ..ready() }), &now), Vec::<&str>::new());
}

#[test]
fn a_mismatch_is_reported_once_for_each_image_and_generation() {
    let mismatch = WrapperStatus { differences: Some(vec!["url"]), ..ready() };
    assert_eq!(reasons(Some(&ready()), &mismatch), ["TemplateMismatch"]);
    assert_eq!(reasons(Some(&mismatch), &mismatch), Vec::<&str>::new());
    let mut other = mismatch.clone();
    other.mark.as_mut().unwrap().uid = "uid-new".to_owned();
    assert_eq!(reasons(Some(&mismatch), &other), ["ImageBound", "TemplateMismatch"]);
    let changed = WrapperStatus { compared: 2, ..mismatch.clone() };
    assert_eq!(reasons(Some(&mismatch), &changed), ["TemplateMismatch"], "the image has changed");
    let mut wrapper = wrapper();
    wrapper.status = Some(render_wrapper_status(&wrapper, &mismatch, test_time(1)));
    wrapper.metadata.generation = Some(3);
    let rendered = render_wrapper_status(&wrapper, &mismatch, test_time(2));
    assert_eq!(wrapper_events(wrapper.status.as_ref(), &rendered).len(), 1);
}

#[test]
fn a_wrapper_without_a_template_matches() {
    let mut wrapper = wrapper();
    wrapper.spec.vm_disk_image_template = None;
    let rendered =
        render_wrapper_status(&wrapper, &WrapperStatus { differences: None, ..ready() }, test_time(1));
    let found = wrapper_condition(&rendered, WrapperConditionType::TemplateMatches).unwrap();
    assert_eq!((found.status.as_str(), found.reason.as_str()), ("True", "NoTemplate"));
}
