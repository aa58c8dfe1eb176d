//! The restrictions of the Pods' processes, as the kernel reports them.

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;
use vmpool_installation::programs::SYSTEM_NAMESPACE;
use vmpool_test_cluster::access::Access;

use crate::pods;
use crate::stage::among_pods;

/// The user of all images.
const USER: &str = "65532";
/// The group of a process whose Pod names no user: the kubelet passes on only the user of the image. No file
/// of an image belongs to this group. OpenShift gives it to every process, too.
const GROUP: &str = "0";

/// The processes of a Pod's program, found through the Pod's control group, without the sandbox.
fn processes(pod: &Pod, component: &str) -> anyhow::Result<Vec<PathBuf>> {
    let group = format!("pod{}", pods::uid(pod));
    let of_pod = |process: &Path| {
        let read = |file: &str| std::fs::read_to_string(process.join(file)).unwrap_or_default();
        read("cgroup").contains(&group) && read("cmdline").contains(component)
    };
    let entries = std::fs::read_dir("/proc").context("listing processes")?;
    Ok(entries.flatten().map(|entry| entry.path()).filter(|process| of_pod(process)).collect())
}

/// A field in a process's `status`.
fn field(status: &str, name: &str) -> String {
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_default().split_whitespace().next().unwrap_or_default().to_owned()
}

/// Checks the restrictions of a process.
fn ensure_restricted(process: &Path) -> anyhow::Result<()> {
    let status =
        std::fs::read_to_string(process.join("status")).context("reading the status of a process")?;
    for (name, wanted) in [
        ("Uid", USER),
        ("Gid", GROUP),
        ("CapEff", "0000000000000000"),
        ("CapPrm", "0000000000000000"),
        ("CapBnd", "0000000000000000"),
        ("NoNewPrivs", "1"),
        // 2 means that a filter is active, 0 that there is none.
        ("Seccomp", "2"),
    ] {
        let found = field(&status, name);
        ensure!(found == wanted, "{} has {name} {found:?} instead of {wanted:?}", process.display());
    }
    let mounts = std::fs::read_to_string(process.join("mountinfo")).context("reading mounts")?;
    let root = mounts
        .lines()
        .find(|line| line.split(' ').nth(4) == Some("/"))
        .context("the process has no root mount")?;
    let options = root.split(' ').nth(5).unwrap_or_default();
    ensure!(options.split(',').any(|option| option == "ro"), "the root file system is writable: {root}");
    Ok(())
}

pub(crate) fn the_processes_of_pods_are_restricted() {
    among_pods(async |stage| {
        for component in pods::COMPONENTS {
            for pod in pods::until_ready(stage.access(), component).await? {
                let processes = processes(&pod, component)?;
                ensure!(!processes.is_empty(), "no process of {}", pods::name(&pod));
                processes.iter().try_for_each(|process| ensure_restricted(process))?;
            }
        }
        Ok(())
    });
}

pub(crate) fn the_namespace_refuses_unrestricted_pods() {
    among_pods(async |stage| {
        // The label is enforced: a Pod without restrictions is refused.
        let pod: Pod = serde_json::from_value(json!({
            "metadata": { "name": "unrestricted" },
            "spec": { "containers": [{ "name": "any", "image": "any" }] },
        }))?;
        let params = PostParams { dry_run: true, ..PostParams::default() };
        let refusal = pods::api(stage.access()).create(&params, &pod).await.err();
        let refusal = refusal.context("a Pod without restrictions was admitted")?.to_string();
        ensure!(refusal.contains("violates PodSecurity \"restricted"), "{refusal}");
        Ok(())
    });
}

pub(crate) fn probes_pass_and_no_container_was_restarted() {
    among_pods(async |stage| {
        for component in pods::COMPONENTS {
            for pod in pods::until_ready(stage.access(), component).await? {
                let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_deref());
                let statuses = statuses.unwrap_or_default();
                ensure!(!statuses.is_empty(), "{} has no container", pods::name(&pod));
                for status in statuses {
                    ensure!(status.restart_count == 0 && status.ready, "{}: {status:#?}", pods::name(&pod));
                }
                let spec = pod.spec.as_ref().context("a Pod without a spec")?;
                let probed = |container: &k8s_openapi::api::core::v1::Container| {
                    container.liveness_probe.is_some() && container.readiness_probe.is_some()
                };
                ensure!(spec.containers.iter().all(probed), "{} has no probes", pods::name(&pod));
            }
        }
        Ok(())
    });
}

pub(crate) fn disruption_budgets_and_network_policies_exist() {
    among_pods(async |stage| {
        budgets(stage.access()).await?;
        // The API server accepts the policies. The node's network plugin does not enforce them.
        let policies = Api::<NetworkPolicy>::namespaced(stage.access().client.clone(), SYSTEM_NAMESPACE);
        for component in pods::COMPONENTS {
            let policy = policies.get(component).await.context("reading a network policy")?;
            let spec = policy.spec.context("a policy without a spec")?;
            let selects = spec.pod_selector.and_then(|selector| selector.match_labels).unwrap_or_default();
            ensure!(
                selects.get("app.kubernetes.io/name").is_some_and(|name| name == component),
                "{selects:?}"
            );
        }
        Ok(())
    });
}

/// Checks that each disruption budget allows one disruption.
async fn budgets(access: &Access) -> anyhow::Result<()> {
    let budgets = Api::<PodDisruptionBudget>::namespaced(access.client.clone(), SYSTEM_NAMESPACE);
    for component in pods::COMPONENTS {
        pods::until_ready(access, component).await?;
        let name = || format!("the disruption budget of {component} allows one disruption");
        vmpool_test_cluster::poll::poll_until(name, vmpool_e2e::world::DEADLINE, async || {
            let budget = budgets.get(component).await;
            let budget = budget.map_err(vmpool_test_cluster::Error::api(format!(
                "reading the disruption budget of {component}"
            )))?;
            let status = budget.status.unwrap_or_default();
            let counts = (status.expected_pods, status.current_healthy, status.disruptions_allowed);
            Ok(if counts == (Some(2), Some(2), Some(1)) { Ok(()) } else { Err(format!("{status:?}")) })
        })
        .await?;
    }
    Ok(())
}
