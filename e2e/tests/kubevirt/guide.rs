//! The workflows of KubeVirt's guide to pools, from the list in `guide.yaml`.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;
use vmpool_test_cluster::deadline::Deadline;
use vmpool_test_cluster::process;

use crate::world::with_world;
use crate::{POOLS, Place, with_namespace, workspace_root};

/// How long a command may take until it shows what it must.
const STEP: Duration = Duration::from_mins(1);

/// A step of a workflow.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    /// Its meaning.
    #[serde(rename = "step")]
    name: String,
    /// The file that `MANIFEST` in the command stands for.
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

/// kubectl with the resource name of pools in full. The cluster of the tests also has the pools of the other platform, so
/// the short name is ambiguous.
fn in_full(command: &str) -> String {
    command
        .replace(" vmpool/", &format!(" {POOLS}/"))
        .replace("vmpool render", &format!("{POOLS} render"))
        .replace("kubevirt.io,vmpool", &format!("kubevirt.io,{POOLS}"))
}

async fn shell(place: &Place<'_>, script: &str) -> Result<(bool, String)> {
    let (kubectl, config) = (place.cluster.kubectl_program(), place.cluster.kubeconfig());
    let kubectl = format!("{} --kubeconfig={} -n {}", kubectl.display(), config.display(), place.namespace);
    let script = format!("set -eu\nkubectl() {{ {kubectl} \"$@\"; }}\n{script}\n");
    let mut command = Command::new("sh");
    command.args(["-c", &script]).env("HOME", place.cluster.directory()).env_remove("KUBECONFIG");
    let output = process::output("sh", command, STEP * 2).await?;
    let said = [output.stdout, output.stderr].concat();
    Ok((output.status.success(), String::from_utf8_lossy(&said).into_owned()))
}

#[test]
fn every_command_of_the_guide_does_what_the_guide_says() {
    with_world("kubevirt-guide", async |world| {
        let steps: Vec<Step> = serde_yaml_ng::from_str(include_str!("guide.yaml"))?;
        for step in &steps {
            let file = world.place.cluster.unique_path("guide", "yaml");
            std::fs::write(&file, &step.manifest).with_context(|| file.display().to_string())?;
            let script = in_full(&step.run).replace("MANIFEST", &file.display().to_string());
            let deadline = Deadline::after(STEP);
            loop {
                let (well, said) = shell(&world.place, &script).await?;
                // The widths of columns depend on the names.
                let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
                let missing = step.shows.iter().find(|part| !words.contains(part.as_str()));
                if well && missing.is_none() {
                    break;
                }
                // Only commands that read are repeated.
                let reads = step.run.starts_with("kubectl get") || step.run.starts_with("kubectl describe");
                if deadline.is_over() || !reads {
                    let log = world.controller.log_tail(20);
                    bail!("{}: {script}\n{said}\nlacks {missing:?}\n{log}", step.name);
                }
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        }
        Ok(())
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
