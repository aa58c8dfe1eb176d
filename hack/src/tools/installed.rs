//! Programs of the control plane that the host already has, such as those of Kubebuilder's test environment.
//!
//! Compiling Kubernetes takes minutes. The demo and the playground therefore use programs of the host, if
//! their versions are those of go.mod up to the patch. Tests always use the programs that were built here.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::catalogue::{GoModFile, GoTool};

#[cfg(test)]
mod tests;

/// The environment variable with the folder of Kubebuilder's test environment.
pub(super) const ASSETS_VARIABLE: &str = "KUBEBUILDER_ASSETS";

/// The programs without which the host's other programs are not used.
const REQUIRED: [&str; 2] = ["etcd", "kube-apiserver"];

/// The Go module of etcd.
const ETCD_MODULE: &str = "go.etcd.io/etcd/server/v3";

/// The Go module of the other programs.
const KUBERNETES_MODULE: &str = "k8s.io/kubernetes";

/// A version without its patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MinorVersion {
    major: u32,
    minor: u32,
}

impl MinorVersion {
    /// `None` if the text is not like `v1.36.3` or `3.6.8`.
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.trim_start_matches('v').split('.');
        let mut number = || -> Option<u32> { parts.next()?.parse().ok() };
        Some(Self { major: number()?, minor: number()? })
    }
}

/// The versions in go.mod.
#[derive(Debug)]
pub(super) struct WantedVersions {
    etcd: MinorVersion,
    kubernetes: MinorVersion,
}

impl WantedVersions {
    /// # Errors
    /// go.mod does not require a version of etcd and Kubernetes.
    pub(super) fn of(pins: &GoModFile) -> Result<Self> {
        let read = |module: &str| {
            let version = pins.version(module).and_then(MinorVersion::parse);
            version.with_context(|| format!("go.mod does not require {module}"))
        };
        Ok(Self { etcd: read(ETCD_MODULE)?, kubernetes: read(KUBERNETES_MODULE)? })
    }

    fn of_tool(&self, name: &str) -> MinorVersion {
        if name == "etcd" { self.etcd } else { self.kubernetes }
    }

    /// Whether a program may run with the others. kubectl supports API servers that are one minor version
    /// older or newer.
    fn allow(&self, name: &str, version: MinorVersion) -> bool {
        let wanted = self.of_tool(name);
        let skew = u32::from(name == "kubectl");
        version.major == wanted.major && version.minor.abs_diff(wanted.minor) <= skew
    }
}

/// A program of the host with a supported version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HostProgram {
    /// Its name in the list of tools.
    pub(super) name: &'static str,
    /// Where it is.
    pub(super) path: PathBuf,
    /// Its version as it prints it.
    pub(super) version: String,
}

/// The result of a search for programs of the host.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ProgramSearch {
    /// etcd and kube-apiserver, and which of the others have a supported version.
    Usable(Vec<HostProgram>),
    /// A required program does not exist.
    Missing(&'static str),
    /// A required program cannot be used, with the reason on one line.
    Unsupported(String),
}

/// The folders in which programs are searched, in their order.
#[derive(Debug)]
pub(super) struct SearchedFolders {
    /// For etcd and kube-apiserver.
    pub(super) required: Vec<PathBuf>,
    /// For the other programs.
    pub(super) others: Vec<PathBuf>,
}

impl SearchedFolders {
    fn of_tool(&self, name: &str) -> &[PathBuf] {
        if REQUIRED.contains(&name) { &self.required } else { &self.others }
    }
}

/// Looks for these programs. `read_version` runs a program and returns what it prints about its version.
pub(super) fn find_programs(
    tools: &[GoTool],
    folders: &SearchedFolders,
    wanted: &WantedVersions,
    read_version: impl Fn(&str, &Path) -> Result<String>,
) -> ProgramSearch {
    let mut programs = Vec::new();
    for tool in tools {
        let is_required = REQUIRED.contains(&tool.name);
        let Some(path) = find_file(folders.of_tool(tool.name), tool.name) else {
            if is_required {
                return ProgramSearch::Missing(tool.name);
            }
            continue;
        };
        match check_version(tool.name, &path, wanted, &read_version) {
            Ok(version) => programs.push(HostProgram { name: tool.name, path, version }),
            Err(error) if is_required => return ProgramSearch::Unsupported(format!("{error:#}")),
            // It is built in place of this one.
            Err(_) => {}
        }
    }
    ProgramSearch::Usable(programs)
}

fn find_file(folders: &[PathBuf], name: &str) -> Option<PathBuf> {
    folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// The version of a program.
///
/// # Errors
/// It cannot be read, or is not supported.
fn check_version(
    name: &str,
    path: &Path,
    wanted: &WantedVersions,
    read_version: impl Fn(&str, &Path) -> Result<String>,
) -> Result<String> {
    let printed = read_version(name, path)?;
    let (text, version) =
        find_version(&printed).with_context(|| format!("{} does not print its version", path.display()))?;
    if !wanted.allow(name, version) {
        let MinorVersion { major, minor } = wanted.of_tool(name);
        bail!("{} has the version {text}, but {major}.{minor} is needed", path.display());
    }
    Ok(text.to_owned())
}

/// The first word that is a version.
fn find_version(printed: &str) -> Option<(&str, MinorVersion)> {
    printed.split_whitespace().find_map(|word| Some((word, MinorVersion::parse(word)?)))
}

/// Runs a program, and returns what it prints about its version.
///
/// # Errors
/// It cannot be run, or fails.
pub(super) fn run_for_version(name: &str, path: &Path) -> Result<String> {
    let arguments: &[&str] = if name == "kubectl" { &["version", "--client"] } else { &["--version"] };
    let output = Command::new(path)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("starting {}", path.display()))?;
    if !output.status.success() {
        bail!("{} {} ended with {}", path.display(), arguments.join(" "), output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Replaces the links in a folder: each program is a link to the one of the host, or to the one in `built`.
/// The links have the file names of the built programs.
///
/// # Errors
/// A link cannot be written.
pub(super) fn link_programs(
    folder: &Path,
    tools: &[GoTool],
    installed: &[HostProgram],
    built: &Path,
) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    for tool in tools {
        let found = installed.iter().find(|program| program.name == tool.name);
        let program = found.map_or_else(|| built.join(tool.file), |program| program.path.clone());
        replace_link(&folder.join(tool.file), &program)?;
    }
    Ok(())
}

/// The link exists at any time, because the programs of a playground may be starting.
fn replace_link(link: &Path, program: &Path) -> Result<()> {
    let program = std::path::absolute(program).with_context(|| format!("finding {}", program.display()))?;
    let unfinished = link.with_added_extension("unfinished");
    let _ = fs::remove_file(&unfinished);
    std::os::unix::fs::symlink(program, &unfinished)
        .and_then(|()| fs::rename(&unfinished, link))
        .with_context(|| format!("writing {}", link.display()))
}

/// `etcd 3.6.8 (/usr/local/kubebuilder/bin/etcd), kube-apiserver v1.36.3 (...)`.
pub(super) fn describe_programs(programs: &[HostProgram]) -> String {
    let describe =
        |program: &HostProgram| format!("{} {} ({})", program.name, program.version, program.path.display());
    programs.iter().map(describe).collect::<Vec<_>>().join(", ")
}
