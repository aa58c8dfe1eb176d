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
pub(crate) const MAX_TARGETS: usize = 1000;

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

/// Reads the body and the query of a request. `pool` is the name in the path.
///
/// # Errors
/// [`Error::BadRequest`], whose text says how to correct the request.
pub(crate) fn read_removal_request(
    body: &[u8],
    query: &str,
    (apis, api): (Apis, &RemovalApi),
    (namespace, pool): (&str, &str),
) -> Result<RemovalRequest, Error> {
    let read = |body| -> Result<RemovalRequest, String> {
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
    };
    read(body).map_err(Error::BadRequest)
}

fn parse_removal_body(body: &[u8], kind: &str) -> Result<Body, String> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Err(format!("the body is empty: {}", removal_body_instruction(kind)));
    }
    if !is_object(body) {
        return Err(format!("the body is not a JSON object: {}", removal_body_instruction(kind)));
    }
    serde_json::from_slice(body)
        .map_err(|error| format!("the body is not a {kind}: {error}; {}", removal_body_instruction(kind)))
}

/// Whether a body can only be a JSON object. `serde_json` would read a list as the values of the fields in
/// their order.
pub(crate) fn is_object(body: &[u8]) -> bool {
    body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{')
}

/// Whether the field `dryRun` of a body asks for a dry run.
///
/// # Errors
/// A value has no meaning.
pub(crate) fn is_dry_run(values: Option<Vec<String>>) -> Result<bool, String> {
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
) -> Result<(), String> {
    // Groups about the same pools have the same meaning, so each accepts the bodies of the others.
    let mut same = apis.removal.iter().filter(|other| other.stored == api.stored);
    match (api_version, kind) {
        (_, Some(kind)) if !kind.is_empty() && kind != api.removal_kind => {
            Err(format!("the kind of the body is {kind:?}: {}", removal_body_instruction(api.removal_kind)))
        }
        (Some(version), _)
            if !version.is_empty() && !same.clone().any(|other| other.api_version() == version) =>
        {
            let versions: Vec<String> = same.by_ref().map(RemovalApi::api_version).collect();
            let versions = versions.join(" or ");
            Err(format!("apiVersion {version:?} is not served: use {versions}, or omit it"))
        }
        _ => Ok(()),
    }
}

fn check_metadata(metadata: &Map<String, Value>, field: &str, path: &str) -> Result<(), String> {
    match metadata.get(field).and_then(Value::as_str) {
        Some(value) if !value.is_empty() && value != path => Err(format!(
            "metadata.{field} is {value:?}, but the path of the request contains {path:?}; omit the field"
        )),
        _ => Ok(()),
    }
}

fn check_dry_run(value: &str) -> Result<(), String> {
    if value == "All" {
        Ok(())
    } else {
        Err(format!("dryRun has the value {value:?}: the only value is \"All\""))
    }
}

pub(crate) fn has_dry_run(query: &str) -> Result<bool, String> {
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
    kind: &str,
    targets: Vec<String>,
    uids: Option<Vec<String>>,
) -> Result<Vec<RequestedTarget>, String> {
    if targets.is_empty() {
        return Err(removal_body_instruction(kind));
    }
    if targets.len() > MAX_TARGETS {
        return Err(format!(
            "the request has {} targets, but at most {MAX_TARGETS} are allowed: send several requests",
            targets.len()
        ));
    }
    if let Some(uids) = uids.as_ref().filter(|uids| uids.len() != targets.len()) {
        return Err(format!(
            "targetUIDs has {} entries, but targets has {}: send one UID for each target, in the same order",
            uids.len(),
            targets.len()
        ));
    }
    let uids = uids.unwrap_or_default().into_iter().map(Some).chain(std::iter::repeat(None));
    let mut known: BTreeSet<RequestedTarget> = BTreeSet::new();
    let mut distinct = Vec::with_capacity(targets.len());
    for (name, uid) in targets.into_iter().zip(uids) {
        if !is_dns_subdomain(&name) {
            return Err(format!("target {name:?} is not a valid name of a virtual machine"));
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
