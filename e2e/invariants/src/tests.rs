//! Each check runs on a history that violates it, and on the same history without the violation.

use jiff::{SignedDuration, Timestamp};
use rstest::rstest;
use serde_json::{Value, json};
use vmpool_api::{annotations, labels};

use super::*;
use crate::object::{JsonObject, TestedKind};
use crate::recorder::RecordedChange;

mod autoscalers;

const CONTROLLER: &str = "system:serviceaccount:vmpool-system:vmpool-controller";

/// Builds a history with one second between changes.
struct TestHistory {
    history: RecordedHistory,
    revision: u64,
    now: Timestamp,
}

impl TestHistory {
    fn new() -> Self {
        Self { history: RecordedHistory::default(), revision: 0, now: Timestamp::UNIX_EPOCH }
    }

    fn later(mut self, seconds: i64) -> Self {
        self.now += SignedDuration::from_secs(seconds);
        self
    }

    fn write(mut self, kind: TestedKind, mut object: Value, removed: bool) -> Self {
        self.revision += 1;
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        object["metadata"]["uid"] = json!(format!("uid-{name}"));
        object["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        let object = JsonObject::new(object);
        self.history.push(RecordedChange { revision: self.revision, at: self.now, kind, object, removed });
        self.later(1)
    }

    fn pool(self, replicas: i64, policy: &str) -> Self {
        let pool = json!({
            "metadata": { "name": "pool" }, "spec": { "replicas": replicas, "scaleDownPolicy": policy } });
        self.write(TestedKind::Pool, pool, false)
    }

    /// A pool with a removal record: `+name` is reserved, `name` accepted.
    fn recorded(self, replicas: i64, policy: &str, names: &[&str]) -> Self {
        let entry = |name: &&str| match name.strip_prefix('+') {
            Some(name) => json!({ "name": name, "uid": format!("uid-{name}"), "reserved": "request" }),
            None => json!({ "name": name, "uid": format!("uid-{name}") }),
        };
        let record = json!(names.iter().map(entry).collect::<Vec<_>>()).to_string();
        let pool = json!({
            "metadata": { "name": "pool", "annotations": { vmpool_api::annotations::SCALE_DOWN_TARGETS: record } },
            "spec": { "replicas": replicas, "scaleDownPolicy": policy } });
        self.write(TestedKind::Pool, pool, false)
    }

    fn pool_removed(self) -> Self {
        self.write(TestedKind::Pool, json!({ "metadata": { "name": "pool" } }), true)
    }

    fn machine(self, name: &str) -> Self {
        self.write(TestedKind::Machine, machine(name), false)
    }

    /// A change of a machine that is observed now, with a server timestamp this many seconds after the start.
    fn stamped(self, name: &str, field: &str, second: i64) -> Self {
        let mut object = machine(name);
        let stamp = Timestamp::UNIX_EPOCH + SignedDuration::from_secs(second);
        object["metadata"][field] = json!(stamp.to_string());
        self.write(TestedKind::Machine, object, false)
    }

    fn terminating(self, name: &str) -> Self {
        let mut object = machine(name);
        object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        self.write(TestedKind::Machine, object, false)
    }

    fn removed(self, name: &str) -> Self {
        self.write(TestedKind::Machine, machine(name), true)
    }

    fn disk(self, name: &str, owner: &str, removed: bool) -> Self {
        let owners = json!([{ "uid": format!("uid-{owner}"), "controller": true }]);
        let disk = json!({ "metadata": { "name": name, "ownerReferences": owners }, "spec": {} });
        self.write(TestedKind::Disk, disk, removed)
    }

    fn found(&self, actions: &UserActions, audit: &[AuditEntry]) -> Vec<&'static str> {
        check_history(&self.history, actions, audit, CONTROLLER)
            .into_iter()
            .map(|found| found.invariant)
            .collect()
    }
}

fn machine(name: &str) -> Value {
    let owners = json!([{ "uid": "uid-pool", "controller": true }]);
    let references = json!([{ "kind": "VirtualDisk", "name": format!("{name}-root") }]);
    json!({
        "metadata": { "name": name, "ownerReferences": owners }, "spec": { "blockDeviceRefs": references } })
}

fn request(verb: &str, kind: TestedKind, subresource: &str, name: &str, body: Value) -> AuditEntry {
    AuditEntry {
        at: Timestamp::UNIX_EPOCH,
        user: CONTROLLER.to_owned(),
        user_agent: String::new(),
        verb: verb.to_owned(),
        group: vmpool_api::v1alpha2::GROUP.to_owned(),
        resource: kind.plural().to_owned(),
        subresource: subresource.to_owned(),
        namespace: "a".to_owned(),
        name: name.to_owned(),
        code: 200,
        dry_run: false,
        body,
        notes: std::collections::BTreeMap::new(),
    }
}

fn deletion(kind: TestedKind, name: &str, uid: &str) -> AuditEntry {
    request("delete", kind, "", name, json!({ "preconditions": { "uid": uid } }))
}

fn named(name: &str) -> UserActions {
    UserActions { deleted: [format!("uid-{name}")].into(), ..UserActions::default() }
}

fn two_of(desired: i64, policy: &str) -> TestHistory {
    TestHistory::new().pool(desired, policy).machine("a").machine("b")
}

/// A pool of KubeVirt with two machines, of which one has this label.
fn selecting(label: &str) -> TestHistory {
    let pool = json!({
        "apiVersion": "pool.kubevirt.io/v1beta1", "metadata": { "name": "pool" },
        "spec": { "replicas": 2, "selector": { "matchLabels": { "farm": "render" } } } });
    let with_label = |name: &str, label: &str| {
        let mut object = machine(name);
        object["metadata"]["labels"] = json!({ "farm": label });
        object
    };
    let history = TestHistory::new().write(TestedKind::Pool, pool, false);
    let history = history.write(TestedKind::Machine, with_label("a", "render"), false);
    let history = history.write(TestedKind::Machine, with_label("b", label), false);
    history.later(10).write(TestedKind::Machine, with_label("c", "render"), false)
}

#[rstest]
#[case::that_the_pool_selects("render", &["I2"])]
#[case::that_the_pool_releases("other", &[])]
fn a_machine_is_not_created_in_the_place_of_one(#[case] label: &str, #[case] expected: &[&str]) {
    assert_eq!(selecting(label).found(&UserActions::default(), &[]), expected);
}

#[rstest]
#[case::a_machine_is_deleted_without_a_surplus(two_of(2, "NewestFirst").terminating("b"), &["I1"])]
#[case::a_machine_disappears_without_a_surplus(two_of(2, "NewestFirst").removed("b"), &["I1"])]
#[case::a_surplus_machine_is_deleted(two_of(2, "NewestFirst").pool(1, "NewestFirst").terminating("b").removed("b"), &[])]
#[case::one_more_than_the_surplus_is_deleted(
    two_of(2, "NewestFirst").pool(1, "NewestFirst").terminating("b").terminating("a"), &["I1"])]
#[case::a_scale_down_that_was_just_reverted(
    two_of(2, "NewestFirst").pool(1, "NewestFirst").pool(2, "NewestFirst").terminating("b"), &[])]
#[case::a_scale_down_that_was_reverted_long_ago(
    two_of(2, "NewestFirst").pool(1, "NewestFirst").pool(2, "NewestFirst").later(10).terminating("b"), &["I1"])]
#[case::a_surplus_deleted_long_before_it_was_observed(
    two_of(2, "NewestFirst").pool(1, "NewestFirst").pool(2, "NewestFirst").later(10)
        .stamped("b", "deletionTimestamp", 5), &[])]
#[case::a_surplus_deleted_too_late(
    two_of(2, "NewestFirst").pool(1, "NewestFirst").pool(2, "NewestFirst").later(10)
        .stamped("b", "deletionTimestamp", 12), &["I1"])]
#[case::the_pool_is_deleted(two_of(2, "NewestFirst").pool_removed().later(10).terminating("b"), &[])]
#[case::an_explicit_pool_keeps_its_surplus(two_of(2, "Explicit").pool(1, "Explicit").later(10), &[])]
#[case::an_explicit_pool_loses_its_surplus(
    two_of(2, "Explicit").pool(1, "Explicit").later(10).terminating("b"), &["I5"])]
fn machines_that_may_be_removed(#[case] history: TestHistory, #[case] expected: &[&str]) {
    assert_eq!(history.found(&UserActions::default(), &[]), expected);
}

#[rstest]
#[case("NewestFirst")]
#[case("Explicit")]
fn targets_of_the_scenario_may_be_removed(#[case] policy: &str) {
    assert_eq!(two_of(2, policy).terminating("b").removed("b").found(&named("b"), &[]), [""; 0]);
    assert_eq!(two_of(2, policy).terminating("b").found(&named("a"), &[]).len(), 1);
}

/// Five machines of a pool with healing, of which the first ones are not ready for a minute.
fn healed(unready: usize) -> TestHistory {
    let pool = json!({
        "metadata": { "name": "pool" },
        "spec": {
            "replicas": 5, "scaleDownPolicy": "Explicit",
            "healing": { "notReadyFor": "30s", "startTimeout": "30s", "replaceStuckAfter": "30s" } } });
    let history = TestHistory::new().write(TestedKind::Pool, pool, false);
    let named = ["a", "b", "c", "d", "e"].into_iter().enumerate();
    let history = named.fold(history, |history, (place, name)| {
        let mut object = machine(name);
        object["status"]["phase"] = json!(if place < unready { "Degraded" } else { "Running" });
        history.write(TestedKind::Machine, object, false)
    });
    history.later(60)
}

/// A machine enters this phase, and stays in it for some seconds.
fn staying_in_phase(history: TestHistory, name: &str, phase: &str, seconds: i64) -> TestHistory {
    let mut object = machine(name);
    object["status"]["phase"] = json!(phase);
    history.write(TestedKind::Machine, object, false).later(seconds)
}

/// When the machine that is deleted in these histories was deleted.
const HEALED_AT: i64 = 66;

#[rstest]
#[case::one_that_is_unhealthy(healed(2).stamped("a", "deletionTimestamp", HEALED_AT), &[])]
#[case::one_that_is_ready(healed(2).stamped("c", "deletionTimestamp", HEALED_AT), &["I5"])]
#[case::one_of_too_many(healed(3).stamped("a", "deletionTimestamp", HEALED_AT), &["I20"])]
#[case::one_of_a_pool_without_healing(
    two_of(2, "Explicit").later(60).stamped("b", "deletionTimestamp", HEALED_AT), &["I5"])]
#[case::one_that_stopped_for_a_moment(
    staying_in_phase(staying_in_phase(healed(2), "a", "Stopping", 1), "a", "Starting", 2).stamped("a", "deletionTimestamp", HEALED_AT + 3), &[])]
#[case::one_that_stopped_for_longer(
    staying_in_phase(staying_in_phase(healed(2), "a", "Stopping", 10), "a", "Starting", 2).stamped("a", "deletionTimestamp", HEALED_AT + 12), &["I5"])]
#[case::one_that_stops(staying_in_phase(healed(2), "a", "Stopping", 1).stamped("a", "deletionTimestamp", HEALED_AT + 1), &["I5"])]
fn healing_may_remove(#[case] history: TestHistory, #[case] expected: &[&str]) {
    assert_eq!(history.found(&UserActions::default(), &[]), expected);
}

#[test]
fn healing_may_judge_by_another_clock_and_before_it_sees_all_machines() {
    let delete = |unready: usize, name: &str| healed(unready).stamped(name, "deletionTimestamp", HEALED_AT);
    let unseen = UserActions { unseen_for: SignedDuration::from_mins(2), ..UserActions::default() };
    assert_eq!(delete(3, "a").found(&unseen, &[]), [""; 0]);
    assert_eq!(delete(3, "d").found(&unseen, &[]), ["I5"]);
    // The machine has not been ready for some seconds.
    let mut degraded = machine("e");
    degraded["status"]["phase"] = json!("Degraded");
    let early = healed(0).write(TestedKind::Machine, degraded, false).later(5);
    let early = early.stamped("e", "deletionTimestamp", HEALED_AT + 6);
    assert_eq!(early.found(&UserActions::default(), &[]), ["I5"]);
    let ahead = UserActions { clocks_ahead: SignedDuration::from_secs(30), ..UserActions::default() };
    assert_eq!(early.found(&ahead, &[]), [""; 0]);
}

#[rstest]
#[case::stuck(40, &[])]
#[case::about_to_go(5, &["I2"])]
fn a_machine_may_be_created_in_the_place_of_one(#[case] seconds: i64, #[case] expected: &[&str]) {
    let history = healed(2).stamped("a", "deletionTimestamp", HEALED_AT).later(seconds).machine("f");
    assert_eq!(history.found(&UserActions::default(), &[]), expected);
}

fn three() -> TestHistory {
    two_of(3, "NewestFirst").machine("c")
}

#[rstest]
#[case::correct(
    three().recorded(3, "NewestFirst", &["+a"]).recorded(2, "NewestFirst", &["a"]).terminating("a").removed("a")
        .pool(2, "NewestFirst"), &["a"], &[])]
#[case::of_two_machines(
    three().recorded(3, "Explicit", &["+a", "+b"]).recorded(1, "Explicit", &["a", "b"]).removed("b").removed("a"),
    &["a", "b"], &[])]
#[case::without_a_request(three().recorded(2, "NewestFirst", &["a"]), &[], &["I6"])]
#[case::without_lowering_replicas(three().recorded(3, "NewestFirst", &["a"]).later(10), &["a"], &["I6"])]
#[case::that_lowers_replicas_twice(three().recorded(1, "NewestFirst", &["a"]).later(10), &["a"], &["I6"])]
#[case::that_is_accepted_twice(
    three().recorded(2, "NewestFirst", &["a"]).pool(2, "NewestFirst").recorded(1, "NewestFirst", &["a"]), &["a"],
    &["I6"])]
#[case::that_is_accepted_during_an_older_one(
    three().recorded(2, "Explicit", &["a"]).recorded(2, "Explicit", &["a", "+b"]).recorded(1, "Explicit", &["a", "b"]),
    &["a", "b"], &[])]
#[case::that_removes_another_machine(
    three().recorded(2, "NewestFirst", &["a"]).terminating("c"), &["a"], &["I6"])]
#[case::during_a_scale_down(
    three().recorded(2, "NewestFirst", &["a"]).recorded(1, "NewestFirst", &["a"]).terminating("c"), &["a"], &[])]
#[case::whose_target_disappears_and_is_replaced(
    three().recorded(3, "NewestFirst", &["+a"]).later(10).removed("a").machine("d"), &["a"], &["I6"])]
#[case::whose_target_disappears_when_it_is_reserved(
    three().removed("a").recorded(3, "NewestFirst", &["+a"]).machine("d"), &["a"], &[])]
#[case::that_was_withdrawn(
    three().recorded(3, "NewestFirst", &["+a"]).later(10).removed("a").pool(3, "NewestFirst").machine("d"), &["a"], &[])]
#[case::of_more_than_desired(two_of(2, "NewestFirst").pool(1, "NewestFirst").recorded(0, "NewestFirst", &["a", "b"]), &["a", "b"], &[])]
fn a_removal(#[case] history: TestHistory, #[case] requested: &[&str], #[case] expected: &[&str]) {
    let removal_requests = requested.iter().map(|name| (format!("uid-{name}"), 1)).collect();
    assert_eq!(history.found(&UserActions { removal_requests, ..UserActions::default() }, &[]), expected);
}

#[rstest]
#[case::happened(three().recorded(2, "Explicit", &["a"]).terminating("a"), &[])]
#[case::never_took_effect(three(), &["I6"])]
#[case::deleted_no_machine(three().recorded(2, "Explicit", &["a"]), &["I6"])]
#[case::released_first(
    three().recorded(2, "Explicit", &["a"]).write(TestedKind::Machine, json!({ "metadata": { "name": "a" } }), false), &[])]
fn a_removal_that_was_answered_with_a_success(#[case] history: TestHistory, #[case] expected: &[&str]) {
    let mut actions = UserActions::default();
    actions.request_removal(&["uid-a".to_owned()]);
    actions.completed_removals.insert("uid-a".to_owned(), "a".to_owned());
    assert_eq!(history.found(&actions, &[]), expected);
}

#[rstest]
#[case::requested(json!({ "vmpool.dev/recycle": "2026-01-01T00:00:00Z" }), &[])]
#[case::not_requested(json!({}), &["I5"])]
fn an_explicit_pool_may_lose_a_machine_whose_replacement_was_requested(
    #[case] annotations: Value,
    #[case] found: &[&str],
) {
    let mut object = machine("b");
    object["metadata"]["annotations"] = annotations;
    let history = two_of(2, "Explicit").write(TestedKind::Machine, object, false).terminating("b");
    assert_eq!(history.found(&UserActions::default(), &[]), found);
}

/// A machine that was created at the start, and claimed this number of times.
fn claimed(name: &str, claims: u64) -> Value {
    let mut object = machine(name);
    object["metadata"]["creationTimestamp"] = json!(Timestamp::UNIX_EPOCH.to_string());
    object["metadata"]["annotations"] = json!({ "vmpool.dev/claims": claims.to_string() });
    object
}

#[rstest]
#[case::too_old(json!({ "maxLifetime": "20m" }), 18 * 60, &[])]
#[case::not_old_enough(json!({ "maxLifetime": "20m" }), 17 * 60, &["I1"])]
#[case::without_jitter(json!({ "maxLifetime": "20m", "jitter": 0 }), 18 * 60, &["I1"])]
#[case::claimed_often_enough(json!({ "maxClaims": 2 }), 60, &[])]
#[case::claimed_less_often(json!({ "maxClaims": 3 }), 60, &["I1"])]
fn a_pool_may_recycle_a_machine_that_reached_a_limit(
    #[case] limits: Value,
    #[case] seconds: i64,
    #[case] found: &[&str],
) {
    let pool = json!({
        "metadata": { "name": "pool", "annotations": { "vmpool.dev/recycle": limits.to_string() } },
        "spec": { "replicas": 2, "scaleDownPolicy": "NewestFirst" } });
    let history = TestHistory::new().write(TestedKind::Pool, pool, false).machine("a");
    let history = history.write(TestedKind::Machine, claimed("b", 2), false).later(seconds);
    assert_eq!(history.terminating("b").found(&UserActions::default(), &[]), found);
}

/// A controller whose clock is ahead by an hour, and a machine that lives for 20 minutes.
#[rstest]
#[case::after_a_minute(60, &["I21"])]
#[case::before_its_time(1190, &["I21"])]
#[case::as_precisely_as_the_controller_knows_it(1198, &[])]
#[case::after_its_time(1201, &[])]
fn a_clock_that_is_ahead_replaces_no_machine_before_its_time(#[case] age: i64, #[case] found: &[&str]) {
    let pool = json!({
        "metadata": { "name": "pool", "annotations": { "vmpool.dev/recycle": r#"{"maxLifetime":"20m","jitter":0}"# } },
        "spec": { "replicas": 1, "scaleDownPolicy": "NewestFirst" } });
    let history = TestHistory::new().write(TestedKind::Pool, pool, false);
    let created = |history: TestHistory, name| history.write(TestedKind::Machine, claimed(name, 0), false);
    let history = created(created(history, "a").later(age).removed("a"), "b");
    let ahead = UserActions { clocks_ahead: SignedDuration::from_hours(1), ..UserActions::default() };
    assert_eq!(history.found(&ahead, &[]), found);
}

/// A running machine whose replacement was requested.
fn requested(name: &str) -> Value {
    let mut object = machine(name);
    object["metadata"]["annotations"] = json!({ "vmpool.dev/recycle": "2026-01-01T00:00:00Z" });
    object["status"] = json!({ "phase": "Running" });
    object
}

/// Three running machines whose replacement was requested, with a budget of one machine.
fn requested_three() -> TestHistory {
    let running = |history: TestHistory, name| history.write(TestedKind::Machine, requested(name), false);
    ["a", "b", "c"].into_iter().fold(TestHistory::new().pool(3, "NewestFirst"), running)
}

#[test]
fn two_replacements_at_the_same_time_with_a_budget_of_one_machine_violate_i21() {
    let history = requested_three().terminating("a").terminating("b");
    assert_eq!(history.found(&UserActions::default(), &[]), ["I21"]);
}

#[test]
fn a_replacement_follows_when_another_machine_runs_in_the_place_of_the_last_one() {
    let history = requested_three().terminating("a").removed("a");
    let history = history.write(TestedKind::Machine, requested("d"), false).terminating("b");
    assert_eq!(history.found(&UserActions::default(), &[]), Vec::<&str>::new());
}

/// `d` was activated in the place of `a`.
#[rstest]
#[case::before_it_has_started(11, &["I21"])]
#[case::after_a_user_stopped_it(13, &[])]
fn a_replacement_waits_for_the_activated_machine_in_the_place_of_the_last_one(
    #[case] ran_at: u8,
    #[case] found: &[&str],
) {
    let mut activated = requested("d");
    activated["metadata"]["annotations"]["vmpool.dev/activated-at"] = json!("2026-01-01T12:00:00Z");
    let ran = json!({ "phase": "Running", "timestamp": format!("2026-01-01T{ran_at}:00:00Z") });
    activated["status"] = json!({ "phase": "Stopped", "stats": { "phasesTransitions": [ran] } });
    let history = requested_three().terminating("a").removed("a");
    let history = history.write(TestedKind::Machine, activated, false).terminating("b");
    assert_eq!(history.found(&UserActions::default(), &[]), found);
}

#[rstest]
#[case::a_larger_budget(json!({ "maxUnavailable": 2 }), &[])]
#[case::a_share(json!({ "maxUnavailable": "50%" }), &["I21"])]
fn the_budget_is_that_of_the_pool(#[case] rollout: Value, #[case] found: &[&str]) {
    let pool = json!({
        "metadata": { "name": "pool" },
        "spec": { "replicas": 3, "scaleDownPolicy": "NewestFirst", "rollout": rollout } });
    let history = requested_three().write(TestedKind::Pool, pool, false).later(10);
    assert_eq!(history.terminating("a").terminating("b").found(&UserActions::default(), &[]), found);
}

/// It is not the replacement that makes it unavailable.
#[test]
fn the_replacement_of_an_unavailable_machine_uses_no_budget() {
    let mut broken = requested("b");
    broken["status"]["phase"] = json!("Pending");
    let history = requested_three().write(TestedKind::Machine, broken, false);
    let history = history.terminating("b").terminating("a");
    assert_eq!(history.found(&UserActions::default(), &[]), Vec::<&str>::new());
}

#[test]
fn a_refused_request_does_not_allow_a_removal() {
    let mut actions = UserActions::default();
    let targets = ["uid-b".to_owned()];
    actions.request_removal(&targets);
    actions.request_removal(&targets);
    actions.removal_refused(&targets);
    assert_eq!(
        two_of(2, "Explicit").terminating("b").found(&actions, &[]),
        [""; 0],
        "the second request may still have an effect"
    );
    actions.removal_refused(&targets);
    assert_eq!(two_of(2, "Explicit").terminating("b").found(&actions, &[]), ["I5"]);
}

#[rstest]
#[case::one_too_many(two_of(2, "NewestFirst").machine("c"), &["I2"])]
#[case::a_replacement_of_a_terminating_machine(two_of(2, "NewestFirst").pool(1, "NewestFirst").terminating("b").pool(2,
    "NewestFirst").machine("c"), &["I2"])]
#[case::a_replacement_of_a_deleted_machine(
    two_of(2, "NewestFirst").pool(1, "NewestFirst").removed("b").pool(2, "NewestFirst").machine("c"), &[])]
#[case::a_scale_up_that_was_just_reverted(
    two_of(2, "NewestFirst").pool(3, "NewestFirst").pool(2, "NewestFirst").machine("c"), &[])]
#[case::a_scale_up_that_was_reverted_long_ago(
    two_of(2, "NewestFirst").pool(3, "NewestFirst").pool(2, "NewestFirst").later(10).machine("c"), &["I2"])]
#[case::after_the_pool_was_deleted(two_of(3, "NewestFirst").pool_removed().later(10).machine("c"), &["I2"])]
#[case::an_update_of_a_machine(two_of(2, "NewestFirst").machine("b"), &[])]
fn machines_that_may_be_added(#[case] history: TestHistory, #[case] expected: &[&str]) {
    assert_eq!(history.found(&UserActions::default(), &[]), expected);
}

#[test]
fn a_killed_leader_may_add_its_requests_in_flight() {
    let actions = UserActions { in_flight: [("uid-pool".to_owned(), 1)].into(), ..UserActions::default() };
    assert_eq!(two_of(2, "NewestFirst").machine("c").found(&actions, &[]), [""; 0]);
    assert_eq!(two_of(2, "NewestFirst").machine("c").machine("d").found(&actions, &[]), ["I2"]);
}

#[test]
fn a_late_create_may_arrive_after_a_scale_down() {
    let history = || two_of(2, "NewestFirst").pool(0, "NewestFirst").later(10);
    let actions = UserActions { late_creates: ["c".to_owned()].into(), ..UserActions::default() };
    assert_eq!(history().machine("c").found(&actions, &[]), [""; 0]);
    assert_eq!(history().machine("d").found(&actions, &[]), ["I2"]);
}

#[test]
fn machines_removed_by_others_count_until_the_controller_can_see_it() {
    let surplus = || two_of(2, "NewestFirst").pool(1, "NewestFirst").later(10);
    let outside = json!({ "metadata": { "name": "a" }, "spec": {} });
    assert_eq!(surplus().terminating("a").terminating("b").found(&named("a"), &[]), [""; 0]);
    let later = surplus().terminating("a").later(10).terminating("b");
    assert_eq!(later.found(&named("a"), &[]), ["I1"]);
    let released = || surplus().write(TestedKind::Machine, outside.clone(), false);
    assert_eq!(released().terminating("b").found(&UserActions::default(), &[]), [""; 0]);
    assert_eq!(released().later(10).terminating("b").found(&UserActions::default(), &[]), ["I1"]);
    let full = two_of(2, "NewestFirst").terminating("a").terminating("b");
    assert_eq!(full.found(&named("a"), &[]), ["I1"], "the pool had no surplus before");
}

#[test]
fn the_controller_must_not_delete_a_released_machine() {
    let deleted = [deletion(TestedKind::Machine, "a", "uid-a")];
    let outside = json!({ "metadata": { "name": "a" }, "spec": {} });
    let released = || {
        let out = two_of(2, "NewestFirst").write(TestedKind::Machine, outside.clone(), false);
        out.write(TestedKind::Machine, outside.clone(), true)
    };
    assert_eq!(released().found(&UserActions::default(), &deleted), ["I4"]);
    assert_eq!(released().found(&named("a"), &deleted), [""; 0], "a target may be deleted");
    assert_eq!(released().found(&UserActions::default(), &[]), [""; 0], "another client deleted it");
}

fn foreign(spec: &str, annotations: &Value) -> Value {
    json!({ "metadata": { "name": "theirs", "annotations": annotations }, "spec": { "class": spec } })
}

#[rstest]
#[case::left_alone(|history: TestHistory| history.write(TestedKind::Machine, foreign("x", &json!({})), false), &[])]
#[case::noted_by_the_simulator(|history: TestHistory| {
    history.write(TestedKind::Machine, foreign("x", &json!({ "simulator.vmpool.dev/mount-log": "u" })), false) }, &[])]
#[case::annotated(|history: TestHistory| history.write(TestedKind::Machine, foreign("x", &json!({ "a": "b" })), false), &["I4"])]
#[case::changed(|history: TestHistory| history.write(TestedKind::Machine, foreign("y", &json!({})), false), &["I4"])]
#[case::removed(|history: TestHistory| history.write(TestedKind::Machine, foreign("x", &json!({})), true), &["I4"])]
fn the_controller_must_not_change_foreign_objects(
    #[case] then: fn(TestHistory) -> TestHistory,
    #[case] expected: &[&str],
) {
    let history = TestHistory::new().write(TestedKind::Machine, foreign("x", &Value::Null), false);
    let left = history.history.state().named(TestedKind::Machine, "theirs").unwrap().clone();
    let actions = UserActions { foreign: [(left.uid().to_owned(), left)].into(), ..UserActions::default() };
    assert_eq!(then(history).found(&actions, &[]), expected);
}

#[test]
fn the_controller_must_not_delete_a_disk_in_use() {
    let deleted = [deletion(TestedKind::Disk, "a-root", "uid-a-root")];
    let needed = || two_of(2, "NewestFirst").disk("a-root", "a", false).disk("a-root", "a", true);
    assert_eq!(needed().found(&UserActions::default(), &deleted), ["I4"]);
    assert_eq!(needed().found(&UserActions::default(), &[]), [""; 0], "another client deleted it");
    let another = [deletion(TestedKind::Disk, "a-root", "earlier")];
    assert_eq!(
        needed().found(&UserActions::default(), &another),
        [""; 0],
        "the deletion concerned another disk with this name"
    );
    let unneeded =
        TestHistory::new().pool(1, "NewestFirst").disk("a-root", "a", false).disk("a-root", "a", true);
    assert_eq!(unneeded.found(&UserActions::default(), &deleted), [""; 0]);
}

#[test]
fn the_controller_must_delete_by_uid() {
    let history = TestHistory::new().pool(1, "NewestFirst");
    let without_uid =
        request("delete", TestedKind::Disk, "", "a", json!({ "propagationPolicy": "Background" }));
    assert_eq!(history.found(&UserActions::default(), std::slice::from_ref(&without_uid)), ["I4"]);
    let by_administrator = AuditEntry { user: "admin".to_owned(), ..without_uid };
    assert_eq!(history.found(&UserActions::default(), &[by_administrator]), [""; 0]);
}

#[rstest]
#[case::a_merge_patch("", json!({ "spec": { "replicas": 2 } }), &["I7"])]
#[case::a_json_patch("", json!([{ "op": "replace", "path": "/spec/replicas", "value": 2 }]), &["I7"])]
#[case::the_scale_subresource("scale", json!({ "spec": { "replicas": 2 } }), &["I7"])]
#[case::an_annotation("", json!({ "metadata": { "annotations": { "a": "b" } } }), &[])]
#[case::a_guard_of_a_json_patch("", json!([{ "op": "test", "path": "/spec/replicas", "value": 2 }]), &[])]
#[case::the_status("status", json!({ "spec": { "replicas": 2 }, "status": { "replicas": 2 } }), &[])]
fn the_controller_must_not_write_replicas(
    #[case] subresource: &str,
    #[case] body: Value,
    #[case] expected: &[&str],
) {
    let requests = [request("patch", TestedKind::Pool, subresource, "pool", body)];
    assert_eq!(two_of(2, "NewestFirst").found(&UserActions::default(), &requests), expected);
    let of_others = requests.map(|entry| AuditEntry { user: "admin".to_owned(), ..entry });
    assert_eq!(two_of(2, "NewestFirst").found(&UserActions::default(), &of_others), [""; 0]);
}

#[test]
fn the_controller_must_not_own_replicas() {
    let pool = |manager: &str| {
        let fields = json!([{ "manager": manager, "fieldsV1": { "f:spec": { "f:replicas": {} } } }]);
        let pool =
            json!({ "metadata": { "name": "pool", "managedFields": fields }, "spec": { "replicas": 1 } });
        TestHistory::new().write(TestedKind::Pool, pool, false)
    };
    assert_eq!(pool("vmpool-controller").found(&UserActions::default(), &[]), ["I7"]);
    assert_eq!(pool("kubectl-create").found(&UserActions::default(), &[]), [""; 0]);
}

fn told(change: impl FnOnce(&mut Value)) -> Vec<Violation> {
    let mut pool = json!({
        "metadata": { "name": "pool", "uid": "u", "generation": 4, "annotations": {} },
        "spec": { "replicas": 2 },
        "status": {
            "observedGeneration": 4, "replicas": 2, "readyReplicas": 1, "updatedReplicas": 2,
            "desiredTemplateHash": "h", "selector": "vmpool.virtualization.deckhouse.io/pool-uid=u",
            "conditions": [
                { "type": "Available", "status": "False" }, { "type": "Synced", "status": "True" },
                { "type": "Ready", "status": "False" }, { "type": "Reconciling", "status": "True" },
                { "type": "Stalled", "status": "False" },
            ],
        },
    });
    change(&mut pool);
    let machine_in_phase = |phase: &str| {
        let labels = json!({ TEMPLATE_HASH: "h" });
        JsonObject::new(
            json!({ "metadata": { "name": phase, "labels": labels }, "status": { "phase": phase } }),
        )
    };
    let machines = [machine_in_phase("Running"), machine_in_phase("Stopped")];
    settled::status_errors(&JsonObject::new(pool), &machines.iter().collect::<Vec<_>>())
}

const TEMPLATE_HASH: &str = vmpool_api::labels::TEMPLATE_HASH;

#[test]
fn a_correct_status_is_no_violation() {
    assert_eq!(told(|_| {}), []);
}

#[rstest]
#[case::of_an_old_generation("/status/observedGeneration", json!(3))]
#[case::with_too_many_replicas("/status/replicas", json!(3))]
#[case::without_a_counter("/status/readyReplicas", Value::Null)]
#[case::that_counts_a_stopped_machine_as_ready("/status/readyReplicas", json!(2))]
#[case::of_another_revision("/status/updatedReplicas", json!(1))]
#[case::with_a_wrong_selector("/status/selector", json!("a=b"))]
#[case::that_is_available_too_early("/status/conditions/0/status", json!("True"))]
#[case::that_is_not_synced("/status/conditions/1/status", json!("False"))]
#[case::that_is_ready_too_early("/status/conditions/2/status", json!("True"))]
#[case::without_the_condition_ready("/status/conditions/2/type", json!("Other"))]
#[case::that_is_still_progressing("/status/conditions/0/type", json!("Progressing"))]
#[case::with_a_removal_record("/metadata/annotations", json!({ vmpool_api::annotations::SCALE_DOWN_TARGETS: "[]" }))]
fn a_wrong_status_is_reported(#[case] pointer: &str, #[case] value: Value) {
    let found = told(|pool| *pool.pointer_mut(pointer).unwrap() = value);
    assert!(!found.is_empty());
    assert!(found.iter().all(|lie| lie.invariant == "I8"), "{found:?}");
}

#[test]
fn writes_in_a_settled_world_are_reported() {
    let write = request("patch", TestedKind::Pool, "status", "pool", Value::Null);
    assert_eq!(settled::check_settled_writes(std::slice::from_ref(&write), CONTROLLER).len(), 1);
    let lease = AuditEntry { group: "coordination.k8s.io".to_owned(), ..write.clone() };
    let read = AuditEntry { verb: "get".to_owned(), ..write.clone() };
    let simulator = AuditEntry { user: "simulator".to_owned(), ..write };
    assert_eq!(settled::check_settled_writes(&[lease, read, simulator], CONTROLLER), []);
}

#[test]
fn leftovers_of_a_deleted_pool_are_reported() {
    let going = two_of(2, "NewestFirst").disk("a-root", "a", false).pool_removed();
    assert_eq!(
        leftovers::check_leftovers(&going.history).len(),
        2,
        "two machines; the disk's machine still exists"
    );
    let half = going.removed("a").removed("b");
    assert_eq!(leftovers::check_leftovers(&half.history).len(), 1, "the disk");
    let gone = half.disk("a-root", "a", true);
    assert_eq!(leftovers::check_leftovers(&gone.history), []);
}

#[test]
fn a_disk_of_a_released_machine_remains_until_the_machine_is_deleted() {
    let mut machine = machine("a");
    machine["metadata"]["ownerReferences"] = Value::Null;
    let disk = json!({ "metadata": { "name": "a-root", "deletionTimestamp": "2026-01-01T00:00:00Z",
        "ownerReferences": [{ "uid": "uid-pool", "controller": true }] }, "spec": {} });
    let history =
        TestHistory::new().pool(1, "NewestFirst").write(TestedKind::Machine, machine, false).pool_removed();
    let held = history.write(TestedKind::Disk, disk, false);
    assert_eq!(leftovers::check_leftovers(&held.history), []);
    assert_eq!(
        leftovers::check_leftovers(&held.removed("a").history).len(),
        1,
        "no machine uses the disk anymore"
    );
}

#[test]
fn orphaned_objects_are_no_leftovers() {
    let orphan = json!({ "metadata": { "name": "a" }, "spec": {} });
    let history =
        TestHistory::new().pool(1, "NewestFirst").machine("a").write(TestedKind::Machine, orphan, false);
    assert_eq!(leftovers::check_leftovers(&history.pool_removed().history), []);
}

#[test]
fn late_changes_are_checked_in_the_order_of_the_store() {
    let mut told = TestHistory::new().pool(1, "NewestFirst").machine("a").pool(2, "NewestFirst").machine("b");
    assert_eq!(told.found(&UserActions::default(), &[]), [""; 0]);
    // The watch of machines was faster than the watch of pools.
    let mut late = RecordedHistory::default();
    for revision in [1, 2, 4, 3] {
        let change = told.history.changes().iter().find(|change| change.revision == revision).unwrap();
        late.push(change.clone());
    }
    told.history = late;
    assert_eq!(told.found(&UserActions::default(), &[]), [""; 0]);
}

/// A pool that keeps `keep` free disks of `cache` with a `ttl` of ten minutes. It has three disks, free since
/// this many seconds before [`now`], with these additional fields.
fn kept(keep: u64, free: [(i64, Value); 3]) -> TestHistory {
    let pool = json!({
        "metadata": { "name": "pool" },
        "spec": {
            "replicas": 0,
            "virtualMachineTemplate": { "spec": { "blockDeviceRefs": [{ "kind": "VirtualDisk", "name": "cache" }] } },
            "virtualDiskTemplates": [
                { "name": "cache", "reclaim": { "onScaleDown": "Retain", "keep": keep, "ttl": "10m" } }],
        } });
    let mut history = TestHistory::new().write(TestedKind::Pool, pool, false);
    for (index, (ago, more)) in free.into_iter().enumerate() {
        let since = (now() - SignedDuration::from_secs(ago)).to_string();
        let mut disk = json!({ "metadata": {
            "name": format!("disk-{index}"),
            "labels": { labels::DISK_TEMPLATE: "cache" },
            "annotations": { annotations::FREE_SINCE: since },
            "ownerReferences": [{ "controller": true, "uid": "uid-pool" }],
        } });
        json_patch::merge(&mut disk, &more);
        history = history.write(TestedKind::Disk, disk, false);
    }
    history
}

fn now() -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_hours(24)
}

const OLD: i64 = 600 + 91;
const YOUNG: i64 = 600 + 89;

#[rstest]
#[case::all_too_old(2, [(OLD, json!({})), (OLD, json!({})), (OLD, json!({}))], 1)]
#[case::as_many_as_are_kept(3, [(OLD, json!({})), (OLD, json!({})), (OLD, json!({}))], 0)]
#[case::one_is_young(2, [(OLD, json!({})), (OLD, json!({})), (YOUNG, json!({}))], 0)]
#[case::one_is_attached(2, [(OLD, json!({})), (OLD, json!({})), (OLD, json!({ "status": { "attachedToVirtualMachines": [{ "name": "x" }] } }))], 0)]
#[case::one_is_allocated(2, [(OLD, json!({})), (OLD, json!({})), (OLD, json!({ "metadata": { "annotations": { annotations::CLAIMED_BY: "x" } } }))], 0)]
#[case::one_is_terminating(2, [(OLD, json!({})), (OLD, json!({})), (OLD, json!({ "metadata": { "deletionTimestamp": "1970-01-02T00:00:00Z" } }))], 0)]
#[case::one_is_foreign(2, [(OLD, json!({})), (OLD, json!({})), (OLD, json!({ "metadata": { "ownerReferences": null } }))], 0)]
fn expired_free_disks_are_reported_except_those_that_are_kept(
    #[case] keep: u64,
    #[case] free: [(i64, Value); 3],
    #[case] found: usize,
) {
    let history = kept(keep, free);
    let violations = disk_collection::check_disk_garbage_collection(history.history.state(), now());
    assert_eq!(violations.len(), found, "{violations:?}");
    assert!(violations.iter().all(|violation| violation.invariant == "I10"));
}

#[test]
fn a_disk_that_a_machine_uses_is_not_free() {
    let machine = json!({
        "metadata": { "name": "vm" }, "spec": { "blockDeviceRefs": [{ "kind": "VirtualDisk", "name": "disk-0" }] } });
    let history = kept(2, [(OLD, json!({})), (OLD, json!({})), (OLD, json!({}))]).write(
        TestedKind::Machine,
        machine,
        false,
    );
    assert_eq!(disk_collection::check_disk_garbage_collection(history.history.state(), now()), []);
}

/// A machine of the pool that refers to one disk, and whose disk map names another one.
fn edited(name: &str, refers: &str, maps: &str) -> Value {
    let map = json!({ "cache": maps }).to_string();
    json!({
        "metadata": {
            "name": name,
            "annotations": { annotations::DISKS: map },
            "ownerReferences": [{ "controller": true, "uid": "uid-pool" }],
        },
        "spec": { "blockDeviceRefs": [{ "kind": "VirtualDisk", "name": refers }] },
    })
}

#[test]
fn a_disk_that_a_disk_map_names_is_not_free_and_is_not_deleted() {
    let machine = edited("vm", "other", "disk-0");
    let history = kept(2, [(OLD, json!({})), (OLD, json!({})), (OLD, json!({}))]).write(
        TestedKind::Machine,
        machine,
        false,
    );
    assert_eq!(disk_collection::check_disk_garbage_collection(history.history.state(), now()), []);
    let disk = history.history.state().named(TestedKind::Disk, "disk-0").unwrap().value().clone();
    let deleted = [deletion(TestedKind::Disk, "disk-0", "uid-disk-0")];
    let found = history.write(TestedKind::Disk, disk, true).found(&UserActions::default(), &deleted);
    assert!(found.contains(&"I4"), "{found:?}");
}

#[test]
fn two_machines_of_a_pool_that_refer_to_one_disk_are_told() {
    let history = kept(3, [(OLD, json!({})), (OLD, json!({})), (OLD, json!({}))])
        .write(TestedKind::Machine, edited("a", "disk-0", "disk-0"), false)
        .write(TestedKind::Machine, edited("b", "disk-1", "disk-1"), false);
    assert_eq!(shared_disks::check_shared_disks(history.history.state()), []);
    let history = history.write(TestedKind::Machine, edited("b", "disk-0", "disk-1"), false);
    let found = shared_disks::check_shared_disks(history.history.state());
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].what.contains("a, b") && found[0].what.contains("disk-0"), "{found:?}");
}

#[rstest]
#[case::selected(json!({ "farm": "render" }), &[], false, &["I4"])]
#[case::taken_by_a_user_who_changed_its_label(json!({ "farm": "taken" }), &[], false, &[])]
#[case::given_to_the_pool_by_a_user(json!({ "farm": "render" }), &[], true, &[])]
#[case::given_to_the_pool_and_seen_by_the_controller(
    json!({ "farm": "render" }), &["pool.kubevirt.io/finalizer"], true, &["I4"]
)]
fn storage_is_preserved_of_machines_that_the_pool_has(
    #[case] labels: Value,
    #[case] finalizers: &[&str],
    #[case] is_returned: bool,
    #[case] expected: &[&str],
) {
    let pool = json!({ "apiVersion": "pool.kubevirt.io/v1beta1", "metadata": { "name": "pool" },
        "spec": { "replicas": 1, "selector": { "matchLabels": { "farm": "render" } },
            "scaleInStrategy": { "proactive": { "statePreservation": "Offline" } } } });
    let mut live = machine("a");
    live["apiVersion"] = json!("kubevirt.io/v1");
    live["metadata"]["labels"] = labels;
    live["metadata"]["finalizers"] = json!(finalizers);
    let mut leaving = live.clone();
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let history = TestHistory::new().write(TestedKind::Pool, pool, false);
    let history = history.write(TestedKind::Machine, live, false).disk("a-root", "a", false);
    let history = history.write(TestedKind::Machine, leaving, false).disk("a-root", "a", true);
    let returned = is_returned.then(|| "uid-a".to_owned()).into_iter().collect();
    let found = history.found(&UserActions { returned, ..UserActions::default() }, &[]);
    let of_storage: Vec<_> = found.into_iter().filter(|invariant| *invariant == "I4").collect();
    assert_eq!(of_storage, expected);
}

/// A machine that is protected until this second after the start.
fn protected(name: &str, second: i64) -> Value {
    let mut object = machine(name);
    let until = Timestamp::UNIX_EPOCH + SignedDuration::from_secs(second);
    object["metadata"]["annotations"] = json!({ "vmpool.dev/protected-until": until.to_string() });
    object
}

#[rstest]
#[case::before_its_end(100, &["I12"])]
#[case::within_the_skew_of_clocks(-20, &["I12"])]
#[case::after_it(-30, &[])]
fn a_protected_machine_that_a_scale_down_removes_violates_i12(#[case] second: i64, #[case] found: &[&str]) {
    let history = TestHistory::new()
        .pool(2, "NewestFirst")
        .machine("a")
        .write(TestedKind::Machine, protected("b", second), false)
        .pool(1, "NewestFirst");
    assert_eq!(history.terminating("b").found(&UserActions::default(), &[]), found);
}

#[rstest]
#[case::at_once(0, &[])]
#[case::while_a_watch_is_silent(30, &[])]
#[case::long_after(50, &["I2"])]
fn a_writer_may_not_see_a_machine_that_a_user_has_just_returned(
    #[case] seconds: i64,
    #[case] found: &[&str],
) {
    let mut released = machine("b");
    released["metadata"]["ownerReferences"] = Value::Null;
    let history =
        two_of(2, "NewestFirst").write(TestedKind::Machine, released, false).machine("b").later(seconds);
    let actions = UserActions { returned: ["uid-b".to_owned()].into(), ..UserActions::default() };
    assert_eq!(history.machine("c").found(&actions, &[]), found);
}

/// A running machine that is protected, before and after a write that changes these fields.
fn restarted(before: &Value, after: &Value) -> TestHistory {
    let with = |fields: &Value| {
        let mut object = protected("a", 100);
        for (pointer, value) in fields.as_object().unwrap() {
            object[pointer] = value.clone();
        }
        object
    };
    let history = TestHistory::new().pool(1, "NewestFirst");
    history.write(TestedKind::Machine, with(before), false).write(TestedKind::Machine, with(after), false)
}

#[rstest]
#[case::restarts_by_itself("Automatic", "Running", &["I12"])]
#[case::waits_for_approval("Manual", "Running", &[])]
#[case::is_stopped("Automatic", "Stopped", &[])]
fn a_new_spec_of_a_protected_machine_that_restarts_violates_i12(
    #[case] mode: &str,
    #[case] phase: &str,
    #[case] found: &[&str],
) {
    let fields = |cores: i64| {
        json!({
            "spec": { "cpu": { "cores": cores }, "disruptions": { "restartApprovalMode": mode } },
            "status": { "phase": phase },
        })
    };
    assert_eq!(restarted(&fields(1), &fields(2)).found(&UserActions::default(), &[]), found);
}

#[test]
fn a_requested_stop_of_a_protected_machine_violates_i12() {
    let fields = |requests: &Value| json!({ "apiVersion": "kubevirt.io/v1", "status": { "stateChangeRequests": requests } });
    let stop = json!([{ "action": "Stop" }, { "action": "Start" }]);
    let history = restarted(&fields(&json!([])), &fields(&stop));
    assert_eq!(history.found(&UserActions::default(), &[]), ["I12"]);
    let history = restarted(&fields(&stop), &fields(&stop));
    assert!(history.found(&UserActions::default(), &[]).is_empty());
}

#[test]
fn a_controller_whose_clock_is_ahead_sees_the_end_of_a_protection_earlier() {
    let ahead = UserActions { clocks_ahead: SignedDuration::from_secs(60), ..UserActions::default() };
    let removed = |until| {
        let history = TestHistory::new().pool(1, "NewestFirst");
        let history = history.write(TestedKind::Machine, protected("a", until), false).pool(0, "NewestFirst");
        history.terminating("a").found(&ahead, &[])
    };
    assert!(removed(20).is_empty());
    assert_eq!(removed(100), ["I12"]);
}

/// A running machine that drains until second 100 if it has an id, with a hook of this value.
fn hooked(name: &str, id: Option<&str>, value: &str) -> Value {
    let mut object = machine(name);
    let deadline = Timestamp::UNIX_EPOCH + SignedDuration::from_secs(100);
    let mark = id.map(|id| json!({ "id": id, "deadline": deadline.to_string() }).to_string());
    object["metadata"]["annotations"] = json!({ "drain.vmpool.dev/job": value, "vmpool.dev/draining": mark });
    object["status"] = json!({ "phase": "Running" });
    object
}

#[rstest]
#[case::no_drain(None, "", 0, &["I19"])]
#[case::it_waits(Some("d"), "", 0, &["I19"])]
#[case::an_earlier_id(Some("d"), "c", 0, &["I19"])]
#[case::released(Some("d"), "d", 0, &[])]
#[case::after_the_deadline(Some("d"), "", 100, &[])]
fn a_machine_that_a_scale_down_removes_before_its_hook_is_released_violates_i19(
    #[case] id: Option<&str>,
    #[case] value: &str,
    #[case] seconds: i64,
    #[case] found: &[&str],
) {
    let history = TestHistory::new()
        .pool(2, "NewestFirst")
        .machine("a")
        .write(TestedKind::Machine, hooked("b", id, value), false)
        .pool(1, "NewestFirst")
        .later(seconds);
    assert_eq!(history.terminating("b").found(&UserActions::default(), &[]), found);
}

#[rstest]
#[case::released("d", &[])]
#[case::it_waits("", &["I1", "I19"])]
fn a_machine_that_its_hook_released_may_be_replaced(#[case] value: &str, #[case] found: &[&str]) {
    let history = TestHistory::new().pool(2, "NewestFirst").machine("a");
    let history = history.write(TestedKind::Machine, hooked("b", Some("d"), value), false).later(10);
    assert_eq!(history.terminating("b").found(&UserActions::default(), &[]), found);
}

#[rstest]
#[case::a_user_deletes_it(UserActions { deleted: ["uid-b".to_owned()].into(), ..UserActions::default() }, &[])]
#[case::a_forced_removal(UserActions { removal_requests: [("uid-b".to_owned(), 1)].into(), ..UserActions::default() }, &[])]
fn a_machine_that_users_remove_does_not_drain(#[case] actions: UserActions, #[case] found: &[&str]) {
    let history = TestHistory::new().pool(2, "NewestFirst").machine("a");
    let history = history.write(TestedKind::Machine, hooked("b", None, ""), false);
    assert_eq!(history.terminating("b").found(&actions, &[]), found);
}

#[rstest]
#[case::without_force(false, &["I19"])]
#[case::unless_a_later_request_forces_it(true, &[])]
fn the_target_of_an_accepted_removal_drains(#[case] forced: bool, #[case] found: &[&str]) {
    let mut actions = UserActions::default();
    actions.request_removal(&["uid-b".to_owned()]);
    if forced {
        actions.request_undrained_removal(&["uid-b".to_owned()]);
    }
    let history = TestHistory::new().pool(2, "NewestFirst").machine("a");
    let history = history.write(TestedKind::Machine, hooked("b", Some("d"), ""), false);
    let history = history.recorded(1, "NewestFirst", &["b"]).later(10);
    assert_eq!(history.terminating("b").found(&actions, &[]), found);
}

#[test]
fn an_accepted_target_may_be_protected() {
    let history = TestHistory::new()
        .pool(1, "NewestFirst")
        .write(TestedKind::Machine, protected("a", 100), false)
        .recorded(0, "NewestFirst", &["+a"])
        .recorded(0, "NewestFirst", &["a"])
        .terminating("a");
    assert!(!history.found(&UserActions::default(), &[]).contains(&"I12"));
}

#[rstest]
#[case::of_a_machine_that_leaves(false, false, &["I4"])]
#[case::of_a_claimed_machine(true, false, &["I4"])]
#[case::of_a_machine_that_a_user_or_the_controller_deletes_in_the_foreground(false, true, &["I4"])]
#[case::of_a_claimed_machine_that_its_holder_has_replaced(true, true, &[])]
fn preserved_storage_is_not_deleted(
    #[case] claimed: bool,
    #[case] foreground: bool,
    #[case] expected: &[&str],
) {
    let pool = json!({ "apiVersion": "pool.kubevirt.io/v1beta1", "metadata": { "name": "pool" },
        "spec": { "replicas": 1, "scaleInStrategy": { "proactive": { "statePreservation": "Offline" } } } });
    let mut live = machine("a");
    live["apiVersion"] = json!("kubevirt.io/v1");
    if claimed {
        live["metadata"]["annotations"] = json!({ "vmpool.dev/claim": "{}" });
    }
    let mut leaving = live.clone();
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    if foreground {
        leaving["metadata"]["finalizers"] = json!(["foregroundDeletion"]);
    }
    let history =
        TestHistory::new().write(TestedKind::Pool, pool, false).write(TestedKind::Machine, live, false);
    let history = history.disk("a-root", "a", false).write(TestedKind::Machine, leaving, false);
    let found = history.disk("a-root", "a", true).found(&UserActions::default(), &[]);
    let of_storage: Vec<_> = found.into_iter().filter(|invariant| *invariant == "I4").collect();
    assert_eq!(of_storage, expected);
}

#[rstest]
#[case::as_many_as_a_row_and_the_pool(5, 0, false)]
#[case::one_more(6, 0, true)]
#[case::one_more_of_those_that_users_took(6, 1, false)]
fn the_machines_that_a_pool_does_not_keep_are_bounded(
    #[case] lost: usize,
    #[case] taken: usize,
    #[case] is_found: bool,
) {
    let mut history = TestHistory::new().pool(2, "NewestFirst").machine("kept");
    let mut audit = vec![request("create", TestedKind::Machine, "", "kept", Value::Null)];
    for number in 0..lost {
        let name = format!("lost-{number}");
        let mut object = machine(&name);
        object["metadata"].as_object_mut().unwrap().remove("ownerReferences");
        history = history.write(TestedKind::Machine, object, false);
        audit.push(request("create", TestedKind::Machine, "", &name, Value::Null));
    }
    let actions = UserActions { taken, ..UserActions::default() };
    let expected: &[&str] = if is_found { &["I15"] } else { &[] };
    assert_eq!(history.found(&actions, &audit), expected);
    // A pool that was deleted may have orphaned them.
    assert_eq!(history.pool_removed().found(&actions, &audit), [""; 0]);
}

/// A pool of four machines with this limit, and two machines that have not been ready.
fn provisioning(limit: &Value) -> TestHistory {
    let pool = json!({
        "metadata": { "name": "pool" },
        "spec": { "replicas": 4, "scaleDownPolicy": "NewestFirst", "maxProvisioning": limit } });
    TestHistory::new().write(TestedKind::Pool, pool, false).later(10).machine("a").machine("b")
}

/// The same for a pool with healing, a minute after the creation of the machines.
fn provisioning_with_healing(start_timeout: &str) -> TestHistory {
    let pool = json!({
        "metadata": { "name": "pool" },
        "spec": {
            "replicas": 4, "scaleDownPolicy": "NewestFirst", "maxProvisioning": 2,
            "healing": { "startTimeout": start_timeout } } });
    let history = TestHistory::new().write(TestedKind::Pool, pool, false).later(10);
    history.stamped("a", "creationTimestamp", 11).stamped("b", "creationTimestamp", 12).later(60)
}

fn in_phase(history: TestHistory, name: &str, phase: &str) -> TestHistory {
    let mut object = machine(name);
    object["status"] = json!({ "phase": phase });
    history.write(TestedKind::Machine, object, false)
}

#[rstest]
#[case::without_a_limit(provisioning(&Value::Null).machine("c"), false)]
#[case::within_the_limit(provisioning(&json!(3)).machine("c"), false)]
#[case::within_a_percentage_that_is_rounded_up(provisioning(&json!("51%")).machine("c"), false)]
#[case::above_the_limit(provisioning(&json!(2)).machine("c"), true)]
#[case::above_a_percentage(provisioning(&json!("50%")).machine("c"), true)]
#[case::a_value_that_cannot_be_read_allows_one(provisioning(&json!("two")).machine("c"), true)]
#[case::after_a_machine_became_ready(in_phase(provisioning(&json!(2)), "a", "Running").machine("c"), false)]
#[case::one_that_was_ready_before(
    in_phase(in_phase(provisioning(&json!(2)), "a", "Running"), "a", "Pending").machine("c"), false
)]
#[case::after_a_machine_was_stopped(in_phase(provisioning(&json!(2)), "a", "Stopped").machine("c"), false)]
#[case::after_the_start_timeout_of_healing(provisioning_with_healing("30s").machine("c"), false)]
#[case::before_the_start_timeout_of_healing(provisioning_with_healing("5m").machine("c"), true)]
#[case::after_a_machine_was_deleted(provisioning(&json!(2)).removed("a").machine("c"), false)]
fn machines_that_may_be_created_while_others_provision(
    #[case] history: TestHistory,
    #[case] is_broken: bool,
) {
    let actions = UserActions { limits_provisioning: true, ..named("a") };
    assert_eq!(history.found(&actions, &[]).contains(&"I16"), is_broken);
    assert!(!history.found(&named("a"), &[]).contains(&"I16"), "without the feature gate there is no limit");
}

#[test]
fn a_killed_leader_may_exceed_the_limit_by_its_requests_in_flight() {
    let history = provisioning(&json!(2)).machine("c");
    let in_flight = [("uid-pool".to_owned(), 1)].into();
    let actions = UserActions { limits_provisioning: true, in_flight, ..UserActions::default() };
    assert_eq!(history.found(&actions, &[]), [""; 0]);
}

/// A machine that is a standby machine in this phase.
fn in_standby(history: TestHistory, name: &str, phase: &str) -> TestHistory {
    let mut object = machine(name);
    object["metadata"]["labels"] = json!({ "vmpool.dev/standby": phase });
    history.write(TestedKind::Machine, object, false)
}

#[test]
fn a_standby_machine_that_the_published_selector_selects_violates_i17() {
    let pool = json!({
        "metadata": { "name": "pool", "uid": "uid-pool" },
        "spec": { "replicas": 2, "scaleDownPolicy": "NewestFirst" },
        "status": { "selector": "pool-uid=uid-pool" } });
    let history = || two_of(2, "NewestFirst").write(TestedKind::Pool, pool.clone(), false);
    assert_eq!(in_standby(history(), "c", "warming").found(&UserActions::default(), &[]), [""; 0]);
    let mut selected = machine("c");
    selected["metadata"]["labels"] = json!({ "vmpool.dev/standby": "warming", "pool-uid": "uid-pool" });
    let history = history().write(TestedKind::Machine, selected, false);
    assert!(history.found(&UserActions::default(), &[]).contains(&"I17"));
}

#[rstest]
#[case::standby_machines_do_not_count(
    in_standby(in_standby(two_of(2, "NewestFirst"), "c", "warming"), "c", "stopped"), &[]
)]
#[case::an_activation_adds_a_machine(in_standby(two_of(2, "NewestFirst"), "c", "stopped").machine("c"), &["I2"])]
#[case::an_activation_of_a_missing_machine(in_standby(two_of(3, "NewestFirst"), "c", "stopped").machine("c"), &[])]
#[case::an_active_machine_becomes_one(in_standby(two_of(2, "NewestFirst"), "b", "stopped"), &["I17"])]
#[case::a_surplus_standby_machine_is_deleted(
    in_standby(two_of(2, "NewestFirst"), "c", "stopped").removed("c"), &[]
)]
fn standby_machines_are_no_replicas(#[case] history: TestHistory, #[case] expected: &[&str]) {
    assert_eq!(history.found(&UserActions::default(), &[]), expected);
}

/// A pool of three with two machines and a standby machine, which is activated a minute after the pool was
/// paused, in second 4, or scaled down. The standby machine has the version 4.
fn activated_after(edit: &Value) -> TestHistory {
    let version = "pool.kubevirt.io/v1beta1";
    let pool = |spec: &Value| json!({ "apiVersion": version, "metadata": { "name": "pool" }, "spec": spec });
    let history = TestHistory::new().write(TestedKind::Pool, pool(&json!({ "replicas": 3 })), false);
    let history = in_standby(history.machine("a").machine("b"), "c", "stopped");
    history.write(TestedKind::Pool, pool(edit), false).later(60).machine("c")
}

#[rstest]
#[case::sent_before_the_pause("uid-c", 4, 4, &[])]
#[case::sent_while_a_pass_may_not_have_seen_the_pause("uid-c", 4, 7, &[])]
#[case::sent_after_the_pause("uid-c", 4, 8, &["I2"])]
#[case::of_another_machine("uid-d", 4, 4, &["I2"])]
#[case::of_another_version("uid-c", 3, 4, &["I2"])]
fn a_late_activation_may_arrive_after_a_change_of_the_pool(
    #[values(json!({ "replicas": 3, "paused": true }), json!({ "replicas": 2 }))] edit: Value,
    #[case] machine: &str,
    #[case] version: u64,
    #[case] sent: i64,
    #[case] expected: &[&str],
) {
    let sent = Timestamp::from_second(sent).expect("in range");
    let late_activations = [((machine.to_owned(), version), sent)].into();
    let actions = UserActions { late_activations, ..UserActions::default() };
    assert_eq!(activated_after(&edit).found(&actions, &[]), expected);
}

#[test]
fn an_activation_that_is_not_late_violates_i2_in_a_paused_pool() {
    let history = activated_after(&json!({ "replicas": 3, "paused": true }));
    assert_eq!(history.found(&UserActions::default(), &[]), ["I2"]);
}

#[test]
fn a_user_may_copy_the_labels_of_a_standby_machine() {
    let history = in_standby(two_of(2, "NewestFirst"), "b", "stopped");
    let relabeled = ["uid-b".to_owned()].into();
    assert_eq!(history.found(&UserActions { relabeled, ..UserActions::default() }, &[]), [""; 0]);
}
