//! The handling of a review without a server and without reads, for the fuzz targets.

use serde_json::Value;
use vmpool_engine::admission::{
    self, AdmissionDecision, AdmissionRead, AdmissionReads, DryRunResult, LookupOutcome, Rules,
};

use crate::review::{self, ReviewAnswer, ReviewRequest};

/// Decodes a review of a pool, evaluates the rules, and encodes the response. The rules find no object of the
/// cluster.
/// `None` if the body is not a review of a pool.
pub fn answer_review(rules: &dyn Rules, body: &[u8]) -> Option<Value> {
    let kind = rules.kind();
    let request = review::decode_review(body, &kind).ok()?;
    let (answer, warnings) = review_with_absent_objects(rules, &request);
    Some(review::encode_review(&kind, &request, &answer, &warnings))
}

fn review_with_absent_objects(rules: &dyn Rules, request: &ReviewRequest) -> (ReviewAnswer, Vec<String>) {
    if request.too_large {
        return (ReviewAnswer::too_large(&rules.kind()), Vec::new());
    }
    let old = request.old_object.is_object().then_some(&request.old_object);
    let change = admission::PoolRequest { user: &request.user_info.username, old, new: &request.object };
    let mut reads = AdmissionReads::new(true);
    let verdict = loop {
        match rules.review(change, &reads) {
            Ok(verdict) => break verdict,
            Err(needs) => needs.0.into_iter().for_each(|read| match read {
                AdmissionRead::Object(lookup) => reads.add_object(lookup, Some(LookupOutcome::Absent)),
                AdmissionRead::DryRun(_) => reads.add_dry_run(DryRunResult::Accepted),
            }),
        }
    };
    let warnings = verdict.warnings.iter().map(ToString::to_string).collect();
    let answer = match verdict.outcome {
        AdmissionDecision::Allowed => ReviewAnswer::allowed(),
        AdmissionDecision::Refused(refusals) => ReviewAnswer::refused(refusals),
        AdmissionDecision::Malformed(reason) => ReviewAnswer::malformed(reason),
        AdmissionDecision::Undecided(reason) => ReviewAnswer::undecided(&reason),
    };
    (answer, warnings)
}
