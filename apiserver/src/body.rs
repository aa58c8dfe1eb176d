//! The body and the query of a removal request.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::{Map, Value};
use vmpool_api::names::is_dns_subdomain;

use vmpool_platforms::removal::{Apis, RemovalApi};

use crate::error::Error;

/// The maximum length of a body in bytes.
///
/// A thousand names of 63 characters, the maximum for a machine, and a thousand UIDs, each quoted and on a
/// separate line, take 123 KiB.
pub(crate) const MAX_LENGTH: usize = 256 * 1024;

/// The maximum number of targets in one request.
pub(crate) const MAX_TARGETS: usize = vmpool_api::subresources::MAX_REMOVAL_TARGETS;

/// A target as the request names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RequestedTarget {
    pub(crate) name: String,
    /// The UID that the machine must have.
    pub(crate) uid: Option<String>,
}

/// A removal request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RemovalRequest {
    /// The targets, each once, in the order of the request.
    pub(crate) targets: Vec<RequestedTarget>,
    /// The UID that the pool must have.
    pub(crate) pool_uid: Option<String>,
    /// Whether the request is only checked.
    pub(crate) dry_run: bool,
    /// Whether protected machines are removed as well.
    pub(crate) force: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Body {
    api_version: Option<String>,
    kind: Option<String>,
    metadata: Option<Map<String, Value>>,
    targets: Option<Vec<String>>,
    #[serde(rename = "targetUIDs")]
    target_uids: Option<Vec<String>>,
    preconditions: Option<Preconditions>,
    dry_run: Option<Vec<String>>,
    force: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Preconditions {
    uid: Option<String>,
}

/// Why the body or the query of a removal request is invalid, and how to correct it.
///
/// The caller receives this text alone, so it contains the causes.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RemovalRequestError {
    /// The query or the body asks for a dry run in an unknown way.
    #[error(transparent)]
    DryRun(#[from] DryRunValueError),
    /// There is no body.
    #[error("the body is empty: {}", removal_body_instruction(.kind))]
    Empty { kind: &'static str },
    /// The body is no JSON object.
    #[error("the body is not a JSON object: {}", removal_body_instruction(.kind))]
    NotAnObject { kind: &'static str },
    /// The body is an object of another form.
    #[error("the body is not a {kind}: {source}; {}", removal_body_instruction(.kind))]
    Malformed { kind: &'static str, source: serde_json::Error },
    /// The body says that it is of another kind.
    #[error("the kind of the body is {found:?}: {}", removal_body_instruction(.kind))]
    OtherKind { found: String, kind: &'static str },
    /// The body says that it is of another version.
    #[error("apiVersion {found:?} is not served: use {served}, or omit it")]
    OtherVersion { found: String, served: String },
    /// The metadata names another pool than the path.
    #[error("metadata.{field} is {found:?}, but the path of the request contains {path:?}; omit the field")]
    OtherPool { field: &'static str, found: String, path: String },
    /// The request names no machine.
    #[error("{}", removal_body_instruction(.kind))]
    NoTargets { kind: &'static str },
    /// The request names too many machines.
    #[error("the request has {count} targets, but at most {MAX_TARGETS} are allowed: send several requests")]
    TooManyTargets { count: usize },
    /// The number of UIDs is not that of the names.
    #[error(
        "targetUIDs has {uids} entries, but targets has {targets}: send one UID for each target, in the same order"
    )]
    UidCount { uids: usize, targets: usize },
    /// No machine can have this name.
    #[error("target {0:?} is not a valid name of a virtual machine")]
    TargetName(String),
}

impl From<RemovalRequestError> for Error {
    fn from(error: RemovalRequestError) -> Self {
        Self::BadRequest(error.to_string())
    }
}

/// The value of `dryRun` has no meaning.
#[derive(Debug, thiserror::Error)]
#[error("dryRun has the value {0:?}: the only value is \"All\"")]
pub(crate) struct DryRunValueError(String);

impl From<DryRunValueError> for Error {
    fn from(error: DryRunValueError) -> Self {
        Self::BadRequest(error.to_string())
    }
}

/// Reads the body and the query of a request. `namespace` and `pool` are the names in the path.
///
/// # Errors
/// [`RemovalRequestError`].
pub(crate) fn read_removal_request(
    body: &[u8],
    query: &str,
    apis: Apis,
    api: &RemovalApi,
    namespace: &str,
    pool: &str,
) -> Result<RemovalRequest, RemovalRequestError> {
    let dry_run_in_query = has_dry_run(query)?;
    let Body { api_version, kind, metadata, targets, target_uids, preconditions, dry_run, force } =
        parse_removal_body(body, api.removal_kind)?;
    check_kind(apis, api, api_version.as_deref(), kind.as_deref())?;
    if let Some(metadata) = metadata {
        check_metadata(&metadata, "name", pool)?;
        check_metadata(&metadata, "namespace", namespace)?;
    }
    let dry_run = is_dry_run(dry_run)?;
    Ok(RemovalRequest {
        targets: distinct_targets(api.removal_kind, targets.unwrap_or_default(), target_uids)?,
        pool_uid: preconditions.and_then(|preconditions| preconditions.uid),
        dry_run: dry_run_in_query || dry_run,
        force: force.unwrap_or_default(),
    })
}

fn parse_removal_body(body: &[u8], kind: &'static str) -> Result<Body, RemovalRequestError> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Err(RemovalRequestError::Empty { kind });
    }
    if !is_object(body) {
        return Err(RemovalRequestError::NotAnObject { kind });
    }
    serde_json::from_slice(body).map_err(|source| RemovalRequestError::Malformed { kind, source })
}

/// Whether a body can only be a JSON object. `serde_json` would read a list as the values of the fields in
/// their order.
pub(crate) fn is_object(body: &[u8]) -> bool {
    body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{')
}

/// Whether the field `dryRun` of a body asks for a dry run.
///
/// # Errors
/// [`DryRunValueError`].
pub(crate) fn is_dry_run(values: Option<Vec<String>>) -> Result<bool, DryRunValueError> {
    let values = values.unwrap_or_default();
    values.iter().try_for_each(|value| check_dry_run(value))?;
    Ok(!values.is_empty())
}

fn removal_body_instruction(kind: &str) -> String {
    format!("send a {kind} with a non-empty list of targets, for example {{\"targets\":[\"<machine>\"]}}")
}

fn check_kind(
    apis: Apis,
    api: &RemovalApi,
    api_version: Option<&str>,
    kind: Option<&str>,
) -> Result<(), RemovalRequestError> {
    // Groups about the same pools have the same meaning, so each accepts the bodies of the others.
    let mut same = apis.removal.iter().filter(|other| other.stored == api.stored);
    match (api_version, kind) {
        (_, Some(found)) if !found.is_empty() && found != api.removal_kind => {
            Err(RemovalRequestError::OtherKind { found: found.to_owned(), kind: api.removal_kind })
        }
        (Some(version), _)
            if !version.is_empty() && !same.clone().any(|other| other.api_version() == version) =>
        {
            let versions: Vec<String> = same.by_ref().map(RemovalApi::api_version).collect();
            let served = versions.join(" or ");
            Err(RemovalRequestError::OtherVersion { found: version.to_owned(), served })
        }
        _ => Ok(()),
    }
}

fn check_metadata(
    metadata: &Map<String, Value>,
    field: &'static str,
    path: &str,
) -> Result<(), RemovalRequestError> {
    match metadata.get(field).and_then(Value::as_str) {
        Some(value) if !value.is_empty() && value != path => {
            Err(RemovalRequestError::OtherPool { field, found: value.to_owned(), path: path.to_owned() })
        }
        _ => Ok(()),
    }
}

fn check_dry_run(value: &str) -> Result<(), DryRunValueError> {
    if value == "All" { Ok(()) } else { Err(DryRunValueError(value.to_owned())) }
}

/// Whether the query of a request asks for a dry run.
///
/// # Errors
/// [`DryRunValueError`].
pub(crate) fn has_dry_run(query: &str) -> Result<bool, DryRunValueError> {
    let mut dry_run = false;
    for (key, value) in form_urlencoded::parse(query.as_bytes()) {
        if key == "dryRun" {
            check_dry_run(&value)?;
            dry_run = true;
        }
    }
    Ok(dry_run)
}

fn distinct_targets(
    kind: &'static str,
    targets: Vec<String>,
    uids: Option<Vec<String>>,
) -> Result<Vec<RequestedTarget>, RemovalRequestError> {
    if targets.is_empty() {
        return Err(RemovalRequestError::NoTargets { kind });
    }
    if targets.len() > MAX_TARGETS {
        return Err(RemovalRequestError::TooManyTargets { count: targets.len() });
    }
    if let Some(uids) = uids.as_ref().filter(|uids| uids.len() != targets.len()) {
        return Err(RemovalRequestError::UidCount { uids: uids.len(), targets: targets.len() });
    }
    let uids = uids.unwrap_or_default().into_iter().map(Some).chain(std::iter::repeat(None));
    let mut known: BTreeSet<RequestedTarget> = BTreeSet::new();
    let mut distinct = Vec::with_capacity(targets.len());
    for (name, uid) in targets.into_iter().zip(uids) {
        if !is_dns_subdomain(&name) {
            return Err(RemovalRequestError::TargetName(name));
        }
        // An empty UID is no precondition, so a client can send UIDs for some of its targets only.
        let target = RequestedTarget { name, uid: uid.filter(|uid| !uid.is_empty()) };
        if known.insert(target.clone()) {
            distinct.push(target);
        }
    }
    Ok(distinct)
}

#[cfg(test)]
mod tests;
