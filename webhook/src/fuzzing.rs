//! The handling of a review without a server and without reads, for the fuzz targets.

use serde_json::Value;
use vmpool_decision::{AdmissionRead, AdmissionReads, DryRunResult, LookupOutcome, Needs};
use vmpool_engine::admission::Rules;

use crate::pools::review_pool;
use crate::review::{self, ReviewAnswer, ReviewRequest};
use crate::webhook::Reviewed;

/// Decodes a review of a pool, evaluates the rules, and encodes the response. The rules find no object of the
/// cluster.
/// `None` if the body is not a review of a pool.
pub fn answer_review(rules: &dyn Rules, body: &[u8]) -> Option<Value> {
    let kind = rules.kind();
    let request = review::decode_review(body, &kind).ok()?;
    let (answer, warnings) = review_with_absent_objects(rules, &request);
    Some(review::encode_review(&kind, &request, &answer, &warnings))
}

fn review_with_absent_objects(rules: &dyn Rules, request: &ReviewRequest) -> Reviewed {
    if request.too_large {
        return ReviewAnswer::too_large(&rules.kind()).into();
    }
    let mut reads = AdmissionReads::new(true);
    loop {
        match review_pool(rules, request, &reads) {
            Ok(reviewed) => return reviewed,
            Err(Needs(needs)) => {
                for read in needs {
                    match read {
                        AdmissionRead::Object(lookup) => {
                            reads.add_object(lookup, Some(LookupOutcome::Absent));
                        }
                        AdmissionRead::DryRun(_) => reads.add_dry_run(DryRunResult::Accepted),
                    }
                }
            }
        }
    }
}
