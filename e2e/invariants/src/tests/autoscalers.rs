//! Histories with writes and removals that autoscalers request as the user of the controller.

use super::*;

/// The actions of a scenario in which an autoscaler scales the pool.
fn autoscaled() -> UserActions {
    UserActions { autoscaled: ["pool".to_owned()].into(), ..UserActions::default() }
}

/// The controller sets the replicas at this version of the pool.
fn scale(version: &str, replicas: i64) -> AuditEntry {
    let body = json!({ "metadata": { "resourceVersion": version }, "spec": { "replicas": replicas } });
    request("patch", TestedKind::Pool, "scale", "pool", body)
}

#[rstest]
#[case::with_the_version_that_was_read(scale("1", 2), &[])]
#[case::without_a_version(request("patch", TestedKind::Pool, "scale", "pool", json!({ "spec": { "replicas": 2 } })), &["I7"])]
#[case::in_a_pool_without_autoscaler(AuditEntry { name: "other".to_owned(), ..scale("1", 2) }, &["I7"])]
#[case::by_an_update(AuditEntry { verb: "update".to_owned(), ..scale("1", 2) }, &["I7"])]
#[case::through_the_pool(AuditEntry { subresource: String::new(), ..scale("1", 2) }, &["I7"])]
fn an_autoscaler_writes_replicas_of_its_pool_through_the_scale(
    #[case] request: AuditEntry,
    #[case] expected: &[&str],
) {
    assert_eq!(two_of(2, "NewestFirst").found(&autoscaled(), &[request]), expected);
}

#[test]
fn the_controller_owns_replicas_only_in_autoscaled_pools() {
    let fields = json!([{
        "manager": "vmpool-controller", "subresource": "scale", "fieldsV1": { "f:spec": { "f:replicas": {} } },
    }]);
    let pool = json!({ "metadata": { "name": "pool", "managedFields": fields }, "spec": { "replicas": 1 } });
    let history = TestHistory::new().write(TestedKind::Pool, pool, false);
    assert_eq!(history.found(&autoscaled(), &[]), [""; 0]);
    assert_eq!(history.found(&UserActions::default(), &[]), ["I7"]);
}

/// A pool of three machines, of which two are protected until this second, with the version 1.
fn two_busy_of_three(second: i64) -> TestHistory {
    TestHistory::new()
        .machine("a")
        .write(TestedKind::Machine, protected("b", second), false)
        .write(TestedKind::Machine, protected("c", second), false)
        .pool(3, "NewestFirst")
}

#[rstest]
#[case::the_busy_machines_stay(2, &[])]
#[case::fewer_than_the_busy_machines(1, &["I18"])]
#[case::none(0, &["I18"])]
fn an_autoscaler_leaves_the_busy_machines(#[case] replicas: i64, #[case] expected: &[&str]) {
    let history = two_busy_of_three(1000).pool(replicas, "NewestFirst");
    assert_eq!(history.found(&autoscaled(), &[scale("4", replicas)]), expected);
    // The write of a user may do so.
    let by_user = AuditEntry { user: "admin".to_owned(), ..scale("4", replicas) };
    assert_eq!(history.found(&autoscaled(), &[by_user]), [""; 0]);
}

#[test]
fn machines_that_are_busy_after_the_version_that_was_read_do_not_count() {
    let history = TestHistory::new().machine("a").machine("b").pool(2, "NewestFirst");
    let claimed = history.write(TestedKind::Machine, protected("a", 1000), false).write(
        TestedKind::Machine,
        protected("b", 1000),
        false,
    );
    let lowered = claimed.pool(1, "NewestFirst");
    assert_eq!(lowered.found(&autoscaled(), &[scale("3", 1)]), [""; 0]);
}

#[test]
fn machines_whose_protection_has_ended_or_that_drain_are_not_busy() {
    let ended = two_busy_of_three(-40).pool(0, "NewestFirst");
    assert_eq!(ended.found(&autoscaled(), &[scale("4", 0)]), [""; 0]);
    let mut draining = protected("a", 1000);
    draining["metadata"]["annotations"]["vmpool.dev/draining"] =
        json!(r#"{"id":"d1","deadline":"1970-01-01T01:00:00Z"}"#);
    let history = TestHistory::new().write(TestedKind::Machine, draining, false).pool(1, "NewestFirst");
    let lowered = history.pool(0, "NewestFirst");
    assert_eq!(lowered.found(&autoscaled(), &[scale("2", 0)]), [""; 0]);
}

#[test]
fn a_raise_may_not_know_machines_that_a_client_has_just_protected() {
    let busy = TestHistory::new()
        .write(TestedKind::Machine, protected("a", 1000), false)
        .write(TestedKind::Machine, protected("b", 1000), false)
        .pool(0, "NewestFirst");
    let raised = busy.pool(1, "NewestFirst");
    assert_eq!(raised.found(&autoscaled(), &[scale("3", 1)]), [""; 0]);
    let busy = TestHistory::new()
        .write(TestedKind::Machine, protected("a", 1000), false)
        .write(TestedKind::Machine, protected("b", 1000), false)
        .pool(0, "NewestFirst");
    let raised = busy.later(10).pool(1, "NewestFirst");
    assert_eq!(raised.found(&autoscaled(), &[scale("3", 1)]), ["I18"]);
    let interrupted = UserActions { unseen_for: SignedDuration::from_mins(1), ..autoscaled() };
    assert_eq!(raised.found(&interrupted, &[scale("3", 1)]), [""; 0]);
}

/// A pool whose record has machine `b`, requested by this user.
fn record(policy: &str, replicas: i64, entry: &Value) -> Value {
    let mut target = json!({ "name": "b", "uid": "uid-b" });
    for (field, value) in entry.as_object().unwrap() {
        target[field] = value.clone();
    }
    json!({
        "metadata": {
            "name": "pool",
            "annotations": { vmpool_api::annotations::SCALE_DOWN_TARGETS: json!([target]).to_string() },
        },
        "spec": { "replicas": replicas, "scaleDownPolicy": policy },
    })
}

/// The controller removes machine `b` of a pool with this policy by name.
fn removal(begin: TestHistory, policy: &str, fields: &Value) -> TestHistory {
    let mut reserved = fields.clone();
    reserved["reserved"] = json!("request");
    begin
        .write(TestedKind::Pool, record(policy, 2, &reserved), false)
        .write(TestedKind::Pool, record(policy, 1, fields), false)
        .terminating("b")
        .removed("b")
}

#[rstest]
#[case::of_an_explicit_pool("Explicit", json!({ "by": CONTROLLER }), &[])]
#[case::of_another_pool("NewestFirst", json!({ "by": CONTROLLER }), &["I18"])]
#[case::with_force("Explicit", json!({ "by": CONTROLLER, "force": true }), &["I18"])]
#[case::of_a_user_that_the_scenario_does_not_know("Explicit", json!({ "by": "eve" }), &["I5", "I6"])]
fn an_autoscaler_removes_machines_by_name(
    #[case] policy: &str,
    #[case] fields: Value,
    #[case] expected: &[&str],
) {
    let history = removal(two_of(2, policy), policy, &fields);
    assert_eq!(history.found(&autoscaled(), &[]), expected);
}

#[test]
fn the_controller_removes_no_machine_by_name_without_an_autoscaler() {
    let history = removal(two_of(2, "Explicit"), "Explicit", &json!({ "by": CONTROLLER }));
    assert_eq!(history.found(&UserActions::default(), &[]), ["I5", "I6"]);
}

#[test]
fn an_autoscaler_removes_no_machine_that_was_protected_before_the_request() {
    let explicit = || TestHistory::new().pool(2, "Explicit").machine("a");
    let before = explicit().write(TestedKind::Machine, protected("b", 1000), false);
    let fields = json!({ "by": CONTROLLER });
    assert_eq!(removal(before, "Explicit", &fields).found(&autoscaled(), &[]), ["I18"]);

    // A client can protect a machine between the check and the acceptance.
    let reserved = json!({ "by": CONTROLLER, "reserved": "request" });
    let during = explicit()
        .machine("b")
        .write(TestedKind::Pool, record("Explicit", 2, &reserved), false)
        .write(TestedKind::Machine, protected("b", 1000), false)
        .write(TestedKind::Pool, record("Explicit", 1, &fields), false);
    assert_eq!(during.found(&autoscaled(), &[]), [""; 0]);
}
