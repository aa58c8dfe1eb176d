//! KEDA scales a pool of a playground from and to zero, by the triggers `metrics-api` and `cron`.

mod programs;
mod queue;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use self::programs::KedaPrograms;
use self::queue::JobQueue;
use super::playground::Playground;
use crate::workspace::{Workspace, command_output};

/// The Go module with the definitions and the roles.
const MODULE: &str = "github.com/kedacore/keda/v2";

const POOL: &str = "virtualmachinepools.virtualization.deckhouse.io/quickstart";

/// Longer than the two minutes of the cron trigger.
const DEADLINE: Duration = Duration::from_mins(4);

/// Runs KEDA's operator and its metrics server, and scales a pool.
///
/// # Errors
/// A program does not start, or the pool does not get the expected number of machines.
pub(super) fn check_keda(workspace: &Workspace) -> Result<()> {
    let folder = workspace.integration().join("keda");
    fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    let playground = Playground::start(workspace, &folder.join("playground"))?;
    let sources = find_sources(workspace)?;
    apply_file(&playground, &sources.join("config/crd/bases"))?;
    apply_file(&playground, &workspace.path("hack/integration/keda.yaml"))?;
    apply_file(&playground, &sources.join("config/rbac/role.yaml"))?;
    apply_file(&playground, &workspace.path("docs/examples/roles/keda.yaml"))?;
    let _programs = KedaPrograms::start(workspace, &playground, &folder)?;
    apply_file(&playground, &workspace.path("docs/examples/quickstart.yaml"))?;
    scale_by_queue(&playground, &folder)?;
    scale_by_clock(&playground, &folder)
}

/// KEDA's sources, in the version that go.mod pins.
fn find_sources(workspace: &Workspace) -> Result<PathBuf> {
    let mut list = Command::new("go");
    list.args(["list", "-m", "-f", "{{.Dir}}", MODULE]).current_dir(workspace.path("hack/tools/keda"));
    let output = command_output(&mut list, "finding KEDA's sources")?;
    Ok(PathBuf::from(String::from_utf8_lossy(&output).trim()))
}

/// The definitions are too large for client-side apply.
fn apply_file(playground: &Playground, path: &Path) -> Result<()> {
    let path = path.display().to_string();
    playground.kubectl(&["apply", "--server-side", "--filename", &path]).map(drop)
}

/// One machine for four jobs.
fn scale_by_queue(playground: &Playground, folder: &Path) -> Result<()> {
    let queue = JobQueue::start()?;
    let metadata = json!({ "url": queue.url(), "valueLocation": "jobs", "targetValue": "4" });
    apply_scaled_object(playground, folder, &json!({ "type": "metrics-api", "metadata": metadata }))?;
    wait_for_replicas(playground, "metrics-api", 0)?;
    queue.set_jobs(12);
    wait_for_replicas(playground, "metrics-api", 3)?;
    playground.kubectl(&["wait", POOL, "--for=jsonpath={.status.readyReplicas}=3", "--timeout=60s"])?;
    queue.set_jobs(0);
    wait_for_replicas(playground, "metrics-api", 0)
}

/// Two machines from the next minute on, for one minute.
fn scale_by_clock(playground: &Playground, folder: &Path) -> Result<()> {
    let elapsed = std::time::UNIX_EPOCH.elapsed().context("reading the clock")?;
    let minute = |later: u64| format!("{} * * * *", (elapsed.as_secs() / 60 + later) % 60);
    let metadata = json!({
        "timezone": "Etc/UTC", "start": minute(1), "end": minute(2), "desiredReplicas": "2",
    });
    apply_scaled_object(playground, folder, &json!({ "type": "cron", "metadata": metadata }))?;
    wait_for_replicas(playground, "cron", 2)?;
    wait_for_replicas(playground, "cron", 0)
}

fn apply_scaled_object(playground: &Playground, folder: &Path, trigger: &Value) -> Result<()> {
    let object = json!({
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": { "name": "quickstart", "namespace": "default" },
        "spec": {
            "scaleTargetRef": {
                "apiVersion": "virtualization.deckhouse.io/v1alpha2",
                "kind": "VirtualMachinePool",
                "name": "quickstart",
            },
            "pollingInterval": 5,
            "cooldownPeriod": 10,
            "minReplicaCount": 0,
            "maxReplicaCount": 5,
            "advanced": {
                "horizontalPodAutoscalerConfig": {
                    "behavior": { "scaleDown": { "stabilizationWindowSeconds": 0 } },
                },
            },
            "triggers": [trigger],
        },
    });
    let file = folder.join("scaledobject.json");
    fs::write(&file, object.to_string()).with_context(|| format!("writing {}", file.display()))?;
    apply_file(playground, &file)
}

fn wait_for_replicas(playground: &Playground, trigger: &str, wanted: u32) -> Result<()> {
    let begun = Instant::now();
    loop {
        let replicas = playground.kubectl(&["get", POOL, "--output=jsonpath={.spec.replicas}"])?;
        if replicas == wanted.to_string() {
            println!("{trigger}: {wanted} replicas after {} s", begun.elapsed().as_secs());
            return Ok(());
        }
        if begun.elapsed() > DEADLINE {
            bail!("{trigger}: the pool has {replicas} replicas instead of {wanted}");
        }
        thread::sleep(Duration::from_secs(1));
    }
}
