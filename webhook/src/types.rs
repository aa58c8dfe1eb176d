//! The webhooks for instance types, preferences, and the machines that name them.
//!
//! The rules are those of the platform. This module decodes the objects and spells the answer. Facts of
//! objects in namespaces are read only for an API server that has authenticated itself, as for all rules.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::StatusCause;
use serde_json::Value;
use vmpool_api::names::is_dns_subdomain;
use vmpool_decision::{AdmissionRead, LookupOutcome, Step};
use vmpool_engine::admission::PoolKind;
use vmpool_platforms::instancetype::type_admission::{
    self as rules, COMPLETE_PATH, EXAMINED_USERS, MACHINE_PATH, OBJECT_PATH, POOL_PATH, PROTECT_PATH,
    TypeReviewDecision, TypeUserKind, USERS_IN_A_PAGE,
};
use vmpool_platforms::instancetype::type_protection::{self, FINALIZER};

use crate::finalizers;
use crate::metrics::{Path, Resource};
use crate::reads::Reader;
use crate::review::{ReviewAnswer, ReviewRequest};
use crate::webhook::{Reviewed, WebhookEntry};

/// The webhooks for the four kinds. Beside KubeVirt's own webhooks, these validate nothing.
pub(crate) fn type_webhooks(validates: bool) -> Vec<WebhookEntry> {
    // The review says which of the four kinds it is.
    let kind = review_kind(rules::GROUP, "");
    vec![
        WebhookEntry::without_reads(OBJECT_PATH, Path::Instancetype, kind, move |request| {
            review_type(validates, request)
        }),
        WebhookEntry::without_reads(PROTECT_PATH, Path::Protection, kind, |request| {
            finalizers::answer_with_finalizer(request, FINALIZER).into()
        }),
    ]
}

/// The webhooks for machines, which the program has without KubeVirt's own webhooks.
pub(crate) fn machine_webhooks() -> Vec<WebhookEntry> {
    let kind = review_kind(rules::MACHINE_GROUP, rules::MACHINE_KIND);
    vec![
        WebhookEntry::new(MACHINE_PATH, Path::Machine, kind, |request, reads| {
            review_with_reads(request, |old, new| rules::review_machine(&request.namespace, old, new, reads))
        }),
        WebhookEntry::new(COMPLETE_PATH, Path::Completion, kind, |request, reads| {
            review_with_reads(request, |_, new| rules::complete_machine(&request.namespace, new, reads))
        }),
    ]
}

/// The webhook for pools whose template names an instance type or a preference.
pub(crate) fn pool_webhook() -> WebhookEntry {
    let kind = review_kind(rules::POOL_GROUP, rules::POOL_KIND);
    WebhookEntry::new(POOL_PATH, Path::PoolInstancetypes, kind, |request, reads| {
        review_with_reads(request, |old, new| {
            rules::review_pool_template(&request.namespace, old, new, reads)
        })
    })
}

/// The group of the pools that these webhooks review.
pub(crate) const POOL_GROUP: &str = rules::POOL_GROUP;

fn review_kind(group: &'static str, kind: &'static str) -> PoolKind {
    let templates = "its spec";
    PoolKind { group, kind, templates, small_fields: &[], pool_path: "", setup_warning: None }
}

/// Reviews one of the four kinds.
fn review_type(validates: bool, request: &ReviewRequest) -> Reviewed {
    let Some((old, new)) = reviewed_objects(request).filter(|_| validates) else {
        return ReviewAnswer::allowed().into();
    };
    match rules::review_type_object(old, new) {
        Ok(decision) => answer_for_decision(new, decision),
        Err(error) => ReviewAnswer::malformed(error.to_string()).into(),
    }
}

/// The warning about machines and pools that will use an edited object when their copies are made. What
/// cannot be read gives no warning.
///
/// These are read page by page, and each page is dropped before the next one: all pages of a decision would
/// need the memory of eight reviews.
pub(crate) async fn edit_warning(reader: &Reader, request: &ReviewRequest) -> Option<String> {
    let ((old, new), namespace) = (reviewed_objects(request)?, &request.namespace);
    let (kind, object) = rules::find_edited_type(namespace, old, new)?;
    if !kind.is_cluster() && !is_dns_subdomain(namespace) {
        return None;
    }
    let mut awaited_by = Vec::new();
    for users in TypeUserKind::ALL {
        let mut after = String::new();
        for _ in 0..EXAMINED_USERS / USERS_IN_A_PAGE {
            let path = users.page(kind, namespace, &after);
            let resource = Resource::of(users.subject());
            let LookupOutcome::There(page) = reader.page(&path, users.fields(), resource).await else {
                break;
            };
            awaited_by.extend(users.awaiting(&object, &page));
            page["metadata"]["continue"].as_str().unwrap_or_default().clone_into(&mut after);
            if after.is_empty() {
                break;
            }
        }
    }
    type_protection::edit_warning(kind, &awaited_by)
}

/// The old object of an update, and the new one. `None` for other operations, which are not reviewed.
fn reviewed_objects(request: &ReviewRequest) -> Option<(Option<&Value>, &Value)> {
    let old = match request.operation.as_str() {
        "CREATE" => None,
        "UPDATE" => Some(&request.old_object),
        _ => return None,
    };
    request.sub_resource.is_empty().then_some((old, &request.object))
}

/// Reviews a machine or a pool.
fn review_with_reads<'a>(
    request: &'a ReviewRequest,
    review: impl FnOnce(Option<&'a Value>, &'a Value) -> Step<TypeReviewDecision, AdmissionRead>,
) -> Step<Reviewed, AdmissionRead> {
    let Some((old, new)) = reviewed_objects(request) else { return Ok(ReviewAnswer::allowed().into()) };
    if !is_dns_subdomain(&request.namespace) {
        return Ok(ReviewAnswer::malformed("the namespace of the request is invalid").into());
    }
    Ok(answer_for_decision(new, review(old, new)?))
}

/// The answer for a decision about an object.
fn answer_for_decision(object: &Value, decision: TypeReviewDecision) -> Reviewed {
    match decision {
        TypeReviewDecision::Allowed { machine: None, warnings } => (ReviewAnswer::allowed(), warnings),
        TypeReviewDecision::Allowed { machine: Some(machine), warnings } => {
            (ReviewAnswer::patched(json_patch::diff(object, &machine)), warnings)
        }
        TypeReviewDecision::Refused { causes, warnings } => {
            (ReviewAnswer::invalid(to_status_causes(causes)), warnings)
        }
        TypeReviewDecision::NotInferred(causes) => {
            (ReviewAnswer::incomplete(to_status_causes(causes)), Vec::new())
        }
        TypeReviewDecision::Undecided(message) => ReviewAnswer::undecided(&message).into(),
    }
}

fn to_status_causes(causes: Vec<rules::StatusCause>) -> Vec<StatusCause> {
    let spelled = causes.into_iter().map(|cause| StatusCause {
        reason: Some(format!("{:?}", cause.reason)),
        field: Some(cause.field),
        message: Some(cause.message),
    });
    spelled.collect()
}
