//! The webhook for autoscalers. The rules are those of [`vmpool_autoscaler::admission`]: what the schema
//! cannot express. They depend on the request alone.

use serde::Deserialize;
use vmpool_api::autoscaler::{GROUP, KIND, PoolAutoscaler};
use vmpool_autoscaler::admission::{AutoscalerFinding, review_autoscaler};
use vmpool_engine::admission::{AdmissionRule, MessageOrder, PoolKind, Refusal, Refusals, RuleSeverity};

use crate::metrics::Path;
use crate::review::{ReviewAnswer, ReviewRequest};
use crate::webhook::WebhookEntry;

/// The path of the webhook for autoscalers.
pub(crate) const AUTOSCALER_PATH: &str = "/validate-vmpool-dev-v1alpha1-poolautoscaler";

const REVIEWED_KIND: PoolKind = PoolKind {
    group: GROUP,
    kind: KIND,
    templates: "its spec",
    small_fields: &["spec"],
    pool_path: "",
    setup_warning: None,
};

/// The webhook that the program has with the feature gate PoolAutoscaler.
pub(crate) fn autoscaler_webhook() -> WebhookEntry {
    WebhookEntry::without_reads(AUTOSCALER_PATH, Path::Autoscaler, REVIEWED_KIND, |request| {
        review_request(request).into()
    })
}

/// Reviews a create or an update.
fn review_request(request: &ReviewRequest) -> ReviewAnswer {
    let old = match request.operation.as_str() {
        "CREATE" => None,
        // One that was stored by an older version may be unreadable. All of the new one is then reviewed.
        "UPDATE" => PoolAutoscaler::deserialize(&request.old_object).ok(),
        _ => return ReviewAnswer::allowed(),
    };
    match PoolAutoscaler::deserialize(&request.object) {
        Ok(new) => answer_for_findings(review_autoscaler(old.as_ref(), &new)),
        Err(error) => ReviewAnswer::malformed(format!("reading the object: {error}")),
    }
}

fn answer_for_findings(findings: Vec<AutoscalerFinding>) -> ReviewAnswer {
    let refusals = findings.into_iter().map(|finding| Refusal {
        rule: AdmissionRule::new(finding.rule.id(), RuleSeverity::Invalid),
        field: finding.field,
        value: "...".to_owned(),
        detail: finding.reason,
        order: MessageOrder::FieldFirst,
    });
    Refusals::new(refusals).map_or_else(ReviewAnswer::allowed, ReviewAnswer::refused)
}
