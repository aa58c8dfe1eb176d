//! Generates the files that derive from the CRD sources in `api/crds/src`.
//!
//! ```text
//! api/crds/src/*.yaml ──expand──> api/crds/<plural>.<group>.yaml ──kopium──> api/src/generated/*.rs
//!   + fragments/*.yaml   + lint          │
//!                                        ├──> docs/reference/<plural>.md
//!                                        └──> charts/vmpool/files/crds/ (pools, disk images and instance types)
//! ```
//!
//! The CRDs of KubeVirt, of its instance types and of disk images are in folders below these; [`families`]
//! lists them.
//!
//! It reads only the sources: no cluster and no network. The same sources give the same files, byte for byte,
//! so `--check` can detect files that were not regenerated.

mod expand;
mod families;
mod files;
mod lint;
mod options;
mod outputs;
mod reference;
mod schema;
mod types;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, bail};
use clap::Parser;

use crate::{
    expand::Fragments,
    families::{CrdFamily, FAMILIES},
    files::{REGENERATE, join_folder_path, yaml_files},
    outputs::Outputs,
    schema::ResolvedCrd,
};

/// The only kind whose CRD the chart installs; the platform installs the others.
const CHART_KIND: &str = "VirtualMachinePool";
/// The families whose kinds the chart installs, too. It installs instance types in clusters without KubeVirt
/// only.
const INSTALLED: [&str; 3] = ["autoscaler", "diskimage", "instancetype"];

/// The folder of the chart's CRDs.
const CHART: &str = "charts/vmpool/files/crds";

/// Generates the CRDs, Rust types and reference pages from api/crds/src.
#[derive(Parser)]
#[command(name = "vmpool-codegen")]
struct Args {
    /// Write nothing; fail and list every file that is out of date.
    #[arg(long)]
    check: bool,

    /// Root of the repository.
    #[arg(long, value_name = "DIR", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))]
    root: PathBuf,
}

fn main() -> anyhow::Result<ExitCode> {
    let Args { check, root } = Args::parse();
    let root = root.canonicalize().with_context(|| format!("finding the repository {}", root.display()))?;
    let outputs = generate(&root)?;
    if check {
        let stale = outputs.differing(&root)?;
        if !stale.is_empty() {
            // Outdated files are an expected result, so this prints no error with a backtrace.
            eprintln!("generated files are out of date, run `{REGENERATE}` and commit the result:");
            for path in stale {
                eprintln!("  {path}");
            }
            return Ok(ExitCode::FAILURE);
        }
        println!("{} generated files are up to date", outputs.len());
    } else {
        let changed = outputs.write(&root)?;
        for path in &changed {
            println!("wrote {path}");
        }
        println!("{} generated files, {} changed", outputs.len(), changed.len());
    }
    Ok(ExitCode::SUCCESS)
}

/// Computes every generated file of the repository at `root`.
fn generate(root: &Path) -> anyhow::Result<Outputs> {
    let source_dir = root.join("api/crds/src");
    let mut fragments = Fragments::new(&source_dir);
    let mut problems = Vec::new();
    let mut families = Vec::new();
    for family in &FAMILIES {
        let mut crds = Vec::new();
        for folder in family.folders {
            crds.extend(read(&source_dir, folder, &mut fragments)?);
        }
        problems.extend(crds.iter().flat_map(lint::crd_problems));
        families.push((family, crds));
    }
    problems.extend(fragments.unused()?.into_iter().map(|name| format!("{name}: no CRD uses this fragment")));
    if !problems.is_empty() {
        bail!("the CRD sources have problems:\n  {}", problems.join("\n  "));
    }

    let mut outputs = Outputs::default();
    outputs.own(CHART);
    for (family, crds) in &families {
        add_family(&mut outputs, family, crds, root)?;
    }
    outputs.add("docs/reference/README.md".to_owned(), reference::render_index_page(&families));
    Ok(outputs)
}

/// The CRDs of one folder below `source_dir`.
fn read(source_dir: &Path, folder: &str, fragments: &mut Fragments) -> anyhow::Result<Vec<ResolvedCrd>> {
    let mut crds = Vec::new();
    for source in yaml_files(&source_dir.join(folder))? {
        let expanded =
            fragments.expand_file(&source).with_context(|| format!("expanding {}", source.display()))?;
        let file_name = source.file_name().unwrap_or_default().to_string_lossy();
        crds.push(ResolvedCrd::new(join_folder_path(folder, &file_name), expanded)?);
    }
    Ok(crds)
}

/// Adds the files of one family.
fn add_family(
    outputs: &mut Outputs,
    family: &CrdFamily,
    crds: &[ResolvedCrd],
    root: &Path,
) -> anyhow::Result<()> {
    let types = join_folder_path("api/src/generated", family.name);
    let pages = join_folder_path("docs/reference", family.name);
    outputs.own(&types);
    outputs.own(&pages);
    for folder in family.folders {
        outputs.own(&join_folder_path("api/crds", folder));
    }
    for crd in crds {
        let yaml = crd.to_yaml()?;
        if crd.kind() == CHART_KIND || INSTALLED.contains(&family.name) {
            outputs.add(format!("{CHART}/{}.yaml", crd.name()), yaml.clone());
        }
        outputs.add(format!("{}/{}.yaml", join_folder_path("api/crds", crd.folder()), crd.name()), yaml);
        outputs.add(
            format!("{types}/{}.rs", crd.module()),
            types::render_kind_module(crd, &family.types, root)?,
        );
        outputs.add(format!("{pages}/{}.md", crd.plural()), reference::render_kind_page(crd));
    }
    outputs.add(format!("{types}/mod.rs"), types::render_family_module(family, crds, root)?);
    Ok(())
}
