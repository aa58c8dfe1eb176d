//! Expansion: machines and pools with instance type and preference written out. Nothing is stored.

use axum::body::Bytes;
use http::StatusCode;
use serde_json::Value;
use vmpool_platforms::removal::{
    ExpandedPools, Expansion, ExpansionApi, ExpansionForm, MatcherProblem, RevisionToExpand, StartDefaults,
    StatusCause, expansion,
};
use vmpool_platforms::{FetchedObjects, ReferencedObject};

use crate::api::EXPAND;
use crate::authentication::AuthenticatedUser;
use crate::authorization::Authorizer;
use crate::cluster::ClusterClient;
use crate::error::{Error, FieldCause};
use crate::request_info::{RequestInfo, ResourceRequest};

/// What a request expands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExpansionTarget {
    /// A stored machine.
    StoredMachine,
    /// The machine in the request.
    Machine,
    /// A stored pool.
    StoredPool,
    /// The pool in the request.
    Pool,
}

impl ExpansionTarget {
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
pub(crate) fn parse_supplied_object(
    target: ExpansionTarget,
    body: &Bytes,
    namespace: &str,
) -> Result<Value, Error> {
    let refuse = |why: String| Err(Error::BadRequest(why));
    // These messages, and those below, begin with the words of KubeVirt.
    if body.is_empty() {
        return refuse("empty request body; send the object as JSON".to_owned());
    }
    let object: Value = match serde_json::from_slice(body) {
        Ok(object) => object,
        Err(error) => return refuse(format!("Can not unmarshal Request body to struct, error: {error}")),
    };
    let check =
        if target == ExpansionTarget::Pool { expansion::check_pool } else { expansion::check_machine };
    let violations = check(&object);
    if let Some(first) = violations.first() {
        let more = violations.len() - 1;
        let more = if more > 0 { format!(", and {more} more violations") } else { String::new() };
        let kind =
            if target == ExpansionTarget::Pool { expansion::POOL_KIND } else { expansion::MACHINE_KIND };
        let message = format!("Object is not a valid {kind}: {first}{more}");
        return Err(Error::NotExpanded {
            code: StatusCode::BAD_REQUEST,
            message,
            causes: field_causes(violations),
        });
    }
    match object["metadata"]["namespace"].as_str() {
        None | Some("") => Ok(object),
        Some(other) if other == namespace => Ok(object),
        Some(_) => {
            let noun = if target == ExpansionTarget::Pool { "pool" } else { "VM" };
            refuse(format!("{noun} namespace must be empty or {namespace}"))
        }
    }
}

/// Which template of a pool, and which machine of it, the parameters of a request name.
///
/// # Errors
/// [`Error::BadRequest`].
pub(crate) fn parse_expansion_query(query: &str) -> Result<(RevisionToExpand, Option<u64>), Error> {
    let (mut revision, mut index) = (RevisionToExpand::Current, None);
    for (key, value) in form_urlencoded::parse(query.as_bytes()) {
        match &*key {
            "revision" if value.is_empty() => {
                return Err(Error::BadRequest("revision must be the name of a stored revision".to_owned()));
            }
            "revision" => revision = RevisionToExpand::Named(value.into_owned()),
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

/// The form of the expansion that the parameters of a request name.
///
/// # Errors
/// [`Error::BadRequest`].
pub(crate) fn parse_expansion_form(query: &str) -> Result<ExpansionForm, Error> {
    let named = form_urlencoded::parse(query.as_bytes()).filter(|(key, _)| key == "complete").last();
    match named.as_ref().map(|(_, value)| &**value) {
        None | Some("false") => Ok(ExpansionForm::KubeVirt),
        Some("true") => Ok(ExpansionForm::Complete),
        Some(other) => Err(Error::BadRequest(format!("complete must be true or false, and not {other:?}"))),
    }
}

/// What reads the objects that an expansion needs, on behalf of a user.
#[derive(Clone, Copy)]
pub(crate) struct ExpansionReader<'a> {
    pub(crate) cluster: &'a ClusterClient,
    pub(crate) authorizer: &'a Authorizer,
    pub(crate) user: &'a AuthenticatedUser,
}

/// An object to expand.
#[derive(Clone, Copy)]
pub(crate) struct ExpansionRequest<'a> {
    pub(crate) target: ExpansionTarget,
    pub(crate) object: &'a Value,
    /// The namespace in the path of the request.
    pub(crate) namespace: &'a str,
    /// The form of a machine, and of a pool in the request.
    pub(crate) form: ExpansionForm,
    /// The template of a stored pool.
    pub(crate) revision: &'a RevisionToExpand,
    /// The machine of a stored pool; `None` if the request names none.
    pub(crate) index: Option<u64>,
}

/// Expands an object.
///
/// An object of another namespace that a volume leads to counts only if the user may read it or clone it.
/// Otherwise it counts as one that does not exist, and the same requests are sent for both.
///
/// # Errors
/// The read that failed, or why the object cannot be expanded.
pub(crate) async fn expand_object(
    reader: ExpansionReader<'_>,
    api: &ExpansionApi,
    requested: ExpansionRequest<'_>,
) -> Result<Value, Error> {
    let ExpansionReader { cluster, authorizer, user } = reader;
    let ExpansionRequest { target, object, namespace, form, revision, index } = requested;
    let mut found = FetchedObjects::default();
    let mut defaults: Option<StartDefaults> = None;
    loop {
        let start_defaults = defaults.as_ref();
        let expanded = match target {
            ExpansionTarget::StoredMachine | ExpansionTarget::Machine => {
                expansion::expand_machine_object(object, namespace, form, &found, start_defaults)
            }
            ExpansionTarget::StoredPool => {
                expansion::expand_pool(object, namespace, revision, index, &found, start_defaults)
            }
            ExpansionTarget::Pool => expansion::expand_pool(
                object,
                namespace,
                &RevisionToExpand::Supplied(form),
                None,
                &found,
                start_defaults,
            ),
        };
        match expanded {
            Expansion::Needs(needs) => {
                for reference in needs.0 {
                    let read = cluster.referenced(&reference).await.map_err(|error| {
                        Error::Internal(format!("reading {} {:?}: {error}", reference.kind, reference.name))
                    })?;
                    let may_use = may_use(authorizer, user, &reference, read.as_ref()).await?;
                    found.insert(reference, read.filter(|_| may_use));
                }
            }
            Expansion::NeedsDefaults => {
                let resource = api.installations;
                defaults = Some(cluster.list_all(resource).await.map_err(|error| {
                    Error::Internal(format!("listing {}.{}: {error}", resource.plural, resource.group))
                })?);
            }
            Expansion::Done(expanded) => return Ok(expanded),
            Expansion::Refused(problem) => return Err(expansion_error(target, problem)),
            Expansion::NoRevision => {
                let revision = match revision {
                    RevisionToExpand::Named(name) => name.clone(),
                    RevisionToExpand::Supplied(_) | RevisionToExpand::Current => String::new(),
                };
                return Err(Error::RevisionNotFound { revision });
            }
        }
    }
}

/// Whether the user may use the object that was read for a reference.
async fn may_use(
    authorizer: &Authorizer,
    user: &AuthenticatedUser,
    reference: &ReferencedObject,
    object: Option<&Value>,
) -> Result<bool, Error> {
    let Some(foreign) = &reference.cross_namespace else { return Ok(true) };
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
fn expansion_error(target: ExpansionTarget, problem: MatcherProblem) -> Error {
    let code = match target {
        ExpansionTarget::StoredMachine => StatusCode::INTERNAL_SERVER_ERROR,
        ExpansionTarget::Machine => StatusCode::BAD_REQUEST,
        ExpansionTarget::StoredPool | ExpansionTarget::Pool => StatusCode::UNPROCESSABLE_ENTITY,
    };
    Error::NotExpanded { code, message: problem.message, causes: field_causes(problem.causes) }
}

fn field_causes(causes: Vec<StatusCause>) -> Vec<FieldCause> {
    let cause = |cause: StatusCause| FieldCause {
        reason: format!("{:?}", cause.reason),
        message: cause.message,
        field: cause.field,
    };
    causes.into_iter().map(cause).collect()
}

#[cfg(test)]
mod tests;
