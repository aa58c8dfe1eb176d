use super::*;

#[test]
fn a_plan_lists_its_steps_with_their_reasons() {
    let step = |verb, object: &str, why: &str| PlannedStep { verb, object: object.into(), why: why.into() };
    let outlook = PlanOutlook {
        pool: "web".into(),
        namespace: "team-a".into(),
        replicas: 5,
        planned_replicas: 3,
        applied_by: None,
        now: vec![step("delete", "machine web-b", "surplus, the newest first")],
        later: vec![step(
            "update",
            "machine web-a",
            "to revision abc, the platform decides whether it restarts",
        )],
        skipped: vec!["the newest, web-d, is protected until 2026-11-24T18:00:00Z".into()],
        blocked: vec!["machine web-c is reserved by a targeted removal".into()],
    };
    let plain = anstream::adapter::strip_str(&render_outlook(&outlook)).to_string();
    insta::assert_snapshot!(plain, @r"
    Pool web in namespace team-a: 5 -> 3 replicas
    Now:
       1. delete machine web-b: surplus, the newest first
    Later, as the disruption budget allows, in this order:
       2. update machine web-a: to revision abc, the platform decides whether it restarts
    Skipped:
      - the newest, web-d, is protected until 2026-11-24T18:00:00Z
    Blocked:
      - machine web-c is reserved by a targeted removal
    ");
}

#[test]
fn a_plan_without_steps_says_so() {
    let outlook = PlanOutlook {
        pool: "web".into(),
        namespace: "team-a".into(),
        replicas: 3,
        planned_replicas: 3,
        applied_by: None,
        now: vec![],
        later: vec![],
        skipped: vec![],
        blocked: vec![],
    };
    let plain = anstream::adapter::strip_str(&render_outlook(&outlook)).to_string();
    assert_eq!(plain, "Pool web in namespace team-a: 3 replicas\nThe controller would change nothing.\n");
}
