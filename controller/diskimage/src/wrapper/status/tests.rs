use rstest::rstest;
use serde_json::json;
use vmpool_api::diskimage::values::WrapperPhase;

use super::*;
use crate::testing::at;

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

fn ready() -> Status {
    Status {
        phase: Some(WrapperPhase::Ready),
        message: String::new(),
        mark: Some(Mark { image: Key::new("team-a", "debian"), uid: "uid-image".to_owned() }),
        bound: true,
        machine: Some("uid-machine".to_owned()),
        started: true,
        disk: Some(KnownDisk { volume: "uid-disk".to_owned(), claim: Some("uid-claim".to_owned()) }),
        kicks: 2,
        last_kick: Some(at(9)),
        image: Some(ImageReason::ImageReady),
        virtual_machine: Some(MachineReason::MachineReady),
        differences: Some(vec![]),
        compared: 1,
        ready: true,
    }
}

fn failing(reason: ImageReason) -> Status {
    Status {
        phase: Some(WrapperPhase::Provisioning),
        message: "why".to_owned(),
        image: Some(reason),
        virtual_machine: Some(MachineReason::NotCreated),
        ready: false,
        ..Status::default()
    }
}

fn reasons(stored: Option<&Status>, now: &Status) -> Vec<&'static str> {
    let mut wrapper = wrapper();
    wrapper.status = stored.map(|stored| render(&wrapper, stored, at(1)));
    let rendered = render(&wrapper, now, at(2));
    events(wrapper.status.as_ref(), &rendered).into_iter().map(|event| event.reason).collect()
}

#[test]
fn a_stored_status_is_read_back_and_rendered_equally() {
    let mut wrapper = wrapper();
    let planned = ready();
    let stored = render(&wrapper, &planned, at(1));
    wrapper.status = Some(stored.clone());
    assert_eq!(read(&stored), Status { differences: None, compared: 0, ..planned.clone() });
    // A later pass changes nothing.
    assert_eq!(render(&wrapper, &planned, at(99)), stored);
}

#[test]
fn the_condition_ready_has_the_reason_of_what_is_missing() {
    let reason = |status: &Status| {
        let rendered = render(&wrapper(), status, at(1));
        condition(&rendered, READY).map(|ready| (ready.status.clone(), ready.reason.clone())).unwrap()
    };
    assert_eq!(reason(&ready()), ("True".to_owned(), "MachineReady".to_owned()));
    let waits = failing(ImageReason::ImageSyncing);
    assert_eq!(reason(&waits), ("False".to_owned(), "ImageSyncing".to_owned()));
    let off = Status { virtual_machine: Some(MachineReason::DiskNotReady), ready: false, ..ready() };
    assert_eq!(reason(&off), ("False".to_owned(), "DiskNotReady".to_owned()));
}

#[test]
fn a_time_changes_only_with_the_status_of_its_condition() {
    let mut wrapper = wrapper();
    wrapper.status = Some(render(&wrapper, &failing(ImageReason::ImageSyncing), at(1)));
    let since = |status: &VirtualMachineStatus| condition(status, READY).unwrap().last_transition_time.0;
    assert_eq!(since(&render(&wrapper, &failing(ImageReason::ImageFailed), at(2))), at(1));
    assert_eq!(since(&render(&wrapper, &ready(), at(3))), at(3));
}

#[test]
fn events_are_about_changes() {
    assert_eq!(reasons(None, &ready()), ["ImageBound"]);
    assert_eq!(reasons(Some(&ready()), &ready()), Vec::<&str>::new());
    for reason in [
        ImageReason::ImageNotFound,
        ImageReason::ImageTerminating,
        ImageReason::RefNotPermitted,
        ImageReason::CreateNotPermitted,
    ] {
        assert_eq!(reasons(None, &failing(reason)), [reason.as_str()]);
        assert_eq!(reasons(Some(&failing(reason)), &failing(reason)), Vec::<&str>::new());
    }
    assert_eq!(reasons(None, &failing(ImageReason::ImageSyncing)), Vec::<&str>::new());
    let conflict = Status { virtual_machine: Some(MachineReason::NameConflict), ..ready() };
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
    let disk = KnownDisk { volume: volume.to_owned(), claim: claim.map(str::to_owned) };
    let now = Status { disk: Some(disk), ..ready() };
    let expected = if lost { vec![DISK_RECREATED] } else { vec![] };
    assert_eq!(reasons(Some(&ready()), &now), expected);
    assert_eq!(reasons(Some(&now), &now), Vec::<&str>::new());
    // The disk of another machine is another disk, and a status of an older version has none.
    let other = Status { machine: Some("uid-second".to_owned()), ..now.clone() };
    assert_eq!(reasons(Some(&ready()), &other), Vec::<&str>::new());
    assert_eq!(reasons(Some(&Status { disk: None, ..ready() }), &now), Vec::<&str>::new());
}

#[test]
fn a_mismatch_is_reported_once_for_each_image_and_generation() {
    let mismatch = Status { differences: Some(vec!["url"]), ..ready() };
    assert_eq!(reasons(Some(&ready()), &mismatch), ["TemplateMismatch"]);
    assert_eq!(reasons(Some(&mismatch), &mismatch), Vec::<&str>::new());
    let mut other = mismatch.clone();
    other.mark.as_mut().unwrap().uid = "uid-new".to_owned();
    assert_eq!(reasons(Some(&mismatch), &other), ["ImageBound", "TemplateMismatch"]);
    let changed = Status { compared: 2, ..mismatch.clone() };
    assert_eq!(reasons(Some(&mismatch), &changed), ["TemplateMismatch"], "the image has changed");
    let mut wrapper = wrapper();
    wrapper.status = Some(render(&wrapper, &mismatch, at(1)));
    wrapper.metadata.generation = Some(3);
    let rendered = render(&wrapper, &mismatch, at(2));
    assert_eq!(events(wrapper.status.as_ref(), &rendered).len(), 1);
}

#[test]
fn a_wrapper_without_a_template_matches() {
    let mut wrapper = wrapper();
    wrapper.spec.vm_disk_image_template = None;
    let rendered = render(&wrapper, &Status { differences: None, ..ready() }, at(1));
    let found = condition(&rendered, TEMPLATE_MATCHES).unwrap();
    assert_eq!((found.status.as_str(), found.reason.as_str()), ("True", "NoTemplate"));
}
