//! Failures and load in a playground, so that all series exist and counters increase.

use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::super::playground::Playground;
use super::super::process::PausedProcesses;
use crate::workspace::Workspace;

const DVP_POOL: &str = "virtualmachinepools.virtualization.deckhouse.io/quickstart";
const RETAINED_POOL: &str = "virtualmachinepools.virtualization.deckhouse.io/retained";
const KUBEVIRT_POOL: &str = "virtualmachinepools.pool.kubevirt.io/quickstart";
const EXPANSION: &str = "/apis/kubevirt.subresources.vmpool.dev/v1alpha1/namespaces/default/expand-vm-spec";

/// How long the API server needs to notice that the aggregated API does not respond.
const OUTAGE: Duration = Duration::from_secs(35);

/// The manifests whose objects work.
const EXAMPLES: [&str; 6] = [
    "docs/examples/quickstart.yaml",
    "docs/examples/disks/retained.yaml",
    "docs/examples/kubevirt/quickstart.yaml",
    "docs/examples/kubevirt/instance-types.yaml",
    "docs/examples/disk-images/image.yaml",
    "docs/examples/disk-images/wrapper.yaml",
];

/// Creates pools, images and wrappers that work, and others that fail, and stops webhook and apiserver for a
/// while.
///
/// # Errors
/// A request fails that should succeed.
pub(super) fn cause_failures(workspace: &Workspace, playground: &Playground) -> Result<()> {
    for example in EXAMPLES {
        apply_file(workspace, playground, example)?;
    }
    for pool in [DVP_POOL, KUBEVIRT_POOL] {
        playground.kubectl(&["wait", pool, "--for=jsonpath={.status.readyReplicas}=2", "--timeout=60s"])?;
    }
    apply_file(workspace, playground, "hack/integration/failures.yaml")?;
    apply_file(workspace, playground, "hack/integration/granted.yaml")?;
    playground.kubectl(&["delete", "vmdiskimagegrants", "failing"])?;
    playground.kubectl(&["delete", "vmdiskimages", "debian-13", "--wait=false"])?;
    // The machines keep their copies of the instance type, which then differ from the new one.
    playground.kubectl(&["delete", "virtualmachineinstancetypes", "small"])?;
    apply_file(workspace, playground, "hack/integration/larger.yaml")?;
    stop_services(workspace, playground)
}

fn apply_file(workspace: &Workspace, playground: &Playground, file: &str) -> Result<()> {
    let path = workspace.path(file);
    playground.kubectl(&["apply", "--filename", &path.display().to_string()]).map(drop)
}

/// While webhook and apiserver are paused, a new pool is rejected.
fn stop_services(workspace: &Workspace, playground: &Playground) -> Result<()> {
    let programs = playground.find_programs()?;
    let is_service = |name: &str| ["webhook", "apiserver"].contains(&name);
    let ids: Vec<i32> =
        programs.iter().filter(|program| is_service(&program.name)).map(|program| program.pid).collect();
    let _paused = PausedProcesses::pause(&ids)?;
    let path = workspace.path("docs/examples/disks/warm.yaml").display().to_string();
    let created = playground.kubectl(&["create", "--filename", &path]);
    ensure!(created.is_err(), "a pool was created without the webhook");
    thread::sleep(OUTAGE);
    Ok(())
}

/// Scales, claims, releases, removes and expands once.
///
/// # Errors
/// A request fails.
pub(super) fn run_round(workspace: &Workspace, playground: &Playground, round: u32) -> Result<()> {
    let (up, down) = ("--replicas=4", "--replicas=2");
    let body = workspace.path("docs/examples/kubevirt/machine.json").display().to_string();
    import_image(workspace, playground)?;
    playground.kubectl(&["scale", DVP_POOL, up])?;
    playground.kubectl(&["scale", RETAINED_POOL, if round.is_multiple_of(2) { down } else { up }])?;
    let id = format!("--id=job-{round}");
    playground.kubectl(&["vmpool", "claim", KUBEVIRT_POOL, &id, "--for=1h", "--wait=60s"])?;
    playground.kubectl(&["replace", "--raw", EXPANSION, "--filename", &body])?;
    playground.kubectl(&["wait", DVP_POOL, "--for=jsonpath={.status.readyReplicas}=4", "--timeout=60s"])?;
    let machine = find_machine(playground)?;
    playground.kubectl(&["vmpool", "remove", DVP_POOL, &machine])?;
    playground.kubectl(&["scale", DVP_POOL, down])?;
    thread::sleep(Duration::from_secs(8));
    playground.kubectl(&["vmpool", "release", KUBEVIRT_POOL, &id, "--then=replace"]).map(drop)
}

/// The duration of an import is a rate over some seconds, so each round needs an import.
fn import_image(workspace: &Workspace, playground: &Playground) -> Result<()> {
    let file = "hack/integration/image.yaml";
    let path = workspace.path(file).display().to_string();
    playground.kubectl(&["delete", "--ignore-not-found", "--timeout=60s", "--filename", &path])?;
    apply_file(workspace, playground, file)
}

/// A machine of the pool of DVP.
fn find_machine(playground: &Playground) -> Result<String> {
    let machines = ["get", "virtualmachines.virtualization.deckhouse.io", "--output=name"];
    let names = playground.kubectl(&machines)?;
    let name = names.lines().filter_map(|line| line.rsplit('/').next());
    let mut of_pool = name.filter(|name| name.starts_with("quickstart-"));
    of_pool.next().map(str::to_owned).context("the pool has no machine")
}
