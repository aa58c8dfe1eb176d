//! The webhooks for instance types, preferences, and the machines that name them.
//!
//! The rules are those of the platform. This module decodes the objects, reads what a rule needs, and spells the answer. Facts
//! of objects in namespaces are read only for an API server that has authenticated itself, as for all rules.

use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, State as Extract};
use axum::response::Response;
use axum::routing::post;
use http::HeaderMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::StatusCause;
use serde_json::Value;
use vmpool_api::names::is_dns_subdomain;
use vmpool_engine::admission::{Found, Kind};
use vmpool_platforms::kubevirt::protection::{self, FINALIZER};
use vmpool_platforms::kubevirt::type_admission::{
    self as rules, COMPLETE_PATH, Decision, EXAMINED_USERS, FIELDS, Failure, MACHINE_PATH, Need, OBJECT_PATH,
    POOL_PATH, PROTECT_PATH, Reads, Step, USERS_IN_A_PAGE, Users,
};
use vmpool_runtime::https::Peer;

use crate::callers::Caller;
use crate::finalizers;
use crate::handlers::handle;
use crate::metrics::{Path, Resource};
use crate::review::{Answer, Request};
use crate::state::State;

/// The most objects that are read for one machine. A name that is inferred needs up to four, and then the object itself.
const MAX_READS: usize = 16;

/// The webhooks for the four kinds. Beside KubeVirt's own webhooks, these validate nothing.
pub(crate) fn object_routes(state: &State) -> Router {
    Router::new()
        .route(OBJECT_PATH, post(object))
        .route(PROTECT_PATH, post(protect))
        .with_state(state.clone())
}

/// The webhooks for machines, which the program has without KubeVirt's own webhooks.
pub(crate) fn machine_routes(state: &State) -> Router {
    Router::new()
        .route(MACHINE_PATH, post(validate))
        .route(COMPLETE_PATH, post(complete))
        .with_state(state.clone())
}

/// The webhook for pools whose template names an instance type or a preference.
pub(crate) fn pool_routes(state: &State) -> Router {
    Router::new().route(POOL_PATH, post(pool)).with_state(state.clone())
}

/// The group of the pools that these webhooks review.
pub(crate) const POOL_GROUP: &str = rules::POOL_GROUP;

fn kind(group: &'static str, kind: &'static str) -> Kind {
    let templates = "its spec";
    Kind { group, kind, templates, small_fields: &[], pool_path: "", setup_warning: None }
}

type Reviewed = (Answer, Vec<String>);

async fn object(
    Extract(state): Extract<State>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    // The review says which of the four kinds it is.
    let kind = kind(rules::GROUP, "");
    handle(&state, kind, Path::Instancetype, peer, &headers, body, async |request, caller| {
        let Some((old, new)) = objects(request) else { return (Answer::allowed(), Vec::new()) };
        let judged = if state.types {
            rules::object(old, new)
        } else {
            Ok(Decision::Allowed { machine: None, warnings: Vec::new() })
        };
        let decision = match judged {
            Ok(decision) => decision,
            Err(error) => return (Answer::malformed(error), Vec::new()),
        };
        let is_allowed = matches!(decision, Decision::Allowed { .. });
        let (answer, mut warnings) = answer(&request.object, decision);
        if is_allowed && caller != Caller::Unauthenticated {
            warnings.extend(edit_warning(&state, &request.namespace, old, new).await);
        }
        (answer, warnings)
    })
    .await
}

/// The warning about machines and pools that will use an edited object when their copies are made. What cannot be read gives
/// no warning.
async fn edit_warning(state: &State, namespace: &str, old: Option<&Value>, new: &Value) -> Option<String> {
    let (kind, object) = rules::edited(namespace, old, new)?;
    if !kind.is_cluster() && !is_dns_subdomain(namespace) {
        return None;
    }
    let mut awaited_by = Vec::new();
    for users in Users::ALL {
        let mut after = String::new();
        for _ in 0..EXAMINED_USERS / USERS_IN_A_PAGE {
            let path = users.page(kind, namespace, &after);
            let resource = Resource::of(users.subject());
            let Found::There(page) = state.reader.page(&path, users.fields(), resource).await else { break };
            awaited_by.extend(users.awaiting(&object, &page));
            page["metadata"]["continue"].as_str().unwrap_or_default().clone_into(&mut after);
            if after.is_empty() {
                break;
            }
        }
    }
    protection::edit_warning(kind, &awaited_by)
}

async fn protect(
    Extract(state): Extract<State>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let kind = kind(rules::GROUP, "");
    handle(&state, kind, Path::Protection, peer, &headers, body, async |request, _| {
        (finalizers::added(request, FINALIZER), Vec::new())
    })
    .await
}

async fn validate(
    Extract(state): Extract<State>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let kind = kind(rules::MACHINE_GROUP, rules::MACHINE_KIND);
    handle(&state, kind, Path::Machine, peer, &headers, body, async |request, caller| {
        let review = |(old, new), reads: &Reads| rules::validate(&request.namespace, old, new, reads);
        reviewed(&state, request, caller, review).await
    })
    .await
}

async fn pool(
    Extract(state): Extract<State>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let kind = kind(rules::POOL_GROUP, rules::POOL_KIND);
    handle(&state, kind, Path::PoolInstancetypes, peer, &headers, body, async |request, caller| {
        let review = |(old, new), reads: &Reads| rules::pool(&request.namespace, old, new, reads);
        reviewed(&state, request, caller, review).await
    })
    .await
}

async fn complete(
    Extract(state): Extract<State>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let kind = kind(rules::MACHINE_GROUP, rules::MACHINE_KIND);
    handle(&state, kind, Path::Completion, peer, &headers, body, async |request, caller| {
        let review = |(_, new), reads: &Reads| rules::complete(&request.namespace, new, reads);
        reviewed(&state, request, caller, review).await
    })
    .await
}

/// The old object of an update, and the new one. `None` for other operations, which are not reviewed.
fn objects(request: &Request) -> Option<(Option<&Value>, &Value)> {
    let old = match request.operation.as_str() {
        "CREATE" => None,
        "UPDATE" => Some(&request.old_object),
        _ => return None,
    };
    request.sub_resource.is_empty().then_some((old, &request.object))
}

/// Reviews a machine, and reads the objects that it needs.
async fn reviewed<'a>(
    state: &State,
    request: &'a Request,
    caller: Caller,
    review: impl Fn((Option<&'a Value>, &'a Value), &Reads) -> Step,
) -> Reviewed {
    let Some(objects) = objects(request) else { return (Answer::allowed(), Vec::new()) };
    if !is_dns_subdomain(&request.namespace) {
        return (Answer::malformed("the namespace of the request is invalid"), Vec::new());
    }
    let mut reads = Reads::default();
    for _ in 0..MAX_READS {
        match review(objects, &reads) {
            Step::Done(decision) => return answer(objects.1, decision),
            Step::Needs(need) => {
                let result = read(state, caller, &need).await;
                reads.add(need.reference, result);
            }
        }
    }
    (Answer::undecided(&format!("the object needs more than {MAX_READS} objects")), Vec::new())
}

async fn read(state: &State, caller: Caller, need: &Need) -> Result<Option<Value>, Failure> {
    if need.reveals && caller == Caller::Unauthenticated {
        return Err(Failure::NotPermitted);
    }
    if need.reference.foreign.is_some() {
        return Err(Failure::Foreign);
    }
    let path = format!("{}/{}", need.reference.collection, need.reference.name);
    match state.reader.at(&path, FIELDS, Resource::of(need.subject)).await {
        Found::There(object) => Ok(Some(object)),
        Found::Absent => Ok(None),
        Found::Failed(error) => Err(Failure::Error(error)),
    }
}

/// The answer for a decision about an object.
fn answer(object: &Value, decision: Decision) -> Reviewed {
    match decision {
        Decision::Allowed { machine: None, warnings } => (Answer::allowed(), warnings),
        Decision::Allowed { machine: Some(machine), warnings } => {
            (Answer::patched(json_patch::diff(object, &machine)), warnings)
        }
        Decision::Refused { causes, warnings } => (Answer::invalid(spelled(causes)), warnings),
        Decision::NotInferred(causes) => (Answer::incomplete(spelled(causes)), Vec::new()),
        Decision::Undecided(message) => (Answer::undecided(&message), Vec::new()),
    }
}

fn spelled(causes: Vec<rules::Cause>) -> Vec<StatusCause> {
    let spelled = causes.into_iter().map(|cause| StatusCause {
        reason: Some(format!("{:?}", cause.reason)),
        field: Some(cause.field),
        message: Some(cause.message),
    });
    spelled.collect()
}
