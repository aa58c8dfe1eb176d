//! The command lines of the control plane's three programs.

use std::path::Path;
use std::process::Command;

use super::AuditLog;
use super::pki::Pki;
use super::site::command;
use super::tools::Tools;
use crate::namespaces::{self, Namespaces};

/// The controllers we need where there is no node. Each one left out saves memory and requests.
const CONTROLLERS: [&str; 11] = [
    "clusterrole-aggregation-controller",
    "deployment-controller",
    "disruption-controller",
    "garbage-collector-controller",
    "horizontal-pod-autoscaler-controller",
    "namespace-controller",
    "replicaset-controller",
    "resourcequota-controller",
    "root-ca-certificate-publisher-controller",
    "serviceaccount-controller",
    "serviceaccount-token-controller",
];

/// What the requests of our own accounts and of the scenarios leave in the audit log.
///
/// Writes to pools come with their body, to prove which fields the controller writes, and deletions with theirs, which says
/// whom they mean. Reads of the control plane itself are noise; its writes are kept, since the garbage collector explains why an object went.
const AUDIT_POLICY: &str = r#"
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
- level: Request
  verbs: [create, update, patch]
  resources:
  - group: virtualization.deckhouse.io
    resources: ["virtualmachinepools", "virtualmachinepools/*"]
- level: Request
  verbs: [delete]
  resources:
  - group: virtualization.deckhouse.io
- level: Metadata
"#;

/// The ports of one cluster.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ports {
    pub(super) etcd: u16,
    pub(super) etcd_peer: u16,
    pub(super) api_server: u16,
}

/// etcd, without fsync: the data of a test need not survive the machine. What it stores may take `space` bytes, which
/// is several GiB unless told otherwise.
pub(super) fn etcd(
    namespaces: Option<&Namespaces>,
    tools: &Tools,
    directory: &Path,
    ports: Ports,
    space: Option<u64>,
) -> Command {
    let client = format!("http://127.0.0.1:{}", ports.etcd);
    let peer = format!("http://127.0.0.1:{}", ports.etcd_peer);
    let mut command = command(namespaces, &tools.etcd);
    command
        .arg(format!("--data-dir={}", directory.join("etcd").display()))
        .arg("--unsafe-no-fsync")
        .arg("--name=e2e")
        .arg(format!("--listen-client-urls={client}"))
        .arg(format!("--advertise-client-urls={client}"))
        .arg(format!("--listen-peer-urls={peer}"))
        .arg(format!("--initial-advertise-peer-urls={peer}"))
        .arg(format!("--initial-cluster=e2e={peer}"))
        .args(space.map(|bytes| format!("--quota-backend-bytes={bytes}")));
    command
}

/// Writes the audit policy where [`api_server`] looks for it.
///
/// # Errors
/// What the system says.
pub(super) fn write_audit_policy(directory: &Path) -> std::io::Result<()> {
    std::fs::write(directory.join("audit-policy.yaml"), AUDIT_POLICY)
}

/// kube-apiserver, ready for aggregation: the front-proxy certificate proves to an aggregated API server that
/// the user's name in the headers comes from here.
pub(super) fn api_server(
    namespaces: Option<&Namespaces>,
    tools: &Tools,
    directory: &Path,
    pki: &Pki,
    ports: Ports,
    audit: AuditLog,
) -> Command {
    let mut command = command(namespaces, &tools.api_server);
    command
        .arg(format!("--etcd-servers=http://127.0.0.1:{}", ports.etcd))
        .arg(format!("--secure-port={}", ports.api_server))
        .arg(path("--tls-cert-file", &pki.certificate("apiserver")))
        .arg(path("--tls-private-key-file", &pki.key("apiserver")))
        .arg(path("--client-ca-file", &pki.certificate("ca")))
        .arg("--service-cluster-ip-range=10.0.0.0/24")
        .arg("--service-account-issuer=https://kubernetes.default.svc")
        .arg(path("--service-account-key-file", &pki.service_account_public_key()))
        .arg(path("--service-account-signing-key-file", &pki.key("service-account")))
        .arg(path("--requestheader-client-ca-file", &pki.certificate("front-proxy-ca")))
        .arg("--requestheader-allowed-names=front-proxy-client")
        .arg("--requestheader-username-headers=X-Remote-User")
        .arg("--requestheader-group-headers=X-Remote-Group")
        .arg("--requestheader-extra-headers-prefix=X-Remote-Extra-")
        .arg(path("--proxy-client-cert-file", &pki.certificate("front-proxy-client")))
        .arg(path("--proxy-client-key-file", &pki.key("front-proxy-client")))
        // A graceful stop otherwise waits up to a minute for watches that nobody ends.
        .args(["--shutdown-delay-duration=0s", "--shutdown-watch-termination-grace-period=1s"]);
    if namespaces.is_some() {
        command
            // As most clusters have it. The plugin below learns of a new definition half a minute late.
            .arg("--enable-admission-plugins=NodeRestriction")
            .args(["--bind-address=0.0.0.0", "--authorization-mode=Node,RBAC"])
            // Pods find the API server here, behind the Service `kubernetes`.
            .arg(format!("--advertise-address={}", namespaces::ADDRESS))
            // For logs and exec. The kubelet's own certificate is self-signed, and nobody is between the two.
            .arg(path("--kubelet-client-certificate", &pki.certificate("kubelet-client")))
            .arg(path("--kubelet-client-key", &pki.key("kubelet-client")))
            .arg("--kubelet-preferred-address-types=InternalIP");
    } else {
        command.args([
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            "--authorization-mode=RBAC",
            // Owner references with blockOwnerDeletion need a right where this plugin is on: have it on.
            "--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
        ]);
    }
    if audit == AuditLog::Written {
        command
            .arg(path("--audit-policy-file", &directory.join("audit-policy.yaml")))
            .arg(path("--audit-log-path", &directory.join(super::AUDIT_LOG)))
            // In MiB, and beyond what a run writes: a rotated log would lose the marks that readers hold.
            .arg("--audit-log-maxsize=16384");
    }
    command
}

/// kube-controller-manager, each controller under its own account: those we need, or with a node all that are on by
/// default.
pub(super) fn controller_manager(
    namespaces: Option<&Namespaces>,
    tools: &Tools,
    pki: &Pki,
    kubeconfig: &Path,
) -> Command {
    let mut command = command(namespaces, &tools.controller_manager);
    if namespaces.is_none() {
        command.arg(format!("--controllers={}", CONTROLLERS.join(",")));
    } else {
        // The controller of volumes makes this directory, by default below /usr.
        command.arg(path("--flex-volume-plugin-dir", &kubeconfig.with_file_name("volume-plugins")));
    }
    command
        .arg(path("--kubeconfig", kubeconfig))
        .arg("--use-service-account-credentials")
        .arg("--leader-elect=false")
        .arg("--secure-port=0")
        // The client's own limit (20 a second) would make the collection of a big pool the slowest part of a test.
        .args(["--kube-api-qps=500", "--kube-api-burst=1000"])
        // An autoscaler decides every 15 s, and ignores the CPU of a Pod in its first minutes, unless told otherwise.
        .arg("--horizontal-pod-autoscaler-sync-period=1s")
        .arg("--horizontal-pod-autoscaler-cpu-initialization-period=1s")
        .arg("--horizontal-pod-autoscaler-initial-readiness-delay=1s")
        .arg(path("--service-account-private-key-file", &pki.key("service-account")))
        .arg(path("--root-ca-file", &pki.certificate("ca")));
    command
}

fn path(flag: &str, path: &Path) -> String {
    format!("{flag}={}", path.display())
}
