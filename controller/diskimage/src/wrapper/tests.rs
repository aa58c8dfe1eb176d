use rstest::rstest;

use vmpool_api::Quantity;
use vmpool_api::diskimage::values::Mode;

use super::*;
use crate::grants::ImageCreationRefusal;
use crate::testing::test_time;

const MINUTE: Duration = Duration::from_mins(1);

fn source() -> ImageTemplateFields {
    ImageTemplateFields {
        source_type: "blank".to_owned(),
        disk_size: Quantity::new("10Gi"),
        ..ImageTemplateFields::default()
    }
}

fn image() -> WrapperImage {
    WrapperImage {
        uid: "uid-image".to_owned(),
        deleting: false,
        protected: true,
        phase: Some(ImagePhase::Ready),
        usable: true,
        message: "busy".to_owned(),
        generation: 4,
        source: source(),
    }
}

fn machine() -> WrapperMachine {
    WrapperMachine {
        uid: "uid-machine".to_owned(),
        deleting: false,
        current: true,
        ready: true,
        off: false,
        started: true,
    }
}

fn disk() -> WrapperDisk {
    WrapperDisk {
        uid: "uid-disk".to_owned(),
        deleting: false,
        populated: true,
        failed: false,
        stuck_since: None,
        claim: Some("uid-claim".to_owned()),
    }
}

fn mark(uid: &str) -> ImageMark {
    ImageMark { image: ObjectKey::new("images", "debian"), uid: uid.to_owned() }
}

#[derive(Clone)]
struct Case {
    now: Timestamp,
    wrapper: Wrapper,
    image: Option<WrapperImage>,
    live: bool,
    may_refer: bool,
    may_create: Result<(), ImageCreationRefusal>,
    machine: FoundObject<WrapperMachine>,
    disk: Option<WrapperDisk>,
    disk_name: DiskNameOwner,
    disk_name_is_live: bool,
}

impl Case {
    /// A wrapper that the controller sees for the first time, and a ready image.
    fn new() -> Self {
        let wrapper = Wrapper {
            key: ObjectKey::new("team-a", "web"),
            uid: "uid-wrapper".to_owned(),
            deleting: false,
            image: ObjectKey::new("images", "debian"),
            template: Some(source()),
            mode: Mode::CreateIfNotExist,
            disk_size: None,
            unusable: None,
            status: WrapperStatus::default(),
        };
        Self {
            now: test_time(10_000),
            wrapper,
            image: Some(image()),
            live: true,
            may_refer: true,
            may_create: Ok(()),
            machine: FoundObject::Missing,
            disk: None,
            disk_name: DiskNameOwner::Free,
            disk_name_is_live: true,
        }
    }

    /// A wrapper that is bound to the image, without a machine.
    fn bound() -> Self {
        let mut case = Self::new();
        case.wrapper.status.mark = Some(mark("uid-image"));
        case.wrapper.status.bound = true;
        case.wrapper.status.phase = Some(WrapperPhase::Provisioning);
        case.live = false;
        case
    }

    /// A wrapper with a running machine.
    fn ready() -> Self {
        let mut case = Self::bound();
        case.machine = FoundObject::Ours(machine());
        case.disk = Some(disk());
        case.wrapper.status = case.plan().status;
        case
    }

    /// A wrapper whose machine waits for its disk.
    fn with_disk(disk: WrapperDisk) -> Self {
        let mut case = Self::bound();
        case.machine = FoundObject::Ours(WrapperMachine { ready: false, started: false, ..machine() });
        case.wrapper.status.machine = Some("uid-machine".to_owned());
        case.disk = Some(disk);
        case
    }

    fn plan(&self) -> WrapperPlan {
        self.plan_or_read().unwrap()
    }

    fn plan_or_read(&self) -> Step<WrapperPlan, WrapperRead> {
        plan_wrapper(&WrapperPassInput {
            now: self.now,
            wrapper: &self.wrapper,
            image: self.image.as_ref(),
            image_is_live: self.live,
            may_refer: self.may_refer,
            may_create: &self.may_create,
            machine: &self.machine,
            disk: self.disk.as_ref(),
            disk_name: &self.disk_name,
            disk_name_is_live: self.disk_name_is_live,
        })
    }

    fn step(&mut self) -> WrapperPlan {
        let plan = self.plan();
        self.wrapper.status = plan.status.clone();
        plan
    }
}

fn reads(read: WrapperRead) -> Needs<WrapperRead> {
    Needs(vec![read])
}

fn failed(change: impl FnOnce(&mut WrapperDisk)) -> WrapperDisk {
    let mut disk = WrapperDisk { populated: false, ..disk() };
    change(&mut disk);
    disk
}

#[test]
fn a_wrapper_marks_the_image_reads_it_again_and_then_creates_the_machine() {
    let mut case = Case::new();
    case.live = false;
    assert_eq!(case.plan_or_read(), Err(reads(WrapperRead::Image)), "a cache may be behind");

    case.live = true;
    let plan = case.step();
    assert_eq!((plan.status.mark.clone(), plan.status.bound), (Some(mark("uid-image")), false));
    assert_eq!(plan.actions, [], "a mark that is not stored protects nothing");

    case.live = false;
    assert_eq!(case.plan_or_read(), Err(reads(WrapperRead::Image)));
    case.live = true;
    let plan = case.step();
    assert!(plan.status.bound);
    assert_eq!(plan.actions, [WrapperAction::CreateMachine]);
}

#[rstest]
#[case::before_the_mark(None)]
#[case::after_the_mark(Some(mark("uid-image")))]
fn an_image_that_is_being_deleted_is_not_used(#[case] before: Option<ImageMark>) {
    let mut case = Case::new();
    case.wrapper.status.mark = before;
    case.image = Some(WrapperImage { deleting: true, ..image() });
    let plan = case.plan();
    assert_eq!((plan.status.mark, plan.actions), (None, vec![]));
    assert_eq!(plan.status.image, Some(WrapperImageReason::ImageTerminating));
}

#[test]
fn a_bound_wrapper_uses_an_image_whose_deletion_waits_for_it() {
    let mut case = Case::bound();
    case.image = Some(WrapperImage { deleting: true, ..image() });
    let plan = case.plan();
    assert_eq!((plan.status.bound, plan.actions), (true, vec![WrapperAction::CreateMachine]));
}

/// The message of an image names objects of its namespace, and of the namespaces of other references.
#[rstest]
#[case::that_failed(Some(ImagePhase::Failed))]
#[case::that_is_not_ready(Some(ImagePhase::Syncing))]
#[case::without_a_phase(None)]
fn a_wrapper_shows_no_message_of_an_image_of_another_namespace(#[case] phase: Option<ImagePhase>) {
    let message = "the deletion waits for VirtualMachine team-b/hidden".to_owned();
    let mut case = Case::bound();
    case.image = Some(WrapperImage { phase, usable: false, message, ..image() });
    let shown = |case: &Case| format!("{:?}", case.plan().status);
    assert!(shown(&case).contains("images/debian") && !shown(&case).contains("hidden"), "{}", shown(&case));
    case.wrapper.key.namespace = "images".to_owned();
    assert!(shown(&case).contains("hidden"), "its own namespace: {}", shown(&case));
}

#[test]
fn another_image_of_that_name_is_bound_anew() {
    let mut case = Case::bound();
    case.wrapper.status.mark = Some(mark("uid-former"));
    assert_eq!(case.plan_or_read(), Err(reads(WrapperRead::Image)));
    case.live = true;
    let plan = case.plan();
    assert_eq!((plan.status.mark, plan.status.bound), (Some(mark("uid-image")), false));
    assert_eq!(plan.actions, []);
}

#[rstest]
#[case::syncing(Some(ImagePhase::Syncing), WrapperImageReason::ImageSyncing, WrapperPhase::Provisioning)]
#[case::queued(Some(ImagePhase::Queued), WrapperImageReason::ImageSyncing, WrapperPhase::Provisioning)]
#[case::retried(
    Some(ImagePhase::RetryableFailure),
    WrapperImageReason::ImageSyncing,
    WrapperPhase::Provisioning
)]
#[case::new(None, WrapperImageReason::ImageSyncing, WrapperPhase::Provisioning)]
#[case::failed(Some(ImagePhase::Failed), WrapperImageReason::ImageFailed, WrapperPhase::Failed)]
fn no_machine_is_created_before_the_image_is_ready(
    #[case] phase: Option<ImagePhase>,
    #[case] reason: WrapperImageReason,
    #[case] expected: WrapperPhase,
) {
    let mut case = Case::bound();
    case.image = Some(WrapperImage { phase, usable: false, ..image() });
    let plan = case.step();
    assert_eq!(plan.actions, []);
    assert_eq!((plan.status.image, plan.status.phase), (Some(reason), Some(expected)));
    // It recovers with the image.
    case.image = Some(image());
    assert_eq!(case.plan().actions, [WrapperAction::CreateMachine]);
}

#[test]
fn a_missing_image_is_created_from_the_template() {
    let mut case = Case::new();
    case.image = None;
    case.live = false;
    let plan = case.plan();
    assert_eq!(plan.actions, [WrapperAction::CreateImage], "an image that exists is a success of the create");
    assert_eq!(plan.status.image, Some(WrapperImageReason::ImageCreated));
    assert_eq!(plan.status.phase, Some(WrapperPhase::Provisioning));
}

#[test]
fn a_mark_is_removed_only_after_a_read_that_finds_no_image() {
    let mut case = Case::bound();
    (case.image, case.live) = (None, false);
    assert_eq!(case.plan_or_read(), Err(reads(WrapperRead::Image)), "the cache may lack the image");
    case.live = true;
    assert_eq!(case.plan().status.mark, None);
}

#[rstest]
#[case::by_mode(Mode::FailIfNotExist, Some(source()))]
#[case::without_a_template(Mode::CreateIfNotExist, None)]
fn a_missing_image_is_a_failure_that_ends_with_the_image(
    #[case] mode: Mode,
    #[case] template: Option<ImageTemplateFields>,
) {
    let mut case = Case::new();
    (case.wrapper.mode, case.wrapper.template, case.image) = (mode, template, None);
    let plan = case.step();
    assert_eq!((plan.actions, plan.status.phase), (vec![], Some(WrapperPhase::Failed)));
    assert_eq!(plan.status.image, Some(WrapperImageReason::ImageNotFound));
    case.image = Some(image());
    assert_eq!(case.plan().status.phase, Some(WrapperPhase::Provisioning));
}

#[rstest]
#[case::creates(Mode::CreateIfNotExist, vec![WrapperAction::CreateImage], WrapperImageReason::ImageCreated)]
#[case::waits(Mode::FailIfNotExist, vec![], WrapperImageReason::ImageNotFound)]
fn a_provisioned_wrapper_stays_ready_without_its_image(
    #[case] mode: Mode,
    #[case] actions: Vec<WrapperAction>,
    #[case] reason: WrapperImageReason,
) {
    let mut case = Case::ready();
    (case.wrapper.mode, case.image, case.live) = (mode, None, true);
    let plan = case.plan();
    assert_eq!((plan.actions, plan.status.image), (actions, Some(reason)));
    assert_eq!((plan.status.phase, plan.status.ready), (Some(WrapperPhase::Ready), false));
    assert_eq!(plan.status.mark, None);
}

#[rstest]
#[case::the_image_exists(Some(image()))]
#[case::it_does_not(None)]
fn without_a_grant_the_answer_does_not_tell_whether_the_image_exists(#[case] found: Option<WrapperImage>) {
    let mut case = Case::new();
    case.may_refer = false;
    case.may_create = Err(ImageCreationRefusal::NoGrant("images".to_owned()));
    case.image = found;
    let plan = case.plan();
    assert_eq!(plan.actions, []);
    let mut expected = Case { image: None, ..case }.plan();
    expected.status.message.clone_from(&plan.status.message);
    assert_eq!(plan, expected);
    assert_eq!(plan.status.image, Some(WrapperImageReason::RefNotPermitted));
    assert_eq!(plan.status.phase, Some(WrapperPhase::Provisioning));
}

#[test]
fn without_a_grant_to_create_nothing_is_created() {
    let mut case = Case::new();
    (case.image, case.may_create) = (None, Err(ImageCreationRefusal::NoGrant("images".to_owned())));
    let plan = case.plan();
    assert_eq!((plan.actions, plan.status.image), (vec![], Some(WrapperImageReason::CreateNotPermitted)));
}

#[test]
fn after_a_grant_is_removed_the_machine_runs_on() {
    let mut case = Case::ready();
    case.may_refer = false;
    let plan = case.plan();
    assert_eq!((plan.actions, plan.status.phase), (vec![], Some(WrapperPhase::Ready)));
    assert_eq!(plan.status.image, Some(WrapperImageReason::RefNotPermitted));
    case.machine = FoundObject::Missing;
    assert_eq!(case.plan().actions, [], "but no machine is created");
}

#[rstest]
#[case::equal(source(), vec![])]
#[case::size_by_value(ImageTemplateFields { disk_size: Quantity::new("10240Mi"), ..source() }, vec![])]
#[case::size(ImageTemplateFields { disk_size: Quantity::new("11Gi"), ..source() }, vec!["diskSize"])]
#[case::unset(ImageTemplateFields { checksum: None, ..source() }, vec![])]
#[case::several(
    ImageTemplateFields { url: Some("http://h/a".into()), storage_class: Some("fast".into()), ..source() },
    vec!["url", "storageClass"]
)]
#[case::options(
    ImageTemplateFields {
        insecure_skip_verify: Some(true), extra_headers: Some(vec!["X-Mirror: eu".into()]), ..source()
    },
    vec!["insecureSkipVerify", "extraHeaders"]
)]
#[case::verification_by_default(ImageTemplateFields { insecure_skip_verify: Some(false), ..source() }, vec![])]
#[case::type_of_the_source(ImageTemplateFields { source_type: "http".into(), ..source() }, vec!["sourceType"])]
fn an_existing_image_wins_over_the_template(
    #[case] template: ImageTemplateFields,
    #[case] differences: Vec<&'static str>,
) {
    let mut case = Case::bound();
    case.wrapper.template = Some(template);
    let plan = case.plan();
    assert_eq!(plan.status.differences, Some(differences));
    assert_eq!(plan.actions, [WrapperAction::CreateMachine]);
}

#[rstest]
#[case::by_default(None, true)]
#[case::equal(Some("10Gi"), true)]
#[case::larger(Some("20Gi"), true)]
#[case::smaller(Some("9Gi"), false)]
fn a_disk_must_not_be_smaller_than_the_image(#[case] size: Option<&str>, #[case] fits: bool) {
    let mut case = Case::bound();
    case.wrapper.disk_size = size.map(Quantity::new);
    let plan = case.plan();
    assert_eq!(plan.actions.len(), usize::from(fits));
    if !fits {
        assert_eq!(plan.status.phase, Some(WrapperPhase::Failed));
        assert!(plan.status.message.contains("9Gi"), "{}", plan.status.message);
    }
}

#[test]
fn a_wrapper_is_ready_with_its_machine_and_stays_in_that_phase() {
    let mut case = Case::ready();
    assert_eq!((case.wrapper.status.phase, case.wrapper.status.ready), (Some(WrapperPhase::Ready), true));
    let settled = case.plan();
    assert_eq!((settled.actions, settled.status, settled.again), (vec![], case.wrapper.status.clone(), None));
    case.machine = FoundObject::Ours(WrapperMachine { ready: false, ..machine() });
    let plan = case.plan();
    assert_eq!((plan.status.phase, plan.status.ready), (Some(WrapperPhase::Ready), false));
    assert_eq!(plan.status.virtual_machine, Some(WrapperMachineReason::MachineNotReady));
}

#[test]
fn a_machine_that_is_meant_to_be_off_is_ready_with_its_disk() {
    let mut case = Case::ready();
    case.machine = FoundObject::Ours(WrapperMachine { ready: false, off: true, ..machine() });
    assert!(case.plan().status.ready);
    case.disk = Some(WrapperDisk { populated: false, ..disk() });
    assert_eq!(case.plan().status.virtual_machine, Some(WrapperMachineReason::DiskNotReady));
}

#[test]
fn a_deleted_machine_is_created_again() {
    let mut case = Case::ready();
    case.machine = FoundObject::Missing;
    let plan = case.plan();
    assert_eq!(plan.actions, [WrapperAction::CreateMachine]);
    assert_eq!((plan.status.machine, plan.status.started, plan.status.kicks), (None, false, 0));
}

#[test]
fn a_foreign_machine_is_left_alone() {
    let mut case = Case::bound();
    case.machine = FoundObject::Foreign;
    let plan = case.plan();
    assert_eq!((plan.actions, plan.status.phase), (vec![], Some(WrapperPhase::Failed)));
    assert_eq!(plan.status.virtual_machine, Some(WrapperMachineReason::NameConflict));
}

#[test]
fn a_changed_template_is_applied() {
    let mut case = Case::ready();
    case.machine = FoundObject::Ours(WrapperMachine { current: false, ..machine() });
    assert_eq!(case.plan().actions, [WrapperAction::UpdateMachine { uid: "uid-machine".to_owned() }]);
    case.machine = FoundObject::Ours(WrapperMachine { current: false, deleting: true, ..machine() });
    assert_eq!(case.plan().actions, []);
}

#[test]
fn a_wrapper_that_is_being_deleted_keeps_its_mark_and_writes_nothing() {
    let mut case = Case::ready();
    (case.wrapper.deleting, case.machine, case.image) = (true, FoundObject::Missing, None);
    let plan = case.plan();
    assert_eq!((plan.actions, plan.status), (vec![], case.wrapper.status.clone()));
}

#[rstest]
#[case::failed(failed(|disk| disk.failed = true), true)]
#[case::stuck(failed(|disk| disk.stuck_since = Some(test_time(10_000 - 300))), true)]
#[case::not_long_enough(failed(|disk| disk.stuck_since = Some(test_time(10_000 - 299))), false)]
#[case::in_progress(failed(|_| ()), false)]
#[case::being_deleted(failed(|disk| (disk.failed, disk.deleting) = (true, true)), false)]
fn a_disk_whose_clone_does_not_begin_is_made_again(#[case] disk: WrapperDisk, #[case] kicked: bool) {
    let plan = Case::with_disk(disk).plan();
    assert_eq!(plan.actions.len(), usize::from(kicked));
    assert_eq!(plan.status.kicks, u32::from(kicked));
}

#[rstest]
#[case::seen_now(true, false)]
#[case::seen_earlier(false, true)]
fn the_disk_of_a_machine_that_has_ever_started_is_never_deleted(#[case] now: bool, #[case] earlier: bool) {
    let mut case = Case::with_disk(failed(|disk| disk.failed = true));
    case.machine = FoundObject::Ours(WrapperMachine { ready: false, started: now, ..machine() });
    case.wrapper.status.started = earlier;
    let plan = case.plan();
    assert_eq!(plan.actions, []);
    assert!(plan.status.started);
}

#[test]
fn the_disk_of_a_started_machine_is_noted_with_the_start() {
    let known = |volume: &str, claim: Option<&str>| {
        Some(RecordedDisk { volume: volume.to_owned(), claim: claim.map(str::to_owned) })
    };
    let mut case = Case::with_disk(disk());
    assert_eq!(case.step().status.disk, None, "it contains no data of a guest");
    case.machine = FoundObject::Ours(machine());
    let plan = case.step();
    assert_eq!((plan.status.started, plan.status.disk), (true, known("uid-disk", Some("uid-claim"))));
    // Until another one is there, the known one stays.
    case.disk = Some(WrapperDisk { claim: None, ..disk() });
    assert_eq!(case.step().status.disk, known("uid-disk", Some("uid-claim")));
    case.disk = Some(WrapperDisk { deleting: true, uid: "uid-new".to_owned(), ..disk() });
    assert_eq!(case.step().status.disk, known("uid-disk", Some("uid-claim")));
    case.disk = None;
    assert_eq!(case.step().status.disk, known("uid-disk", Some("uid-claim")));
    case.disk = Some(WrapperDisk { uid: "uid-new".to_owned(), claim: None, ..disk() });
    assert_eq!(case.step().status.disk, known("uid-new", None));
    case.machine = FoundObject::Missing;
    assert_eq!(case.step().status.disk, None);
}

#[test]
fn no_disk_is_made_again_while_the_image_is_not_ready() {
    let mut case = Case::with_disk(failed(|disk| disk.failed = true));
    case.image = Some(WrapperImage { usable: false, phase: Some(ImagePhase::Syncing), ..image() });
    assert_eq!(case.plan().actions, []);
}

#[test]
fn three_kicks_ten_minutes_apart_are_enough() {
    let mut case = Case::with_disk(failed(|disk| disk.failed = true));
    for kicks in 1..=3 {
        assert_eq!(case.step().actions, [WrapperAction::Kick { uid: "uid-disk".to_owned() }]);
        assert_eq!(case.wrapper.status.kicks, kicks);
        case.now = case.now.checked_add(9 * MINUTE).unwrap();
        assert_eq!(case.plan().actions, []);
        case.now = case.now.checked_add(MINUTE).unwrap();
    }
    let plan = case.step();
    assert_eq!((plan.actions, plan.status.phase), (vec![], Some(WrapperPhase::Failed)));
    assert_eq!(case.step().status.phase, Some(WrapperPhase::Failed), "it stays so");
}

#[test]
fn another_machine_of_the_wrapper_gets_no_further_kicks() {
    let mut case = Case::with_disk(failed(|disk| disk.failed = true));
    assert_eq!(case.step().actions.len(), 1);
    let renew = |case: &mut Case, uid: &str| {
        case.machine = FoundObject::Missing;
        case.step();
        case.machine = FoundObject::Ours(WrapperMachine {
            uid: uid.to_owned(),
            ready: false,
            started: false,
            ..machine()
        });
    };
    // The ten minutes hold,
    renew(&mut case, "uid-second");
    let plan = case.step();
    assert_eq!((plan.actions, plan.again), (vec![], Some(10 * MINUTE)));
    // and so does the number.
    for kicks in [2, 3] {
        case.now = case.now.checked_add(10 * MINUTE).unwrap();
        renew(&mut case, "uid-next");
        assert_eq!((case.step().actions.len(), case.wrapper.status.kicks), (1, kicks));
    }
    case.now = case.now.checked_add(10 * MINUTE).unwrap();
    renew(&mut case, "uid-last");
    let plan = case.step();
    assert_eq!((plan.actions, plan.status.phase), (vec![], Some(WrapperPhase::Failed)));
    // A disk that is cloned at last is used.
    case.disk = Some(disk());
    case.machine = FoundObject::Ours(machine());
    assert_eq!(case.step().status.phase, Some(WrapperPhase::Ready));
}

#[test]
fn a_wrapper_without_a_machine_gives_up_an_image_that_is_deleted_before_it_is_usable() {
    let mut case = Case::bound();
    case.image = Some(WrapperImage { deleting: true, usable: false, ..image() });
    assert_eq!(case.plan_or_read(), Err(reads(WrapperRead::Image)), "a cache may be behind");
    case.live = true;
    let plan = case.step();
    assert_eq!((plan.status.mark, plan.status.bound), (None, false));
    assert_eq!(plan.status.image, Some(WrapperImageReason::ImageTerminating));
    // When it is gone, its successor is created.
    case.image = None;
    assert_eq!(case.step().actions, [WrapperAction::CreateImage]);
}

#[rstest]
#[case::that_is_created_again(Mode::CreateIfNotExist, "the controller creates it again")]
#[case::that_a_user_creates(Mode::FailIfNotExist, "create it again, or create a wrapper")]
fn a_machine_whose_image_loses_its_data_has_a_wrapper_that_says_what_to_do(
    #[case] mode: Mode,
    #[case] expected: &str,
    #[values(ImagePhase::Ready, ImagePhase::Syncing, ImagePhase::Failed)] phase: ImagePhase,
) {
    let mut case = Case::bound();
    case.wrapper.mode = mode;
    case.wrapper.status.phase = Some(WrapperPhase::Ready);
    case.machine = FoundObject::Ours(machine());
    case.image = Some(WrapperImage { deleting: true, usable: false, phase: Some(phase), ..image() });
    let status = case.plan().status;
    assert_eq!(
        (status.image, status.phase),
        (Some(WrapperImageReason::ImageTerminating), Some(WrapperPhase::Ready))
    );
    assert!(status.message.contains(expected), "{}", status.message);
}

#[rstest]
#[case::a_usable_image(true, FoundObject::Missing)]
#[case::a_machine(false, FoundObject::Ours(machine()))]
fn a_wrapper_that_uses_the_data_keeps_its_mark(
    #[case] usable: bool,
    #[case] machine: FoundObject<WrapperMachine>,
) {
    let mut case = Case::bound();
    case.live = true;
    case.machine = machine;
    case.image = Some(WrapperImage { deleting: true, usable, ..image() });
    let plan = case.plan();
    assert_eq!((plan.status.mark, plan.status.bound), (Some(mark("uid-image")), true));
}

#[test]
fn a_wrapper_is_bound_to_an_image_after_the_image_has_its_finalizer() {
    let mut case = Case::new();
    case.image = Some(WrapperImage { protected: false, ..image() });
    for _ in 0..3 {
        let plan = case.step();
        assert_eq!((plan.status.mark, plan.status.bound), (Some(mark("uid-image")), false));
        assert_eq!(plan.actions, []);
    }
    case.image = Some(image());
    let plan = case.step();
    assert!(plan.status.bound);
    assert_eq!(plan.actions, [WrapperAction::CreateMachine]);
}

#[test]
fn the_name_of_the_disk_is_read_before_the_machine_is_created() {
    let mut case = Case::bound();
    case.disk_name_is_live = false;
    let needs = Err(reads(WrapperRead::DiskName));
    assert_eq!(case.plan_or_read(), needs, "KubeVirt would use what a cache does not show");
    case.disk_name_is_live = true;
    assert_eq!(case.plan().actions, [WrapperAction::CreateMachine]);
}

#[rstest]
#[case::taken(DiskNameOwner::Taken("DataVolume"), WrapperPhase::Failed, WrapperMachineReason::NameConflict)]
#[case::of_another_wrapper(DiskNameOwner::Wrapper("a".to_owned()), WrapperPhase::Failed, WrapperMachineReason::NameConflict)]
#[case::of_the_former_machine(
    DiskNameOwner::Former,
    WrapperPhase::Provisioning,
    WrapperMachineReason::NotCreated
)]
fn no_machine_is_created_over_the_disk_of_another_one(
    #[case] found: DiskNameOwner,
    #[case] phase: WrapperPhase,
    #[case] reason: WrapperMachineReason,
    #[values(false, true)] live: bool,
) {
    let mut case = Case::bound();
    case.disk_name_is_live = live;
    case.disk_name = found;
    let plan = case.step();
    assert_eq!(plan.actions, [], "a conflict that waits causes no requests");
    assert_eq!((plan.status.phase, plan.status.virtual_machine), (Some(phase), Some(reason)));
    assert_ne!(plan.status.message, "");
    case.disk_name = DiskNameOwner::Free;
    case.disk_name_is_live = true;
    assert_eq!(case.plan().actions, [WrapperAction::CreateMachine]);
}
