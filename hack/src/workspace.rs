//! The paths and files of the working tree, and running commands in it.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// The working tree.
#[derive(Debug, Clone)]
pub(crate) struct Workspace {
    root: PathBuf,
    target: PathBuf,
}

impl Workspace {
    /// Finds the working tree from which this program was built.
    ///
    /// # Errors
    /// The folder does not exist, because the tree was moved after the build.
    pub(crate) fn locate() -> Result<Self> {
        let hack = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = hack
            .parent()
            .context("hack/ has no parent")?
            .canonicalize()
            .with_context(|| format!("finding the working tree above {}", hack.display()))?;
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
        Ok(Self { root, target })
    }

    /// The root of the tree.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// A path relative to the root of the tree.
    pub(crate) fn path(&self, relative: impl AsRef<Path>) -> PathBuf {
        self.root.join(relative)
    }

    /// The folder of the built tools, with one subfolder for each module.
    pub(crate) fn tools(&self) -> PathBuf {
        self.target.join("tools")
    }

    /// The JUnit file with the results of the tests.
    pub(crate) fn junit(&self) -> PathBuf {
        self.target.join("junit.xml")
    }

    /// The folder of the software bills of materials.
    pub(crate) fn sbom(&self) -> PathBuf {
        self.target.join("sbom")
    }

    /// The folder of programs as they ship.
    pub(crate) fn release_programs(&self) -> PathBuf {
        self.target.join("release")
    }

    /// The folder of optimized programs that do not ship.
    pub(crate) fn optimized_programs(&self) -> PathBuf {
        self.target.join("optimized")
    }

    /// The folder of the files of a release.
    pub(crate) fn release_artifacts(&self) -> PathBuf {
        self.target.join("release-artifacts")
    }

    /// The folder of the dashboard's screenshots.
    pub(crate) fn dashboard(&self) -> PathBuf {
        self.target.join("dashboard")
    }

    /// The folder of integrations: logs and data of the programs.
    pub(crate) fn integration(&self) -> PathBuf {
        self.target.join("integration")
    }

    /// The folder of the documentation as a site.
    pub(crate) fn site(&self) -> PathBuf {
        self.target.join("site")
    }

    /// The folder of mutation builds.
    pub(crate) fn mutations(&self) -> PathBuf {
        self.target.join("mutations")
    }

    /// The folder with the figures of the benchmark.
    pub(crate) fn bench_figures(&self) -> PathBuf {
        self.target.join("bench")
    }

    /// The folder of controllers that are built with other profiles.
    pub(crate) fn profiles(&self) -> PathBuf {
        self.target.join("profiles")
    }

    /// The cargo that runs this program, so that the same toolchain is used throughout. It runs at the root
    /// of the tree.
    pub(crate) fn cargo(&self) -> Command {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")));
        command.current_dir(&self.root);
        command
    }
}

/// The path of a program from the same build as this one. Build it first, with `cargo build`.
///
/// `cargo run --package` would instead select the features for that package alone, and recompile many
/// dependencies.
///
/// # Errors
/// The program does not exist.
pub(crate) fn built_program_path(program: &str) -> Result<PathBuf> {
    let own = std::env::current_exe().context("finding the path of this program")?;
    let path = own.with_file_name(program);
    if !path.is_file() {
        bail!("{} is missing: run cargo build --workspace --bins --examples", path.display());
    }
    Ok(path)
}

/// Runs a command to its end, with inherited output.
///
/// # Errors
/// The command cannot be started or fails.
pub(crate) fn run_command(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.status().with_context(|| format!("starting {program}"))?;
    if !status.success() {
        bail!("{program} ended with {status}");
    }
    Ok(())
}

/// Runs a command to its end. Returns what it wrote to standard output.
///
/// # Errors
/// The command cannot be started or fails. The error contains `title` and what it wrote to standard error.
pub(crate) fn command_output(command: &mut Command, title: &str) -> Result<Vec<u8>> {
    let output = command.output().with_context(|| format!("starting {title}"))?;
    if !output.status.success() {
        bail!("{title}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(output.stdout)
}

/// Every Rust file below a folder, which may not exist. Nested packages are skipped: examples for external
/// users have their own manifests.
///
/// # Errors
/// A folder cannot be listed.
pub(crate) fn rust_files(folder: &Path) -> Result<Vec<PathBuf>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("listing {}", folder.display()))? {
        let path = entry.with_context(|| format!("listing {}", folder.display()))?.path();
        if path.join("Cargo.toml").is_file() {
            continue;
        }
        if path.is_dir() {
            files.extend(rust_files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_packages_are_skipped() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a/b.rs", "a/notes.md", "inner/Cargo.toml", "inner/main.rs", "c.rs"] {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        assert_eq!(
            rust_files(folder.path()).unwrap(),
            [folder.path().join("a/b.rs"), folder.path().join("c.rs")]
        );
        assert!(rust_files(&folder.path().join("missing")).unwrap().is_empty());
    }

    #[test]
    fn the_error_of_a_command_contains_its_title_and_its_message() {
        let run = |script: &str| command_output(Command::new("sh").args(["-c", script]), "sh");
        assert_eq!(run("echo a").unwrap(), b"a\n");
        assert_eq!(run("echo why >&2; exit 1").unwrap_err().to_string(), "sh: why");
    }
}
