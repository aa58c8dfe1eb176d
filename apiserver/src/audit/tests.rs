use http::HeaderValue;
use rstest::rstest;
use vmpool_engine::ObjectId;
use vmpool_runtime::testing::Recording;

use super::*;
use crate::removal::{RemovalTarget, TargetDeletion};
use crate::testing::ApiServerWorld;

fn accepted(already: &[bool]) -> Accepted {
    let target = |already: &bool| RemovalTarget {
        id: ObjectId::new("m", "u"),
        already_removed: *already,
        deleted: false,
        deletion: TargetDeletion::AnyState,
    };
    Accepted { pool_uid: "p".into(), replicas: None, targets: already.iter().map(target).collect() }
}

#[rstest]
#[case::counted(Ok(accepted(&[false, true, false])), false, Outcome::Removed, 2)]
#[case::all_targets_removed_earlier(Ok(accepted(&[true])), false, Outcome::Repeated, 0)]
#[case::a_dry_run_counts_nothing(Ok(accepted(&[false])), true, Outcome::DryRun, 0)]
#[case::refused(Err(Error::BadRequest(String::new())), false, Outcome::Refused, 0)]
#[case::overloaded(Err(Error::Overloaded), false, Outcome::Full, 0)]
#[case::failed(Err(Error::Internal(String::new())), false, Outcome::Failed, 0)]
#[case::timed_out(Err(Error::Timeout(Duration::ZERO)), false, Outcome::Failed, 0)]
fn the_outcome_and_the_number_of_removed_machines_follow_from_the_result(
    #[case] result: Result<Accepted, Error>,
    #[case] dry_run: bool,
    #[case] outcome: Outcome,
    #[case] removed: usize,
) {
    let summary = RemovalSummary::of(&result, dry_run);
    assert_eq!((summary.outcome, summary.removed), (outcome, removed));
}

#[test]
fn a_valid_audit_id_is_kept_and_others_are_replaced_by_a_random_id() {
    let world = ApiServerWorld::new(1);
    let id = |value: &str| {
        let mut headers = HeaderMap::new();
        headers.insert(AUDIT_ID, HeaderValue::from_str(value).unwrap());
        request_id(&headers, &world.env)
    };
    assert_eq!(id("b6f4a6d2-1"), "b6f4a6d2-1");
    assert_eq!(id(&"x".repeat(129)).len(), 32);
    assert_eq!(id("").len(), 32);
    assert_ne!(request_id(&HeaderMap::new(), &world.env), request_id(&HeaderMap::new(), &world.env));
}

#[test]
fn the_log_line_contains_caller_targets_and_result() {
    let recording = Recording::start();
    let user = AuthenticatedUser {
        name: "eve\nINFO forged".into(),
        groups: vec!["a".into(), "b".into()],
        ..AuthenticatedUser::default()
    };
    let audit = AuditInfo { user, request: "id-1".into() };
    let pool = PoolName {
        stored: vmpool_platforms::removal::APIS.removal[0].stored,
        namespace: "team-a".into(),
        name: "web".into(),
    };
    let result = Ok(Accepted { replicas: Some(3), ..accepted(&[false, false]) });
    let summary = RemovalSummary::of(&result, false);
    audit.log(&pool, &["web-0".into(), "web-1".into()], &summary, Duration::from_millis(12));
    let text = recording.text();
    assert_eq!(text.lines().count(), 1, "{text}");
    for part in [
        r#"user="eve\nINFO forged""#,
        "groups=2",
        r#"request="id-1""#,
        r#"namespace="team-a""#,
        r#"pool="web""#,
        r#"targets="web-0,web-1""#,
        r#"verdict="removed""#,
        "removed=2",
        "replicas=3",
        "milliseconds=12",
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
}
