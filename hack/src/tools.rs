//! The Go programs that tests and the demo run: etcd, Kubernetes, containerd, helm, and
//! for single commands promtool, cert-manager and KEDA.
//!
//! `hack/tools/<module>/go.mod` lists them as Go tool dependencies, so go.sum pins every byte of their
//! source. They are built into `target/tools/<module>/bin`. They are rebuilt only if go.mod, go.sum, the
//! flags or the Go version changes: each program has a stamp that contains the key of its build.
//!
//! For the demo and the playground, programs of the host may replace them ([`installed`]).
//!
//! Programs are built one after another, because Go uses all CPUs for one program as well as for four, and
//! the progress output can name the current program. Shared packages are compiled once, into Go's own cache.

mod build;
mod catalogue;
mod disk;
mod go;
mod installed;
mod monitor;
mod stamp;
#[cfg(test)]
mod tests;

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;

use self::catalogue::{GoModule, GoTool};
use self::go::Go;
use self::installed::{HostProgram, ProgramSearch, SearchedFolders, WantedVersions};
use self::stamp::BuildKey;
use crate::workspace::Workspace;

/// The programs to build.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ToolSelection {
    /// etcd, kube-apiserver, kube-controller-manager, kubectl
    ControlPlane,
    /// The same for the demo and the playground: links to programs of this host if their versions match,
    /// otherwise to built ones
    Demo,
    /// helm
    Helm,
    /// All programs of the node cluster: the above, kubelet, kube-proxy, kube-scheduler, containerd
    Node,
    /// All programs that this host can use: those of the node cluster only for root on Linux
    All,
    /// promtool, which `cargo xtask alerts` runs
    Promtool,
    /// cert-manager, which `cargo xtask integration cert-manager` runs
    CertManager,
    /// KEDA, which `cargo xtask integration keda` runs
    Keda,
    /// The oldest Kubernetes, which `cargo xtask integration kubernetes` runs
    OldestKubernetes,
}

impl ToolSelection {
    fn includes(self, module: &GoModule) -> bool {
        match self {
            Self::ControlPlane | Self::Demo => module.name == CONTROL_PLANE,
            Self::Helm => module.name == "helm",
            Self::Promtool => module.name == PROMTOOL,
            Self::CertManager => module.name == CERT_MANAGER,
            Self::Keda => module.name == KEDA,
            Self::OldestKubernetes => module.name == OLDEST_KUBERNETES,
            Self::Node => !RARE_MODULES.contains(&module.name),
            // The node cluster needs namespaces, which only root can create, and only on Linux.
            Self::All => {
                !RARE_MODULES.contains(&module.name)
                    && (!NODE_MODULES.contains(&module.name) || node_is_possible())
            }
        }
    }
}

/// The module with the programs of the control plane.
pub(crate) const CONTROL_PLANE: &str = "control-plane";

/// The environment variable with a folder of programs that tests, demo and playground use in place of all
/// others.
pub(crate) const TOOLS_VARIABLE: &str = "VMPOOL_TOOLS";

/// The module that only the tests of alerts use.
const PROMTOOL: &str = "promtool";

/// The module that only its integration uses.
const CERT_MANAGER: &str = "cert-manager";

/// The module that only the integration with KEDA uses.
const KEDA: &str = "keda";

/// The module with the oldest Kubernetes.
pub(crate) const OLDEST_KUBERNETES: &str = "oldest-kubernetes";

/// The modules that are built only for the command that uses them.
const RARE_MODULES: [&str; 4] = [PROMTOOL, CERT_MANAGER, KEDA, OLDEST_KUBERNETES];

/// The modules that only the node cluster uses.
const NODE_MODULES: [&str; 2] = ["node", "containerd"];

/// Whether this host can run a node cluster. It also needs packages of the distribution.
fn node_is_possible() -> bool {
    cfg!(target_os = "linux") && rustix::process::geteuid().is_root()
}

/// Builds the selected programs if they are missing or out of date. Prints nothing if there is nothing to do.
///
/// If two of these run at the same time, the second waits for the first.
///
/// # Errors
/// Go is missing or too old, there is too little disk space, or a build fails. Each error is one line; a
/// failed build also prints the end of its log.
pub(crate) fn ensure_tools(workspace: &Workspace, which: ToolSelection) -> Result<()> {
    let mut modules = catalogue::MODULES.iter().filter(|module| which.includes(module));
    if which == ToolSelection::Demo {
        return modules.try_for_each(|module| prepare_demo(workspace, module));
    }
    modules.try_for_each(|module| ensure_module(workspace, module, &[]))
}

/// Links the programs of the demo into `target/tools/demo/bin`, and builds those that the host does not have.
fn prepare_demo(workspace: &Workspace, module: &'static GoModule) -> Result<()> {
    if std::env::var_os(TOOLS_VARIABLE).is_some() {
        return Ok(());
    }
    let installed = choose_programs(workspace, module)?;
    if !installed.is_empty() {
        eprintln!("Using {}", installed::describe_programs(&installed));
    }
    ensure_module(workspace, module, &installed)?;
    let built = workspace.tools().join(module.name).join("bin");
    installed::link_programs(&workspace.tools().join("demo/bin"), module.tools, &installed, &built)
}

/// The programs of the host that the demo uses: those that the user names in an environment variable, or
/// those on PATH, unless all programs have been built before.
fn choose_programs(workspace: &Workspace, module: &'static GoModule) -> Result<Vec<HostProgram>> {
    let path: Vec<PathBuf> =
        std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect()).unwrap_or_default();
    let assets = std::env::var_os(installed::ASSETS_VARIABLE).filter(|folder| !folder.is_empty());
    if let Some(assets) = assets.map(PathBuf::from) {
        let others = std::iter::once(assets.clone()).chain(path).collect();
        let folders = SearchedFolders { required: vec![assets.clone()], others };
        return match find_on_host(workspace, module, &folders)? {
            ProgramSearch::Usable(programs) => Ok(programs),
            ProgramSearch::Missing(name) => {
                bail!("{name} is not in {}, the folder of {}", assets.display(), installed::ASSETS_VARIABLE)
            }
            ProgramSearch::Unsupported(reason) => {
                bail!("{reason}; to build the programs, unset {}", installed::ASSETS_VARIABLE)
            }
        };
    }
    if ModuleBuild::plan(workspace, module)?.outdated_tools(module).is_empty() {
        return Ok(Vec::new());
    }
    let folders = SearchedFolders { required: path.clone(), others: path };
    Ok(match find_on_host(workspace, module, &folders)? {
        ProgramSearch::Usable(programs) => programs,
        ProgramSearch::Missing(_) => Vec::new(),
        ProgramSearch::Unsupported(reason) => {
            eprintln!("Not using programs on PATH: {reason}");
            Vec::new()
        }
    })
}

fn find_on_host(
    workspace: &Workspace,
    module: &'static GoModule,
    folders: &SearchedFolders,
) -> Result<ProgramSearch> {
    let pins = catalogue::GoModFile::read(&module_source(workspace, module).join("go.mod"))?;
    let wanted = WantedVersions::of(&pins)?;
    Ok(installed::find_programs(module.tools, folders, &wanted, installed::run_for_version))
}

fn module_source(workspace: &Workspace, module: &GoModule) -> PathBuf {
    workspace.path("hack/tools").join(module.name)
}

/// What a build of a module depends on.
struct ModuleBuild {
    output: PathBuf,
    go: Go,
    flags: String,
    key: BuildKey,
}

impl ModuleBuild {
    /// # Errors
    /// Go is missing or too old, or go.mod cannot be read.
    fn plan(workspace: &Workspace, module: &GoModule) -> Result<Self> {
        let source = module_source(workspace, module);
        let mod_file = source.join("go.mod");
        let pins = catalogue::GoModFile::read(&mod_file)?;
        let go = Go::find(&source, &pins.go)?;
        let flags = module.link_flags(&pins)?;
        let key = BuildKey::of(&mod_file, &source.join("go.sum"), &[&flags, module.tags].concat(), &go)?;
        Ok(Self { output: workspace.tools().join(module.name), go, flags, key })
    }

    fn outdated_tools(&self, module: &GoModule) -> Vec<&'static GoTool> {
        let is_outdated = |tool: &&GoTool| !stamp::is_current(&self.output, tool.file, &self.key);
        module.tools.iter().filter(is_outdated).collect()
    }
}

/// Builds the programs of a module that are out of date, except the `installed` ones.
fn ensure_module(workspace: &Workspace, module: &GoModule, installed: &[HostProgram]) -> Result<()> {
    let output = workspace.tools().join(module.name);
    fs::create_dir_all(output.join("bin")).with_context(|| format!("creating {}", output.display()))?;
    let _lock = lock(&output.join("lock"))?;

    if module.tools.iter().all(|tool| is_installed(tool, installed)) {
        return Ok(());
    }
    let build = ModuleBuild::plan(workspace, module)?;
    let mut outdated = build.outdated_tools(module);
    outdated.retain(|tool| !is_installed(tool, installed));
    if outdated.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = outdated.iter().map(|tool| tool.name).collect();
    eprintln!(
        "Building {} ({}) with {} into {}",
        module.name,
        names.join(", "),
        build.go.version,
        output.join("bin").display()
    );
    let begun = Instant::now();
    build::build_tools(&build.go, module, &outdated, &build.flags, &output, &build.key)?;
    eprintln!("Built {} in {}", module.name, monitor::format_elapsed_time(begun));
    Ok(())
}

fn is_installed(tool: &GoTool, installed: &[HostProgram]) -> bool {
    installed.iter().any(|program| program.name == tool.name)
}

/// Takes the lock of one module. It is released when the file is closed, even if this process is killed.
fn lock(path: &Path) -> Result<File> {
    let file = File::create(path).with_context(|| format!("opening {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => return Ok(file),
        Err(TryLockError::WouldBlock) => {
            eprintln!("Waiting for another `cargo xtask tools` that holds {}", path.display());
        }
        Err(TryLockError::Error(error)) => {
            return Err(error).with_context(|| format!("locking {}", path.display()));
        }
    }
    file.lock().with_context(|| format!("locking {}", path.display()))?;
    Ok(file)
}
