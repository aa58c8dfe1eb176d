//! The webhooks for pools of one platform.

use std::sync::Arc;

use vmpool_decision::{AdmissionRead, AdmissionReads, Step};
use vmpool_engine::admission::scale::{ScaleChange, ScaleRequest, compare_scales, review_scale};
use vmpool_engine::admission::{PoolRequest, Rules, ScaleGuard};
use vmpool_platforms::kubevirt::admission::{DEFAULTS_PATH, with_replicas};

use crate::metrics::{Path, Verdict};
use crate::review::{ReviewAnswer, ReviewRequest};
use crate::types;
use crate::webhook::{Reviewed, WebhookEntry};

/// The webhook for pools, the one for their scale, if the platform has a scale guard, and the one that sets
/// `replicas` of KubeVirt pools without it.
///
/// The definition of vmpool has a default for `replicas`. That of KubeVirt has none, and a pool without the
/// field has no scale that an autoscaler can read. The controller counts one machine for such a pool, also
/// without this webhook.
pub(crate) fn pool_webhooks(rules: &Arc<dyn Rules>) -> Vec<WebhookEntry> {
    let kind = rules.kind();
    let of_pools = Arc::clone(rules);
    let pool = WebhookEntry::new(kind.pool_path, Path::Pool, kind, move |request, reads| {
        review_pool(&*of_pools, request, reads)
    });
    let scale = rules.scale_guard().map(|guard| {
        WebhookEntry::new(guard.path, Path::Scale, kind, move |request, reads| {
            review_pool_scale(&guard, request, reads)
        })
    });
    let defaults = (kind.group == types::POOL_GROUP).then(|| {
        WebhookEntry::without_reads(DEFAULTS_PATH, Path::PoolDefaults, kind, |request| {
            answer_with_replicas(request).into()
        })
    });
    [pool].into_iter().chain(scale).chain(defaults).collect()
}

/// Reviews a create or an update of a pool.
pub(crate) fn review_pool(
    rules: &dyn Rules,
    request: &ReviewRequest,
    reads: &AdmissionReads,
) -> Step<Reviewed, AdmissionRead> {
    let kind = rules.kind().kind;
    let malformed = |message: String| Ok(ReviewAnswer::malformed(message).into());
    if !request.sub_resource.is_empty() {
        return Ok(ReviewAnswer::allowed().into());
    }
    let old = match request.operation.as_str() {
        "CREATE" => None,
        "UPDATE" if request.old_object.is_object() => Some(&request.old_object),
        "UPDATE" => return malformed(format!("the request has no oldObject that is a {kind}")),
        _ => return Ok(ReviewAnswer::allowed().into()),
    };
    if !request.object.is_object() {
        return malformed(format!("the request has no object that is a {kind}"));
    }
    let change = PoolRequest { user: &request.user_info.username, old, new: &request.object };
    let verdict = rules.review(change, reads)?;
    let warnings = verdict.warnings.iter().map(ToString::to_string).collect();
    Ok((verdict.outcome.into(), warnings))
}

/// Reviews an update of the scale of a pool.
fn review_pool_scale(
    guard: &ScaleGuard,
    request: &ReviewRequest,
    reads: &AdmissionReads,
) -> Step<Reviewed, AdmissionRead> {
    if request.sub_resource != "scale" || request.operation != "UPDATE" {
        return Ok(ReviewAnswer::allowed().into());
    }
    let ReviewRequest { namespace, name, old_object: old, object: new, .. } = request;
    let decision = review_scale(guard, ScaleRequest { namespace, name, old, new }, reads)?;
    let answer = ReviewAnswer::from(decision);
    Ok(match compare_scales(old, new) {
        Ok(ScaleChange::AskPolicy(lowered)) if answer.verdict == Verdict::Allowed => {
            answer.with_lowered_scale(lowered)
        }
        Ok(ScaleChange::Allow | ScaleChange::AskPolicy(_)) | Err(_) => answer,
    }
    .into())
}

/// Allows the request, and sets the field if it is absent.
fn answer_with_replicas(request: &ReviewRequest) -> ReviewAnswer {
    let is_written = ["CREATE", "UPDATE"].contains(&&*request.operation) && request.sub_resource.is_empty();
    match with_replicas(&request.object).filter(|_| is_written) {
        Some(new) => ReviewAnswer::patched(json_patch::diff(&request.object, &new)),
        None => ReviewAnswer::allowed(),
    }
}
