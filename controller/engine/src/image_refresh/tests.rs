use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::condition::{ConditionType, StatusCondition};
use crate::draining::{DrainHook, DrainMark, DrainReason, Draining};
use crate::model::{DisruptionBudget, Machine};
use crate::plan::DeleteReason;
use crate::recycling::RecycleCause;
use crate::scale_down::policy::ScaleDownPolicy;
use crate::status::compute_status;
use crate::testing::{PoolWorld, observation_time};
use crate::{Plan, PoolAction};

const SOURCE: &str = "DataSource/team/debian";

fn content(id: &str, created: i64) -> DiskContents {
    let created = Timestamp::from_second(created).unwrap();
    DiskContents::from([("root".into(), DiskContent { source: SOURCE.into(), id: id.into(), created })])
}

fn record(text: &str) -> impl FnOnce(&mut Machine) {
    let record = json!({ "root": text }).to_string();
    move |machine| machine.disk_sources = Some(record.into())
}

/// Two machines that were created in the seconds 1 and 2, in a pool whose source has led to this content for
/// a minute.
fn world(contents: DiskContents) -> PoolWorld {
    let mut world = PoolWorld::desiring(2).with_machine("web-a", 1).with_machine("web-b", 2).pool(|pool| {
        pool.image_refresh = ImageRefresh::Report;
        pool.disk_contents = contents;
    });
    world.memory.observe(&world.pool, world.uptime);
    world.uptime += SETTLING_TIME;
    world
}

fn outdated(world: &PoolWorld) -> Vec<String> {
    let snapshot = world.snapshot();
    let observed = world.observed(&snapshot);
    find_image_outdated(&observed).map(|machine| machine.id.name.to_string()).collect()
}

#[rstest]
#[case::off(json!("Off"), Some(ImageRefresh::Off))]
#[case::report(json!("Report"), Some(ImageRefresh::Report))]
#[case::recreate(json!("Recreate"), Some(ImageRefresh::Recreate))]
#[case::lower_case(json!("report"), None)]
#[case::off_without_quotes_in_yaml(json!(false), None)]
#[case::an_object(json!({}), None)]
fn the_setting_is_one_of_three_words(#[case] value: Value, #[case] expected: Option<ImageRefresh>) {
    assert_eq!(parse_image_refresh(&value).ok(), expected);
}

#[test]
fn the_field_wins_and_an_unreadable_setting_is_off() {
    let mut messages = Vec::new();
    let annotated = |text: &str| BTreeMap::from([(IMAGE_REFRESH.to_owned(), text.to_owned())]);
    for text in ["Report", "\"Report\""] {
        let read = read_image_refresh(&Value::Null, Some(&annotated(text)), &mut messages);
        assert_eq!(read, ImageRefresh::Report, "{text}");
    }
    let read = read_image_refresh(&json!("Recreate"), Some(&annotated("Report")), &mut messages);
    assert_eq!((read, messages.len()), (ImageRefresh::Recreate, 0));
    assert_eq!(read_image_refresh(&Value::Null, None, &mut messages), ImageRefresh::Off);
    assert_eq!(messages.len(), 0);
    let read = read_image_refresh(&json!("always"), Some(&annotated("Report")), &mut messages);
    assert_eq!(read, ImageRefresh::Off);
    let read = read_image_refresh(&Value::Null, Some(&annotated("\"")), &mut messages);
    assert_eq!((read, messages.len()), (ImageRefresh::Off, 2));
    assert!(messages[0].starts_with("imageRefresh: always is not Off, Report or Recreate"), "{messages:?}");
    assert!(messages[1].starts_with("annotation vmpool.dev/image-refresh: "), "{messages:?}");
}

#[test]
fn the_record_contains_source_and_content_of_each_template() {
    let text = format_disk_sources(&content("u1", 0)).unwrap();
    assert_eq!(text, r#"{"root":"DataSource/team/debian@u1"}"#);
    assert_eq!(format_disk_sources(&DiskContents::new()), None);
    let annotated = |text: String| BTreeMap::from([(DISK_SOURCES.to_owned(), text)]);
    assert_eq!(read_disk_sources(Some(&annotated(text.clone()))), Some(&*text));
    assert_eq!(read_disk_sources(Some(&annotated("x".repeat(LONGEST_RECORD + 1)))), None);
    assert_eq!(read_disk_sources(None), None);
}

#[rstest]
#[case::the_same("DataSource/team/debian@u2", &[])]
#[case::other_content("DataSource/team/debian@u1", &["web-a"])]
#[case::another_source_of_an_earlier_template("DataSource/team/ubuntu@u1", &[])]
fn a_machine_with_a_record_is_outdated_by_other_content_of_the_same_source(
    #[case] text: &str,
    #[case] expected: &[&str],
) {
    let world = world(content("u2", 0))
        .edit("web-a", record(text))
        .edit("web-b", record("DataSource/team/debian@u2"));
    assert_eq!(outdated(&world), expected);
}

#[test]
fn without_a_record_younger_content_counts_as_other() {
    assert_eq!(outdated(&world(content("u2", 2))), ["web-a"]);
    assert_eq!(outdated(&world(content("u2", 1))), [] as [&str; 0]);
    let unreadable = |machine: &mut Machine| machine.disk_sources = Some("{".into());
    assert_eq!(outdated(&world(content("u2", 2)).edit("web-a", unreadable)), ["web-a"]);
}

#[test]
fn a_machine_of_another_revision_without_a_record_is_not_outdated_by_image() {
    let earlier = |machine: &mut Machine| machine.written = Some("r0".into());
    assert_eq!(outdated(&world(content("u2", 9)).edit("web-a", earlier)), ["web-b"]);
}

#[test]
fn a_machine_that_is_being_deleted_does_not_count() {
    let world = world(content("u2", 9)).edit("web-a", |machine| machine.terminating = true);
    assert_eq!(outdated(&world), ["web-b"]);
}

#[test]
fn a_source_without_content_makes_nothing_outdated() {
    let world = world(DiskContents::new()).edit("web-a", record("DataSource/team/debian@u1"));
    assert_eq!(outdated(&world), [] as [&str; 0]);
}

#[test]
fn content_counts_when_it_has_been_the_same_for_a_minute() {
    let (minute, second) = (SETTLING_TIME, Duration::from_secs(1));
    let mut clock = ContentClock::default();
    clock.observe(&content("u1", 0), minute);
    let just_before = (minute * 2).saturating_sub(second);
    assert!(!clock.is_settled("root", just_before));
    assert_eq!(clock.next_settled(just_before), Some(second));
    assert!(clock.is_settled("root", minute + minute));
    assert_eq!(clock.next_settled(minute + minute), None);
    clock.observe(&content("u1", 0), minute * 3);
    assert!(clock.is_settled("root", minute * 3), "the same content");
    clock.observe(&content("u2", 0), minute * 3);
    assert!(!clock.is_settled("root", minute * 3), "other content");
    clock.observe(&DiskContents::new(), minute * 5);
    assert!(!clock.is_settled("root", minute * 5), "no content");
    assert!(!clock.is_settled("data", minute * 5));
}

#[test]
fn a_new_leader_only_delays() {
    let mut world = world(content("u2", 0)).edit("web-a", record("DataSource/team/debian@u1"));
    assert_eq!(outdated(&world), ["web-a"]);
    world.memory = crate::PassMemory::default();
    world.memory.observe(&world.pool, world.uptime);
    assert_eq!(outdated(&world), [] as [&str; 0]);
    world.uptime += SETTLING_TIME;
    assert_eq!(outdated(&world), ["web-a"]);
}

fn condition(world: &PoolWorld) -> Option<StatusCondition> {
    let snapshot = world.snapshot();
    let status = compute_status(&world.observed(&snapshot), None);
    let shown = status.conditions.into_iter().find(|condition| condition.is(ConditionType::ImageOutdated));
    assert_eq!(shown.is_some(), status.summary.image_outdated > 0);
    shown
}

#[test]
fn the_status_names_machines_and_sources() {
    let reported = world(content("u2", 0))
        .edit("web-a", record("DataSource/team/debian@u1"))
        .edit("web-b", record("DataSource/team/debian@u2"));
    let shown = condition(&reported).unwrap();
    assert_eq!((&*shown.status, &*shown.reason), ("True", "SourceChanged"));
    assert_eq!(
        shown.message,
        "1 machine has disks from earlier content of DataSource/team/debian: web-a; the controller leaves them as \
         they are: delete them, or set imageRefresh to Recreate"
    );
    let settled = reported.edit("web-a", |machine| machine.disk_sources = None);
    assert_eq!(condition(&settled), None);
}

#[test]
fn nothing_is_deleted_for_a_report() {
    let world = world(content("u2", 0)).edit("web-a", record("DataSource/team/debian@u1"));
    assert_eq!(world.plan().actions, []);
}

/// Two machines whose image has other content since they were created, in a pool that replaces them.
fn recreating() -> PoolWorld {
    let old = "DataSource/team/debian@u1";
    world(content("u2", 0))
        .edit("web-a", record(old))
        .edit("web-b", record(old))
        .pool(|pool| pool.image_refresh = ImageRefresh::Recreate)
}

fn replaced(plan: &Plan) -> Vec<(&str, RecycleCause)> {
    let replaced = plan.actions.iter().filter_map(|action| match action {
        PoolAction::Delete { machine, reason: DeleteReason::Recycled { cause } } => {
            Some((&*machine.name, *cause))
        }
        _ => None,
    });
    replaced.collect()
}

#[test]
fn machines_from_an_earlier_image_are_replaced_the_oldest_first_within_the_budget() {
    assert_eq!(replaced(&recreating().plan()), [("web-a", RecycleCause::Image)]);
    let two = recreating().pool(|pool| pool.rollout.budget = DisruptionBudget::Machines(2));
    assert_eq!(replaced(&two.plan()).len(), 2);
}

#[test]
fn no_machine_is_replaced_in_a_surplus_or_in_a_paused_pool_or_before_the_content_counts() {
    let surplus = recreating().pool(|pool| {
        pool.desired = 1;
        pool.scale_down_policy = ScaleDownPolicy::Explicit;
    });
    assert_eq!(surplus.plan().actions, []);
    assert_eq!(recreating().pool(|pool| pool.paused = true).plan().actions, []);
    let mut early = recreating();
    early.uptime -= Duration::from_secs(1);
    let plan = early.plan();
    assert_eq!((plan.actions, plan.requeue_after), (Vec::new(), Some(Duration::from_secs(1))));
}

/// The status then reports the machines.
#[rstest]
#[case::in_a_surplus(|pool: &mut crate::Pool| {
    pool.desired = 1;
    pool.scale_down_policy = ScaleDownPolicy::Explicit;
})]
#[case::in_a_paused_pool(|pool: &mut crate::Pool| pool.paused = true)]
fn the_pool_wakes_when_content_counts_although_it_replaces_no_machine(#[case] change: fn(&mut crate::Pool)) {
    let mut early = recreating().pool(change);
    early.uptime -= Duration::from_secs(1);
    assert_eq!(early.plan().requeue_after, Some(Duration::from_secs(1)));
}

/// A machine with a hook that drains before its replacement.
fn draining() -> Arc<Draining> {
    let since = observation_time();
    let deadline = since + Duration::from_mins(10);
    let mark = DrainMark { id: "d1".to_owned(), reason: DrainReason::Recycling, since, deadline };
    let hooks = vec![DrainHook { name: "job".into(), value: "".into() }];
    Arc::new(Draining { hooks, mark: Some(mark) })
}

fn ends_drain(plan: &Plan) -> bool {
    plan.actions.iter().any(|action| matches!(action, PoolAction::EndDrain { .. }))
}

#[test]
fn a_drain_goes_on_until_the_leader_knows_that_the_image_is_the_same_again() {
    let mut draining = recreating().edit("web-a", |machine| machine.draining = Some(draining()));
    assert!(!ends_drain(&draining.plan()));
    draining.uptime += SETTLING_TIME;
    draining = draining.pool(|pool| pool.disk_contents = content("u1", 0));
    draining.memory.observe(&draining.pool, draining.uptime);
    assert!(ends_drain(&draining.plan()), "the image is as it was");
    draining = draining.pool(|pool| pool.disk_contents = content("u3", 0));
    draining.memory.observe(&draining.pool, draining.uptime);
    assert!(!ends_drain(&draining.plan()), "it changes once more");
    draining = draining.pool(|pool| pool.disk_contents = DiskContents::new());
    draining.memory = crate::PassMemory::default();
    draining.memory.observe(&draining.pool, draining.uptime);
    let plan = draining.plan();
    assert!(!ends_drain(&plan), "a new leader has not followed the image yet");
    assert_eq!(plan.requeue_after, Some(SETTLING_TIME * 2), "and wakes when it has");
}
