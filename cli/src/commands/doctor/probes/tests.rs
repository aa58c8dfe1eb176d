use kube::core::Status;
use rstest::rstest;
use vmpool_platforms::{Dvp, KubeVirt};

use super::*;

fn answer(code: u16, message: &str, names_resource: bool) -> ProbeOutcome {
    let mut status = Status::failure(message, "Reason").with_code(code);
    if names_resource {
        status = status.with_details(serde_json::from_value(json!({ "name": "vmpool-doctor" })).unwrap());
    }
    ProbeOutcome::of_answer::<()>(Ok(Err(kube::Error::Api(Box::new(status)))))
}

#[test]
fn an_answer_shows_which_program_gave_it() {
    let denied = "admission webhook \"pools.webhook.vmpool.dev\" denied the request: too short (rule W24)";
    assert_eq!(answer(422, denied, false), ProbeOutcome::Denied);
    let foreign = "admission webhook \"policy.example.com\" denied the request: no";
    assert_eq!(answer(403, foreign, false), ProbeOutcome::Refused(foreign.into()));
    assert_eq!(
        answer(403, "ed cannot create resource", true),
        ProbeOutcome::Forbidden("ed cannot create resource".into())
    );
    let hanging = "failed calling webhook \"pools.webhook.vmpool.dev\": context deadline exceeded";
    assert_eq!(answer(500, hanging, true), ProbeOutcome::Failed(hanging.into()));
    assert_eq!(answer(404, "pool not found", true), ProbeOutcome::Refused("pool not found".into()));
    let late = ProbeOutcome::of_answer::<()>(Err(TimeoutElapsed(DEADLINE)));
    assert_eq!(late, ProbeOutcome::Failed("no response within 5 s".into()));
}

const PROBE: WebhookProbe<'static> = WebhookProbe {
    check: "DVP webhook",
    namespace: "team-a",
    system: "vmpool-system",
    took: Duration::from_millis(12),
};

#[rstest]
#[case::refused_by_the_webhook(ProbeOutcome::Denied, CheckVerdict::Ok, "after 12 ms")]
#[case::accepted(ProbeOutcome::Accepted, CheckVerdict::Failed, "does not serve namespace team-a")]
#[case::late(
    ProbeOutcome::Failed("no response within 5 s".into()),
    CheckVerdict::Failed,
    "no response within 5 s, so pools cannot be created, changed or scaled down"
)]
#[case::without_the_right(ProbeOutcome::Forbidden("no".into()), CheckVerdict::Unknown, "no")]
#[case::another_webhook(ProbeOutcome::Refused("no".into()), CheckVerdict::Unknown, "before the webhook answers: no")]
fn only_a_refusal_of_the_webhook_shows_that_it_works(
    #[case] outcome: ProbeOutcome,
    #[case] verdict: CheckVerdict,
    #[case] what: &str,
) {
    let finding = PROBE.finding_of_pool(outcome);
    assert_eq!(finding.verdict, verdict);
    assert!(finding.what.contains(what), "{finding:?}");
    assert_eq!(finding.remedy.is_empty(), verdict == CheckVerdict::Ok, "{finding:?}");
}

#[rstest]
#[case::accepted(ProbeOutcome::Accepted, CheckVerdict::Ok)]
#[case::an_explicit_pool(ProbeOutcome::Denied, CheckVerdict::Ok)]
#[case::late(ProbeOutcome::Failed("late".into()), CheckVerdict::Failed)]
fn a_scale_down_is_answered_or_fails(#[case] outcome: ProbeOutcome, #[case] verdict: CheckVerdict) {
    assert_eq!(PROBE.finding_of_scale("web", outcome).verdict, verdict);
}

#[rstest]
#[case::no_such_pool(ProbeOutcome::Refused("not found".into()), CheckVerdict::Ok)]
#[case::without_the_right(ProbeOutcome::Forbidden("no".into()), CheckVerdict::Ok)]
#[case::late(ProbeOutcome::Failed("no response within 5 s".into()), CheckVerdict::Failed)]
fn the_aggregated_api_answers_or_fails(#[case] outcome: ProbeOutcome, #[case] verdict: CheckVerdict) {
    let finding = finding_of_aggregated_api("DVP API service", "a/v1", outcome, Duration::ZERO);
    assert_eq!(finding.verdict, verdict, "{finding:?}");
}

#[test]
fn the_probe_breaks_one_rule_that_only_the_webhook_knows() {
    for pool in [invalid_pool::<Dvp>(), invalid_pool::<KubeVirt>()] {
        assert_eq!(pool["metadata"]["annotations"], json!({ "vmpool.dev/max-protection": "0s" }));
        assert_eq!(pool["spec"]["replicas"], 0);
    }
}
