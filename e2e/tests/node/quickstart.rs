//! The quickstart page, from `helm install` to `helm uninstall`, with the commands as they are printed.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use vmpool_e2e::documentation::{find_documented_commands, read_docs_page};
use vmpool_e2e::world::SETTLE;
use vmpool_installation::programs::SYSTEM_NAMESPACE;
use vmpool_installation::release::{HelmRelease, helm_program};
use vmpool_installation::workspace_root;
use vmpool_test_cluster::access::Access;
use vmpool_test_cluster::binaries::find_program;
use vmpool_test_cluster::process;

use crate::stage::alone;
use crate::{namespaces, pods};

/// The namespace of the pool.
const NAMESPACE: &str = "quickstart";

/// The headings with the commands, in their order. The commands before load images, which the cluster has.
const HEADINGS: [&str; 5] =
    ["## Install", "## Create a pool", "## Scale it", "## Change the template", "## Remove everything"];

/// Longer than any `--timeout` that a command of the page needs here.
const DEADLINE: Duration = Duration::from_mins(6);

/// What the images of the test cluster need in addition to the values of the page.
const IMAGE_VALUES: &str = "image.tag=test,image.pullPolicy=Never";

/// The shell of a user who follows the page.
struct UserShell {
    /// The folder with kubectl, the plugin, helm and the kubeconfig.
    folder: PathBuf,
}

impl UserShell {
    /// A shell whose kubeconfig has its own namespace.
    async fn open(access: &Access) -> anyhow::Result<Self> {
        let folder = access.home.join("quickstart-shell");
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        for (name, program) in [
            ("kubectl", access.kubectl.clone()),
            ("helm", helm_program()?),
            ("kubectl-vmpool", find_program("kubectl-vmpool", "VMPOOL_PLUGIN")?),
        ] {
            let link = folder.join(name);
            symlink(&program, &link).with_context(|| link.display().to_string())?;
        }
        let kubeconfig = folder.join("kubeconfig");
        fs::copy(&access.kubeconfig, &kubeconfig).with_context(|| kubeconfig.display().to_string())?;
        let shell = Self { folder };
        shell.run(&format!("kubectl config set-context --current --namespace={NAMESPACE}")).await?;
        Ok(shell)
    }

    /// Runs a command, and returns what it prints.
    async fn run(&self, line: &str) -> anyhow::Result<String> {
        let mut command = Command::new("sh");
        let path = std::env::var("PATH").unwrap_or_default();
        command.args(["-euc", line]).current_dir(workspace_root());
        command.env("PATH", format!("{}:{path}", self.folder.display()));
        command.env("KUBECONFIG", self.folder.join("kubeconfig")).env("HOME", &self.folder);
        let output = process::command_output(line, command, DEADLINE).await?;
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        ensure!(output.status.success(), "{line}: {said}");
        Ok(said)
    }
}

/// The commands of the page for DVP, with the registry and the images of the test cluster.
fn list_commands(page: &str) -> anyhow::Result<Vec<String>> {
    let mut commands = Vec::new();
    for heading in HEADINGS {
        commands.extend(find_documented_commands(page, heading, "console")?);
    }
    // A watch does not end by itself.
    commands.retain(|command| !command.contains("kubevirt") && !command.ends_with(" -w"));
    let images = format!("image.registry=vmpool.local,{IMAGE_VALUES}");
    Ok(commands.iter().map(|command| command.replace("image.registry=REGISTRY", &images)).collect())
}

/// Deletes the namespace of the programs, so that the next installation issues its own certificates.
async fn delete_system_namespace(access: &Access) -> anyhow::Result<()> {
    namespaces::delete(access, SYSTEM_NAMESPACE).await?;
    namespaces::until_gone(access, SYSTEM_NAMESPACE).await?;
    Ok(())
}

async fn follow_page(release: &HelmRelease) -> anyhow::Result<()> {
    let access = release.access();
    namespaces::create(access, NAMESPACE).await?;
    let shell = UserShell::open(access).await?;
    let commands = list_commands(&read_docs_page("quickstart.md")?)?;
    let (install, others) = commands.split_first().context("the page has no commands")?;
    ensure!(install.contains(IMAGE_VALUES), "the first command does not install the chart: {install}");
    shell.run(install).await?;
    // Helm waits for the Pods. The API server reaches them some seconds later.
    release.until_at_work().await?;
    for command in others {
        let said = shell.run(command).await?;
        tracing::info!(command, said, "a command of the quickstart succeeded");
    }
    let left = shell.run("helm list --all-namespaces --short").await?;
    ensure!(left.is_empty(), "releases remain: {left}");
    remove_folder(&shell.folder)?;
    // The machines go with the pool, whether vmpool is installed or not.
    namespaces::delete(access, NAMESPACE).await?;
    namespaces::until_gone(access, NAMESPACE).await?;
    Ok(())
}

fn remove_folder(folder: &Path) -> anyhow::Result<()> {
    fs::remove_dir_all(folder).with_context(|| folder.display().to_string())
}

pub(crate) fn the_quickstart_installs_vmpool_and_removes_it_again() {
    alone(async |stage| {
        let access = stage.access();
        stage.release().uninstall().await?;
        delete_system_namespace(access).await?;
        follow_page(stage.release()).await?;
        delete_system_namespace(access).await?;
        stage.release().reinstall().await?;
        pods::until_all_ready(access).await?;
        let calm = stage.load().mark();
        tokio::time::sleep(SETTLE).await;
        stage.load().ensure_served_since(calm)
    });
}
