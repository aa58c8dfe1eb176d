//! The software bills of materials of the programs, in the format of CycloneDX.
//!
//! A bill lists the crates that cargo links into one program, as `cargo tree` resolves them for the target of
//! the images. It contains no time and no random number, so the same sources give the same bill.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::workspace::{Workspace, command_output};

/// The programs that are shipped, each with its package.
const PROGRAMS: &[(&str, &str)] = &[
    ("vmpool-controller", "vmpool-controller"),
    ("vmpool-webhook", "vmpool-webhook"),
    ("vmpool-apiserver", "vmpool-apiserver"),
    ("kubectl-vmpool", "vmpool-cli"),
];

/// Separates the parts of a line of `cargo tree`.
const SEPARATOR: char = '|';

/// Options of the command.
#[derive(Debug, clap::Args)]
pub(crate) struct SbomOptions {
    /// The target that the programs are built for
    #[arg(long, default_value = "x86_64-unknown-linux-musl")]
    target: String,
    /// The folder of the bills; target/sbom by default
    #[arg(long)]
    out: Option<PathBuf>,
}

/// Writes the bill of each program.
///
/// # Errors
/// Cargo cannot resolve a program, or a file cannot be written.
pub(crate) fn write_software_bills(workspace: &Workspace, options: &SbomOptions) -> Result<()> {
    let folder = options.out.clone().unwrap_or_else(|| workspace.sbom());
    fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    for (program, package) in PROGRAMS {
        let bill = bill(workspace, program, package, &options.target)?;
        let path = folder.join(format!("{program}.cdx.json"));
        let text = serde_json::to_string_pretty(&bill)? + "\n";
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
        println!("{}: {} components", path.display(), bill["components"].as_array().map_or(0, Vec::len));
    }
    Ok(())
}

/// Writes the bill of each program as it is built on this host.
///
/// # Errors
/// As [`write_software_bills`].
pub(crate) fn write_bills_of_host(workspace: &Workspace, out: &Path) -> Result<()> {
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    write_software_bills(workspace, &SbomOptions { target, out: Some(out.to_owned()) })
}

fn bill(workspace: &Workspace, program: &str, package: &str, target: &str) -> Result<Value> {
    let mut command = workspace.cargo();
    command.args(["tree", "--locked", "--edges", "normal", "--prefix", "depth", "--charset", "ascii"]);
    command.args(["--package", package, "--target", target, "--format", "|{p}|{l}|"]);
    let tree = command_output(&mut command, "cargo tree")?;
    let lock = fs::read_to_string(workspace.path("Cargo.lock")).context("reading Cargo.lock")?;
    compose(program, &String::from_utf8_lossy(&tree), &checksums(&lock))
}

/// A crate with its version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Id {
    name: String,
    version: String,
}

impl Id {
    fn purl(&self) -> String {
        format!("pkg:cargo/{}@{}", self.name, self.version.replace('+', "%2B"))
    }
}

/// The checksums in a lock file.
fn checksums(lock: &str) -> BTreeMap<Id, String> {
    let field = |package: &str, name: &str| {
        let value = package.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = \""));
        value.and_then(|value| value.strip_suffix('"')).map(str::to_owned)
    };
    lock.split("[[package]]")
        .filter_map(|package| {
            let id = Id { name: field(package, "name")?, version: field(package, "version")? };
            Some((id, field(package, "checksum")?))
        })
        .collect()
}

/// The bill of a program from the output of `cargo tree`: the depth of a crate, then the crate and its
/// license. The dependencies of a crate follow it where it appears for the first time.
fn compose(program: &str, tree: &str, checksums: &BTreeMap<Id, String>) -> Result<Value> {
    let mut licenses: BTreeMap<Id, String> = BTreeMap::new();
    let mut dependencies: BTreeMap<Id, BTreeSet<Id>> = BTreeMap::new();
    let mut open: Vec<Id> = Vec::new();
    for line in tree.lines().filter(|line| !line.is_empty()) {
        let parts: Vec<&str> = line.split(SEPARATOR).collect();
        let [depth, package, license, ..] = parts[..] else { bail!("cargo tree printed {line:?}") };
        let mut words = package.split_whitespace();
        let (Some(name), Some(version)) = (words.next(), words.next()) else {
            bail!("cargo tree printed {line:?}")
        };
        let version = version.trim_start_matches('v');
        let id = Id { name: name.to_owned(), version: version.to_owned() };
        open.truncate(depth.parse().with_context(|| format!("cargo tree printed {line:?}"))?);
        if let Some(user) = open.last() {
            dependencies.entry(user.clone()).or_default().insert(id.clone());
        }
        dependencies.entry(id.clone()).or_default();
        licenses.insert(id.clone(), license.replace('/', " OR "));
        open.push(id);
    }
    let root = open.first().context("cargo tree printed nothing")?;
    let component = |id: &Id, kind: &str, name: &str| {
        let mut component = json!({
            "type": kind,
            "bom-ref": id.purl(),
            "name": name,
            "version": id.version,
            "purl": id.purl(),
        });
        if let Some(license) = licenses.get(id).filter(|license| !license.is_empty()) {
            component["licenses"] = json!([{ "expression": license }]);
        }
        if let Some(checksum) = checksums.get(id) {
            component["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
        }
        component
    };
    let others = dependencies.keys().filter(|id| *id != root);
    let components: Vec<Value> = others.map(|id| component(id, "library", &id.name)).collect();
    let edges = dependencies.iter().map(|(user, used)| {
        let used: Vec<String> = used.iter().map(Id::purl).collect();
        json!({ "ref": user.purl(), "dependsOn": used })
    });
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": component(root, "application", program) },
        "components": components,
        "dependencies": edges.collect::<Vec<_>>(),
    }))
}

#[cfg(test)]
mod tests;
