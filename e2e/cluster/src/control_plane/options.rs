//! Options of a control plane.

use std::path::PathBuf;

use super::location::ComponentLocation;

/// The start of every audit policy.
///
/// Reads of the control plane are omitted. Its writes are logged, because those of the garbage collector
/// explain why an object was deleted.
const COMMON_POLICY: &str = r#"
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: None
  nonResourceURLs: ["/healthz*", "/livez*", "/readyz*", "/metrics", "/openapi*", "/version*"]
- level: None
  users: ["system:apiserver", "system:kube-controller-manager"]
- level: None
  userGroups: ["system:serviceaccounts:kube-system"]
  verbs: [get, list, watch]
- level: None
  resources:
  - group: ""
    resources: [events]
  - group: events.k8s.io
    resources: [events]
  userGroups: ["system:serviceaccounts:kube-system"]
"#;

/// The end of every audit policy.
const METADATA_RULE: &str = "- level: Metadata\n";

/// What the API server writes to the audit log, which [`ControlPlane::audit`](super::ControlPlane::audit)
/// reads.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum AuditLog {
    /// The metadata of all requests, without bodies. Reads of the control plane itself are omitted.
    #[default]
    Metadata,
    /// The same, and for some requests their bodies: YAML items for `rules` of an audit policy. For the
    /// others, the metadata is logged.
    WithRules(String),
    /// Nothing, so that measurements are not affected.
    Off,
}

impl AuditLog {
    /// The audit policy; `None` if there is no log.
    pub(super) fn policy(&self) -> Option<String> {
        let rules = match self {
            Self::Metadata => "",
            Self::WithRules(rules) => rules,
            Self::Off => return None,
        };
        Some([COMMON_POLICY, rules, METADATA_RULE].concat())
    }
}

/// Name of the audit log in the cluster's directory.
pub(super) const AUDIT_LOG: &str = "audit.log";

/// Options of a new cluster.
#[derive(Debug, Clone, Default)]
pub struct ControlPlaneOptions {
    /// Part of the name of the cluster's directory.
    pub name: String,
    /// YAML files or directories that are applied before kube-controller-manager starts. When the cluster is
    /// ready, their CRDs are established.
    pub manifests: Vec<PathBuf>,
    /// Whether to keep the directory with logs and data after a success.
    pub keep: bool,
    /// What the API server writes to the audit log.
    pub audit: AuditLog,
    /// The cluster's directory, which is emptied first. The default is a new one below `target/e2e`; later
    /// clusters remove it after a day if it was kept.
    pub directory: Option<PathBuf>,
    /// Where the components run.
    pub location: ComponentLocation,
}
