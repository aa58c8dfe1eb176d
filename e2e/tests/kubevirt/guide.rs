//! The workflows of KubeVirt's guide to pools, from the list in `guide.yaml`.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;
use vmpool_e2e::documentation;
use vmpool_e2e::wait::let_time_pass;
use vmpool_installation::installation::{cluster_options, kubevirt_definitions};
use vmpool_installation::programs::{Accounts, Chart};
use vmpool_test_cluster::control_plane::{ControlPlane, ControlPlaneOptions};
use vmpool_test_cluster::deadline::Deadline;

use crate::world::{KubeVirtWorld, run_with};
use crate::{TestNamespace, run_to_end, with_namespace, workspace_root};

/// How long a command may take until it shows what it must.
const STEP: Duration = Duration::from_mins(1);

/// A step of a workflow.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    /// Its meaning.
    #[serde(rename = "step")]
    name: String,
    /// The name of the file in the command.
    #[serde(default)]
    file: String,
    /// Its content.
    #[serde(default)]
    manifest: String,
    /// The shell command.
    run: String,
    /// Parts of its output.
    shows: Vec<String>,
    /// In which way the guide is wrong. It is documentation only.
    #[serde(default, rename = "correction")]
    _correction: String,
}

/// Runs a shell script in a directory. `kubectl` in it is that of the cluster, in the namespace.
pub(crate) async fn shell(
    place: &TestNamespace<'_>,
    directory: &Path,
    script: &str,
) -> Result<(bool, String)> {
    let flags = format!("-n {}", place.namespace);
    documentation::run_shell_script(place.cluster, place.cluster.kubeconfig(), &flags, directory, script)
        .await
}

/// Runs a step until its output has all parts.
async fn run(world: &KubeVirtWorld<'_>, directory: &Path, step: &Step) -> Result<()> {
    if !step.file.is_empty() {
        let file = directory.join(&step.file);
        std::fs::write(&file, &step.manifest).with_context(|| file.display().to_string())?;
    }
    let deadline = Deadline::after(STEP);
    loop {
        let (well, said) = shell(&world.place, directory, &step.run).await?;
        // The widths of columns depend on the names.
        let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
        let missing = step.shows.iter().find(|part| !words.contains(part.as_str()));
        if well && missing.is_none() {
            return Ok(());
        }
        // Only commands that read are repeated.
        let reads = step.run.starts_with("kubectl get") || step.run.starts_with("kubectl describe");
        if deadline.is_over() || !reads {
            let log = world.controller.log_tail(20);
            bail!("{}: {}\n{said}\nlacks {missing:?}\n{log}", step.name, step.run);
        }
        let_time_pass(Duration::from_millis(200)).await;
    }
}

#[test]
fn every_command_of_the_guide_does_what_the_guide_says() {
    run_to_end(async {
        // With the pools of the other platform, the short names of the guide would be ambiguous.
        let manifests = kubevirt_definitions().to_vec();
        let cluster =
            ControlPlane::start(ControlPlaneOptions { manifests, ..cluster_options("kubevirt-guide") })
                .await?;
        let values = ["platforms.kubevirt.enabled=true", "platforms.dvp.enabled=false"];
        let chart = Chart::render(&values.map(str::to_owned)).await?;
        let accounts = Accounts::of(&chart, &cluster).await?;
        // The guide prints the names of machines with this namespace.
        let place = TestNamespace { cluster: &cluster, namespace: "default" };
        let steps: Vec<Step> = serde_yaml_ng::from_str(include_str!("guide.yaml"))?;
        run_with(&accounts, place, "kubevirt", async |world| {
            let directory = cluster.directory().join("guide");
            std::fs::create_dir_all(&directory)?;
            for step in &steps {
                run(&world, &directory, step).await?;
            }
            Ok(())
        })
        .await
    });
}

#[test]
fn the_example_of_the_docs_is_accepted() {
    with_namespace("kubevirt-example", async |place| {
        let example = workspace_root().join("docs/examples/kubevirt/quickstart.yaml").display().to_string();
        place.cluster.kubectl(&["apply", "--dry-run=server", "-n", place.namespace, "-f", &example]).await?;
        Ok(())
    });
}
