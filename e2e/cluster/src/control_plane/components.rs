//! The command lines of the three programs of the control plane.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::location::component_command;
use super::options::{AUDIT_LOG, AuditLog};
use super::pki::Pki;
use super::ports::Ports;
use super::tools::Tools;
use crate::namespaces::{self, LinuxNamespaces};

/// The controllers that are needed without a node. Omitting the others saves memory and requests.
const CONTROLLERS: [&str; 12] = [
    "clusterrole-aggregation-controller",
    "deployment-controller",
    "disruption-controller",
    "garbage-collector-controller",
    "horizontal-pod-autoscaler-controller",
    "namespace-controller",
    // It removes the finalizer that the API server puts on every claim.
    "persistentvolumeclaim-protection-controller",
    "replicaset-controller",
    "resourcequota-controller",
    "root-ca-certificate-publisher-controller",
    "serviceaccount-controller",
    "serviceaccount-token-controller",
];

/// etcd without fsync, because test data need not survive a crash of the host. `space` limits the size of its
/// store in bytes; the default is several GiB.
pub(super) fn etcd_command(
    namespaces: Option<&LinuxNamespaces>,
    tools: &Tools,
    directory: &Path,
    ports: Ports,
    space: Option<u64>,
) -> Command {
    let client = format!("http://127.0.0.1:{}", ports.etcd);
    let peer = format!("http://127.0.0.1:{}", ports.etcd_peer);
    let mut command = component_command(namespaces, &tools.etcd);
    command
        .arg(format!("--data-dir={}", directory.join("etcd").display()))
        .arg("--unsafe-no-fsync")
        .arg("--name=etcd")
        .arg(format!("--listen-client-urls={client}"))
        .arg(format!("--advertise-client-urls={client}"))
        .arg(format!("--listen-peer-urls={peer}"))
        .arg(format!("--initial-advertise-peer-urls={peer}"))
        .arg(format!("--initial-cluster=etcd={peer}"))
        .args(space.map(|bytes| format!("--quota-backend-bytes={bytes}")));
    command
}

/// Writes the audit policy to the path that [`api_server_command`] uses.
///
/// # Errors
/// The I/O error.
pub(super) fn write_audit_policy(directory: &Path, policy: &str) -> std::io::Result<()> {
    std::fs::write(directory.join("audit-policy.yaml"), policy)
}

/// Writes the admission configuration of [`api_server_command`]: it authenticates to webhooks with the
/// front-proxy certificate.
///
/// # Errors
/// What the system says.
pub(super) fn write_admission(directory: &Path, pki: &Pki) -> std::io::Result<()> {
    let kubeconfig = directory.join("webhooks.kubeconfig");
    let user = json!({
        "client-certificate": pki.certificate("front-proxy-client"),
        "client-key": pki.key("front-proxy-client"),
    });
    let users = json!({ "apiVersion": "v1", "kind": "Config", "users": [{ "name": "*", "user": user }] });
    std::fs::write(&kubeconfig, users.to_string())?;
    let plugins = ["MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"].map(|plugin| {
        json!({ "name": plugin, "configuration": {
            "apiVersion": "apiserver.config.k8s.io/v1",
            "kind": "WebhookAdmissionConfiguration",
            "kubeConfigFile": kubeconfig,
        } })
    });
    let configuration = json!({
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AdmissionConfiguration",
        "plugins": plugins,
    });
    std::fs::write(directory.join("admission.yaml"), configuration.to_string())
}

/// kube-apiserver, configured for aggregation: with the front-proxy certificate it proves to an aggregated
/// API server that the user name in the headers is authentic.
pub(super) fn api_server_command(
    namespaces: Option<&LinuxNamespaces>,
    tools: &Tools,
    directory: &Path,
    pki: &Pki,
    ports: Ports,
    audit: &AuditLog,
) -> Command {
    let mut command = component_command(namespaces, &tools.api_server);
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
        .arg(path("--admission-control-config-file", &directory.join("admission.yaml")))
        // Otherwise a graceful shutdown waits up to a minute for open watches.
        .args(["--shutdown-delay-duration=0s", "--shutdown-watch-termination-grace-period=1s"]);
    if namespaces.is_some() {
        command
            // The default of most clusters. With the plugin below, new CRDs take half a minute longer.
            .arg("--enable-admission-plugins=NodeRestriction")
            .args(["--bind-address=0.0.0.0", "--authorization-mode=Node,RBAC"])
            // Pods reach the API server at this address, through the Service `kubernetes`.
            .arg(format!("--advertise-address={}", namespaces::ADDRESS))
            // For logs and exec. The kubelet's certificate is self-signed, and the connection stays on this
            // host.
            .arg(path("--kubelet-client-certificate", &pki.certificate("kubelet-client")))
            .arg(path("--kubelet-client-key", &pki.key("kubelet-client")))
            .arg("--kubelet-preferred-address-types=InternalIP");
    } else {
        command.args([
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            "--authorization-mode=RBAC",
            // On clusters with this plugin, owner references with blockOwnerDeletion need a permission, which
            // tests must cover.
            "--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
        ]);
    }
    if *audit != AuditLog::Off {
        command
            .arg(path("--audit-policy-file", &directory.join("audit-policy.yaml")))
            .arg(path("--audit-log-path", &directory.join(AUDIT_LOG)))
            // In MiB, and more than a run writes: a rotation would invalidate the marks of readers.
            .arg("--audit-log-maxsize=16384");
    }
    command
}

/// kube-controller-manager, with a separate account for each controller. It runs the needed controllers, or
/// with a node all default controllers.
pub(super) fn controller_manager_command(
    namespaces: Option<&LinuxNamespaces>,
    tools: &Tools,
    pki: &Pki,
    kubeconfig: &Path,
) -> Command {
    let mut command = component_command(namespaces, &tools.controller_manager);
    if namespaces.is_none() {
        command.arg(format!("--controllers={}", CONTROLLERS.join(",")));
    } else {
        // The volume controller creates this directory, by default below /usr.
        command.arg(path("--flex-volume-plugin-dir", &kubeconfig.with_file_name("volume-plugins")));
    }
    command
        .arg(path("--kubeconfig", kubeconfig))
        .arg("--use-service-account-credentials")
        .arg("--leader-elect=false")
        .arg("--secure-port=0")
        // With the default limit of 20 requests per second, garbage collection of a large pool would dominate
        // a test.
        .args(["--kube-api-qps=500", "--kube-api-burst=1000"])
        // By default an autoscaler runs every 15 s, and ignores the CPU of a Pod in its first minutes.
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
