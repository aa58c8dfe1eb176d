//! The handling of a review without a server and without reads, for the fuzz targets.

use serde_json::Value;
use vmpool_engine::admission::{self, Found, LookupResult, Outcome, Review, Rules};

use crate::review::{self, Answer, Request};

/// Decodes a review of a pool, evaluates the rules, and encodes the response. The rules find no object of the
/// cluster.
/// `None` if the body is not a review of a pool.
pub fn answer_review(rules: &dyn Rules, body: &[u8]) -> Option<Value> {
    let kind = rules.kind();
    let request = review::decode(body, &kind).ok()?;
    let (answer, warnings) = judge(rules, &request);
    Some(review::encode(&kind, &request, &answer, &warnings))
}

fn judge(rules: &dyn Rules, request: &Request) -> (Answer, Vec<String>) {
    if request.too_large {
        return (Answer::too_large(&rules.kind()), Vec::new());
    }
    let old = request.old_object.is_object().then_some(&request.old_object);
    let change = admission::Request { user: &request.user_info.username, old, new: &request.object };
    let verdict = match rules.review(change) {
        Review::Decided(verdict) => verdict,
        Review::NeedsFacts(mut pending) => {
            let absent: Vec<LookupResult> =
                pending.lookups().into_iter().map(|lookup| (lookup, Some(Found::Absent))).collect();
            pending.add(absent);
            pending.verdict()
        }
    };
    let warnings = verdict.warnings.iter().map(ToString::to_string).collect();
    let answer = match verdict.outcome {
        Outcome::Allowed => Answer::allowed(),
        Outcome::Refused(refusals) => Answer::refused(refusals),
        Outcome::Malformed(reason) => Answer::malformed(reason),
        Outcome::Undecided(reason) => Answer::undecided(&reason),
    };
    (answer, warnings)
}
