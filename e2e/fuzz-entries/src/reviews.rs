//! Admission reviews.

use std::sync::{Arc, OnceLock};

use vmpool_engine::admission::Rules;
use vmpool_platforms::admission;
use vmpool_platforms::dvp::admission::AdmissionSettings;
use vmpool_webhook::fuzzing::answer_review;

/// Reviews a pool with the rules of each platform. The response has the UID of the request and a verdict.
pub fn review_pool(input: &[u8]) {
    static RULES: OnceLock<Vec<Arc<dyn Rules>>> = OnceLock::new();
    for rules in RULES.get_or_init(|| admission::admission_rules(&AdmissionSettings::default())) {
        if let Some(review) = answer_review(&**rules, input) {
            let response = &review["response"];
            assert!(response["uid"].as_str().is_some_and(|uid| !uid.is_empty()), "{review}");
            assert_eq!(response["allowed"] == true, response["status"].is_null(), "{review}");
        }
    }
}
