//! The API server's audit log: requests, their users and their responses.

use std::collections::BTreeMap;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use super::options::AUDIT_LOG;
use super::running::ControlPlane;
use crate::error::{Error, Result};

/// A position in the audit log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct AuditMark(u64);

/// A request, as far as tests need it.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditEntry {
    /// When the request arrived.
    pub at: Timestamp,
    /// The user, such as `system:serviceaccount:vmpool-system:vmpool-controller`.
    pub user: String,
    /// The user agent: name and version of the program.
    pub user_agent: String,
    /// `create`, `update`, `patch`, `delete`, `deletecollection`, `get`, `list`, `watch`.
    pub verb: String,
    /// API group, empty for the core group.
    pub group: String,
    /// Plural name of the resource; empty for a non-resource request.
    pub resource: String,
    /// The subresource, such as `status` or `scale`, or empty.
    pub subresource: String,
    /// Empty for a cluster-scoped request.
    pub namespace: String,
    /// Empty for lists and for creates, whose name is in the body.
    pub name: String,
    /// HTTP status code of the response; 0 if there was none.
    pub code: u16,
    /// Whether it is a dry run.
    pub dry_run: bool,
    /// The body, if the policy logs it; otherwise null.
    pub body: Value,
    /// What admission has noted about the request.
    pub notes: BTreeMap<String, String>,
}

impl AuditEntry {
    /// Whether the request is a write.
    pub fn is_write(&self) -> bool {
        ["create", "update", "patch", "delete", "deletecollection"].contains(&self.verb.as_str())
    }

    /// The UID in the precondition of a deletion.
    pub fn precondition_uid(&self) -> Option<&str> {
        self.body.pointer("/preconditions/uid").and_then(Value::as_str)
    }

    /// Whether the response was a success.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.code)
    }

    /// Parses one line of the log; `None` if it is invalid.
    pub fn parse(line: &str) -> Option<Self> {
        let raw: Raw = serde_json::from_str(line).ok()?;
        let object = raw.object_ref;
        Some(Self {
            at: raw.request_received_timestamp,
            // For impersonated requests this is the impersonating user, but no check uses those.
            user: raw.user.username,
            user_agent: raw.user_agent,
            verb: raw.verb,
            group: object.api_group,
            resource: object.resource,
            subresource: object.subresource,
            namespace: object.namespace,
            name: object.name,
            dry_run: raw.request_uri.contains("dryRun=All"),
            code: raw.response_status.map_or(0, |status| status.code),
            body: raw.request_object,
            notes: without_authorization(raw.annotations),
        })
    }
}

/// The annotations of an entry without those that each request has.
fn without_authorization(mut annotations: BTreeMap<String, String>) -> BTreeMap<String, String> {
    annotations.retain(|key, _| !key.starts_with("authorization.k8s.io/"));
    annotations
}

impl std::fmt::Display for AuditEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { at, user, verb, resource, subresource, namespace, name, code, .. } = self;
        let slash = if subresource.is_empty() { "" } else { "/" };
        write!(f, "{at} {user} {verb} {resource}{slash}{subresource} {namespace}/{name} {code}")
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Raw {
    request_received_timestamp: Timestamp,
    user: RawUser,
    #[serde(default)]
    user_agent: String,
    verb: String,
    #[serde(default, rename = "requestURI")]
    request_uri: String,
    #[serde(default)]
    object_ref: RawRef,
    response_status: Option<RawStatus>,
    #[serde(default)]
    request_object: Value,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct RawUser {
    #[serde(default)]
    username: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawRef {
    api_group: String,
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
}

#[derive(Deserialize)]
struct RawStatus {
    #[serde(default)]
    code: u16,
}

impl AuditMark {
    /// The current end of a log; the start if it does not exist yet.
    pub fn end_of(log: &Path) -> Self {
        Self(std::fs::metadata(log).map_or(0, |file| file.len()))
    }

    /// The entries of a log after this mark, and the mark after the last of them.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn read(self, log: &Path) -> Result<(Vec<AuditEntry>, Self)> {
        self.read_where(log, |_| true)
    }

    /// The same, only for lines that match `wanted`. Most lines concern other namespaces, and parsing takes
    /// much longer than this filter.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn read_where(self, log: &Path, wanted: impl Fn(&str) -> bool) -> Result<(Vec<AuditEntry>, Self)> {
        let read = || -> std::io::Result<Vec<u8>> {
            let mut file = std::fs::File::open(log)?;
            file.seek(SeekFrom::Start(self.0))?;
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        let mut bytes = read().map_err(Error::file("reading", log))?;
        // The last line may be incomplete.
        bytes.truncate(bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1));
        let next = Self(self.0 + bytes.len() as u64);
        let text = String::from_utf8_lossy(&bytes);
        Ok((text.lines().filter(|line| wanted(line)).filter_map(AuditEntry::parse).collect(), next))
    }
}

impl ControlPlane {
    /// As [`crate::access::Access::audit_mark`].
    pub fn audit_mark(&self) -> AuditMark {
        AuditMark::end_of(&self.directory.join(AUDIT_LOG))
    }

    /// As [`crate::access::Access::audit`].
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn audit(&self, mark: AuditMark) -> Result<(Vec<AuditEntry>, AuditMark)> {
        mark.read(&self.directory.join(AUDIT_LOG))
    }
}

/// The number of requests of each user, by `verb resource/subresource`.
pub fn by_user(entries: &[AuditEntry]) -> BTreeMap<String, BTreeMap<String, u64>> {
    let mut counts: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
    for entry in entries {
        let slash = if entry.subresource.is_empty() { "" } else { "/" };
        let what = format!("{} {}{slash}{}", entry.verb, entry.resource, entry.subresource);
        *counts.entry(entry.user.clone()).or_default().entry(what).or_default() += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Request","auditID":"x","stage":"ResponseComplete","requestURI":"/apis/virtualization.deckhouse.io/v1alpha2/namespaces/a/virtualmachinepools/web/status","verb":"patch","user":{"username":"system:serviceaccount:vmpool-system:vmpool-controller","groups":["system:authenticated"]},"sourceIPs":["127.0.0.1"],"userAgent":"vmpool-controller/0.1.0","objectRef":{"resource":"virtualmachinepools","namespace":"a","name":"web","apiGroup":"virtualization.deckhouse.io","apiVersion":"v1alpha2","subresource":"status"},"responseStatus":{"metadata":{},"code":200},"requestObject":{"status":{"replicas":3}},"requestReceivedTimestamp":"2026-01-02T03:04:05.678901Z","stageTimestamp":"2026-01-02T03:04:05.700000Z"}"#;

    #[test]
    fn a_log_line_is_parsed() {
        let entry = AuditEntry::parse(LINE).unwrap();
        assert_eq!(
            entry.to_string(),
            "2026-01-02T03:04:05.678901Z system:serviceaccount:vmpool-system:vmpool-controller patch \
             virtualmachinepools/status a/web 200"
        );
        assert!(entry.is_write() && entry.is_success() && !entry.dry_run);
        let dry = AuditEntry::parse(&LINE.replace("web/status", "web/status?dryRun=All")).unwrap();
        assert!(dry.dry_run);
        let annotations = r#""annotations":{"authorization.k8s.io/decision":"allow","vmpool-scale/scaled":"from 3 to 0"},"stage""#;
        let noted = AuditEntry::parse(&LINE.replace(r#""stage""#, annotations)).unwrap();
        assert_eq!(
            noted.notes,
            BTreeMap::from([("vmpool-scale/scaled".to_owned(), "from 3 to 0".to_owned())])
        );
        assert!(entry.notes.is_empty());
        assert_eq!(entry.body["status"]["replicas"], 3);
        let counted = by_user(&[entry.clone(), entry]);
        let user = &counted["system:serviceaccount:vmpool-system:vmpool-controller"];
        assert_eq!(user["patch virtualmachinepools/status"], 2);
    }

    #[test]
    fn an_incomplete_line_is_invalid() {
        assert_eq!(AuditEntry::parse(&LINE[..100]), None);
    }
}
