//! cert-manager issues the certificates of webhook and apiserver on a one-node cluster, and rotates them
//! while requests are served.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::playground::Playground;
use super::process::RunningProgram;
use crate::tools::{self, ToolSelection};
use crate::workspace::{Workspace, command_output, run_command};

/// The Go module with the definitions.
const MODULE: &str = "github.com/cert-manager/cert-manager";

const NAMESPACE: &str = "vmpool-system";

/// The certificates, which are named after the programs.
const CERTIFICATES: [&str; 2] = ["vmpool-webhook", "vmpool-apiserver"];

/// A request that the webhook decides, and one that apiserver answers.
const REQUESTS: [&[&str]; 2] = [
    &["create", "--dry-run=server", "--filename=docs/examples/quickstart.yaml"],
    &["get", "--raw=/apis/subresources.vmpool.dev/v1alpha1"],
];

/// The metric of the served certificate.
const EXPIRY: &str = "vmpool_tls_certificate_expiry_timestamp_seconds ";

/// How long the kubelet may take to write a changed Secret into the Pods: its period is a minute.
const DEADLINE: Duration = Duration::from_mins(3);

/// Installs cert-manager and the chart with `certificates.mode=CertManager`, and rotates both certificates.
///
/// # Errors
/// A certificate is not issued, not used, or a request fails.
pub(super) fn check_cert_manager(workspace: &Workspace) -> Result<()> {
    tools::ensure_tools(workspace, ToolSelection::Node)?;
    let folder = workspace.integration().join("cert-manager");
    fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    let playground = Playground::start_on_node(workspace, &folder.join("node"))?;
    let definitions = find_definitions(workspace)?.display().to_string();
    playground.kubectl(&["apply", "--server-side", "--filename", &definitions])?;
    let _program = start_cert_manager(workspace, &playground, &folder)?;
    upgrade_release(workspace, &playground)?;
    wait_for_certificates(&playground)?;
    send_requests(&playground)?;
    let before = read_expiries(&playground)?;
    println!("cert-manager has issued the certificates, and {} Pods use them", before.len());
    rotate_certificates(&playground)?;
    wait_for_rotation(&playground, &before)
}

/// The folder of cert-manager's definitions, in the sources that go.mod pins.
fn find_definitions(workspace: &Workspace) -> Result<PathBuf> {
    let mut list = Command::new("go");
    list.args(["list", "-m", "-f", "{{.Dir}}", MODULE])
        .current_dir(workspace.path("hack/tools/cert-manager"));
    let output = command_output(&mut list, "finding cert-manager's definitions")?;
    Ok(PathBuf::from(String::from_utf8_lossy(&output).trim()).join("deploy/crds"))
}

fn start_cert_manager(
    workspace: &Workspace,
    playground: &Playground,
    folder: &Path,
) -> Result<RunningProgram> {
    let mut command = Command::new(workspace.tools().join("cert-manager/bin/cert-manager"));
    command.arg(format!("--kubeconfig={}", playground.kubeconfig().display()));
    RunningProgram::start(&mut command, &folder.join("cert-manager.log"))
}

/// Without authorization, the API server can read the metrics of the Pods.
fn upgrade_release(workspace: &Workspace, playground: &Playground) -> Result<()> {
    let mut helm = Command::new(workspace.tools().join("helm/bin/helm"));
    helm.env("KUBECONFIG", playground.kubeconfig()).current_dir(workspace.root());
    helm.args(["upgrade", "vmpool", "charts/vmpool", "--namespace", NAMESPACE, "--reset-then-reuse-values"]);
    helm.args(["--set", "certificates.mode=CertManager,metrics.authorization=false"]);
    run_command(helm.args(["--force-conflicts", "--wait"]))
}

fn wait_for_certificates(playground: &Playground) -> Result<()> {
    let all = |kind, condition| ["wait", kind, "--all", condition, "--timeout=60s", "--namespace", NAMESPACE];
    playground.kubectl(&all("certificates.cert-manager.io", "--for=condition=Ready"))?;
    let service = "apiservice/v1alpha1.subresources.vmpool.dev";
    playground.kubectl(&["wait", service, "--for=condition=Available", "--timeout=60s"]).map(drop)
}

fn send_requests(playground: &Playground) -> Result<()> {
    REQUESTS.iter().try_for_each(|request| playground.kubectl(request).map(drop))
}

/// Asks cert-manager for new certificates, as `cmctl renew` does.
fn rotate_certificates(playground: &Playground) -> Result<()> {
    for name in CERTIFICATES {
        let patch = r#"{"status":{"conditions":[{"type":"Issuing","status":"True","reason":"ManuallyTriggered","message":"rotation"}]}}"#;
        let certificate = format!("certificates.cert-manager.io/{name}");
        playground.kubectl(&[
            "patch",
            &certificate,
            "--namespace",
            NAMESPACE,
            "--subresource=status",
            "--type=merge",
            "--patch",
            patch,
        ])?;
    }
    Ok(())
}

/// Sends requests until every Pod serves a newer certificate.
fn wait_for_rotation(playground: &Playground, before: &BTreeMap<String, u64>) -> Result<()> {
    let begun = Instant::now();
    for requests in 1.. {
        send_requests(playground).context("a request failed while certificates were rotated")?;
        let now = read_expiries(playground)?;
        ensure!(now.keys().eq(before.keys()), "Pods were replaced");
        if before.iter().all(|(pod, expiry)| now[pod] > *expiry) {
            let seconds = begun.elapsed().as_secs();
            let requests = requests * REQUESTS.len();
            println!(
                "after {seconds} s, every Pod serves a new certificate; none of {requests} requests failed"
            );
            break;
        }
        if begun.elapsed() > DEADLINE {
            bail!("after {DEADLINE:?}, Pods serve an old certificate: before {before:?}, now {now:?}");
        }
        thread::sleep(Duration::from_secs(1));
    }
    Ok(())
}

/// When the certificate that each Pod serves expires.
fn read_expiries(playground: &Playground) -> Result<BTreeMap<String, u64>> {
    let selector = "--selector=app.kubernetes.io/name in (vmpool-webhook, vmpool-apiserver)";
    let listed = ["get", "pods", "--namespace", NAMESPACE, selector, "--output=name"];
    let names = playground.kubectl(&listed)?;
    let pods = names.lines().filter_map(|line| line.strip_prefix("pod/"));
    pods.map(|pod| Ok((pod.to_owned(), read_expiry(playground, pod)?))).collect()
}

fn read_expiry(playground: &Playground, pod: &str) -> Result<u64> {
    let path = format!("--raw=/api/v1/namespaces/{NAMESPACE}/pods/{pod}:8080/proxy/metrics");
    let metrics = playground.kubectl(&["get", &path])?;
    find_expiry(&metrics).with_context(|| format!("{pod} reports no certificate"))
}

fn find_expiry(metrics: &str) -> Option<u64> {
    let value = metrics.lines().find_map(|line| line.strip_prefix(EXPIRY))?;
    let seconds = value.split('.').next()?;
    seconds.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::find_expiry;

    #[test]
    fn the_expiry_is_read_in_whole_seconds() {
        let name = "vmpool_tls_certificate_expiry_timestamp_seconds";
        assert_eq!(find_expiry(&format!("# TYPE {name} gauge\n{name} 1803163777.0\n")), Some(1_803_163_777));
        assert_eq!(find_expiry("vmpool_tls_rotations_total 1\n"), None);
    }
}
