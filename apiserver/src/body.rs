//! The body and the query of a removal.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::{Map, Value};
use vmpool_api::names::is_dns_subdomain;

use crate::api::{GROUPS, GroupVersion, REMOVAL_KIND};
use crate::error::Error;

/// Most bytes of a body.
///
/// A thousand names of 63 characters, the longest that a machine can have, with as many UIDs, each quoted and on a
/// line of its own, are 123 KiB.
pub(crate) const LIMIT: usize = 256 * 1024;

/// Most machines that one request may name.
pub(crate) const MOST_TARGETS: usize = 1000;

/// A machine that the caller wants to leave.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Named {
    pub(crate) name: String,
    /// The UID that it must have.
    pub(crate) uid: Option<String>,
}

/// What the caller wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wish {
    /// The machines, each once, in the order in which they were named.
    pub(crate) targets: Vec<Named>,
    /// The UID that the pool must have.
    pub(crate) pool_uid: Option<String>,
    /// Check everything and change nothing.
    pub(crate) dry_run: bool,
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
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Preconditions {
    uid: Option<String>,
}

/// Reads a body and the query that came with it. `pool` is the name in the path.
///
/// # Errors
/// [`Error::BadRequest`], whose text says what would be right.
pub(crate) fn read(body: &[u8], query: &str, namespace: &str, pool: &str) -> Result<Wish, Error> {
    let wish = |body| -> Result<Wish, String> {
        let by_query = dry_run_of(query)?;
        let Body { api_version, kind, metadata, targets, target_uids, preconditions, dry_run } = parse(body)?;
        about_this(api_version.as_deref(), kind.as_deref())?;
        if let Some(metadata) = metadata {
            same(&metadata, "name", pool)?;
            same(&metadata, "namespace", namespace)?;
        }
        let dry_run = dry_run.unwrap_or_default();
        dry_run.iter().try_for_each(|value| all(value))?;
        Ok(Wish {
            targets: distinct(targets.unwrap_or_default(), target_uids)?,
            pool_uid: preconditions.and_then(|preconditions| preconditions.uid),
            dry_run: by_query || !dry_run.is_empty(),
        })
    };
    wish(body).map_err(Error::BadRequest)
}

fn parse(body: &[u8]) -> Result<Body, String> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Err(format!("the body is empty: {}", example()));
    }
    // Else a list would be taken for the fields in their order.
    if body.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'{') {
        return Err(format!("the body is not a JSON object: {}", example()));
    }
    serde_json::from_slice(body)
        .map_err(|error| format!("the body is not a {REMOVAL_KIND}: {error}; {}", example()))
}

fn example() -> String {
    format!(
        "a {REMOVAL_KIND} with a non-empty list of targets is needed, such as {{\"targets\":[\"<machine>\"]}}"
    )
}

fn about_this(api_version: Option<&str>, kind: Option<&str>) -> Result<(), String> {
    // Both groups mean the same, so a body made for one is understood by the other.
    let known = |text: &str| text.is_empty() || GROUPS.iter().any(|served| served.api_version() == text);
    match (api_version, kind) {
        (_, Some(kind)) if !kind.is_empty() && kind != REMOVAL_KIND => {
            Err(format!("the body is a {kind:?}: {}", example()))
        }
        (Some(version), _) if !known(version) => {
            let versions = GROUPS.map(GroupVersion::api_version).join(" or ");
            Err(format!("apiVersion {version:?} is not served here: it is {versions}, or left out"))
        }
        _ => Ok(()),
    }
}

fn same(metadata: &Map<String, Value>, field: &str, path: &str) -> Result<(), String> {
    match metadata.get(field).and_then(Value::as_str) {
        Some(value) if !value.is_empty() && value != path => {
            Err(format!("metadata.{field} is {value:?}, and the path of the request says {path:?}"))
        }
        _ => Ok(()),
    }
}

fn all(value: &str) -> Result<(), String> {
    if value == "All" {
        Ok(())
    } else {
        Err(format!("dryRun {value:?} is unknown: the only value is \"All\""))
    }
}

fn dry_run_of(query: &str) -> Result<bool, String> {
    let mut dry_run = false;
    for (key, value) in form_urlencoded::parse(query.as_bytes()) {
        if key == "dryRun" {
            all(&value)?;
            dry_run = true;
        }
    }
    Ok(dry_run)
}

fn distinct(targets: Vec<String>, uids: Option<Vec<String>>) -> Result<Vec<Named>, String> {
    if targets.is_empty() {
        return Err(example());
    }
    if targets.len() > MOST_TARGETS {
        return Err(format!("{} targets are too many: at most {MOST_TARGETS} at a time", targets.len()));
    }
    if let Some(uids) = uids.as_ref().filter(|uids| uids.len() != targets.len()) {
        return Err(format!(
            "targetUIDs has {} entries, and targets {}: they belong together one by one",
            uids.len(),
            targets.len()
        ));
    }
    let uids = uids.unwrap_or_default().into_iter().map(Some).chain(std::iter::repeat(None));
    let mut known: BTreeSet<Named> = BTreeSet::new();
    let mut named = Vec::with_capacity(targets.len());
    for (name, uid) in targets.into_iter().zip(uids) {
        if !is_dns_subdomain(&name) {
            return Err(format!("target {name:?} cannot be the name of a virtual machine"));
        }
        // An empty UID pins nothing, so that a client may have UIDs for some of its targets only.
        let target = Named { name, uid: uid.filter(|uid| !uid.is_empty()) };
        if known.insert(target.clone()) {
            named.push(target);
        }
    }
    Ok(named)
}

#[cfg(test)]
mod tests;
