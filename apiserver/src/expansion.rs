//! Expansion: machines and pools with instance type and preference written out. Nothing is stored.

use axum::body::Bytes;
use http::StatusCode;
use serde_json::Value;
use vmpool_platforms::removal::{
    Cause, ExpandedPools, Expansion, ExpansionApi, Problem, Revision, StartDefaults, expansion,
};
use vmpool_platforms::{Found, Reference};

use crate::api::EXPAND;
use crate::authentication::User;
use crate::authorization::Authorizer;
use crate::cluster::Cluster;
use crate::error::{Error, FieldCause};
use crate::request_info::{RequestInfo, ResourceRequest};

/// What a request expands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A stored machine.
    StoredMachine,
    /// The machine in the request.
    Machine,
    /// A stored pool.
    StoredPool,
    /// The pool in the request.
    Pool,
}

impl Target {
    /// What the request expands; `None` if it is another request.
    pub(crate) fn of(api: &ExpansionApi, request: &ResourceRequest) -> Option<Self> {
        let is_pool = |name: fn(ExpandedPools) -> &'static str| {
            api.pools.is_some_and(|pools| request.resource == name(pools))
        };
        match (request.name.is_empty(), &*request.subresource) {
            (false, EXPAND) if request.resource == api.machines => Some(Self::StoredMachine),
            (false, EXPAND) if is_pool(|pools| pools.plural) => Some(Self::StoredPool),
            (true, "") if request.resource == api.expand_machine => Some(Self::Machine),
            (true, "") if is_pool(|pools| pools.expand_pool) => Some(Self::Pool),
            _ => None,
        }
    }

    /// Whether the object is in the body of the request.
    pub(crate) fn is_supplied(self) -> bool {
        matches!(self, Self::Machine | Self::Pool)
    }
}

/// The object in the body of a request.
///
/// # Errors
/// [`Error::BadRequest`], [`Error::NotExpanded`] with the violation of the schema.
pub(crate) fn supplied(target: Target, body: &Bytes, namespace: &str) -> Result<Value, Error> {
    let refuse = |why: String| Err(Error::BadRequest(why));
    if body.is_empty() {
        return refuse("the body of the request is empty; send the object as JSON".to_owned());
    }
    let object: Value = match serde_json::from_slice(body) {
        Ok(object) => object,
        Err(error) => return refuse(format!("the body of the request is not JSON: {error}")),
    };
    let check = if target == Target::Pool { expansion::check_pool } else { expansion::check_machine };
    let violations = check(&object);
    if let Some(first) = violations.first() {
        let more = violations.len() - 1;
        let more = if more > 0 { format!(", and {more} more violations") } else { String::new() };
        let message = format!("the object in the body is invalid: {first}{more}");
        return Err(Error::NotExpanded {
            code: StatusCode::BAD_REQUEST,
            message,
            causes: causes(violations),
        });
    }
    match object["metadata"]["namespace"].as_str() {
        None | Some("") => Ok(object),
        Some(other) if other == namespace => Ok(object),
        Some(other) => refuse(format!(
            "the object is in namespace {other:?} and the request in {namespace:?}; use one of them for both"
        )),
    }
}

/// Which template of a pool, and which machine of it, the parameters of a request name.
///
/// # Errors
/// [`Error::BadRequest`].
pub(crate) fn parameters(query: &str) -> Result<(Revision, Option<u64>), Error> {
    let (mut revision, mut index) = (Revision::Current, None);
    for (key, value) in form_urlencoded::parse(query.as_bytes()) {
        match &*key {
            "revision" if value.is_empty() => {
                return Err(Error::BadRequest("revision must be the name of a stored revision".to_owned()));
            }
            "revision" => revision = Revision::Named(value.into_owned()),
            "index" => match value.parse() {
                Ok(number) => index = Some(number),
                Err(_) => {
                    return Err(Error::BadRequest(format!(
                        "index must be a number from 0, and not {value:?}"
                    )));
                }
            },
            _ => {}
        }
    }
    Ok((revision, index))
}

/// Expands an object.
///
/// An object of another namespace that a volume leads to counts only if the user may read it or clone it. Otherwise it counts as one that
/// does not exist, and the same requests are sent for both.
///
/// # Errors
/// The read that failed, or why the object cannot be expanded.
pub(crate) async fn expand(
    (cluster, authorizer, user): (&Cluster, &Authorizer, &User),
    api: &ExpansionApi,
    (target, object): (Target, &Value),
    namespace: &str,
    (revision, index): (&Revision, Option<u64>),
) -> Result<Value, Error> {
    let mut found = Found::new();
    let mut defaults: Option<StartDefaults> = None;
    loop {
        let read = (&found, defaults.as_ref());
        let expanded = match target {
            Target::StoredMachine | Target::Machine => expansion::machine(object, namespace, read),
            Target::StoredPool => expansion::pool(object, namespace, (revision, index), read),
            Target::Pool => expansion::pool(object, namespace, (&Revision::None, None), read),
        };
        match expanded {
            Expansion::Needs(reference) => {
                let read = cluster.referenced(&reference).await.map_err(|error| {
                    Error::Internal(format!("reading {} {:?}: {error}", reference.kind, reference.name))
                })?;
                let may_use = may_use(authorizer, user, &reference, read.as_ref()).await?;
                found.insert(reference, read.filter(|_| may_use));
            }
            Expansion::NeedsDefaults => {
                let resource = api.installations;
                defaults = Some(cluster.all(resource).await.map_err(|error| {
                    Error::Internal(format!("listing {}.{}: {error}", resource.plural, resource.group))
                })?);
            }
            Expansion::Done(expanded) => return Ok(expanded),
            Expansion::Refused(problem) => return Err(refused(target, problem)),
            Expansion::NoRevision => {
                let revision = match revision {
                    Revision::Named(name) => name.clone(),
                    Revision::None | Revision::Current => String::new(),
                };
                return Err(Error::RevisionNotFound { revision });
            }
        }
    }
}

/// Whether the user may use the object that was read for a reference.
async fn may_use(
    authorizer: &Authorizer,
    user: &User,
    reference: &Reference,
    object: Option<&Value>,
) -> Result<bool, Error> {
    let Some(foreign) = &reference.foreign else { return Ok(true) };
    for permission in [foreign.reading(reference), foreign.cloning(reference, object)] {
        let request = ResourceRequest {
            group: permission.group.to_owned(),
            version: "*".to_owned(),
            namespace: permission.namespace,
            resource: permission.resource.to_owned(),
            name: permission.name,
            subresource: permission.subresource.to_owned(),
            verb: permission.verb,
            has_more_segments: false,
        };
        match authorizer.authorize(user, &RequestInfo::Resource(request)).await {
            Ok(()) => return Ok(true),
            Err(Error::Forbidden(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}

/// The response that KubeVirt has for machines, and that of invalid objects for pools.
fn refused(target: Target, problem: Problem) -> Error {
    let code = match target {
        Target::StoredMachine => StatusCode::INTERNAL_SERVER_ERROR,
        Target::Machine => StatusCode::BAD_REQUEST,
        Target::StoredPool | Target::Pool => StatusCode::UNPROCESSABLE_ENTITY,
    };
    Error::NotExpanded { code, message: problem.message, causes: causes(problem.causes) }
}

fn causes(causes: Vec<Cause>) -> Vec<FieldCause> {
    let cause = |cause: Cause| FieldCause {
        reason: format!("{:?}", cause.reason),
        message: cause.message,
        field: cause.field,
    };
    causes.into_iter().map(cause).collect()
}

#[cfg(test)]
mod tests;
